"""Measurements behind published figures: `lfdm bench NAME` runs `measure` of a module."""
