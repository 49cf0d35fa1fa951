"""The operator at the other end of a link: a driver model, and the delays between it and the vehicle."""
