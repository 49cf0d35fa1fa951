"""ROS 2 adapters: one lifecycle node a module, and what composes them. The only room that imports rclpy and messages."""
