"""Hardware in the loop: a vehicle of ours against a device, or our controller against a vehicle, over a link."""
