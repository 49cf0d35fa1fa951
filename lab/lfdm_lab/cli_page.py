"""The page docs/reference/cli.md, from the commands' parsers: python -m lfdm_lab.cli_page > docs/reference/cli.md"""

import argparse
import importlib
from collections.abc import Iterator

from lfdm_ros.cli.commands import COMMANDS

_LONGEST = 60  # characters of choices that are listed
_HEAD = """# Command line

Written by `python -m lfdm_lab.cli_page` from the parsers; a test compares both. `lfdm COMMAND --help` prints the same. Exit status:
0 success, 1 a run that failed, 2 bad usage or input, 130 after Ctrl-C, 143 after SIGTERM. `study`, `bench`, `fuzz` and `soak` are
the laboratory's, which `make` installs ([installation](../howto/install.md)).
"""


def markdown() -> str:
    """Returns the page: a section for each command, with a table of its arguments and its examples."""
    parts = [_HEAD]
    for name in COMMANDS:
        parser = parser_of(name)
        parts += [*_section(parser, 2, parser.epilog or "")]
    return "\n".join(parts)


def parser_of(name: str) -> argparse.ArgumentParser:
    """Returns the parser of a command."""
    module = importlib.import_module(COMMANDS[name].module)
    parser = argparse.ArgumentParser(prog=f"lfdm {name}", description=module.__doc__, epilog=module.EPILOG)
    module.add_arguments(parser)
    return parser


def _section(parser: argparse.ArgumentParser, level: int, outer_epilog: str, summary: str = "") -> Iterator[str]:
    # argparse has no public name for a parser's arguments.
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    nested = [action for action in actions if isinstance(action, argparse._SubParsersAction)]
    epilog = (parser.epilog or "").strip()
    yield f"{'#' * level} {parser.prog.replace(' ACTION', '')}\n"
    if text := _sentence(parser.description or summary):
        yield f"{text}\n"
    if rows := [f"| {_form(action)} | {_text(parser, action)} |" for action in actions if action not in nested]:
        yield "\n".join(["| argument | what |", "| --- | --- |", *rows, ""])
    if epilog and (level == 2 or epilog != outer_epilog.strip()):
        yield f"```text\n{epilog}\n```\n"
    for action in nested:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, choice in action.choices.items():
            yield from _section(choice, level + 1, outer_epilog, helps.get(name, ""))


def _sentence(text: str) -> str:
    text = _cell(text.strip().rstrip("."))
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _form(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {_value(action)}"
    if action.option_strings:
        return f"`{', '.join(action.option_strings)}{value}`" + (", required" if action.required else "")
    return f"`{value.strip()}`" + (", optional" if action.nargs in ("?", "*") else "")


def _value(action: argparse.Action) -> str:
    listed = "\\|".join(map(str, action.choices or ()))
    value = str(action.metavar or (listed if 0 < len(listed) <= _LONGEST else action.dest.upper()))
    return f"{value} ..." if action.nargs in ("+", "*", argparse.REMAINDER) else value


def _text(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return _cell(parser._get_formatter()._expand_help(action)) if action.help else ""


def _cell(text: str) -> str:
    """Returns a text in one line with escaped markup of tables and Markdown."""
    text = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return "".join(part if i % 2 else part.replace("*", "\\*").replace("_", "\\_") for i, part in enumerate(_quoted(text)))


def _quoted(text: str) -> list[str]:
    """Returns a text's parts, every second of them `code` with its quotes."""
    parts = text.split("`")
    return [f"`{part}`" if i % 2 else part for i, part in enumerate(parts)]


if __name__ == "__main__":
    print(markdown(), end="")
