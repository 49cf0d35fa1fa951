"""The laboratory of lfdm_ros: studies, benchmarks, fuzzers, soak runs and the tools that write the reference pages; commands of `lfdm`."""

from lfdm_ros.cli.commands import Command, register_command


def register() -> None:
    """Adds the laboratory's commands to `lfdm`."""
    for name, summary in (
        ("study", "ask many calibrations, or many drives of the controller, one question"),
        ("bench", "measure what docs/reference/figures.md claims"),
        ("fuzz", "damage what is read or heard, by seed, and count what becomes of it"),
        ("soak", "let all nodes drive for a long time, and see whether they grow or leave anything behind"),
    ):
        register_command(Command(name, summary, f"lfdm_lab.cli.{name}"))
