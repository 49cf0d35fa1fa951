"""rosbag2 recordings in and out, without ROS: record, inspect, import and read as time series."""

from lfdm_ros.bags.driven import not_driven
from lfdm_ros.bags.importer import import_recording, recordings_in
from lfdm_ros.bags.info import bag_info, format_info
from lfdm_ros.bags.reader import Bag, Series, bags_in, known_fields, open_bag, read_series, recording_name, recording_sha256
from lfdm_ros.bags.writer import BagWriter

__all__ = [
    "Bag",
    "BagWriter",
    "Series",
    "bag_info",
    "bags_in",
    "format_info",
    "import_recording",
    "known_fields",
    "not_driven",
    "open_bag",
    "read_series",
    "recording_name",
    "recording_sha256",
    "recordings_in",
]
