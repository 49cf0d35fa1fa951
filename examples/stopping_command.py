"""stopping distance of a vehicle that brakes at the limit of friction, as a command of `lfdm`

    LFDM_PLUGINS=examples/stopping_command.py PYTHONPATH=examples lfdm stopping 20 --friction 0.5
"""

from __future__ import annotations

import argparse

from lfdm_ros.cli.commands import Command, register_command
from lfdm_ros.errors import InputError

EPILOG = "example:\n  lfdm stopping 20 --friction 0.5"
G = 9.81  # [m/s^2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm stopping`."""
    parser.add_argument("speed", type=float, help="initial speed [m/s]")
    parser.add_argument("--friction", type=float, default=1.0, metavar="MU", help="friction coefficient (default %(default)g)")


def run(args: argparse.Namespace) -> int:
    """Prints the distance [m]; returns the exit status."""
    if args.speed < 0.0:
        raise InputError(f"speed {args.speed:g}: give 0 m/s or more")
    print(f"{args.speed ** 2 / (2.0 * args.friction * G):.1f} m")
    return 0


register_command(Command("stopping", "stopping distance at the limit of friction", "stopping_command"))
