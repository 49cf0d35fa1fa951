"""Reference paths, the way round obstacles, and the model predictive controller."""
