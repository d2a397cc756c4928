"""The command line: commands, the headless run, JSON output.

`run` imports only the module of the command that is called, to keep the start fast.
"""

from __future__ import annotations


def run(arguments: list[str]) -> int:
    """Run one command line, given without the program's name, and return the exit code.

    Raises:
        ZoeaError: The command failed; the caller shows the error.
    """
    from zoea.cli import notices

    notices.is_silent = "--json" in arguments
    if arguments[:1] == ["list"]:
        from zoea.cli.list_command import plain_arguments, write_list

        if (plain := plain_arguments(arguments[1:])) is not None:
            write_list(*plain)
            return 0
    if arguments[:1] == ["run"]:
        from zoea.cli.cockpit_start import open_plainly

        if (code := open_plainly(arguments[1:])) is not None:
            return code
    from zoea.cli.dispatch import dispatch

    return dispatch(arguments)
