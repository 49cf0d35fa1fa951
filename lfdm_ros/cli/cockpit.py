"""Drive and watch a vehicle on a page in the browser: brings up a stack with the node `cockpit`, and prints the page's address.

The vehicle drives autonomously; holding a key, a pad's shoulder button or the touch stick takes control, releasing all returns it to
autonomy. The address contains a token that permits driving, valid for this run on this machine."""

from __future__ import annotations

import argparse
import os
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lfdm_ros.errors import InputError

if TYPE_CHECKING:
    from lfdm_ros.stacks.stack import Stack

EPILOG = """examples:
  lfdm cockpit                                              a person and autonomy share a vehicle among obstacles
  lfdm cockpit teleop --set released=brake                  without autonomy: the vehicle brakes when all is let go
  lfdm cockpit --set scenario=nato_lane_change --record drive
  lfdm cockpit --latency 0.3                                over a link: the picture is late, a ghost shows the vehicle now
  lfdm cockpit --attach                                     a page for a graph that is running already
  lfdm cockpit --hidden 7                                   a vehicle with unknown tyres: record a drive, calibrate, drive again
  lfdm cockpit --attach --namespace car_2                   for one vehicle of several (`lfdm up --namespace car_1 --namespace car_2`)
  lfdm cockpit --bag drive                                  the same page plays a recording; no ROS needed
  lfdm cockpit --bag drive_1 --bag drive_2                  two recordings, the second one as a ghost
  lfdm cockpit --set address=0.0.0.0 --set certificate=c.pem --set key=k.pem      for a tablet; or ssh -L"""

_STACK = "shared_human"
_PORT = 8733
_REMOTE = "teleop/remote_command"  # of the page, before the link
_HIDDEN_SPREAD = 0.3  # of the logarithm of a hidden cornering stiffness


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stack", nargs="?", default=_STACK, metavar="STACK.yaml",
                        help="stack file, or the name of one that ships with the package (default %(default)s)")
    parser.add_argument("--attach", action="store_true", help="only the page, for a stack that is running")
    parser.add_argument("--bag", action="append", metavar="DIR",
                        help="replay a recording instead; a second one is laid over it: a ghost and dotted curves, from the start of both")
    parser.add_argument("--port", type=int, metavar="N",
                        help=f"port of the page (default: {_PORT}, or a free one if it is taken; 0: a free one); browsers keep by it what "
                             "devices were taught")
    parser.add_argument("--topic", default="teleop/command", help="topic of the driver's commands (default %(default)s)")
    parser.add_argument("--latency", type=float, metavar="S",
                        help="drive over a link with this delay, there and back; the page shows what arrives and changes the delay")
    parser.add_argument("--namespace", metavar="NAME", help="bring the stack up in this namespace; with --attach: the one of the vehicle "
                        "to show")
    parser.add_argument("--set", action="append", default=[], metavar="NODE.PARAM=VALUE", dest="overrides",
                        help="set a node's parameter; PARAM=VALUE: in every node that has it (docs/reference/parameters.md); repeat")
    parser.add_argument("--record", metavar="BAG", help="record all topics to this folder")
    parser.add_argument("--recordings", default="drive_{}", metavar="BAG",
                        help="folders that the page's record button writes to; {}: the first number that is free (default %(default)s)")
    parser.add_argument("--hidden", type=int, metavar="SEED", help="simulate a vehicle whose tyres differ from its file, drawn by "
                        "this seed, to be identified by a calibration from the page")
    parser.add_argument("--no-browser", action="store_true", help="no effect, accepted for scripts: no browser is opened")
    parser.add_argument("--duration", type=float, metavar="S", help="end after this many simulated seconds")


