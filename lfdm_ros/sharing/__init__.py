"""Shared control: the threat as a probability by the calibrated posterior, and the share of authority that follows from it."""
