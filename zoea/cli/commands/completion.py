"""`zoea completion`: prints scripts that complete commands and names in bash, zsh and fish."""

from __future__ import annotations

from collections.abc import Iterator

from zoea.chain.commit import ContextCommit
from zoea.model.errors import StoreMissing, UsageError
from zoea.process.command_line import argument
from zoea.settings.paths import Places
from zoea.text.control_characters import one_line, prose_line
from zoea.text.shorten import head

NAMES = "names"
REVISIONS = "revisions"
_NEWEST = 50
"""Commits whose ids are offered."""
_ABOUT = 60
CONTEXTS = "ctx"
# Names are never expanded by a shell: `compgen -W` would run `$(…)` in one.
_BASH = """\
_zoea() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} name about
    # A word such as @alpha is several for bash: the part before the last stays on the line.
    local line=${{COMP_LINE:0:COMP_POINT}}
    local whole=${{line##* }}
    local before=${{whole%"$word"}}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
    elif [[ " {takes_name} " == *" ${{COMP_WORDS[1]}} "* ]]; then
        while IFS= read -r name; do
            [[ $name == "$word"* ]] && COMPREPLY+=("$(printf '%q' "$name")")
        done < <(zoea completion names 2>/dev/null)
    elif [[ ${{COMP_WORDS[1]}} == {contexts} && $COMP_CWORD -eq 2 ]]; then
        COMPREPLY=($(compgen -W "{subcommands}" -- "$word"))
    elif [[ ( ${{COMP_WORDS[1]}} == {contexts} && " {takes_none} " != *" ${{COMP_WORDS[2]}} "* ) ||
        " {takes_revision} " == *" ${{COMP_WORDS[1]}} "* || ${{COMP_WORDS[COMP_CWORD-1]}} == --from ]]; then
        while IFS=$'\t' read -r name about; do
            [[ $name == "$whole"* ]] && COMPREPLY+=("$(printf '%q' "${{name#"$before"}}")")
        done < <(zoea completion revisions 2>/dev/null)
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
    elif [[ ${{words[2]}} == {contexts} ]] && (( CURRENT == 3 )); then
        local -a subcommands=({subcommands})
        compadd -a subcommands
    elif [[ ${{words[2]}} == {contexts} && " {takes_none} " != *" ${{words[3]}} "* ||
        " {takes_revision} " == *" ${{words[2]}} "* || ${{words[CURRENT-1]}} == --from ]]; then
        local -a lines=("${{(@f)$(zoea completion revisions 2>/dev/null)}}") revisions shown
        local tab=$'\t' line
        for line in $lines; do
            revisions+=("${{line%%$tab*}}")
            shown+=("${{line//$tab/  }}")
        done
        compadd -l -d shown -a revisions
    else
        _files
    fi
}}
compdef _zoea zoea
"""


_FISH = (
    "-n '__fish_seen_subcommand_from {takes_name}' -f -a '(zoea completion names 2>/dev/null)'",
    "-n '__fish_seen_subcommand_from {contexts}; and not __fish_seen_subcommand_from {subcommands}' -f "
    "-a '{subcommands}'",
    "-n '__fish_seen_subcommand_from {takes_revision}; or begin; __fish_seen_subcommand_from {contexts}; "
    "and __fish_seen_subcommand_from {subcommands}; and not __fish_seen_subcommand_from {takes_none}; end' "
    "-f -a '(zoea completion revisions 2>/dev/null)'",
    "-l from -x -a '(zoea completion revisions 2>/dev/null)'",
)
"""What `complete` gets in fish, beside the commands."""


def completion(
    where: Places,
    shell: str = argument("SHELL", "bash, zsh or fish; or names or revisions, to list what is completed."),
) -> str | Iterator[str]:
    """Print a script that completes commands, names of myses and names of commits in bash, zsh or fish.

    Examples: zoea completion bash >> ~/.bashrc;
    zoea completion zsh >> ~/.zshrc;
    zoea completion fish > ~/.config/fish/completions/zoea.fish
    """
    if shell == NAMES:
        return iter(_read_names(where))
    if shell == REVISIONS:
        return (f"{revision}\t{about}" for revision, about in _read_revisions(where))
    return _make_script(shell).removesuffix("\n")


def _make_script(shell: str) -> str:
    """Return the script of a shell.

    Raises:
        UsageError: There is none for this shell.
    """
    from zoea.cli.dispatch import COMMANDS, load  # it imports this module by name

    summaries = {name: command.summary.replace("'", "’") for name, command in COMMANDS.items()}
    below = sorted(COMMANDS[CONTEXTS].below)

    def takes(kind: str, *names: str) -> bool:
        line = load(names)[0].line
        words = [one for one in line.parameters.values() if not one.names]
        return any(one.is_name if kind == NAMES else one.metavar.startswith("COMMIT") for one in words)

    words = {
        "takes_name": " ".join(name for name in summaries if takes(NAMES, name)),
        "takes_revision": " ".join(name for name in summaries if takes(REVISIONS, name)),
        "takes_none": " ".join(
            name for name in below if not takes(REVISIONS, CONTEXTS, name) and not takes(NAMES, CONTEXTS, name)
        ),
        "contexts": CONTEXTS,
        "subcommands": " ".join(below),
    }
    match shell:
        case "bash":
            return _BASH.format(commands=" ".join(summaries), **words)
        case "zsh":
            return _ZSH.format(described=" ".join(f"'{name}:{text}'" for name, text in summaries.items()), **words)
        case "fish":
            lines = [f"-n __fish_use_subcommand -f -a {name} -d '{text}'" for name, text in summaries.items()]
            lines += (line.format(**words) for line in _FISH)
            return "".join(f"complete -c zoea {line}\n" for line in lines)
    raise UsageError(f"there is no completion for {shell!r}", hint="There is one for bash, zsh and fish.")


def _read_names(where: Places) -> list[str]:
    """Return the names of the stored myses; none where there is no swarm yet."""
    from zoea.queries.stored_swarm import read_swarm_view

    try:
        return [one_line(view.name) for view in read_swarm_view(where.database).myses]
    except StoreMissing:
        return []


def _read_revisions(where: Places) -> list[tuple[str, str]]:
    """Return refs and the ids of the newest commits, with summaries. Branches are `NAME` and `@NAME`."""
    from zoea.chain.commit_rows import read_commit, read_newest, read_refs, shortest_id
    from zoea.cli.commands.context_access import open_contexts

    def about(commit: ContextCommit | None) -> str:
        return "" if commit is None else head(prose_line(commit.note.summary), _ABOUT)

    try:
        with open_contexts(where) as conn:
            revisions: list[tuple[str, str]] = []
            for name, seq in read_refs(conn).items():
                text = about(read_commit(conn, seq))
                bare = one_line(name).removeprefix("@")
                revisions += [(one, text) for one in dict.fromkeys((bare, one_line(name)))]
            return revisions + [(shortest_id(conn, one), about(one)) for one in read_newest(conn, _NEWEST)]
    except StoreMissing:
        return []
