"""List the topics of a running graph, show the messages of one, measure its rate, or serve them to Lichtblick or Foxglove.

For machines without `ros2`; where it is installed, `ros2 topic` does the same and more."""

import argparse
import json
import math
import statistics
import sys
import time
from itertools import pairwise

import numpy as np

from lfdm_ros.errors import InputError, RunError
from lfdm_ros.reports import add_figure_argument, require_figure, save_figure

EPILOG = """examples, beside `lfdm up simulator` in another terminal:
  lfdm topic list
  lfdm topic echo /vehicle/state --count 1
  lfdm topic echo /vehicle/state --field velocity.linear.x
  lfdm topic hz /vehicle/state
  lfdm topic serve                      then in Lichtblick: Open connection, ws://127.0.0.1:8765"""

_SERVE_PERIOD = 0.1  # [s]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="names, types, numbers of publishers and subscribers")
    listed.add_argument("--json", action="store_true", help="as JSON")
    echo = actions.add_parser("echo", help="messages as YAML")
    echo.add_argument("--field", default="", help="only this part of each, such as pose.position.x or wheel_speeds[2]")
    echo.add_argument("--count", type=int, default=0, metavar="N", help="end after N messages (default: at Ctrl-C)")
    echo.add_argument("--full", action="store_true", help="all elements of long lists")
    rate = actions.add_parser("hz", help="messages a second, and the gaps between them, once a second")
    rate.add_argument("--seconds", type=float, default=math.inf, metavar="S", help="end after S seconds (default: at Ctrl-C)")
    add_figure_argument(rate, "the gaps between messages over time, at the end")
    for action in (echo, rate):
        action.add_argument("topic")
    serve = actions.add_parser("serve", help="serve the graph live and read-only to Lichtblick or Foxglove; needs the extra foxglove")
    serve.add_argument("topics", nargs="*", metavar="TOPIC", help="only these (default: all but hidden ones and raw images)")
    serve.add_argument("--port", type=int, default=8765, help="to listen on; 0: any that is free (default %(default)d)")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s: this machine alone)")
    for action in (listed, echo, rate, serve):
        action.add_argument("--timeout", type=float, default=5.0, metavar="S", help="timeout of discovery (default %(default)g)")


def run(args: argparse.Namespace) -> int:
    from lfdm_ros.stacks.inspection import Inspector

    require_figure(getattr(args, "figure", None))
    with Inspector(args.timeout) as graph:
        return {"list": _list, "echo": _echo, "hz": _hz, "serve": _serve}[args.action](args, graph)


def _list(args, graph) -> int:
    rows = [(name, kind, *graph.endpoint_counts(name)) for name, kind in sorted(graph.topics().items())]
    if args.json:
        print(json.dumps([dict(zip(("topic", "type", "publishers", "subscribers"), row)) for row in rows], indent=2))
        return 0
    if not rows:
        raise InputError("no topics; nothing is running, or under another ROS_DOMAIN_ID")
    wide = [max(len(row[k]) for row in rows) for k in (0, 1)]
    for name, kind, publishers, subscribers in rows:
        print(f"{name:{wide[0]}}  {kind:{wide[1]}}  {publishers} publish, {subscribers} subscribe")
    return 0


def _echo(args, graph) -> int:
    from lfdm_ros.ros.message_fields import LONG, as_yaml, part

    messages: list = []
    graph.subscribe(args.topic, messages.append)
    shown = 0
    while not args.count or shown < args.count:
        graph.spin(lambda: bool(messages))
        for message in messages[:args.count - shown if args.count else None]:
            text = as_yaml(part(message, args.field) if args.field else message, None if args.full else LONG)
            sys.stdout.write(text.removesuffix("...\n") if args.field else f"{text}---\n")
            shown += 1
        sys.stdout.flush()
        messages.clear()
    return 0


def _hz(args, graph) -> int:
    times: list[float] = []
    graph.subscribe(args.topic, lambda message: times.append(time.monotonic()))
    began = time.monotonic()
    try:
        _print_rates(args, graph, times, began)
    finally:
        if args.figure is not None and len(times) > 1:
            from lfdm_ros.cli.plot import PlotTrace, draw

            at = np.array(times) - began
            save_figure(draw({args.topic: {"gap [ms]": PlotTrace(at[1:], 1e3 * np.diff(at))}}, ["gap [ms]"], from_above=False), args.figure)
    return 0


def _print_rates(args, graph, times, began) -> None:
    """Prints the rate of the messages that come at `times`, once a second."""
    end, received = began + args.seconds, 0
    while time.monotonic() < end:
        last, count = times[-1:], len(times)
        graph.spin(lambda: False, min(1.0, max(end - time.monotonic(), 0.0)))
        received += len(times) - count
        new = [*last, *times[count:]]
        gaps = [1e3 * (b - a) for a, b in pairwise(new)]
        if gaps:
            print(f"{1e3 / statistics.fmean(gaps):.4g} Hz; gaps [ms]: median {statistics.median(gaps):.3g}, smallest {min(gaps):.3g}, "
                  f"largest {max(gaps):.3g}; {len(gaps)} messages", flush=True)
        else:
            print(f"nothing for {time.monotonic() - (times[-1] if times else began):.0f} s", flush=True)
    if not received:
        raise RunError([f"{args.topic}: nothing in {args.seconds:g} s"], {})


def _serve(args, graph) -> int:
    from lfdm_ros.stacks.live_view import LiveView

    graph.topics()  # discovery first
    view = LiveView(graph.node, [graph.node.resolve_topic_name(topic) for topic in args.topics], args.host, args.port,
                    lambda text: print(text, file=sys.stderr))
    print(f"ws://{args.host}:{view.port}, read-only: in Lichtblick or Foxglove \"Open connection\"; Ctrl-C ends it", flush=True)
    try:
        while True:
            view.update()
            graph.spin(lambda: False, _SERVE_PERIOD)
    finally:
        view.close()
