"""Node logic that needs no ROS: stepping and pacing, gates of commands, driving, judging, calibrating in the background."""
