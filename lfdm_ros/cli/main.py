"""Entry point: finds the subcommand, runs it, turns failures into exit codes."""

import argparse
import importlib
import select
import sys
from collections.abc import Sequence

from lfdm_ros import __version__
from lfdm_ros.cli.commands import COMMANDS
from lfdm_ros.errors import InputError, RunError, reason, suggest

# Commands of the laboratory, a separate package that wheels of this one do not include.
_LABORATORY = ("study", "bench", "fuzz", "soak")
# Packages of messages that are built with ours.
_INTERFACES = ("lfdm_ros.msg", "lfdm_ros.srv", "lfdm_ros.action", "tf2_msgs", "ackermann_msgs", "grid_map_msgs", "radar_msgs")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `lfdm`; returns the exit status (0 success, 1 a run that failed, 2 bad usage or input, 130 on Ctrl-C, 143 on SIGTERM)."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="lfdm", description="Simulate vehicles, calibrate them from recordings, run them on ROS 2.",
        epilog="example: lfdm simulate --vehicle hmmwv --model eight_dof --inputs inputs.txt --out run.csv")
    parser.add_argument("--version", action="version", version=f"lfdm_ros {__version__}")
    command = argv[0] if argv else ""
    try:
        return _run(parser, argv)
    except KeyboardInterrupt as error:  # while a subcommand imports, too
        print(f"lfdm {command}: interrupted", file=sys.stderr)
        return getattr(error, "status", 130)
    except BrokenPipeError as error:
        if _is_read():  # another pipe broke, such as a worker's
            print(f"lfdm {command}: {reason(error)}: a process that works for this one has ended", file=sys.stderr)
            return 1
        sys.stderr.close()  # `lfdm models | head`
        return 0
    except ImportError as error:
        if not (error.name or "").startswith(_INTERFACES):
            raise
        print(f"lfdm {command}: {error.msg}: the messages that are installed are older than the program; run `make install`, or build the "
              "workspace again", file=sys.stderr)
        return 2
    except OSError as error:  # a full disk, a folder where a file should be, a file that is not ours
        print(f"lfdm {command}: {f'{error.filename}: ' if error.filename else ''}{reason(error)}", file=sys.stderr)
        return 2


def _is_read() -> bool:
    """Checks that standard output is still read."""
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
        if command in COMMANDS:
            chosen = COMMANDS[command]
            module = importlib.import_module(chosen.module)
            sub = subparsers.add_parser(command, help=chosen.summary, description=f"{module.__doc__}", epilog=module.EPILOG,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
        elif command and not command.startswith("-"):
            if command in _LABORATORY:
                raise InputError("a command of the laboratory, which is not installed; fix: pip install --no-deps lab/ in the root of the "
                                 "source tree")
            raise InputError(f"no such command{suggest(command, COMMANDS)}; lfdm --help lists them")
        else:
            for name, other in COMMANDS.items():
                subparsers.add_parser(name, help=other.summary, add_help=False)
        args = parser.parse_args(argv)
        return int(args.run(args) or 0)
    except InputError as error:
        print(f"lfdm {command}: {error}", file=sys.stderr)
        return 2
    except RunError as error:
        for failure in error.failures:
            print(f"lfdm {command}: {failure}", file=sys.stderr)
        return 1
