"""The command line: commands, the headless run, JSON output.

`run` imports only the module of the command that is called, to keep the start fast.
"""

from __future__ import annotations


def run(arguments: list[str]) -> int:
    """Run one command line, given without the program's name, and return the exit code.

    Raises:
        ZoeaError: The command failed; the caller shows the error.
    """
    from zoea.cli.dispatch import dispatch

    return dispatch(arguments)
