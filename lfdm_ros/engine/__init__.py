"""Node logic without ROS: stepping and pacing, command gates, driving, run monitoring, background calibration."""
