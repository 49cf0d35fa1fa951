"""run a stack of nodes, in one process or one each"""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

EPILOG = """examples:
  lfdm up config/stacks/simulator.yaml --speed 5 --set scenario=ramp_steer
  lfdm up simulator --duration 20 --record drive --set vehicle_simulator.stepping=lockstep --speed 0
  lfdm up simulator --processes
  lfdm up simulator --namespace a --namespace b --record drive"""


def add_stack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stack", metavar="STACK.yaml", help="stack file, or the name of one that ships with the package")
    parser.add_argument("--set", action="append", default=[], metavar="NODE.PARAM=VALUE", dest="overrides",
                        help="set a node's parameter; PARAM=VALUE: in every node that has it; /a/NODE.PARAM=VALUE: in that of namespace a")
    parser.add_argument("--namespace", action="append", default=[], metavar="NAME",
                        help="namespace of the nodes; repeat it to run the stack in each: separate vehicles, each with its clock")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_stack(parser)
    parser.add_argument("--speed", type=float, metavar="F", help="simulated seconds per second; 0: as fast as possible")
    parser.add_argument("--duration", type=float, metavar="S", help="end after this many simulated seconds (without a simulator: seconds); "
                        "without it one simulated vehicle's run ends with its scenario, unless --set on_finish=idle")
    parser.add_argument("--record", metavar="BAG", help="record all topics to this folder")
    parser.add_argument("--processes", action="store_true", help="run each node in a separate process, the default of some stacks; a node "
                        "that dies ends the run with exit status 1, unless the stack restarts it (respawn)")


def run(args: argparse.Namespace) -> int:
    from lfdm_ros.errors import RunError
    from lfdm_ros.ros.runtime import exit_status
    from lfdm_ros.stacks.compose import run_stack
    from lfdm_ros.stacks.processes import run_processes
    from lfdm_ros.stacks.stack import parse_override, prepare_stack

    stack, timeout = prepare_stack(args.stack, speed=args.speed, duration=args.duration, record=args.record,
                                   overrides=dict(parse_override(text) for text in args.overrides), namespaces=args.namespace)
    plays_scenario = args.duration is None and len(args.namespace) < 2 and any(
        node.executable == "vehicle_simulator" for node in stack.nodes)
    if plays_scenario:
        stack = stack.ending_with_scenario()
    try:
        summary = run_processes(stack, timeout) if args.processes or stack.processes else run_stack(stack, timeout=timeout)
    except RunError as error:
        print(_report(error.summary), file=sys.stderr)
        raise
    print(_report(summary), file=sys.stderr)
    return exit_status(summary["reason"]) or int(plays_scenario and bool(summary.get("collisions")))


def _report(summary: Mapping[str, Any]) -> str:
    parts = [f"{summary['reason']} after {summary['wall_seconds']:.1f} s"]
    vehicles = summary.get("namespaces") or {"": summary}
    for namespace, vehicle in vehicles.items():
        parts += [f"{namespace}: {part}" if len(vehicles) > 1 else part for part in _parts(vehicle)]
    parts += [f"{name} started again {count} x" for name, count in summary.get("restarts", {}).items()]
    return "; ".join(parts)


def _speed(summary: Mapping[str, Any]) -> str:
    reached, slowed = summary["speed_factor"], summary.get("slowed_by")
    return f"{reached:.1f} of {summary['speed_factor_asked']:g} x real time: {slowed}" if slowed and summary["speed_factor_asked"] else (
        f"{reached:.1f} x real time" + (f" by {slowed}" if slowed else ""))


def _parts(summary: Mapping[str, Any]) -> list[str]:
    parts = []
    if "simulated_seconds" in summary:
        refused = sum(summary["commands_rejected"].values())
        parts.append(f"simulated {summary['simulated_seconds']:.2f} s, {_speed(summary)}, {summary['overruns']} overruns, "
                     + ("no commands" if summary.get("commands_accepted") == refused == 0 else f"{refused} commands refused"))
    if reasons := summary.get("messages_refused"):
        parts.append("messages of the link refused or lost: " + ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items())))
    if "task_done" in summary:
        parts.append(f"{summary['task'] or 'no task'} {'done' if summary['task_done'] else 'not done'}")
    if summary.get("collisions") is not None:
        parts.append(f"{summary['collisions']} collisions, at most {summary['lifted_wheels_most']} wheels lifted")
    if "messages_recorded" in summary:
        parts.append(f"{summary['messages_recorded']} messages recorded, {summary['messages_dropped']} dropped")
    return parts
