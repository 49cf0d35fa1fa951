"""`lfdm calibrate --check`: what bags can teach a recipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lfdm_ros.cli.common import show_progress
from lfdm_ros.reports import NamedValue, draw_values, save_figure

if TYPE_CHECKING:
    from lfdm_ros.calibration import Recipe


def check(recipe: Recipe, bags: Sequence[str], *, as_json: bool, figure: Path | None = None, **more: Any) -> int:
    """Prints what bags can teach a recipe, as JSON with what is in `more`, and draws it; returns the exit status."""
    from lfdm_ros.calibration.scoring import score_recordings

    print_notes(bags)
    with show_progress("driving the recordings with vehicles from the priors"):
        scores = score_recordings(recipe, bags)
    for score in scores.values():
        score["known"] = {unknown: _verdict(share) for unknown, share in score.get("expected", {}).items()}
    if as_json:
        print(json.dumps({**more, "stages": scores}))
    else:
        _print_scores(scores)
    if figure is not None:
        panels = [(f"{name}: expected standard deviation of the posterior over the prior's",
                   [NamedValue(unknown, share, share, share) for unknown, share in score.get("expected", {}).items()])
                  for name, score in scores.items()]
        save_figure(draw_values(panels, [1.0]), figure)
    return int(any("error" in score for score in scores.values()))


def _verdict(share: float) -> str:
    """Returns in words how well an unknown is known, by its expected width over the prior's."""
    return "well known" if share < 0.1 else "known" if share < 0.5 else "hardly known" if share < 0.9 else "not told"


def print_notes(bags: Sequence[str]) -> None:
    """Prints on stderr how bags were recovered and which of their values may be wrong, before minutes are spent on them."""
    from lfdm_ros.bags import bags_in, open_bag

    for path in (path for given in bags for path in bags_in(Path(given))):
        with open_bag(path) as bag:
            if bag.note:
                print(f"warning: {path}: {bag.note}", file=sys.stderr)


def _print_scores(scores: dict[str, dict[str, Any]]) -> None:
    for name, score in scores.items():
        if "error" in score:
            print(*score["text"], sep="\n")
            continue
        print(f"{name}: the recordings tell {score['informed_directions']} of {score['unknowns']} directions (posterior over prior sd, "
              f"expected over {score['points']} points)")
        for line in score["counted"]:
            print(f"  {line}")
        width = max(map(len, score["expected"]))
        for unknown, share in score["expected"].items():
            print(f"  {unknown:{width}}  {share:6.3f}  {score['known'][unknown]}")
        for group in score["untold"]:
            print(f"  {group['text']}")
