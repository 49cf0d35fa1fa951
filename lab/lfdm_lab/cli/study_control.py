"""`lfdm study mpc`, `delay`, `lane_change`, `density`, `radar`, `movers`, `barn`, `risk`, `sharing` and `friction`: series of drives."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lfdm_ros.cli.drive import parse_changes
from lfdm_ros.errors import InputError
from lfdm_ros.files import write_text
from lfdm_ros.reports import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lfdm_ros.control.settings import Settings

NAMES = ("mpc", "delay", "lane_change", "density", "radar", "movers", "barn", "risk", "sharing", "friction")
SEEDS = {"mpc": 100, "delay": 10, "lane_change": 1, "density": 30, "radar": 10, "movers": 30, "barn": 1, "risk": 2000,
         "sharing": 50, "friction": 200}
SLOW_SEEDS = 5
Results = list[dict[str, Any]]


def run_control_study(args: argparse.Namespace) -> int:
    """Runs one of `NAMES`; returns the exit status: 1 if the full controller has a collision (mpc, density), lifts a wheel or misses goals
    (mpc), if the autonomy does worse than the brake on a seed (movers), if the probabilities are wrong (risk), or if sharing does not help
    (sharing)."""
    from lfdm_lab.cli.bench import machine
    from lfdm_lab.studies.resuming import carry_out
    from lfdm_ros.scheduling import available_cores, get_scheduler

    study = {"risk": _prepare_risk, "sharing": _prepare_sharing, "friction": _prepare_friction,
             "radar": _prepare_radar, "movers": _prepare_movers, "barn": _prepare_barn}.get(args.study, _prepare)(args)
    items, report = study.items, study.report
    found: dict[int, dict[str, Any]] = {}
    outcome: dict[str, Any] = {"study": args.study, "seeds": _seeds(args), "vehicle": args.vehicle, "machine": machine(),
                               "settings": study.changed}
    interrupted = False
    try:
        with get_scheduler(args.scheduler, available_cores()) as scheduler:
            carry_out(items, study.work, study.key, scheduler, found, args.out, print_progress)
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    outcome |= {"asked": len(items), "done": len(found), "interrupted": interrupted}
    runs = [found[i] for i in sorted(found)]
    text, good, figures = report(runs, outcome)
    failed = [items[i] for i in sorted(found) if study.bag_name is not None and found[i]["failure"] and study.bag_name(items[i])]
    if failed and not interrupted:
        text += f"\n\n{_record(failed, study, args.record)}"
    outcome["runs"] = [{name: value for name, value in run.items() if name != "cycle_us"} for run in runs]
    if args.out is not None:
        write_text(args.out / "results.json", json.dumps(outcome) + "\n")
        write_text(args.out / "table.md", text + "\n")
        from lfdm_ros.reports import save_figure, save_png

        for name, draw in figures.items():
            figure = draw()
            if figure is not None:
                save_png(figure, args.out / f"{name}.png")
                save_figure(figure, args.out / f"{name}.svg")
    print(json.dumps(outcome) if args.json else text)
    if interrupted:
        raise KeyboardInterrupt
    return 0 if good else 1


Reported = tuple[str, bool, dict[str, "Callable[[], Figure | None]"]]  # text, passed, figures by name


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A study: its items, the work on each, the cache key of its result, the report, and the settings that differ from the defaults;
    bag_name: of a failed item (empty: not recorded), None: no recording."""

    items: Sequence[Any]
    work: Callable[..., dict[str, Any]]
    key: Callable[[Any], str]
    report: Callable[[Results, dict[str, Any]], Reported]
    changed: dict[str, Any]
    bag_name: Callable[[Any], str] | None = None


def _record(failed: Sequence[Any], study: Prepared, folder: Path | None) -> str:
    """Repeats the failed runs with recording; returns the commands that play the bags."""
    if folder is None:
        return "Failed runs in the cockpit: the same command with `--record DIR`."
    from lfdm_ros.ros.drive_bag import DriveBag

    assert study.bag_name is not None
    lines = []
    for item in failed:
        bag = folder / study.bag_name(item)
        if not bag.exists():
            study.work(item, partial(DriveBag, bag))
        lines.append(f"    lfdm cockpit --bag {bag}")
    return "\n".join(["Failed runs:", "", *lines])


def _prepare(args: argparse.Namespace) -> Prepared:
    from lfdm_lab.studies import driving as studies

    settings = parse_settings(args.set)
    items, report = _driven(args, settings)
    return Prepared(items, studies.work, studies.key, report, _changed(settings))


