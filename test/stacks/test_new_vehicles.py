"""A vehicle of `lfdm vehicle new` drives in the stacks that ship: they leave open what they need not pin."""

import pytest

from lfdm_ros.resources import share_directory
from lfdm_ros.ros.runtime import Runtime
from lfdm_ros.stacks.compose import make_node
from lfdm_ros.stacks.stack import NodeEntry, load_stack
from lfdm_ros.vehicles import CLASSES, save_vehicle, typical_vehicle

SIZES = {"car": (1500.0, 2.7), "suv": (2200.0, 2.9), "racing": (700.0, 2.97), "small": (1.6, 0.174)}  # kg, m


def with_vehicle(path: str, kind: str) -> dict[str, NodeEntry]:
    """The nodes of all stacks that have a vehicle, set to this one: of the smallest class all that are configured differently, of the
    others each executable once."""
    found: dict[str, NodeEntry] = {}
    for stack in sorted((share_directory() / "config" / "stacks").glob("*.yaml")):
        for entry in load_stack(stack.stem).nodes:
            if "vehicle" in entry.table:
                entry = entry.with_parameter("vehicle", path, "vehicle")
                found.setdefault(f"{entry.executable} {entry.parameters if kind == 'small' else ''}", entry)
    return found


@pytest.mark.parametrize("kind", CLASSES)
def test_every_stack_takes_a_new_vehicle_of_every_class(kind: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / f"{kind}.yaml"
    save_vehicle(typical_vehicle(kind, *SIZES[kind], kind, {}), path)
    for entry in with_vehicle(str(path), kind).values():
        with Runtime() as runtime:
            node = make_node(entry, runtime)
            runtime.add(node)
            node.bring_up("configure")  # raises with the node's reason
