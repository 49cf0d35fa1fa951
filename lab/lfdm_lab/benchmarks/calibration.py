"""The samplers on one stage: time, effective sample size, agreement of chains, and of runs with different seeds.

`lfdm bench calibration`. The stage is the lateral one of recipe hmmwv_paper with its draws and chains, on the published recording, or, if
that is not available, on a simulated one of the same design (`recording_is_simulated` is 1). For comparison: paper 000, Table 11 (another
simulator and machine; its NUTS used finite differences). Each run has its own seed; `spread_of_means` is the largest standard deviation
over the runs of a posterior mean, in posterior standard deviations. ESS is ArviZ's bulk ESS; for SMC it neglects the particles' ancestry,
unlike `ess_genealogy_min`. Wall-clock seconds need an idle machine; processor seconds less so.

`peak_rss_mb` is the largest resident set of the command `lfdm calibrate` in a process of its own, in 10^6 bytes: on the same stage by
sampler, and, if their recordings are available, of the recipes `dart` (102 windows of 2 s at 1 ms) and `hmmwv_joint` (8 x 1000 particles)
with their processor time; `imports` is the size after the imports alone.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import arviz as az
import numpy as np
import yaml

from lfdm_lab.cli.bench import Measurement
from lfdm_ros.bags import BagWriter, import_recording
from lfdm_ros.calibration.recipe import load_recipe
from lfdm_ros.calibration.stage import stage_model
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import find_recordings, load_stage
from lfdm_ros.inference.model import BatchedDensity
from lfdm_ros.inference.plan import Recipe
from lfdm_ros.resources import find_config, share_directory
from lfdm_ros.samplers.sampler import SAMPLERS, Problem, SampleRun, get_sampler
from lfdm_ros.simulation import InputProfile, Simulator

RECIPE, STAGE, RECORDING, DATA = "hmmwv_paper", "lateral", "simp_ramp", "sbel_hmmwv_bayes_calibration"
PUBLISHED = {"seconds/smc": (123 * 60.0, "s"), "ess_per_s/smc": (1.04, "1/s"), "ess_per_s/nuts": (0.20, "1/s")}

# The publication's ramp: steering from 7 s on, at the vehicle's speed at that time.
RAMP = InputProfile([0.0, 4.0], [0.0, 0.216], [0.0, 0.0], [0.0, 0.0])
RAMP_START, RAMP_SPEED, RATE = 7.0, 17.45, 100.0
NOISE = {"vy": 0.035, "roll": 0.003, "roll_rate": 0.0025, "yaw_rate": 0.014}  # standard deviations, similar to the publication
STATE = ("x", "y", "yaw", "roll", "pitch", "vx", "vy", "ax", "ay", "roll_rate", "pitch_rate", "yaw_rate", "road_wheel_angle",
         "engine_speed")
# Recipes with all stages: mapping, data and recordings.
FULL_RECIPES = {"dart": ("dart", "dart_rc_vicon_real", ("throttle_ramp_steer_p02", "throttle_ramp_steer_m02", "free_driving_slow")),
                "hmmwv_joint": ("sbel_hmmwv", DATA, ("acc", "simp_ramp", "rr_1"))}
WHEELS = ("omega_fl", "omega_fr", "omega_rl", "omega_rr")


# -- The problem ----------------------------------------------------------------------------------------------------

def reference_folder(name: str) -> Path:
    """Returns the folder of a published data set (docs/tutorials/recordings.md). Raises InputError: it does not exist."""
    root = Path(os.environ.get("LFDM_REFERENCE_DATA", share_directory() / ".." / "shared" / "data")).resolve()
    if not (root / name).is_dir():
        raise InputError(f"no reference data {root / name}; set LFDM_REFERENCE_DATA to the folder that has {name} "
                         "(docs/tutorials/recordings.md)")
    return root / name


def record_ramp(recipe: Recipe, path: Path) -> None:
    """Records the ramp, driven by the recipe's vehicle and measured with white noise."""
    simulator = Simulator(recipe.start_vehicle, model=recipe.model, dt=recipe.step)
    simulator.reset(vx=RAMP_SPEED)
    rng = np.random.default_rng(11)
    times = np.arange(RAMP.time[-1] * RATE + 1) / RATE
    inputs = RAMP.sample(times)
    with BagWriter(path, recording=RECORDING, origin_ns=0) as bag:
        for before, after, t in zip(inputs, [*inputs[1:], inputs[-1]], times + RAMP_START):
            simulator.advance(before, before, 0)
            row = dict(zip(simulator.output_index, simulator.outputs[list(simulator.output_index.values())].tolist()))
            stamp = round(t * 1e9)
            header = {"stamp": {"sec": stamp // 10**9, "nanosec": stamp % 10**9}, "frame_id": "odom"}
            for topic, noise in (("vehicle/state", {}), ("measured/state", NOISE)):
                bag.write(topic, "lfdm_ros/msg/VehicleState", stamp, {
                    "header": header, "child_frame_id": "base_link",
                    **{name: row.get(name, np.nan) + rng.normal(0.0, noise.get(name, 0.0)) for name in STATE},
                    **{f"tyre_force_{axis}": np.full(4, np.nan) for axis in "xyz"},
                    "wheel_speeds": np.array([row[name] for name in WHEELS]), "gear": 1})
            bag.write("control/command", "lfdm_ros/msg/DriverCommand", stamp,
                      {"header": header, "steering": float(before[0]), "throttle": float(before[1]), "brake": float(before[2])})
            simulator.advance(before, after, round(1.0 / RATE / recipe.step))


def recorded(recipe: Recipe, folder: Path) -> tuple[Path, bool]:
    """Imports the published ramp, or simulates it if not available; returns the bag, and True if simulated."""
    try:
        source = reference_folder(DATA)
    except InputError:
        record_ramp(recipe, folder / RECORDING)
        return folder / RECORDING, True
    import_recording(source / f"{RECORDING}.csv", find_config("recordings", "sbel_hmmwv"), folder / RECORDING)
    return folder / RECORDING, False


def lateral(recipe: Recipe, bag: Path) -> tuple[Problem, float]:
    """Builds the sampling problem of the stage; also returns the time of reading, building and compiling [s]."""
    began = time.perf_counter()
    stage = next(stage for stage in recipe.stages if stage.name == STAGE)
    data = load_stage(stage, find_recordings([bag]), recipe, recipe.start_vehicle)
    model = stage_model(stage, data, recipe, recipe.start_vehicle)
    density = BatchedDensity(model.likelihood, model.unknowns, model.errors)
    density(density.draw_prior(100, np.random.default_rng(0)))
    model.likelihood.moments_and_slopes(np.array([prior.frozen().median() for prior in model.unknowns.values()]))
    density.evaluations = 0
    return (Problem(model.likelihood, density, model.unknowns, model.errors, model.start, stage.objective), time.perf_counter() - began)


# -- One run --------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class SamplerRun:
    """Figures of one run of a sampler; means and sds by variable."""

    seconds: float
    processor: float
    evaluations: int
    ess: float
    r_hat: float
    genealogy: float
    means: Mapping[str, float]
    sds: Mapping[str, float]


def processor_seconds() -> float:
    """Returns the processor time [s] of this process and its ended children."""
    usage = [resource.getrusage(scope) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def sampled(name: str, problem: Problem, recipe: Recipe, seed: int) -> SamplerRun:
    """Runs a sampler."""
    sampler = get_sampler(name)
    began, busy = time.perf_counter(), processor_seconds()
    run: SampleRun = sampler(problem, draws=recipe.draws, chains=recipe.chains, seed=np.random.SeedSequence(seed), report=None)
    seconds, busy = time.perf_counter() - began, processor_seconds() - busy
    sds = {variable: float(draws.std()) for variable, draws in run.draws.items()}
    return SamplerRun(
        seconds, busy, run.evaluations, min(float(az.ess(draws)) for draws in run.draws.values()),
        max(float(az.rhat(draws)) for draws in run.draws.values()),
        min(((sds[variable] / error) ** 2 for variable, error in run.error_of_mean.items()), default=float("nan")),
        {variable: float(draws.mean()) for variable, draws in run.draws.items()}, sds)


# -- Memory ---------------------------------------------------------------------------------------------------------


def run_python(arguments: Sequence[str]) -> tuple[float, float]:
    """Runs Python with these arguments; returns its largest resident set [10^6 bytes] and its processor time [s]. Raises InputError: it
    failed."""
    with tempfile.TemporaryFile() as log:
        child = subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        if child.returncode:
            raise InputError(f"python {' '.join(arguments)}: {log.read().decode(errors='replace').strip()[-500:]}")
    return usage.ru_maxrss * 1024 / 1e6, usage.ru_utime + usage.ru_stime


def run_calibrate(recipe: Path | str, bags: Sequence[Path], *options: str) -> tuple[float, float]:
    """Runs `lfdm calibrate`; returns its largest resident set [10^6 bytes] and its processor time [s]."""
    with tempfile.TemporaryDirectory() as out:
        return run_python(["-m", "lfdm_ros.cli", "calibrate", str(recipe), *(text for bag in bags for text in ("--bag", str(bag))),
                         "--out", out, *options])


def lateral_alone(folder: Path) -> Path:
    """Writes a recipe with only the lateral stage; returns its path."""
    text = yaml.safe_load(find_config("calibration", RECIPE).read_text(encoding="utf-8"))
    path = folder / "lateral.yaml"
    path.write_text(yaml.safe_dump({**text, "stages": [stage for stage in text["stages"] if stage["name"] == STAGE]}), encoding="utf-8")
    return path


def full_recipe(name: str, runs: int, folder: Path) -> list[Measurement]:
    """Measures peak memory and processor time of a recipe of FULL_RECIPES; no records if its recordings are not available."""
    mapping, data, recordings = FULL_RECIPES[name]
    try:
        source = reference_folder(data)
    except InputError:
        return []
    bags = [folder / name / recording for recording in recordings]
    for bag in bags:
        import_recording(source / f"{bag.name}.csv", find_config("recordings", mapping), bag)
    memory, processor = zip(*(run_calibrate(name, bags) for _ in range(runs)))
    return [Measurement.of(f"peak_rss_mb/{name}", memory, "MB"), Measurement.of(f"processor_s/{name}", processor, "s")]


# -- All ------------------------------------------------------------------------------------------------------------


def records_of(name: str, outcomes: list[SamplerRun]) -> list[Measurement]:
    """Summarises the runs of a sampler as records."""
    out = [
        Measurement.of(f"seconds/{name}", [o.seconds for o in outcomes], "s"),
        Measurement.of(f"cpu_seconds/{name}", [o.processor for o in outcomes], "s"),
        Measurement.of(f"simulations/{name}", [float(o.evaluations) for o in outcomes], "1"),
        Measurement.of(f"ess_bulk_min/{name}", [o.ess for o in outcomes], "1"),
        Measurement.of(f"ess_per_s/{name}", [o.ess / o.seconds for o in outcomes], "1/s"),
        Measurement.of(f"r_hat_max/{name}", [o.r_hat for o in outcomes], "1"),
    ]
    if np.isfinite(outcomes[0].genealogy):
        out.append(Measurement.of(f"ess_genealogy_min/{name}", [o.genealogy for o in outcomes], "1"))
    if len(outcomes) > 1:
        spread = [np.std([o.means[v] for o in outcomes], ddof=1) / np.mean([o.sds[v] for o in outcomes]) for v in outcomes[0].means]
        out.append(Measurement(f"spread_of_means/{name}", float(max(spread)), "sd", 0.0, len(outcomes)))
    return out


def measure(runs: int, only: str = "*") -> list[Measurement]:
    """Measures the samplers and the recipes of FULL_RECIPES that match `only`. Raises InputError: nothing matches."""
    chosen = [name for name in SAMPLERS if fnmatch(name, only)]
    recipes = [name for name in FULL_RECIPES if fnmatch(name, only)]
    if not chosen and not recipes:
        raise InputError(f"--only {only}: matches none of {', '.join(SAMPLERS)}, {', '.join(FULL_RECIPES)}")
    recipe = load_recipe(RECIPE)
    with tempfile.TemporaryDirectory() as folder:
        bag, simulated = recorded(recipe, Path(folder))
        problem, setup = lateral(recipe, bag)
        records = [Measurement("recording_is_simulated", float(simulated), "1", 0.0, 1), Measurement("setup_seconds", setup, "s", 0.0, 1)]
        for name in chosen:
            records += records_of(name, [sampled(name, problem, recipe, seed) for seed in range(1, runs + 1)])
        imports = [run_python(["-c", "import lfdm_ros.calibration.run"])[0] for _ in range(runs)]
        records.append(Measurement.of("peak_rss_mb/imports", imports, "MB"))
        alone = lateral_alone(Path(folder))
        records += [Measurement.of(f"peak_rss_mb/{name}", [run_calibrate(alone, [bag], "--sampler", name)[0] for _ in range(runs)], "MB")
                    for name in chosen]
        for name in recipes:
            records += full_recipe(name, runs, Path(folder))
    return [*records, *(Measurement(f"published/{name}", value, unit, 0.0, 0) for name, (value, unit) in PUBLISHED.items())]
