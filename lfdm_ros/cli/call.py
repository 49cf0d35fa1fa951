"""Call a service of a running graph, or send a goal to an action, and show the answer.

For machines without `ros2`; where it is installed, `ros2 service call` and `ros2 action send_goal` do the same."""

import argparse
import sys

EPILOG = """examples, beside `lfdm up hil` or `lfdm up calibration` in another terminal:
  lfdm call                                             all services and actions
  lfdm call hil_bridge/inject_fault "{fault: bias, signal: yaw_rate, value: 0.1, duration: 2.0}"
  lfdm call calibrate "{recipe: hmmwv, bags: [/data/a, /data/b], out: /data/result}"    an action: feedback on stderr, Ctrl-C cancels"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="of the service or action; without one all are listed")
    parser.add_argument("values", nargs="?", default="{}", help="fields of the request or goal, as YAML")
    parser.add_argument("--timeout", type=float, default=5.0, metavar="S", help="to wait for it and its answer (default %(default)g)")


def run(args: argparse.Namespace) -> int:
    """Runs `lfdm call`; returns the exit status: 1 where the answer has a field `success` that is false."""
    import yaml

    from lfdm_ros.errors import InputError
    from lfdm_ros.ros.message_fields import as_yaml
    from lfdm_ros.stacks.inspection import Inspector

    try:
        values = yaml.safe_load(args.values)
    except yaml.YAMLError as error:
        raise InputError(f"values: no YAML: {error}") from None
    with Inspector(args.timeout) as graph:
        if args.name is None:
            found = graph.services()
            for name, kind in sorted(found.items()):
                print(f"{name:{max(map(len, found))}}  {kind}")
            return 0
        answer = graph.call(args.name, values, lambda feedback: print(as_yaml(feedback), end="", file=sys.stderr))
    sys.stdout.write(as_yaml(answer))
    return 0 if getattr(answer, "success", True) else 1
