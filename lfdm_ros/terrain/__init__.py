"""The ground: friction as a random field (paper 004), soil. It knows nothing of ROS."""
