"""The laboratory of lfdm_ros: studies, benchmarks, fuzzers, soak runs and the tools that write the reference pages; commands of `lfdm`."""

from lfdm_ros.cli.commands import Command, register_command


def register() -> None:
    """Adds the laboratory's commands to `lfdm`."""
    for name, summary in (
        ("study", "run a series of calibrations or of drives, and summarise it"),
        ("bench", "measure what docs/reference/figures.md claims"),
        ("fuzz", "damage files and messages by seed, and count the outcomes"),
        ("soak", "run all nodes for a long time, and check memory, processes and messages"),
    ):
        register_command(Command(name, summary, f"lfdm_lab.cli.{name}"))
