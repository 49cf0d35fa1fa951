"""Grounds in recordings: a bag of a vehicle on a ground has its document, and a replay is on the same."""

import os
from pathlib import Path

from lfdm_ros.bags.reader import open_bag
from lfdm_ros.documents import MAX_GENERATED_LENGTH, parse_json
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.ground.ground_file import GroundDescription, load_ground

TOPIC = "ground/document"


def recorded_ground(bag: str | os.PathLike[str], seed: int | None = None) -> GroundDescription:
    """Returns the ground of a recording: the last message on its topic. Raises InputError: no bag, no ground in it, or a seed, since that
    ground is fixed."""
    with open_bag(Path(bag)) as source:
        try:
            connections = source.select(TOPIC)
        except InputError:
            raise InputError(f"{bag}: holds no {TOPIC}: recorded on no ground, or without that topic; name the ground") from None
        texts = [str(source.decode(cdr, connection.msgtype).data) for connection, _, cdr in source.raw(connections)]
    if not texts:
        raise InputError(f"{bag}: {TOPIC} has no message; name the ground")
    if len(texts[-1]) > MAX_GENERATED_LENGTH:
        raise InputError(f"{bag}: {TOPIC}: longer than {MAX_GENERATED_LENGTH} characters")
    if seed is not None:
        raise InputError(f"{bag}: its ground is as it was recorded; leave the seed out")
    document = parse_json(texts[-1], f"{bag}: {TOPIC}")
    with prefixing(f"{bag}: {TOPIC}"):
        return load_ground(document if isinstance(document, dict) else {})


def find_ground(source: str | os.PathLike[str], seed: int | None = None) -> GroundDescription:
    """Returns a ground by its name, from a file, or from a recording. Raises InputError as `load_ground` and `recorded_ground`."""
    bag = Path(source).suffix in (".mcap", ".db3") or Path(source).is_dir()
    return recorded_ground(source, seed) if bag else load_ground(source, seed)
