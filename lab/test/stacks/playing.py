"""Plays a good drive into every node, and again with two broken ones; prints the results as JSON. A separate process of `test_playback`:
it is forked, which is unsafe in a test process with the threads of many libraries."""

import json
import sys
from pathlib import Path
from typing import Any

from lfdm_lab.fuzzing import attempt
from lfdm_lab.stacks.playback import Players, players


def good(nodes: Players, drive: Path, folder: Path) -> Any:
    played = nodes.play(drive, folder / "good")
    return {"messages": played.messages, "commands": played.commands, "refused": played.refused, "left_out": played.left_out,
            "heard": sorted({node.NAME for node in nodes.nodes})}


def wrong(nodes: Players, drive: Path, folder: Path) -> str:
    """One node publishes an invalid command, and one raises."""
    adapter, frames = (next(node for node in nodes.nodes if node.label == name) for name in ("command_adapter", "vehicle_frames"))
    adapter.follower.inputs = lambda *_: (1.5, 0.0, 0.0)
    frames.odometry = None
    try:
        nodes.play(drive, folder / "wrong")
    except RuntimeError as error:
        return str(error)
    return "no error"


if __name__ == "__main__":
    drive, folder = map(Path, sys.argv[1:])
    with players() as nodes:
        tried = {play.__name__: attempt(lambda play=play: play(nodes, drive, folder), 300.0) for play in (good, wrong)}
    print(json.dumps({name: {"outcome": trial.outcome, "text": trial.text, "value": trial.value} for name, trial in tried.items()}))
