"""compare a posterior or a vehicle with a recording"""

from __future__ import annotations

import argparse
import sys

EPILOG = """example:
  lfdm predict --posterior result --bag test_1 --window 1.0:12.5 --out prediction
  lfdm predict --vehicle hmmwv --bag test_1 --out prediction"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm predict`."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--posterior", metavar="DIR", help="directory that `lfdm calibrate` wrote")
    source.add_argument("--vehicle", metavar="NAME|FILE", help="a vehicle as it is")
    parser.add_argument("--model", default="eight_dof", metavar="NAME", help="model for --vehicle (default: eight_dof)")
    parser.add_argument("--bag", required=True, metavar="BAG", help="the recording")
    parser.add_argument("--window", type=_window, metavar="A:B", help="start and end in s (default: all that was measured)")
    parser.add_argument("--topic", metavar="TOPIC", help="compare with this (default: what was fitted, measured/state or vehicle/state)")
    parser.add_argument("--ground", default="", metavar="NAME", help="the bag was recorded on this ground (config/grounds, a YAML file, a "
                        "bag); recorded: on the one that it holds (default: a level road)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the noise in the predictive (default: 1)")
    parser.add_argument("--figure", metavar="FILE", help="image of the responses against the data, for example prediction.png")
    parser.add_argument("--out", required=True, metavar="DIR", help="directory for summary.json and report.html")


def run(args: argparse.Namespace) -> int:
    """Runs `lfdm predict`; returns the exit status."""
    from lfdm_ros.cli.calibrate import print_notes

    if args.posterior is not None:
        from lfdm_ros.calibration.results import check_finished

        if told := check_finished(args.posterior):  # at once: it may not be what was meant
            print(f"warning: {told}", file=sys.stderr)
    from lfdm_ros.calibration import predict

    print_notes([args.bag])
    summary = predict(args.bag, args.out, posterior=args.posterior, vehicle=args.vehicle, model=args.model, window=args.window,
                      topic=args.topic, seed=args.seed, figure=args.figure, ground=args.ground)
    start, end = summary["window"]
    print(f"{summary['vehicle']} on {summary['recordings'][0]['name']}, [{start:g}, {end:g}) s, against {summary['topic']}")
    for channel, row in summary["rmse"].items():
        covered = summary["coverage_90"][channel]
        before = f" (the vehicle as it was: {row['before']:.4g})" if "before" in row else ""
        share = f"  coverage of 90 % {covered:.3f}" if covered is not None else ""
        print(f"  {channel:10}  RMSE {row['posterior']:<10.4g}{before}{share}")
    for topic, rows in summary["rmse_by_topic"].items():
        if topic != summary["topic"]:
            print(f"against {topic}: " + ", ".join(f"{channel} {rmse:.4g}" for channel, rmse in rows.items()))
    for warning in summary["warnings"]:
        print(f"warning: {warning}")
    print(f"wrote {args.out}: summary.json, report.html")
    return 0


def _window(text: str) -> tuple[float, float]:
    start, colon, end = text.partition(":")
    try:
        window = float(start), float(end)
    except ValueError:
        window = (0.0, 0.0)
    if not colon or not 0.0 <= window[0] < window[1]:
        raise argparse.ArgumentTypeError(f"'{text}' is not A:B in s with A before B, for example 1.0:12.5")
    return window
