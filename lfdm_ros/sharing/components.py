"""The components of the threat by name: what ships with the package, and what is registered from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from lfdm_ros import documents, plugins
from lfdm_ros.errors import InputError, quote
from lfdm_ros.parameters import Declared, Exposed
from lfdm_ros.sharing.clearance import Clearance
from lfdm_ros.sharing.demand import Demand
from lfdm_ros.sharing.load_transfer import LoadTransfer
from lfdm_ros.sharing.risk_threat import RiskThreat
from lfdm_ros.sharing.sideslip import Sideslip
from lfdm_ros.sharing.threat import Component

COMPONENTS: plugins.Door[type[Component]] = plugins.Door(
    "threat", "lfdm_ros.threats", Component, "assess", Sideslip, Demand, Clearance, LoadTransfer, RiskThreat)
register_component = COMPONENTS.register


def make_components(names: Sequence[str], changes: Sequence[str] = ()) -> tuple[Component, ...]:
    """Components by name.

    Args:
        changes: of settings, NAME.SETTING=VALUE; also of components that are not asked for, which has no effect.

    Raises:
        InputError: no such component or setting, a name twice, or a value that does not fit.
    """
    known, settings = tuple(COMPONENTS), dict[str, dict[str, Any]]()
    for name in names:
        COMPONENTS.find(name)
        if names.count(name) > 1:
            raise InputError(f"threat '{name}' is given twice")
        settings[name] = {}
    for change in changes:
        path, equals, text = change.partition("=")
        name, dot, setting = path.strip().partition(".")
        if not (equals and dot) or name not in known:
            raise InputError(f"{quote(change)}: write NAME.SETTING=VALUE, NAME one of {', '.join(known)}")
        value = _setting(name, setting, text)
        if name in settings:
            settings[name][setting] = value
    return tuple(COMPONENTS[name](**values) for name, values in settings.items())


def _setting(name: str, setting: str, text: str) -> Any:
    kind = COMPONENTS[name]
    table = Exposed(cast(Any, kind)).by_field if issubclass(cast(type, kind), Declared) else {}
    if setting not in table:
        raise InputError(f"threat '{name}' has no setting {quote(setting)}; it has {', '.join(table) or 'none'}")
    where = f"{name}.{setting}"
    return table[setting].convert(documents.parse_yaml(text, where), where)
