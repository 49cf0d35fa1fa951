"""rosbag2 recordings in and out, without ROS: record, inspect, import and read as time series."""

from lfdm_ros.bags.importer import import_recording, recordings_in
from lfdm_ros.bags.info import bag_info, format_info, not_driven
from lfdm_ros.bags.reader import Bag, Series, bags_in, existing_fields, open_bag, read_series, recording_name, recording_sha256
from lfdm_ros.bags.writer import BagWriter

__all__ = [
    "Bag", "BagWriter", "Series", "bag_info", "bags_in", "existing_fields", "format_info", "import_recording", "not_driven", "open_bag",
    "read_series", "recording_name", "recording_sha256", "recordings_in"
]
