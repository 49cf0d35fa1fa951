"""Entry point: finds the subcommand, runs it, turns failures into exit codes."""

from __future__ import annotations

import argparse
import importlib
import select
import sys
from collections.abc import Sequence

from lfdm_ros import __version__
from lfdm_ros.errors import InputError, RunError, suggest
from lfdm_ros.files import reason

# name -> one-line help. The module lfdm_ros.cli.<name> is imported only when its command runs, so `lfdm --help` stays fast.
COMMANDS = {
    "doctor": "check the environment: compiler, wheels, RMW, messages, caches",
    "demo": "drive, record and calibrate a hidden vehicle on the real ROS graph",
    "list": "list the scenarios, vehicles, grounds, recipes or stacks there are",
    "models": "list models; with a name its states, inputs, parameters and units",
    "vehicle": "write a vehicle file, import one of the C++ library LFDM, show what one has, check its suspension",
    "simulate": "run a vehicle model on a file of driver inputs",
    "plot": "draw a run, from a CSV or a recording, beside another one",
    "soil": "list the named soils, and how a wheel stands and pulls on them",
    "drive": "let the controller or an operator drive a scenario, without ROS",
    "teleop": "drive by the keys of this terminal, or a joystick, on ROS",
    "bag": "record, inspect, import and damage rosbag2 recordings",
    "calibrate": "infer vehicle parameters from recordings",
    "predict": "compare a posterior or a vehicle with a recording",
    "study": "ask many calibrations, or many drives of the controller, one question",
    "up": "run a stack of nodes in one process",
    "topic": "list the topics of a running graph, show one, measure its rate",
    "param": "list, show and set the parameters of running nodes",
    "call": "call a service or an action of a running graph",
    "layouts": "write files for RViz, Lichtblick and PlotJuggler that show a stack",
    "policy": "write the SROS2 security policy of a stack",
    "soak": "let all nodes drive for a long time, and see whether they grow or leave anything behind",
    "hil": "hardware in the loop: report a recording, compare two, try faults",
    "bench": "measure what the README claims",
    "completion": "print a script that completes commands, options and names in bash or zsh",
    "fuzz": "damage what is read or heard, by seed, and count what becomes of it",
}

# Packages of messages that are built with ours.
_INTERFACES = ("lfdm_ros.msg", "lfdm_ros.srv", "lfdm_ros.action", "tf2_msgs", "ackermann_msgs", "grid_map_msgs")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `lfdm`; returns the exit status (0 success, 1 a run that failed, 2 bad usage or input, 130 on Ctrl-C, 143 on SIGTERM)."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="lfdm", description="Simulate vehicles, calibrate them from recordings, run them on ROS 2.",
        epilog="example: lfdm simulate --vehicle hmmwv --model eight_dof --inputs inputs.txt --out run.csv")
    parser.add_argument("--version", action="version", version=f"lfdm_ros {__version__}")
    try:
        return _run(parser, argv)
    except KeyboardInterrupt as error:  # while a subcommand imports, too
        print(f"lfdm {argv[0] if argv else ''}: interrupted", file=sys.stderr)
        return getattr(error, "status", 130)
    except BrokenPipeError as error:
        if _is_read():  # by whom our output goes to: another pipe broke, such as a worker's
            print(f"lfdm {argv[0] if argv else ''}: {reason(error)}: a process that works for this one has ended", file=sys.stderr)
            return 1
        sys.stderr.close()  # `lfdm models | head`
        return 0
    except ImportError as error:
        if not (error.name or "").startswith(_INTERFACES):
            raise
        print(f"lfdm {argv[0] if argv else ''}: {error.msg}: the messages that are installed are older than the program; "
              "run `make install`, or build the workspace again", file=sys.stderr)
        return 2
    except OSError as error:  # a full disk, a folder where a file should be, a file that is not ours
        where = f"{error.filename}: " if error.filename else ""
        print(f"lfdm {argv[0] if argv else ''}: {where}{reason(error)}", file=sys.stderr)
        return 2


def _is_read() -> bool:
    """Whether somebody reads our output still."""
    try:
        sys.stdout.flush()
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return not any(event & select.POLLERR for _, event in poll.poll(0))
    except BrokenPipeError:
        return False
    except (OSError, ValueError):  # there is no file behind it
        return True


def _run(parser: argparse.ArgumentParser, argv: Sequence[str]) -> int:
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    command = argv[0] if argv else ""
    try:
        if command and not command.startswith("-") and command not in COMMANDS:
            raise InputError(f"no such command{suggest(command, COMMANDS)}; lfdm --help lists them")
        for name, summary in COMMANDS.items():
            if command == name:
                module = importlib.import_module(f"lfdm_ros.cli.{name}")
                sub = subparsers.add_parser(name, help=summary, description=f"{module.__doc__}", epilog=module.EPILOG,
                                            formatter_class=argparse.RawDescriptionHelpFormatter)
                module.add_arguments(sub)
                sub.set_defaults(run=module.run)
            else:
                subparsers.add_parser(name, help=summary, add_help=False)
        args = parser.parse_args(argv)
        return int(args.run(args) or 0)
    except InputError as error:
        print(f"lfdm {command}: {error}", file=sys.stderr)
        return 2
    except RunError as error:
        for failure in error.failures:
            print(f"lfdm {command}: {failure}", file=sys.stderr)
        return 1
