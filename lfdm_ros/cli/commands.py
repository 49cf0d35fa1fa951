"""Commands of `lfdm` by name: those of this package, and those that others add by the entry point `lfdm_ros.commands`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lfdm_ros import plugins
from lfdm_ros.errors import InputError, quote


@dataclass(frozen=True)
class Command:
    """A command: its name, its one-line help, and the module that is imported only when it runs, so that `lfdm --help` stays fast.

    The module has a docstring, `EPILOG` (with an example), `add_arguments(parser)` and `run(args)`, which returns the exit status.
    """

    name: str
    summary: str
    module: str


class _Commands(Mapping[str, Command]):
    """Commands by name. Entry points are read for a name that is none of the package's own, and for a list."""

    def __init__(self, built_in: Mapping[str, str]) -> None:
        self._commands = {name: Command(name, summary, f"lfdm_ros.cli.{name}") for name, summary in built_in.items()}

    def add(self, command: Command) -> None:
        """Raises InputError for a name that is taken."""
        if self._commands.get(command.name, command) != command:
            raise InputError(f"command {quote(command.name)}: the name is taken; choose another one")
        self._commands[command.name] = command

    def _load(self) -> None:
        plugins.load({"lfdm_ros.commands": self.add})

    def __getitem__(self, name: str) -> Command:
        if name not in self._commands:
            self._load()
        return self._commands[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(tuple(self._commands))

    def __len__(self) -> int:
        self._load()
        return len(self._commands)


COMMANDS = _Commands({
    "doctor": "check the environment: compiler, wheels, RMW, messages, caches",
    "demo": "drive, record and calibrate a hidden vehicle on the real ROS graph",
    "list": "list the named scenarios, vehicles, grounds, recipes or stacks",
    "models": "list models; with a name its states, inputs, parameters and units",
    "export": "write a vehicle for other tools: FMU, C, WebAssembly, CasADi",
    "vehicle": "write a vehicle file, import one of the C++ library LFDM, show one, check its suspension",
    "simulate": "run a vehicle model on a file of driver inputs",
    "plot": "draw a run, from a CSV or a recording, beside another one",
    "soil": "list the named soils; sinkage and drawbar pull of a wheel on them",
    "drive": "let the controller or an operator drive a scenario, without ROS",
    "fmu": "describe an FMU; check a plant file by a short drive",
    "cockpit": "drive and watch a vehicle on a page in the browser",
    "teleop": "drive by the keys of this terminal, or a joystick, on ROS",
    "bag": "record, inspect and import rosbag2 recordings",
    "calibrate": "infer vehicle parameters from recordings",
    "predict": "compare a posterior or a vehicle with a recording",
    "sbc": "simulation-based calibration of a recipe: are its posteriors as wide as they say?",
    "up": "run a stack of nodes in one process",
    "topic": "list the topics of a running graph, show one, measure its rate, serve them to Lichtblick",
    "param": "list, show and set the parameters of running nodes",
    "call": "call a service or an action of a running graph",
    "layouts": "write files for RViz, Lichtblick and PlotJuggler that show a stack",
    "policy": "write the SROS2 security policy of a stack",
    "hil": "hardware in the loop: report a recording, compare two, try faults",
    "completion": "print a script that completes commands, options and names in bash or zsh",
})


def register_command(command: Command) -> None:
    """Adds a command. Raises InputError for a name that is taken."""
    COMMANDS.add(command)
