"""The swarm without a screen: commands, the headless run, JSON output.

`run` finds the command and imports only its module: starting time is a promise.
"""

from __future__ import annotations


def run(arguments: list[str]) -> int:
    """Run one command line without the program's name; its exit code.

    Raises:
        ZoeaError: what the person is to be told; the caller shows it.
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
