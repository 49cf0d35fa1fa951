"""Self-contained report of a bridge's recording: timing, faults, responses; and comparison of two recordings."""

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lfdm_ros.bags import Bag, open_bag
from lfdm_ros.calibration.plots import to_image
from lfdm_ros.errors import InputError
from lfdm_ros.hil.real_time import quantile_of
from lfdm_ros.reports import COLOURS, PALE, html_page, html_table

STATUS, FAULTS = "lfdm_ros/msg/HilStatus", "lfdm_ros/msg/HilFaults"
STATE, COMMAND = "lfdm_ros/msg/VehicleState", "lfdm_ros/msg/DriverCommand"
# Topics of the wall clock or the machine, which differ between runs.
OF_THE_CLOCK = ("/diagnostics", "/rosout", "/parameter_events")

_PLOTTED = (("steering, throttle, brake", "control/command", ("steering", "throttle", "brake"), "1"),
            ("speed", "vehicle/state", ("vx",), "m/s"), ("yaw rate", "vehicle/state", ("yaw_rate",), "rad/s"),
            ("lateral position", "vehicle/state", ("y",), "m"), ("lateral acceleration", "vehicle/state", ("ay",), "m/s²"),
            ("yaw rate as measured", "measured/state", ("yaw_rate",), "rad/s"))
_TIMED = (("lateness", "delay of a tick's start after its deadline"), ("periods", "time from tick to tick"),
          ("work", "duration of a tick"), ("responses", "from sending a state to the device's answer"))


@dataclass
class _RecordedRun:
    """Contents of a bag: the last status, spans of faults [s], and series by topic: times [s] and messages."""

    status: Any = None
    faults: list[tuple[str, float, float]] = field(default_factory=list)
    series: dict[str, tuple[list[float], list[Any]]] = field(default_factory=dict)


def report(path: str | Path) -> str:
    """Returns the page of a bag. Raises InputError: no bag, or one without messages of a bridge."""
    with open_bag(path) as bag:
        run = _read(bag)
        note = bag.note
    if run.status is None:
        raise InputError(f"{path} has no messages of hil_bridge (hil/status); record a run of it, for example lfdm up hil --record BAG")
    s = run.status
    title = f"Hardware in the loop: {Path(path).resolve().name}"
    parts = [f"<h1>{_e(title)}</h1>",
             f"<p>Role {_e(s.role)}, link {_e(s.link)}, {_e(s.mode.replace('_', ' '))}, {1.0 / s.period:g} Hz. The operating system: "
             f"{_e(s.real_time or 'no requests')}.</p>"]
    parts += [f"<p>In the cockpit: <code>lfdm cockpit --bag {_e(str(path))}</code></p>"]
    parts += [f"<p class=warn>{_e(note)}</p>"] if note else []
    parts += ["<h2>Timing</h2>", *_timing(s), "<h2>Link</h2>", *_link(s), "<h2>Faults</h2>", *_faults(run), "<h2>Responses</h2>",
              *_responses(run)]
    return html_page(_e(title), parts)


def _read(bag: Bag) -> _RecordedRun:
    run = _RecordedRun()
    began: dict[str, float] = {}
    connections = [c for c in bag.connections if c.msgtype in (STATUS, FAULTS) or (
        c.msgtype in (STATE, COMMAND) and any(c.topic.endswith(topic) for _, topic, _, _ in _PLOTTED))]
    latest = 0.0
    for connection, _, cdr in bag.raw(connections) if connections else ():
        message = bag.decode(cdr, connection.msgtype)
        time = message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec
        latest = max(latest, time)
        if connection.msgtype == STATUS:
            run.status = message
        elif connection.msgtype == FAULTS:
            for text in [text for text in began if text not in message.active]:
                run.faults.append((text, began.pop(text), time))
            for text in message.active:
                began.setdefault(text, time)
        else:
            times, messages = run.series.setdefault(connection.topic, ([], []))
            times.append(time)
            messages.append(message)
    run.faults += [(text, since, latest) for text, since in began.items()]
    run.faults.sort(key=lambda fault: fault[1])
    return run


def _timing(s: Any) -> Iterable[str]:
    yield html_table(("ticks", "missed deadlines", "periods left out", "policy", "worst lateness"),
                 [(str(s.ticks), str(s.misses), str(s.skipped), s.policy, _duration(s.worst_lateness))])
    rows = []
    for name, text in _TIMED:
        counts = np.array(getattr(s, name))
        if counts.sum():
            quantiles = [_duration(quantile_of(counts, share)) for share in (0.5, 0.99, 0.999, 1.0)]
            rows.append((f"{name}: {text}", str(counts.sum()), *quantiles))
    yield html_table(("", "number", "median", "99 %", "99.9 %", "largest"), rows)
    yield "<p class=small>Upper edges of the histograms' bins: up to a third above the value.</p>"
    for name, text in _TIMED:
        counts = np.array(getattr(s, name))
        if counts.sum():
            yield f"<h3>{_e(name)}</h3><p class=small>{_e(text)}</p>{_bars(np.array(s.edges), counts)}"


