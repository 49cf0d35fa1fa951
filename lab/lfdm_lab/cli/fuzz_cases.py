"""Cases of `lfdm fuzz bags` and `lfdm fuzz files`: damaged recordings and files, and their readers."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

# Also imported for the cases, which are forks of this process.
import lfdm_ros.calibration.report
import lfdm_ros.calibration.validation
import lfdm_ros.cli.bag
import lfdm_ros.cli.simulate
import lfdm_ros.cli.vehicle  # noqa: F401
from lfdm_lab import fuzzing
from lfdm_lab.cli.study_control import parse_settings
from lfdm_lab.fuzzing import ANSWER, LOST, REFUSED, Case, CaseResult
from lfdm_ros.bags import bag_info, format_info, open_bag, read_series
from lfdm_ros.bags.mapping import load_mapping
from lfdm_ros.bags.typestore import NUMERIC, typestore
from lfdm_ros.calibration import predict
from lfdm_ros.calibration.recipe import load_recipe
from lfdm_ros.calibration.results import load_summary
from lfdm_ros.cli.main import main
from lfdm_ros.control.settings import SETTINGS
from lfdm_ros.engine.bag_folder import BagFolder, requested_recordings
from lfdm_ros.errors import InputError
from lfdm_ros.ground import load_soil
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.models import model_names
from lfdm_ros.resources import share_directory
from lfdm_ros.simulation import Simulator, load_scenario
from lfdm_ros.stacks.stack import EXECUTABLES, load_stack, node_class, parse_override, prepare_stack
from lfdm_ros.vehicles import load_vehicle

LIMIT = 60.0  # [s] on a busy machine

# ---- bags ----------------------------------------------------------------------------------------------------------------


def bag_cases(seeds: Sequence[int], folder: Path, good: Path | None = None) -> Iterator[Case]:
    """Yields damaged recordings, each read by `lfdm bag info`, as series, and some by `lfdm predict`.

    Args:
        folder: for the bags.
        good: recording to damage; by default a short drive in MCAP or SQLite.
    """
    typestore()  # here and below: compiled once for all cases
    Simulator(load_vehicle("hmmwv"))
    examples = {storage: folder / f"good_{storage}" for storage in ("mcap", "sqlite3")}
    if good is None:
        for storage, path in examples.items():
            fuzzing.good_bag(path, storage)
    for seed in seeds:
        rng = Random(f"bags {seed}")
        source = good or examples[rng.choice(("mcap", "mcap", "sqlite3"))]
        bad = folder / f"bag_{seed}"
        damage = fuzzing.damage_bag(source, bad, rng)
        predicted = rng.random() < 0.2
        yield Case(seed, f"{source.name}: {damage.description}", partial(_read_bag, bad, predicted), LIMIT, partial(judge_bag, damage))


def _read_bag(bag: Path, predicted: bool) -> dict[str, Any]:
    info = bag_info(bag)
    format_info(info)
    json.dumps(info)
    refused = []
    with open_bag(bag) as opened:
        fields = {c.topic: [name for name, (_, detail) in opened.typestore.fielddefs.get(c.msgtype, ((), ()))[1] if detail[0] in NUMERIC]
                  for c in opened.connections}
    for topic, names in fields.items():
        try:
            read_series(bag, topic, names[:3])
        except InputError as error:
            refused.append(str(error))
    if predicted:
        try:
            predict(bag, bag.with_name(f"{bag.name}_predicted"), vehicle="hmmwv")
        except InputError as error:
            refused.append(str(error))
    return {"messages": info["messages"], "note": info["note"], "refused": refused}


def judge_bag(damage: fuzzing.Damage, found: CaseResult) -> CaseResult:
    """Checks that all undamaged messages are still read."""
    least = damage.min_messages
    if found.outcome == REFUSED and least > 0:
        return CaseResult(LOST, f"at least {least} messages are undamaged; {found.text}")
    if found.outcome != ANSWER:
        return found
    count = found.value["messages"]
    if count < least or (damage.exact and count != least):
        return CaseResult(LOST, f"{count} messages read of {least} undamaged; {found.value['note']}")
    return found


# ---- files ---------------------------------------------------------------------------------------------------------------

_INPUTS = "time steering throttle brake\n0 0 0.5 0\n1 0.1 0.5 0\n2 -0.1 0.2 0.3\n"
_RECORDED = "t,v\n" + "".join(f"{0.1 * i:.1f},36\n" for i in range(11))
_MAPPING = """
constants: {wheel_radius: 0.47 m}
sources:
  log:
    file: "{recording}.csv"
    time: {column: t}
    columns: {t: s, v: km/h}
topics:
  vehicle/state:
    type: lfdm_ros/msg/VehicleState
    from: log
    fields: {vx: v, "wheel_speeds[0]": v / wheel_radius}
    text: {header.frame_id: odom}
