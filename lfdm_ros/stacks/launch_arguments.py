"""The arguments of the launch files, and the stack that they come to. Knows nothing of launch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise

from lfdm_ros.errors import InputError, suggest
from lfdm_ros.stacks.stack import Stack, load_stack, parse_override, prepare_stack

# name -> description; all but `stack` are empty unless given.
ARGUMENTS = {
    "stack": "stack file, or the name of one that ships with the package",
    "vehicle": "name of a vehicle, or a path; for every node that has one; empty: as the stack says",
    "scenario": "name of a scenario, or a path; for every node that plays one; empty: as the stack says",
    "speed": "simulated seconds per second, 0: as fast as possible; empty: as the stack says",
    "record": "folder of a bag to record all topics to; empty: none",
    "namespace": "where the nodes are; several separated by commas: the stack in each; empty: as the launch file that includes it says",
    "set": "NODE.PARAM=VALUE or PARAM=VALUE, several separated by semicolons",
}
# What launch and launch_ros themselves take from the command line.
_OF_LAUNCH = ("launch-prefix", "launch-prefix-filter", "emulate_tty", "sigterm_timeout", "sigkill_timeout", "ros_namespace")


def stack_of(given: Mapping[str, str]) -> Stack:
    """The stack that the values of ARGUMENTS, "" where not given, ask for.

    Raises:
        InputError: names the argument, file or key that does not fit.
    """
    stack = load_stack(given["stack"])
    for name in ("vehicle", "scenario"):
        if given[name]:
            stack = stack.with_override(name, given[name], name)
    return prepare_stack(
        stack, speed=_number(given["speed"]) if given["speed"] else None, record=given["record"] or None,
        overrides=dict(parse_override(text) for text in given["set"].split(";") if text.strip()),
        namespaces=[name.strip() for name in given["namespace"].split(",") if name.strip()], option="{}")[0]


def refuse_unknown(arguments: Sequence[str], launch_file: str, command_line: Sequence[str]) -> None:
    """Checks NAME:=VALUE as launch was given them; it would ignore a name that no launch file declares.

    Args:
        launch_file: path of ours.
        command_line: of the process. The arguments of another file, which includes ours, are not ours to judge.

    Raises:
        InputError: one is not in ARGUMENTS.
    """
    if not _is_launched(launch_file, command_line):
        return
    for argument in arguments:
        name = argument.partition(":=")[0]
        if name not in ARGUMENTS and name not in _OF_LAUNCH:
            raise InputError(f"{argument}: {os.path.basename(launch_file)} has no argument '{name}'"
                             f"{suggest(name, ARGUMENTS, 'it has ')}; "
                             f"a node's parameter: set:=NODE.PARAM=VALUE")


def _is_launched(launch_file: str, command_line: Sequence[str]) -> bool:
    """Whether `ros2 launch` was told to run this file: by its path, or as PACKAGE FILE."""
    by_name = ("lfdm_ros", os.path.basename(launch_file))
    return by_name in pairwise(command_line) or any(
        os.path.isfile(part) and os.path.samefile(part, launch_file) for part in command_line)


def _number(text: str) -> float | str:
    """As a number where it is one; what it is for says what it must be."""
    try:
        return float(text)
    except ValueError:
        return text
