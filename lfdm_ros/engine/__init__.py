"""What nodes do and what needs no ROS: stepping and pacing, gates of commands, driving, judging, calibrating in the background."""