def run(args: argparse.Namespace) -> int:
    if args.bag is not None:
        return _replay(args)
    from lfdm_ros.nodes.cockpit import MAX_LATENCY
    from lfdm_ros.ros.runtime import exit_status
    from lfdm_ros.stacks.compose import run_stack
    from lfdm_ros.stacks.processes import run_processes
    from lfdm_ros.stacks.stack import load_stack, parse_override, prepare_stack

    page: dict[str, Any] = {"executable": "cockpit", "parameters": {"port": _port(args.port)}, "remappings": {"teleop/command": args.topic}}
    if args.attach and args.namespace:
        page["remappings"]["/clock"] = "clock"  # each simulated vehicle of a fleet has a clock of its own
    nodes: list[dict[str, Any]] = [page]
    if not args.attach and args.record is None:
        store = "posteriors" if args.hidden is None else f"posteriors_hidden_{args.hidden}"
        nodes[:0] = [{"executable": "recorder", "parameters": {"waits": True, "bag": os.path.abspath(args.recordings)}},
                     # The simulator's states are exact, so that full coverage is no fault.
                     {"executable": "calibrator", "parameters": {"store": os.path.abspath(store), "gate_coverage_upper": 1.0}}]
    if args.latency is not None:
        if args.attach or not 0.0 <= args.latency <= MAX_LATENCY:
            raise InputError(f"--latency {args.latency:g}: give 0 to {MAX_LATENCY:g} s, and not with --attach")
        # The stack subscribes to the link's output instead of the page's.
        page["parameters"]["behind_link"], page["remappings"] = True, {"teleop/command": _REMOTE}
        nodes.append({"executable": "teleop_link", "parameters": {"up_delay": 0.5 * args.latency, "down_delay": 0.5 * args.latency},
                      "remappings": {"teleop/command": _REMOTE, "operator/command": args.topic}})
    stack = load_stack({"nodes": nodes})
    if not args.attach:
        below = load_stack(args.stack)
        simulated = below.declares("stop_time")
        stack = replace(below, nodes=(*below.nodes, *(
            entry.with_parameter("use_sim_time", simulated, "use_sim_time") for entry in stack.nodes)))
        # Commands over the link are as old as its delay.
        shared = any(entry.executable == "shared_control" for entry in stack.nodes)
        late = {} if args.latency is None else {"operator_timeout" if shared else "command_timeout": 0.5 + MAX_LATENCY}
        for name, value in {"wait_for_operator": False, **late}.items():  # a person is at the page
            if stack.declares(name):
                stack = stack.with_override(name, value, name)
    overrides = dict(parse_override(text) for text in args.overrides)
    if not args.attach and below.declares("vehicle"):  # the cockpit itself has such a parameter too
        driven = next(entry.value("vehicle") for entry in below.nodes if entry.takes("vehicle"))
        stack = stack.with_override("cockpit.vehicle", driven, "vehicle")
    if args.hidden is not None:
        stack = _with_hidden_vehicle(stack, str(overrides.get("vehicle", "")), args.hidden)
    stack, timeout = prepare_stack(stack, duration=args.duration, record=args.record, namespaces=[args.namespace] if args.namespace else (),
                                   overrides=overrides)
    summary = run_processes(stack, timeout) if stack.processes else run_stack(stack, timeout=timeout)
    return exit_status(summary["reason"])


def _with_hidden_vehicle(stack: Stack, name: str, seed: int) -> Stack:
    """Returns the stack with a simulated vehicle of other cornering stiffnesses, which understeers; writes its file beside the recordings.
    Raises InputError: a negative seed, no simulated vehicle, or one without cornering stiffnesses."""
    import numpy as np

    from lfdm_ros.vehicles import load_vehicle, save_vehicle

    simulated = next((entry for entry in stack.nodes if entry.executable == "vehicle_simulator"), None)
    if seed < 0 or simulated is None:
        raise InputError(f"--hidden {seed}: give 0 or more, and a stack with a simulated vehicle")
    vehicle, random = load_vehicle(name or str(simulated.value("vehicle"))), np.random.default_rng(seed)
    stiffnesses = "cornering_stiffness_front", "cornering_stiffness_rear"
    p = vehicle.parameters
    if not set(stiffnesses) <= set(p):
        raise InputError(f"--hidden: vehicle '{vehicle.name}' has no cornering_stiffness_front and _rear; choose another one")
    while True:
        front, rear = (p[one] * float(np.exp(_HIDDEN_SPREAD * random.standard_normal())) for one in stiffnesses)
        if front * p["cg_to_front_axle"] < rear * p["cg_to_rear_axle"]:
            break
    path = os.path.abspath(f"hidden_{seed}.yaml")
    save_vehicle(vehicle.replace(source=f"drawn by --hidden {seed}", **dict(zip(stiffnesses, (front, rear)))), path)
    stack = stack.with_override(f"{simulated.name}.vehicle", path, "--hidden")
    return stack.with_override(f"{simulated.name}.take_posterior", False, "--hidden")


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
    from lfdm_ros.cockpit.replay import Player, ReplayTracks, serve
    from lfdm_ros.cockpit.seat import Seat
    from lfdm_ros.cockpit.server import CockpitServer

    given = [name for name, value in (("STACK.yaml", args.stack != _STACK), ("--attach", args.attach), ("--record", args.record),
                                      ("--duration", args.duration), ("--namespace", args.namespace), ("--set", args.overrides),
                                      ("--hidden", args.hidden is not None)) if value]
    if given:
        raise InputError(f"--bag replays a recording: leave out {', '.join(given)}")
    if len(args.bag) > 2:
        raise InputError(f"--bag {args.bag[2]}: two recordings at most, one over the other")
    try:
        serve(Player(*map(ReplayTracks, args.bag)), lambda on_request: CockpitServer(Seat(), on_request, port=_port(args.port)),
              announce=lambda url: print(f"open {url}   (Ctrl-C ends)", flush=True))
    except KeyboardInterrupt:
        return 130
    return 0
