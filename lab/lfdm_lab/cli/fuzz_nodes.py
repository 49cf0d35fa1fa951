"""Cases of `lfdm fuzz nodes`: damaged recordings, played into every subscribing node and used for a calibration."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

# Also imported for the cases, which are forks of this process.
import lfdm_ros.calibration.report
import lfdm_ros.calibration.stage  # noqa: F401
from lfdm_lab import fuzzing
from lfdm_lab.cli.fuzz_cases import judge_bag
from lfdm_lab.fuzzing import ANSWER, Case, CaseResult
from lfdm_lab.stacks.playback import players
from lfdm_ros.calibration import calibrate, load_recipe
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import find_recordings, load_stage
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

LIMIT = 120.0  # [s] on a busy machine
_CALIBRATION_INTERVAL = 5  # every fifth bag is used for a calibration


def node_cases(seeds: Sequence[int], folder: Path, totals: Counter[str], good: Path | None = None) -> Iterator[Case]:
    """Yields damaged recordings, each played into all nodes in a process of its own.

    Args:
        folder: for the bags, and for the output of recorder and calibration.
        totals: sums over the played bags: messages, delivered, commands, refused.NODE.KIND.REASON, and left_out.REASON.
        good: recording to damage; by default a second of a drive with all subscribed topics.
    """
    recipe, source = folder / "recipe.yaml", good or folder / "drive"
    recipe.write_text(fuzzing.RECIPE, encoding="utf-8")
    if good is None:
        fuzzing.drive_bag(source)
    Simulator(load_vehicle("hmmwv"))  # compiled once for all cases
    with players() as nodes:
        for seed in seeds:
            bad, out = folder / f"bag_{seed}", folder / f"out_{seed}"
            damage = fuzzing.damage_bag(source, bad, Random(f"nodes {seed}"))
            out.mkdir()
            yield Case(seed, damage.description, partial(_play, nodes, bad, recipe, out, seed % _CALIBRATION_INTERVAL == 0), LIMIT,
                       partial(_judge, damage, totals))


def _play(nodes: Any, bag: Path, recipe: Path, out: Path, full: bool) -> dict[str, Any]:
    """Plays a bag into the nodes, and calibrates with it (full) or only loads it for a calibration."""
    loaded, refusal = load_recipe(recipe), ""
    try:
        if full:
            calibrate(loaded, [bag], out / "calibration")
        else:
            load_stage(loaded.stages[0], find_recordings([bag]), loaded, loaded.start_vehicle)
    except InputError as error:
        refusal = str(error)
    played = nodes.play(bag, out)
    return {"messages": played.messages, "delivered": played.delivered, "commands": played.commands, "refused": played.refused,
            "left_out": played.left_out, "calibration_refused": refusal}


def _judge(damage: fuzzing.Damage, totals: Counter[str], found: CaseResult) -> CaseResult:
    found = judge_bag(damage, found)
    if found.outcome == ANSWER:
        totals.update({name: found.value[name] for name in ("messages", "delivered", "commands")})
        for kind in ("refused", "left_out"):
            totals.update({f"{kind}.{name}": count for name, count in found.value[kind].items()})
        totals["calibrations_refused" if found.value["calibration_refused"] else "calibrations"] += 1
    return found
