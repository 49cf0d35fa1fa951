"""Shared control: how threatened a vehicle is, as probabilities from the calibrated posterior, and who drives then."""
