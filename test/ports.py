"""Ports that nobody listens on."""

import socket


def free_port() -> int:
    """For UDP, of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
