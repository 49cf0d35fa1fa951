"""write the SROS2 policy of a stack: topics, services and actions that each node may use"""

import argparse
import sys
from pathlib import Path

from lfdm_ros.cli.up import add_stack
from lfdm_ros.files import write_text

EPILOG = """examples:
  lfdm policy autonomy > policy.xml                                  # for `lfdm up autonomy`
  lfdm policy autonomy --processes --record drive > policy.xml       # for `lfdm up autonomy --processes --record drive`, and ros2 launch
  ros2 security generate_artifacts -k keystore -p policy.xml         # keys and permissions for all enclaves of the policy"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_stack(parser)
    parser.add_argument("--record", metavar="BAG", help="with the recorder that this option of `lfdm up` adds")
    parser.add_argument("--processes", action="store_true", help="an enclave for each node, of its name; else one, /, with a profile for "
                        "each")
    parser.add_argument("--out", metavar="FILE", help="file to write to; else standard output")


def run(args: argparse.Namespace) -> int:
    from lfdm_ros.stacks.policy import policy
    from lfdm_ros.stacks.stack import parse_override, prepare_stack, undeclared

    stack, _ = prepare_stack(args.stack, record=args.record, overrides=dict(parse_override(text) for text in args.overrides),
                             namespaces=args.namespace)
    for name in undeclared(stack):
        print(f"lfdm policy: {name} declares no ENDPOINTS: nothing but what every node has is allowed", file=sys.stderr)
    text = policy(stack, processes=args.processes)
    if args.out:
        write_text(Path(args.out), text)
    else:
        print(text, end="")
    return 0