def _prepare_risk(args: argparse.Namespace) -> Prepared:
    from lfdm_lab.studies import risk_validation
    from lfdm_ros.sharing.intentions import CONSTANT_INPUT
    from lfdm_ros.sharing.risk import OWN, RISK

    (changes,) = parse_changes(args.set, [RISK])
    settings = RISK.kind(**{"clear": 0.0, "remnant": risk_validation.REMNANT, "intention": CONSTANT_INPUT.name, "tyres": OWN, **changes})
    episodes = risk_validation.episodes(_seeds(args), settings, others=args.slow_seeds, vehicle=args.vehicle)
    return Prepared(episodes, risk_validation.work, risk_validation.key, _report_risk, _changed(settings))


def _prepare_sharing(args: argparse.Namespace) -> Prepared:
    from lfdm_lab.studies import sharing

    seeds, latencies = _seed_range(args), args.latencies or list(sharing.LATENCIES)
    scenarios = [each for name in args.scenarios or sharing.SCENARIOS for each in (sharing.MOVERS if name == "movers" else [name])]
    items = sharing.drives(seeds, latencies, scenarios, args.controls or sharing.CONTROLS)
    if args.ablation:
        seeded = [name for name in scenarios if sharing.ALL_SETTINGS[name].seeded]
        latency = min((x for x in latencies if x), default=0.0)
        items += [*sharing.ablation(seeds, args.latencies or [sharing.ABLATION_LATENCY], scenarios), *sharing.blind(seeds, latency, seeded)]
    return Prepared(items, sharing.work, sharing.key, _report_sharing, {}, sharing.bag_name)


def _prepare_friction(args: argparse.Namespace) -> Prepared:
    from lfdm_lab.studies import friction

    return Prepared(friction.items(_seeds(args), args.vehicle), friction.work, friction.key, _report_friction, {})


def _prepare_radar(args: argparse.Namespace) -> Prepared:
    from lfdm_lab.studies import radar

    # A comparison, without pass criteria.
    return Prepared(radar.meetings(_seeds(args), args.vehicle), radar.work, radar.key,
                    lambda runs, outcome: (markdown_table(radar.table(runs)), True, {"radar": lambda: radar.draw(runs)}), {})


def _prepare_movers(args: argparse.Namespace) -> Prepared:
    from lfdm_lab.studies import movers

    settings = parse_settings(args.set)
    items = movers.drives(_seed_range(args), settings, args.scenarios or tuple(movers.SCENARIOS), args.vehicle)
    return Prepared(items, movers.work, movers.key, _report_movers, _changed(settings), movers.bag_name)


def _prepare_barn(args: argparse.Namespace) -> Prepared:
    from lfdm_lab.studies import barn
    from lfdm_ros.control.routing.lattice import LATTICE
    from lfdm_ros.control.settings import SETTINGS
    from lfdm_ros.parameters import Exposed
    from lfdm_ros.perception.tracker import TRACKER
    from lfdm_ros.sensors.lidar import LIDAR

    if not args.scenarios:
        raise InputError("study barn needs worlds; add --scenarios with files or a folder of the challenge, jackal_helper/worlds/BARN")
    records: list[Exposed[Any]] = [SETTINGS, LATTICE, TRACKER, LIDAR]
    changes = parse_changes(args.set, records)
    changes[0] = {"time_budget": 0.0, **changes[0]}
    settings = [record.kind(**change) for record, change in zip(records, changes)]
    items = [barn.Passage(file, args.vehicle, *settings) for file in barn.world_files(args.scenarios)]
    # A comparison, without pass criteria.
    return Prepared(items, barn.work, barn.key, lambda runs, outcome: ("\n\n".join(map(markdown_table, barn.tables(runs))), True, {}),
                    {text.partition("=")[0]: text.partition("=")[2] for text in args.set})


def _driven(args: argparse.Namespace, settings: Settings) -> tuple[Sequence[Any], Callable[..., Reported]]:
    from lfdm_lab.studies import driving as studies

    seeds = _seeds(args)
    if args.study == "delay":
        return studies.delays(seeds, settings, args.vehicle), _report_delays
    if args.study == "lane_change":
        return studies.lane_changes(settings, args.vehicle, args.step if args.step is not None else 0.5), _report_lane_changes
    speeds = args.speeds or list(studies.SPEEDS)
    for speed in speeds:
        if speed not in studies.SPEEDS:
            raise InputError(f"--speeds {speed}: there are fields for {', '.join(map(str, studies.SPEEDS))} mph")
    if args.study == "density":
        for times in args.densities or ():
            if not 0.0 < times < math.inf:
                raise InputError(f"--densities {times:g}: give more than 0 times the shipped density")
        return studies.dense_fields(seeds, args.slow_seeds, args.densities or studies.DENSITIES, speeds,
                                    args.controllers or list(studies.RIVALS), settings, args.vehicle), _report_density
    controllers = args.controllers or list(studies.CONTROLLERS)
    for name in controllers:
        studies.controllers_settings(name, settings)
    slow = args.slow_seeds if args.slow_seeds is not None else SLOW_SEEDS
    return [*studies.fields(seeds, slow, speeds, controllers, settings, args.vehicle),
            *studies.suite(controllers, settings, args.vehicle)], _report_mpc