"""
# JSON of the C++ library LFDM: a 1:6 scale car with a tyre given by its size.
_LFDM = {
    "car": {"a": 0.3, "b": 0.25, "m": 6.0, "h": 0.08, "jz": 0.4, "muf": 0.5, "mur": 0.5, "nonLinearSteer": True,
            "steerMap": [[-1, -0.4], [0, 0.0], [1, 0.4]], "maxSteer": 0.4, "upshiftRPM": 10000, "downshiftRPM": -10000, "gearRatios": [0.2],
            "torqueMap": [[-100, 0.2], [1500, 0.1]], "lossesMap": [[-100, -0.01], [1500, -0.02]], "tcBool": False, "maxBrakeTorque": 4,
            "throttleMod": True},
    "tyre": {"highLevelParams": True, "jw": 4.0, "rr": 0.015, "r0": 0.33, "mu": 0.9, "rdyncoPn": 0.4, "rdyncoP2n": 0.75, "width": 0.25,
             "rimRadius": 0.23, "loadIndex": 97, "vehicleType": "Passenger"}}


@dataclass(frozen=True)
class _Kind:
    """A kind of file: its sources, the damage to them, and the reader under test."""

    name: str
    sources: Callable[[], Sequence[Path | str]]
    damage: Callable[[str, Random], tuple[bytes, str]]
    read: Callable[[Path, Random], Any]
    suffix: str = ".yaml"


def file_cases(seeds: Sequence[int], folder: Path, kinds: Sequence[str] = ()) -> Iterator[Case]:
    """Yields damaged files of every kind that the package reads, and values of --set.

    Args:
        kinds: some of FILE_KINDS; empty: all.
    """
    if unknown := set(kinds) - set(FILE_KINDS):
        raise InputError(f"--of {', '.join(sorted(unknown))}: give some of {', '.join(FILE_KINDS)}")
    chosen = [kind for kind in _KINDS if not kinds or kind.name in kinds]
    for name in EXECUTABLES:
        node_class(name)
    load_stack("autonomy")
    load_recipe("hmmwv_demo")
    load_scenario("slalom")
    load_mapping(next(iter(_config("recordings")())))
    Simulator(load_vehicle("hmmwv"))
    for seed in seeds:
        rng = Random(f"files {seed}")
        kind = rng.choice(chosen)
        source = rng.choice(list(kind.sources()))
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
        content, description = kind.damage(text, rng)
        place = folder / f"files_{seed}"
        place.mkdir()
        path = place / f"{kind.name}{kind.suffix}"
        path.write_bytes(content)
        name = source.name if isinstance(source, Path) else "an example"
        yield Case(seed, f"{kind.name}, {name}: {description}", partial(kind.read, path, Random(seed)), LIMIT)


def _config(folder: str) -> Callable[[], Sequence[Path]]:
    return lambda: sorted((share_directory() / "config" / folder).glob("*.yaml"))


def _read_vehicle(path: Path, rng: Random) -> int:
    if rng.random() < 0.5:
        return main(["vehicle", "show", str(path)])
    inputs = path.with_name("inputs.txt")
    inputs.write_text(_INPUTS, encoding="utf-8")
    return main(["simulate", "--vehicle", str(path), "--model", rng.choice(model_names()), "--inputs", str(inputs), "--until", "0.05",
                 "--initial-speed", "5", "--out", str(path.with_name("out.csv"))])


def _read_scenario(path: Path, rng: Random) -> None:
    load_scenario(path, rng.choice((None, 0, 7)))


def _read_soil(path: Path, rng: Random) -> None:
    load_soil(path)


def _read_ground(path: Path, rng: Random) -> None:
    load_ground(path)


def _read_stack(path: Path, rng: Random) -> None:
    prepare_stack(path, speed=rng.choice((None, 0.0, 1.0)), duration=rng.choice((None, 1.0)),
                  record=rng.choice((None, path.with_name("bag"))))


def _read_recipe(path: Path, rng: Random) -> None:
    requested_recordings(str(path))


def _read_mapping(path: Path, rng: Random) -> int:
    if "{recording}.csv" not in path.read_text(encoding="utf-8", errors="replace"):
        load_mapping(path)
        return 0
    (path.parent / "drive.csv").write_text(_RECORDED, encoding="utf-8")
    return main(["bag", "import", str(path.parent / "drive.csv"), "--mapping", str(path), "--out", str(path.parent / "out")])


def _read_recorded(path: Path, rng: Random) -> int:
    mapping = path.with_name("map.yaml")
    mapping.write_text(_MAPPING, encoding="utf-8")
    return main(["bag", "import", str(path), "--mapping", str(mapping), "--out", str(path.parent / "out")])


def _read_inputs(path: Path, rng: Random) -> int:
    return main(["simulate", "--vehicle", "hmmwv", "--inputs", str(path), "--until", "0.05", "--out", str(path.with_name("out.csv"))])


def _read_lfdm(path: Path, rng: Random) -> int:
    files = {}
    for name, content in _LFDM.items():
        files[name] = path.with_name(f"{name}.json")
        files[name].write_text(json.dumps(content), encoding="utf-8")
    files["tyre" if b"rimRadius" in path.read_bytes() else "car"] = path
    return main(["vehicle", "import", str(files["car"]), str(files["tyre"]), "--out", str(path.with_name("imported.yaml"))])


def _read_posterior(path: Path, rng: Random) -> None:
    """Reads vehicle.yaml in the folder of a calibration, or the summary beside it."""
    if path.suffix == ".json":
        load_summary(path.parent)
    else:
        load_vehicle(path)


def _read_memory(path: Path, rng: Random) -> None:
    """Reads a calibrator's record of the folder that it watches."""
    folder = BagFolder(path.parent, "hmmwv_demo", path)
    folder.look(0.0)
    folder.next_job("", 0.0)


