"""Drive and watch a vehicle on a page in the browser: brings up a stack with the node `cockpit`, and prints the page's address.

The vehicle moves by itself; whoever holds a key, a pad's shoulder button or the touch stick drives it, and autonomy takes over when all is
let go. The address holds a token: whoever knows it may drive. It is valid for this run, on this machine."""

import argparse
import os
import socket
from dataclasses import replace
from typing import Any

from lfdm_ros.errors import InputError

EPILOG = """examples:
  lfdm cockpit                                              a person and autonomy share a vehicle among obstacles
  lfdm cockpit teleop --set released=brake                  without autonomy: the vehicle brakes when all is let go
  lfdm cockpit --set scenario=nato_lane_change --record drive
  lfdm cockpit --latency 0.3                                over a link: the picture is late, a ghost shows the vehicle now
  lfdm cockpit --attach                                     a page for a graph that is running already
  lfdm cockpit --bag drive                                  the same page plays a recording; no ROS needed
  lfdm cockpit --set address=0.0.0.0 --set certificate=c.pem --set key=k.pem      for a tablet; or ssh -L"""

_STACK = "shared_human"
_PORT = 8733
_REMOTE = "teleop/remote_command"  # of the page, before the link
# Parameters of a stack's nodes with a person at the page, unless --set says otherwise.
_PERSON = {"wait_for_operator": False}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm cockpit`."""
    parser.add_argument("stack", nargs="?", default=_STACK, metavar="STACK.yaml",
                        help="stack file, or the name of one that ships with the package (default %(default)s)")
    parser.add_argument("--attach", action="store_true", help="only the page, for a stack that is running")
    parser.add_argument("--bag", metavar="DIR", help="replay a recording instead")
    parser.add_argument("--port", type=int, metavar="N",
                        help=f"port of the page (default: {_PORT}, or a free one if it is taken; 0: a free one); browsers keep by it what "
                             "devices were taught")
    parser.add_argument("--topic", default="teleop/command", help="topic of the driver's commands (default %(default)s)")
    parser.add_argument("--latency", type=float, metavar="S",
                        help="drive over a link with this delay, there and back; the page shows what arrives and changes the delay")
    parser.add_argument("--set", action="append", default=[], metavar="NODE.PARAM=VALUE", dest="overrides",
                        help="set a node's parameter; PARAM=VALUE: in every node that has it (docs/parameters.md); repeat")
    parser.add_argument("--record", metavar="BAG", help="record all topics to this folder")
    parser.add_argument("--recordings", default="drive_{}", metavar="BAG",
                        help="folders that the page's record button writes to; {}: the first number that is free (default %(default)s)")
    parser.add_argument("--duration", type=float, metavar="S", help="end after this many simulated seconds")


def run(args: argparse.Namespace) -> int:
    """Runs `lfdm cockpit`; returns the exit status."""
    if args.bag is not None:
        return _replay(args)
    from lfdm_ros.nodes.cockpit import MAX_LATENCY
    from lfdm_ros.ros.runtime import exit_status
    from lfdm_ros.stacks.compose import run_stack
    from lfdm_ros.stacks.processes import run_processes
    from lfdm_ros.stacks.stack import load_stack, parse_override, prepare_stack

    page: dict[str, Any] = {"executable": "cockpit", "parameters": {"port": _port(args.port)}, "remappings": {"teleop/command": args.topic}}
    nodes: list[dict[str, Any]] = [page]
    if not args.attach and args.record is None:
        nodes.insert(0, {"executable": "recorder", "parameters": {"waits": True, "bag": os.path.abspath(args.recordings)}})
    if args.latency is not None:
        if args.attach or not 0.0 <= args.latency <= MAX_LATENCY:
            raise InputError(f"--latency {args.latency:g}: give 0 to {MAX_LATENCY:g} s, and not with --attach")
        # The stack hears the link's end in place of the page.
        page["parameters"]["behind_link"], page["remappings"] = True, {"teleop/command": _REMOTE}
        nodes.append({"executable": "teleop_link", "parameters": {"up_delay": 0.5 * args.latency, "down_delay": 0.5 * args.latency},
                      "remappings": {"teleop/command": _REMOTE, "operator/command": args.topic}})
    stack = load_stack({"nodes": nodes})
    if not args.attach:
        below = load_stack(args.stack)
        simulated = below.declares("stop_time")
        stack = replace(below, nodes=(*below.nodes, *(
            entry.with_parameter("use_sim_time", simulated, "use_sim_time") for entry in stack.nodes)))
        # A command that comes over the link is as old as the link is long.
        shared = any(entry.executable == "shared_control" for entry in stack.nodes)
        late = {} if args.latency is None else {"operator_timeout" if shared else "command_timeout": 0.5 + MAX_LATENCY}
        for name, value in {**_PERSON, **late}.items():
            if stack.declares(name):
                stack = stack.with_override(name, value, name)
    stack, timeout = prepare_stack(stack, duration=args.duration, record=args.record,
                                   overrides=dict(parse_override(text) for text in args.overrides))
    summary = run_processes(stack, timeout) if stack.processes else run_stack(stack, timeout=timeout)
    return exit_status(summary["reason"])


def _port(given: int | None) -> int:
    """Returns the port to listen on: the usual one where it is free."""
    if given is not None:
        return given
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", _PORT))
        except OSError:
            return 0
    return _PORT


def _replay(args: argparse.Namespace) -> int:
    """Plays a bag on the page until Ctrl-C."""
    from lfdm_ros.cockpit.replay import ReplayTracks, serve
    from lfdm_ros.cockpit.seat import Seat
    from lfdm_ros.cockpit.server import CockpitServer

    given = [name for name, value in (("STACK.yaml", args.stack != _STACK), ("--attach", args.attach), ("--record", args.record),
                                      ("--duration", args.duration), ("--set", args.overrides)) if value]
    if given:
        raise InputError(f"--bag replays a recording: leave out {', '.join(given)}")
    try:
        serve(ReplayTracks(args.bag), lambda on_request: CockpitServer(Seat(), on_request, port=_port(args.port)),
              announce=lambda url: print(f"open {url}   (Ctrl-C ends)", flush=True))
    except KeyboardInterrupt:
        return 130
    return 0
