"""compare a posterior or a vehicle with a recording"""

import argparse
import sys
from typing import Any

from lfdm_ros.cli.common import show_progress
from lfdm_ros.errors import InputError
from lfdm_ros.reports import add_figure_argument, require_figure

EPILOG = """example:
  lfdm predict --posterior result --bag test_1 --window 1.0:12.5 --out prediction
  lfdm predict --vehicle hmmwv --bag test_1 --out prediction
  lfdm predict --vehicle mine.yaml --like result --bag test_1 --out compared    (driven, measured and cut into pieces as result was)

The directory then holds summary.json, report.html, pieces.csv (errors by piece) and trajectories.csv (measured, response, interval, and
the response before)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--posterior", metavar="DIR", help="directory that `lfdm calibrate` wrote")
    source.add_argument("--vehicle", metavar="NAME|FILE", help="a vehicle without a posterior")
    parser.add_argument("--like", metavar="DIR", help="with --vehicle: pieces, prescribed states, inputs and nuisances of this calibration")
    parser.add_argument("--model", metavar="NAME", help="model for --vehicle (default: that of --like, or eight_dof)")
    parser.add_argument("--bag", required=True, metavar="BAG", help="the recording")
    parser.add_argument("--window", type=_window, metavar="A:B", help="start and end in s (default: all that was measured)")
    parser.add_argument("--topic", metavar="TOPIC", help="reference topic (default: the fitted one, measured/state or vehicle/state)")
    parser.add_argument("--ground", default="", metavar="NAME", help="the bag was recorded on this ground (config/grounds, a YAML file, a "
                        "bag); recorded: on the one that it holds (default: a level road)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the noise in the predictive (default: 1)")
    parser.add_argument("--no-model-error", action="store_true", help="intervals of parameters and noise alone, not widened by the "
                        "model error out of sample")
    add_figure_argument(parser, "the responses against the data")
    parser.add_argument("--out", required=True, metavar="DIR", help="directory for the results")


def run(args: argparse.Namespace) -> int:
    from lfdm_ros.cli.calibrate import print_notes

    require_figure(args.figure)
    if args.like is not None and args.vehicle is None:
        raise InputError("--like is for a vehicle: give --vehicle NAME or FILE with it")
    if args.posterior or args.like:
        from lfdm_ros.calibration.results import check_finished

        if warning := check_finished(args.posterior or args.like):
            print(f"warning: {warning}", file=sys.stderr)
    print_notes([args.bag])
    from lfdm_ros.calibration import predict

    with show_progress("predicting"):
        summary = predict(args.bag, args.out, posterior=args.posterior, vehicle=args.vehicle, model=args.model, like_result=args.like,
                          window=args.window, topic=args.topic, seed=args.seed, model_error=not args.no_model_error, figure=args.figure,
                          ground=args.ground)
    _print(summary)
    print(f"wrote {args.out}: summary.json, report.html, pieces.csv, trajectories.csv")
    return 0


def _print(summary: dict[str, Any]) -> None:
    print(f"{summary['vehicle']} on {summary['recordings'][0]['name']}, {summary['split']}; against {summary['topic']}")
    fitted = "; * was fitted" if summary["fitted"] else ""
    print(f"RMSE of the response to the {summary['point_is']}" + (", of single draws 5 to 95 %" if summary["draws"] > 1 else "") + fitted)
    for channel, row in summary["rmse"].items():
        mark = "*" if channel in summary["fitted"] else " "
        draws = f"  ({row['low']:.3g} to {row['high']:.3g})" if summary["draws"] > 1 else ""
        print(f"{mark} {channel:10}  {row['response']:<10.4g}{draws:24}{_others(row)}{_coverage(summary, channel)}".rstrip())
    if summary["position"]:
        print(f"  {'position':10}  {summary['position']['response']:<10.4g}{'':24}{_others(summary['position'])}".rstrip())
    for topic, rows in summary["rmse_by_topic"].items():
        if topic != summary["topic"]:
            print(f"against {topic}: " + ", ".join(f"{channel} {rmse:.4g}" for channel, rmse in rows.items()))
    print(*(f"warning: {warning}" for warning in summary["warnings"]), summary["baseline"]["text"], sep="\n")


def _others(row: dict[str, float]) -> str:
    parts = [f"{words} {row[key]:.4g}" for key, words in (("before", "as it was"), ("kinematic", "kinematic")) if key in row]
    return f"  {', '.join(parts)}" if parts else ""


def _coverage(summary: dict[str, Any], channel: str) -> str:
    covered, alone = summary["coverage_90"][channel], summary["coverage_90_without_model_error"][channel]
    if covered is None:
        return ""
    return f"  coverage of 90 % {covered:.3f}" + (f" (without model error {alone:.3f})" if alone != covered else "")


def _window(text: str) -> tuple[float, float]:
    start, colon, end = text.partition(":")
    try:
        window = float(start), float(end)
    except ValueError:
        window = (0.0, 0.0)
    if not colon or not 0.0 <= window[0] < window[1]:
        raise argparse.ArgumentTypeError(f"'{text}' is not A:B in s with A before B, for example 1.0:12.5")
    return window