def _read_set(path: Path, rng: Random) -> None:
    """Parses a text as --set of `lfdm up` or of `lfdm drive`."""
    text = path.read_bytes().decode("utf-8", "replace")
    if rng.random() < 0.3:
        parse_settings([f"{rng.choice(list(SETTINGS.by_field))}={text}"])
        return
    stack = load_stack("autonomy")
    entry = rng.choice(stack.nodes)
    name = rng.choice(list(entry.table))
    stack.with_override(*parse_override(f"{rng.choice((f'{entry.name}.', ''))}{name}={text}"), "--set")


def _damaged_text(text: str, rng: Random) -> tuple[bytes, str]:
    content, description = fuzzing.corrupt(text.encode(), rng)
    return content, description


def _hostile(_: str, rng: Random) -> tuple[bytes, str]:
    text = fuzzing.hostile_text(rng)
    return text.encode("utf-8", "replace"), repr(text[:60])


_MEMORY = json.dumps({
    "bags": {"bags/a": {"signature": "1", "name": "a", "sha256": "2", "note": "", "problem": ""}},
    "taken": {"2": {"path": "bags/a", "time": "", "outcome": "done", "failed_with": ""}},
    "job": {"id": "3", "recipe": "hmmwv_demo", "bags": ["bags/a"], "fresh": ["2"], "out": "out", "continue_from": 0, "deaths": 0}})

# Small, as generating a large field would dominate the run time.
_GROUND = f"""
area: {{x: [-5.0, 15.0], y: [-5.0, 5.0], spacing: 1.0}}
seed: 4
friction: {{ice: 0.15, dry: 1.0, a0: 1.5, alpha_x: 3.0, alpha_y: 3.0, sigma_f: 2.0, sigma_n: 0.3}}
observations: [{{x: 0.0, y: 0.0, friction: 0.95}}]
patches: [{{friction: 0.3, polygon: [[0, -3], [9, -3], [9, 3]]}}]
soil:
  name: loose
  frictional_modulus: {{value: 1528, unit: kN/m^(n+2)}}
  cohesive_modulus: {{value: 0.99, unit: kN/m^(n+1)}}
  sinkage_exponent: {{value: 1.1, unit: "1"}}
  cohesion: {{value: 1040, unit: Pa}}
  friction_angle: {{value: 28, unit: deg}}
  shear_modulus_x: {{value: 25, unit: mm}}
soils: [{{soil: dry_sand, polygon: [[0, -3], [9, -3], [9, 3]]}}]
heights: {{rise_x: 0.05, rise_y: 0.0, bumps: [{{x: 5.0, y: 0.0, radius: 3.0, height: 0.2}}], values: {[[0.1] * 21] * 11}}}
"""

_KINDS = (
    _Kind("vehicle", _config("vehicles"), fuzzing.damaged_yaml, _read_vehicle),
    _Kind("scenario", _config("scenarios"), fuzzing.damaged_yaml, _read_scenario),
    _Kind("soil", _config("soils"), fuzzing.damaged_yaml, _read_soil),
    _Kind("ground", lambda: [_GROUND], fuzzing.damaged_yaml, _read_ground),
    _Kind("stack", _config("stacks"), fuzzing.damaged_yaml, _read_stack),
    _Kind("recipe", _config("calibration"), fuzzing.damaged_yaml, _read_recipe),
    _Kind("mapping", lambda: [_MAPPING, *_config("recordings")()], fuzzing.damaged_yaml, _read_mapping),
    _Kind("recorded", lambda: [_RECORDED], _damaged_text, _read_recorded, ".csv"),
    _Kind("inputs", lambda: [_INPUTS], _damaged_text, _read_inputs, ".txt"),
    _Kind("lfdm", lambda: [json.dumps(content) for content in _LFDM.values()], fuzzing.damaged_json, _read_lfdm, ".json"),
    _Kind("vehicle_of_posterior", _config("vehicles"), fuzzing.damaged_yaml, _read_posterior),
    _Kind("summary", lambda: ['{"stages": [{"name": "a", "parameters": {}}], "model": "eight_dof"}'], fuzzing.damaged_json, _read_posterior,
          ".json"),
    _Kind("memory", lambda: [_MEMORY], fuzzing.damaged_json, _read_memory, ".json"),
    _Kind("set", lambda: [""], _hostile, _read_set, ".txt"),
)
FILE_KINDS = tuple(kind.name for kind in _KINDS)
