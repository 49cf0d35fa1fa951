"""Models by name."""

from __future__ import annotations

from lfdm_ros.errors import InputError
from lfdm_ros.models import eight_dof
from lfdm_ros.models.declaration import Model

_MODELS = {model.name: model for model in (eight_dof.MODEL,)}


def model_names() -> tuple[str, ...]:
    """The names that `get_model` knows."""
    return tuple(_MODELS)


def get_model(name: str) -> Model:
    """Looks a model up.

    Raises:
        InputError: no such model; the message lists those there are.
    """
    if name not in _MODELS:
        raise InputError(f"no model '{name}'; choose one of: {', '.join(_MODELS)}")
    return _MODELS[name]
