"""The health of a node as a line in /diagnostics: errors, refused inputs, and other publishers of its own topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from lfdm_ros.bounds import Refusals

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
# (level, one line, values by name)
Diagnosis = tuple[bytes, str, dict[str, Any]]


class Health:
    """Counts of errors and refused inputs, beside the node's own diagnosis.

    Attributes:
        caught: number of exceptions that came out of callbacks, by their text.
    """

    def __init__(self) -> None:
        self.caught: Counter[str] = Counter()
        self._refused_before = 0

    def status(self, name: str, diagnosis: Diagnosis, refusals: Refusals, others: str) -> DiagnosticArray:
        """Makes the message, without its stamp.

        Args:
            name: of the node.
            diagnosis: by the node itself; the worst of all counts.
            refusals: inputs refused so far.
            others: other publishers of what this node alone should publish, in one line.
        """
        level, summary, values = diagnosis
        refused, self._refused_before = refusals.total - self._refused_before, refusals.total
        if refused > 0:
            text = f"{refused} inputs refused, the last one: {refusals.last}"
            level, summary = (WARN, text) if level == OK else (level, f"{summary}; {text}")
        if others and level == OK:
            level, summary = WARN, others
        if self.caught:
            level, summary = ERROR, f"internal error in {'; '.join(f'{text}, {count} x' for text, count in self.caught.items())}"
        values = {**values, **refusals.diagnosis(), **({"published_by_others": others} if others else {})}
        return DiagnosticArray(status=[DiagnosticStatus(
            level=level, name=name, message=summary, hardware_id="lfdm_ros",
            values=[KeyValue(key=key, value=_text(value)) for key, value in values.items()])])


def other_publishers(node: Any, topics: Iterable[str]) -> str:
    """Names other publishers of topics that this node alone should publish, in one line; '': none."""
    found = []
    for topic in topics:
        names = [f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in node.get_publishers_info_by_topic(topic)]
        if node.get_fully_qualified_name() in names:
            names.remove(node.get_fully_qualified_name())
        found += [f"{node.resolve_topic_name(topic)} is published by {name} too" for name in sorted(set(names))]
    return "; ".join(found)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
