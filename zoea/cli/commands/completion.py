"""`zoea completion`: scripts that complete commands and names of myses in bash, zsh and fish."""

from __future__ import annotations

from typing import Annotated

import typer

from zoea.cli.options import Workspace
from zoea.model.errors import StoreMissing, UsageError
from zoea.settings import places
from zoea.text.control_characters import one_line

NAMES = "names"
TAKES_NAME = (
    "show", "send", "start", "stop", "configure", "delete", "dismiss", "log", "export", "explain", "hold", "withdraw",
)  # fmt: skip
"""Commands whose arguments are names of myses."""

# Names are never expanded by a shell: `compgen -W` would run `$(…)` in one.
_BASH = """\
_zoea() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} name
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
    elif [[ " {takes_name} " == *" ${{COMP_WORDS[1]}} "* ]]; then
        while IFS= read -r name; do
            [[ $name == "$word"* ]] && COMPREPLY+=("$(printf '%q' "$name")")
        done < <(zoea completion names 2>/dev/null)
    fi
}}
complete -o default -F _zoea zoea
"""
_ZSH = """\
#compdef zoea
_zoea() {{
    if (( CURRENT == 2 )); then
        local -a commands=({described})
        _describe command commands
    elif [[ " {takes_name} " == *" ${{words[2]}} "* ]]; then
        local -a names=("${{(@f)$(zoea completion names 2>/dev/null)}}")
        compadd -a names
    else
        _files
    fi
}}
compdef _zoea zoea
"""


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish; or names, to list the myses.")],
    workspace: Workspace = "",
) -> None:
    """Print a script that completes commands and names of myses.

    Examples: zoea completion bash >> ~/.bashrc;
    zoea completion zsh >> ~/.zshrc;
    zoea completion fish > ~/.config/fish/completions/zoea.fish
    """
    if shell == NAMES:
        for name in _read_names(workspace):
            typer.echo(name)
        return
    from zoea.cli.dispatch import COMMANDS  # it imports this module by name

    summaries = {name: command.summary.replace("'", "’") for name, command in COMMANDS.items()}
    takes_name = " ".join(TAKES_NAME)
    match shell:
        case "bash":
            script = _BASH.format(commands=" ".join(summaries), takes_name=takes_name)
        case "zsh":
            described = " ".join(f"'{name}:{text}'" for name, text in summaries.items())
            script = _ZSH.format(described=described, takes_name=takes_name)
        case "fish":
            lines = [
                f"complete -c zoea -n __fish_use_subcommand -f -a {name} -d '{summaries[name]}'" for name in summaries
            ]
            lines.append(
                f"complete -c zoea -n '__fish_seen_subcommand_from {takes_name}' -f "
                "-a '(zoea completion names 2>/dev/null)'"
            )
            script = "\n".join(lines) + "\n"
        case _:
            raise UsageError(f"there is no completion for {shell!r}", hint="There is one for bash, zsh and fish.")
    typer.echo(script, nl=False)


def _read_names(workspace: str) -> list[str]:
    """Return the names of the stored myses; none where there is no swarm yet."""
    from zoea.queries.stored_swarm import read_swarm_view

    try:
        return [one_line(view.name) for view in read_swarm_view(places(workspace).database).myses]
    except StoreMissing:
        return []