def _seeds(args: argparse.Namespace) -> int:
    return args.seeds if args.seeds is not None else SEEDS[args.study]


def _seed_range(args: argparse.Namespace) -> range:
    first = 1 if args.seed is None else args.seed
    return range(first, first + _seeds(args))


def _report_mpc(runs: Results, outcome: dict[str, Any]) -> Reported:
    from lfdm_lab.studies import driving_tables as tables
    from lfdm_lab.studies import pictures
    from lfdm_lab.studies.driving import FIELD
    from lfdm_ros.engine.run_report import failures

    in_fields = [run for run in runs if run["scenario"].startswith(FIELD)]
    suite = [run for run in runs if not run["scenario"].startswith(FIELD)]
    outcome["summary"] = summary = tables.summarise_fields(in_fields)
    outcome["failures"] = failed = failures(runs)
    parts = [markdown_table(tables.fields_table(summary))] if summary else []
    parts += [markdown_table(tables.suite_table(suite))] if suite else []
    parts.append("\n".join([f"failures: {len(failed) or 'none'}", *(f"- {line}" for line in failed)]))
    good = tables.passes(summary) and not [line for line in failures(suite) if ", mpc:" in line]
    return "\n\n".join(parts), good, {"fields": lambda: pictures.draw_fields(runs),
                                      "distributions": lambda: pictures.draw_distributions(runs)}


def _report_density(runs: Results, outcome: dict[str, Any]) -> Reported:
    from lfdm_lab.studies import driving_tables as tables
    from lfdm_lab.studies import pictures
    from lfdm_ros.engine.run_report import failures

    outcome["rows"] = rows = tables.summarise_density(runs)
    outcome["failures"] = collisions = [line for line in failures(runs) if ": hit " in line or ": diverged" in line]
    text = "\n\n".join([markdown_table(tables.density_table(rows)),
                        "\n".join([f"collisions: {len(collisions) or 'none'}", *(f"- {line}" for line in collisions)])])
    return text, tables.is_collision_free(rows), {"density": lambda: pictures.draw_density(rows)}


def _report_delays(runs: Results, outcome: dict[str, Any]) -> Reported:
    from lfdm_lab.studies import driving_tables as tables
    from lfdm_lab.studies import pictures
    from lfdm_ros.engine.run_report import failures

    outcome["summary"] = summary = tables.summarise_delays(runs)
    outcome["failures"] = failures(runs)
    # Without pass criteria.
    return markdown_table(tables.delays_table(summary)), True, {"delay": lambda: pictures.draw_delays(summary, runs)}


def _report_lane_changes(runs: Results, outcome: dict[str, Any]) -> Reported:
    from lfdm_lab.studies import driving_tables as tables
    from lfdm_lab.studies import pictures

    return markdown_table(tables.lane_change_table(runs)), True, {"lane_change": lambda: pictures.draw_lane_changes(runs)}


def _report_risk(runs: Results, outcome: dict[str, Any]) -> Reported:
    from lfdm_lab.studies import pictures, risk_validation
    from lfdm_ros.sharing.risk import FAILURES

    outcome["worlds"] = summary = risk_validation.summarise(runs)
    outcome["kinds"] = {kind: risk_validation.summarise(runs, kind) for kind in FAILURES}
    outcome["measures"] = measures = risk_validation.measures(runs)
    known = summary.get("known")
    if known is not None:
        outcome |= {name: known[name] for name in ("rows", "slope", "slope_se", "expected_calibration_error", "brier_skill")}
    good = known is not None and risk_validation.is_calibrated(known)
    text = "\n\n".join([markdown_table(risk_validation.table(summary)), markdown_table(risk_validation.measures_table(measures)),
                        f"the probability is {'right' if good else 'not right'} in the world that it knows (slope 0.9 to 1.1, calibration "
                        "error at most 0.03, Brier skill above 0)"])
    return text, good, {"reliability": lambda: pictures.draw_reliability(summary)}


def _report_sharing(runs: Results, outcome: dict[str, Any]) -> Reported:
    from lfdm_lab.studies import pictures, sharing

    outcome["rows"] = rows = sharing.summarise(runs)
    outcome["note"] = "the operator is simulated"
    shown = [sharing.table(rows), sharing.ablation_table(rows)]
    text = "\n\n".join(markdown_table(table) for table in shown if table[1])
    return text, sharing.is_beneficial(rows), {"sharing": lambda: pictures.draw_sharing(rows)}


