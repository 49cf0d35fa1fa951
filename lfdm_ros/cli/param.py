"""List, show, describe and set the parameters of running nodes.

For machines without `ros2`; where it is installed, `ros2 param` does the same. Ranges and units of all: docs/reference/parameters.md."""

import argparse
import sys

EPILOG = """examples, beside `lfdm up autonomy` in another terminal:
  lfdm param list
  lfdm param list mpc_controller
  lfdm param get mpc_controller target_speed
  lfdm param describe mpc_controller target_speed
  lfdm param set mpc_controller target_speed 8.0
  lfdm param dump mpc_controller > mpc_controller.yaml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (("list", "the nodes, or the parameters of one"), ("get", "the value of a parameter"),
                       ("describe", "its meaning and its range"), ("set", "give it a value"),
                       ("dump", "all values of a node, as a file of parameters of ROS 2")):
        action = actions.add_parser(name, help=text)
        action.add_argument("node", nargs="?" if name == "list" else None)
        if name in ("get", "describe", "set"):
            action.add_argument("name")
        if name == "set":
            action.add_argument("value", help="as YAML: 1.5, true, text, [1.0, 2.0]")
        action.add_argument("--timeout", type=float, default=5.0, metavar="S",
                            help="to wait for the node and its answer (default %(default)g)")


def run(args: argparse.Namespace) -> int:
    import yaml

    from lfdm_ros.errors import InputError, quote
    from lfdm_ros.ros.message_fields import plain
    from lfdm_ros.stacks.inspection import Inspector, hint

    with Inspector(args.timeout) as graph:
        if args.action == "list" and args.node is None:
            print("\n".join(graph.nodes()))
            return 0
        names = graph.parameters(args.node)
        if args.action == "list":
            print("\n".join(names))
            return 0
        if args.action == "dump":
            values = {name: plain(value) for name, value in graph.values(args.node, names).items()}
            yaml.safe_dump({f"/{args.node.lstrip('/')}": {"ros__parameters": values}}, sys.stdout, sort_keys=False, allow_unicode=True)
            return 0
        if args.name not in names:
            raise InputError(f"{args.node} has no parameter {quote(args.name)}{hint(args.name, names)}")
        if args.action == "set":
            graph.set(args.node, args.name, yaml.safe_load(args.value))
        if args.action == "describe":
            (found,) = graph.describe(args.node, [args.name])
            ranges = [f"{one.from_value:g} to {one.to_value:g}" for one in (*found.floating_point_range, *found.integer_range)]
            print(f"{found.name}: {found.description}" + "".join(f"; {text}" for text in (*ranges, "read-only" * found.read_only) if text))
            return 0
        value = graph.values(args.node, [args.name])[args.name]
        print(yaml.safe_dump(plain(value), default_flow_style=True).removesuffix("...\n").strip())
    return 0
