"""The cockpit: a page in a browser that shows the vehicle, and a seat from which one person at a time drives it. Without ROS."""