def _report_movers(runs: Results, outcome: dict[str, Any]) -> Reported:
    from lfdm_lab.studies import movers, pictures

    outcome["rows"] = rows = movers.summarise(runs)
    return markdown_table(movers.table(rows)), not any(row["worse"] for row in rows), {"impacts": lambda: pictures.draw_impacts(runs)}


def _report_friction(runs: Results, outcome: dict[str, Any]) -> Reported:
    from lfdm_lab.studies import friction, pictures

    outcome["rows"] = rows = friction.rows(runs)
    # Without pass criteria.
    return "\n\n".join(markdown_table(table) for table in friction.tables(runs)), True, {
        "yaw_rates": lambda: pictures.draw_yaw_rates(runs), "spin_outs": lambda: pictures.draw_spin_outs(rows),
        "convergence": lambda: pictures.draw_convergence(runs)}


def parse_settings(texts: Sequence[str]) -> Settings:
    """Returns settings of a reproducible run (time_budget 0) with changes NAME=VALUE. Raises InputError: unknown setting, or invalid
    value."""
    from lfdm_ros.control.settings import SETTINGS

    return SETTINGS.kind(**{"time_budget": 0.0, **parse_changes(texts, [SETTINGS])[0]})


def _changed(settings: Any) -> dict[str, Any]:
    return {f.name: getattr(settings, f.name) for f in dataclasses.fields(settings) if getattr(settings, f.name) != f.default}


def print_progress(done: int, total: int, remaining: float) -> None:
    """Prints progress: at the first run, at each half percent, and at the last."""
    if 1 < done < total and done % max(1, total // 200) and not math.isnan(remaining):
        return
    cached = ", taken from earlier runs" if math.isnan(remaining) else ""
    time_left = f", {_duration(remaining)} left" if remaining > 0.0 else cached
    print(f"{done} of {total} runs{time_left}", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    """Formats a duration: 48 s, 12 min, 6 h 5 min."""
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of these studies."""
    parser.add_argument("--speeds", type=int, nargs="+", metavar="MPH", help="mpc, density: 20, 40, 60 mph, or some of them (default: all)")
    parser.add_argument("--densities", type=float, nargs="+", metavar="TIMES", help="density: of the fields, relative to the shipped one "
                        "(default 1 2 4 8 12 14)")
    parser.add_argument("--controllers", nargs="+", metavar="NAME", help="mpc: mpc, kinematic (the same with a kinematic model), ipopt (to "
                        "convergence; slow); density: mpc, kinematic (default: all), mppi; or some of them")
    parser.add_argument("--slow-seeds", type=int, metavar="N", help=f"mpc: fields at each speed for ipopt (default {SLOW_SEEDS}); "
                        "density: fields at each speed and density for all but mpc (default: a third of --seeds); "
                        "risk: episodes of each world but `known` (default: a quarter of --seeds)")
    parser.add_argument("--latencies", type=float, nargs="+", metavar="SEC", help="sharing: round-trip times of the operator's link "
                        "(default 0 0.2 0.5 0.8)")
    parser.add_argument("--scenarios", nargs="+", metavar="NAME", help="sharing: lane_change, obstacle_field, slippery_curve "
                        "(default), movers (all scenarios of the study movers), or some of them; movers: pedestrian_van, crossing, cut_in "
                        "and others (default: all), files, and folders of CommonRoad files; barn: files and folders of its worlds")
    parser.add_argument("--controls", nargs="+", metavar="NAME", help="sharing: operator, autonomy, shared, or some of them (default: all)")
    parser.add_argument("--ablation", action="store_true", help="sharing: also each threat component alone, and other "
                        "predictions of the operator, at --latencies (default 0.5) on the same seeds; and an autonomy with a blind sector")
    parser.add_argument("--record", type=Path, metavar="DIR", help="movers, sharing: repeat failed runs of the autonomy or of shared "
                        "control with recording, for `lfdm cockpit --bag`")
    parser.add_argument("--step", type=float, metavar="M/S", help="lane_change: steps of the entry speed (default 0.5 m/s)")
    parser.add_argument("--vehicle", metavar="NAME", help="mpc, delay, lane_change, density, radar, movers, barn, risk, friction: name or "
                        "file (default hmmwv)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="mpc, delay, lane_change, density, movers, "
                        "barn, risk: a setting of the controller or the risk; barn: also lattice_..., tracker_... and lidar_...; repeat")
    parser.add_argument("--json", action="store_true", help="studies of driving, from mpc on: print JSON instead of a table")

