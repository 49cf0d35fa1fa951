"""completion of commands, options and names for bash or zsh, as a script on stdout"""

import argparse
import importlib
from collections.abc import Iterator

from lfdm_ros.resources import config_names

EPILOG = """example:
  lfdm completion bash > ~/.local/share/bash-completion/completions/lfdm
  echo 'eval "$(lfdm completion zsh)"' >> ~/.zshrc       # or in ~/.bashrc with bash

Names are those of this version: make the script again after an update."""

# Folder of config/ with the names that an option or a positional argument accepts.
_NAMES = {"scenario": "scenarios", "vehicle": "vehicles", "ground": "grounds", "recipe": "calibration", "stack": "stacks", "soil": "soils",
          "soils": "soils"}
_BASH = """_lfdm() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" names=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    names="{commands}"
  else
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}} $prev" in
{values}
    esac
    if [ -z "$names" ]; then
      case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}" in
{options}
      esac
    fi
  fi
  COMPREPLY=( $(compgen -W "$names" -- "$cur") )
}}
complete -o default -F _lfdm lfdm
"""
_ZSH = "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh"))


def run(args: argparse.Namespace) -> int:
    from lfdm_ros.cli.commands import COMMANDS

    values, options = list[str](), list[str]()
    for command, found in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"lfdm {command}")
        importlib.import_module(found.module).add_arguments(parser)
        for path, subparser in _parsers(command, parser):
            whole, words = path if " " in path else f"{path} *", list[str]()
            for action in subparser._actions:  # argparse has no public name for them
                if action.help == argparse.SUPPRESS:
                    continue
                words += action.option_strings or _choices(action)
                if action.option_strings and action.nargs != 0 and (choices := _choices(action)):
                    values += [f'      "{whole} {option}") names="{" ".join(choices)}" ;;' for option in action.option_strings]
            options.append(f'        "{whole}") names="{" ".join(words)}" ;;')
    # Patterns with a second word precede those that match any.
    script = _BASH.format(commands=" ".join(COMMANDS), values=_cases(values), options=_cases(options))
    print((_ZSH if args.shell == "zsh" else "") + script, end="")
    return 0


def _parsers(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, subparser in action.choices.items():
                yield f"{path} {name}", subparser


def _choices(action: argparse.Action) -> list[str]:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.dest == "model":
        from lfdm_ros.models import model_names

        return list(model_names())
    kind = _NAMES.get(action.dest)
    return config_names(kind) if kind else []


def _cases(lines: list[str]) -> str:
    """Patterns of case, in which only the star is not quoted."""
    lines = sorted(lines, key=lambda line: " *" in line.partition(")")[0])
    return "\n".join(line.replace(' *"', ' "*', 1) if ' *")' in line else line.replace(" * ", ' "*" ', 1) for line in lines)
