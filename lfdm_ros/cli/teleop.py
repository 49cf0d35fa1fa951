"""Drive with the keys of this terminal, or with a joystick on the topic joy, beside a stack that waits for a driver.

It shows speed, pedals, the driver in control and the reason, and refused inputs. Arrows or w a s d: throttle, brake, steer; space: stop;
c: wheel straight; r: forwards or reverse; q: quit. Without a key, or with the joystick's button released, the vehicle brakes. The terminal
is restored at the end."""

import argparse
import sys

EPILOG = """examples, beside `lfdm up teleop` or `lfdm up shared_human` in another terminal:
  lfdm teleop
  lfdm teleop --joystick --set steering_axis=3 --set hold_button=5      beside `ros2 run joy joy_node`
  lfdm teleop --topic control/command                                  a vehicle on control/command without another driver"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", default="teleop/command", help="topic of the commands (default %(default)s)")
    parser.add_argument("--joystick", action="store_true", help="sensor_msgs/Joy on the topic joy instead of the keys")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="overrides",
                        help="a parameter of the nodes keyboard, joystick, dashboard (docs/reference/parameters.md); repeat")


def run(args: argparse.Namespace) -> int:
    from lfdm_ros.ros.runtime import exit_status
    from lfdm_ros.stacks.compose import run_stack
    from lfdm_ros.stacks.stack import parse_override, prepare_stack

    # Commands and display are independent nodes.
    nodes = ["joystick" if args.joystick else "keyboard", *(["dashboard"] if sys.stdout.isatty() else [])]
    remappings = {"teleop/command": args.topic}
    stack, _ = prepare_stack({"nodes": [{"executable": name, "remappings": remappings} for name in nodes]},
                             overrides=dict(parse_override(text) for text in args.overrides))
    return exit_status(run_stack(stack, quiet=True)["reason"])
