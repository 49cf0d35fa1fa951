"""What the C++ library LFDM does differently from physics, as a slot: vehicles imported from its files have `lfdm`."""

from __future__ import annotations

from typing import Any

from lfdm_ros.models.declaration import Part


def build(m: Any) -> Any:
    """Conventions have no equations of their own; chassis and parts are told which."""
    return m.namespace()


PHYSICS = Part("physics", "as the equations of motion say", (), build)
LFDM = Part("lfdm", "the choices of the C++ library, docs/lfdm_differences.md", (), build)
