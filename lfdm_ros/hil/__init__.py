"""Hardware in the loop: the simulated vehicle with a device, or the controller with a vehicle, over a link."""
