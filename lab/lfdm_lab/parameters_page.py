"""The page docs/reference/parameters.md, from the declarations: python -m lfdm_lab.parameters_page > docs/reference/parameters.md"""

from collections.abc import Iterable

from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.stacks.stack import EXECUTABLES, node_class

_LONGEST = 60  # characters of choices that are listed
_HEAD = """# Parameters

Written by `python -m lfdm_lab.parameters_page` from the declarations; a test compares both.

In a stack: `parameters: {NAME: VALUE}` of a node, or of all that have it; `lfdm up STACK --set NODE.NAME=VALUE`; with a ROS installation
`ros2 run lfdm_ros NODE --ros-args -p NAME:=VALUE`. Without ROS: `lfdm drive SCENARIO --set NAME=VALUE` for what the controller, its tracker
(`tracker_`), its lattice (`lattice_`) and the LIDAR (`lidar_`) have. *live*: it may change while the node is active (`lfdm param set`). *By
size*: the default is for vehicles of 4 m and longer; as long as it is not changed, lengths and speeds of a shorter one are in proportion to
its length, weights by their unit. The vehicle's own values, its body, mounts and actuators, are in [its file](../howto/vehicles.md).
"""


def markdown() -> str:
    """Returns the page: a table for each node that ships with the package."""
    return "\n".join([_HEAD, *("\n".join([f"## {name}", "", *_table(node_class(name).PARAMETERS), ""]) for name in EXECUTABLES)])


def _table(parameters: Iterable[Parameter]) -> list[str]:
    rows = [f"| `{p.name}` | {_value(p.default)} | {_range(p)} | {p.unit} | {p.description}{'; *live*' if p.live else ''}"
            f"{'; *by size*' if p.power else ''} |" for p in parameters]
    return ["| name | default | range | unit | what |", "| --- | --- | --- | --- | --- |", *rows]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if isinstance(value, int) else f"`{value}`" if value else "empty"


def _range(parameter: Parameter) -> str:
    p = parameter
    if allowed := p.allowed:
        listed = ", ".join(choice for choice in allowed if choice)
        return listed if len(listed) <= _LONGEST else f"{len(allowed)} names"
    if isinstance(p.default, bool) or not isinstance(p.default, (int, float)):
        return ""
    return f"{p.lower:g} to {p.upper:g}"


if __name__ == "__main__":
    print(markdown(), end="")
