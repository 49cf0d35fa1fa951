"""Vehicle simulation, calibration and control for ROS 2, from one source of equations."""

from pkgutil import extend_path

# The messages are generated and installed elsewhere; with this, code comes from the source tree and lfdm_ros.msg
# from the installed package when both are on the path.
__path__ = extend_path(__path__, __name__)
__version__ = "0.1.0"