def _link(s: Any) -> Iterable[str]:
    refused = [(f"refused: {name}", str(count)) for name, count in zip(s.refused_names, s.refused_counts)]
    yield html_table(("", "number"), [
        ("packets sent", str(s.sent)), ("packets received", str(s.received)), *refused,
        ("commands refused by the gate", str(s.commands_rejected)), ("ticks without an answer", str(s.unanswered))])


def _faults(run: _RecordedRun) -> Iterable[str]:
    if not run.faults:
        yield "<p>None were injected.</p>"
        return
    yield html_table(("fault", "from", "until"), [(text, f"{since:.3f} s", f"{until:.3f} s") for text, since, until in run.faults])


def _responses(run: _RecordedRun) -> Iterable[str]:
    spans = [(since, until) for _, since, until in run.faults]
    for title, topic, fields, unit in _PLOTTED:
        for recorded, (times, messages) in run.series.items():
            if not recorded.endswith(topic):
                continue
            values = np.array([[getattr(message, name) for name in fields] for message in messages])
            if np.isfinite(values).any():
                yield f"<h3>{_e(title)} [{_e(unit)}], {_e(recorded)}</h3>{_lines(np.array(times), values, fields, spans)}"


def _bars(edges: np.ndarray, counts: np.ndarray) -> str:
    """Draws a histogram on a square-root scale, so that single ticks are visible beside thousands."""
    used = np.flatnonzero(counts)
    first, last = max(used[0] - 1, 0), min(used[-1] + 2, len(counts))
    figure, axis = _axis()
    axis.bar(range(first, last), counts[first:last], 0.9, align="edge", color=COLOURS[0])
    axis.set_yscale("function", functions=(np.sqrt, np.square))
    ticks = range(first, last, max(1, (last - first) // 10))
    axis.set_xticks(ticks, [_duration(edges[k]) for k in ticks])
    return to_image(figure)


def _lines(times: np.ndarray, values: np.ndarray, names: Sequence[str], spans: Sequence[tuple[float, float]]) -> str:
    figure, axis = _axis()
    for since, until in spans:
        axis.axvspan(since, until, color=PALE, alpha=0.5, lw=0.0)
    for name, column, colour in zip(names, values.T, COLOURS):
        axis.plot(times, column, color=colour, lw=1.1, label=name)
    axis.set_xlabel("time [s]", fontsize=8)
    if len(names) > 1:
        axis.legend(fontsize=8, ncols=len(names), frameon=False)
    return to_image(figure)


def _axis() -> tuple[Figure, Any]:
    figure = Figure(figsize=(9.0, 2.0), layout="constrained")
    axis = figure.subplots()
    axis.tick_params(labelsize=8)
    axis.margins(x=0)
    return figure, axis


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "-"
    scale, unit = (1e6, "µs") if seconds < 1e-3 else (1e3, "ms") if seconds < 1.0 else (1.0, "s")
    return f"{scale * seconds:.3g} {unit}"


def _e(text: str) -> str:
    return html.escape(str(text))


def differences(one: str | Path, other: str | Path) -> tuple[dict[str, int], list[str]]:
    """Compares two bags: returns the number of messages of each identical topic, and a line for each difference.

    Decoded messages are compared in order, without recording times; a repeated message counts once. Topics of the wall clock are left out:
    diagnostics, logs, hil/status, simulator/status. Raises InputError: one is no bag.
    """
    first, second = _contents(one), _contents(other)
    lines = [f"{topic}: only in {one}" for topic in sorted(first.keys() - second.keys())]
    lines += [f"{topic}: only in {other}" for topic in sorted(second.keys() - first.keys())]
    same: dict[str, int] = {}
    for topic in sorted(first.keys() & second.keys()):
        a, b = first[topic], second[topic]
        if a == b:
            same[topic] = len(a)
            continue
        place = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        lines.append(f"{topic}: {len(a)} and {len(b)} messages, the first that differs is number {place}")
    return same, lines


def _contents(path: str | Path) -> dict[str, list[bytes]]:
    contents: dict[str, list[bytes]] = {}
    with open_bag(path) as bag:
        for connection, _, cdr in bag.raw():
            if connection.topic in OF_THE_CLOCK or connection.msgtype in (STATUS, "lfdm_ros/msg/SimulatorStatus"):
                continue
            message = bytes(bag.typestore.serialize_cdr(bag.decode(cdr, connection.msgtype), connection.msgtype))
            messages = contents.setdefault(connection.topic, [])
            if not messages or messages[-1] != message:
                messages.append(message)
    return contents
