"""`zoea`, the command.

The one place where an error becomes text and an exit code. It is imported before
anything else, so it imports nothing that a command may not need.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoea.model.errors import ZoeaError
    from zoea.runtime.run_options import RunOptions
    from zoea.settings.paths import Places

INTERRUPTED = 130
BROKEN_PIPE = 141
UNWRITABLE = 74


def main() -> int:
    """Run the command line of this process; its exit code."""
    _open_streams()
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from zoea import __version__

        sys.stdout.write(f"zoea {__version__}\n")
        return 0
    return run(arguments)


def run(arguments: list[str]) -> int:
    """Run one command; errors go to stderr, as text or with `--json` as one JSON object."""
    from zoea.model.errors import ZoeaError

    try:
        from zoea.cli import run as run_command

        if arguments[:1] == ["run"]:
            _offer_screen()
        elif arguments[:1] == ["serve"]:
            _offer_browsers()
        code = run_command(arguments)
        sys.stdout.flush()
        return code
    except ZoeaError as error:
        sys.stderr.write(_as_json(error) if "--json" in arguments else as_text(error))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has what it wanted. The interpreter flushes once more at its end: give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        # What was to be said cannot be: a full device behind stdout. Anything else nobody foresaw is told as it is.
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"The output cannot be written: {error.strerror}\n")
        return UNWRITABLE


def _open_streams() -> None:
    """Standard streams that were closed before the start lead nowhere instead of being None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  for the life of the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As stderr does by itself: a name that is no UTF-8, or a terminal that knows no arrows, costs nobody the rest.
        sys.stdout.reconfigure(errors="backslashreplace")


def _offer_screen() -> None:
    """Let `zoea run` open the cockpit: the two fronts know nothing of each other, only this module knows both."""
    from zoea.cli import cockpit_start

    def start(options: RunOptions, where: Places) -> int:
        import gc

        # Hardly anything of what is imported now is garbage: the cockpit looks for it again after its first paint.
        gc.disable()
        from zoea.tui.start import start

        return start(options, where)

    cockpit_start.open_screen = start


def _offer_browsers() -> None:
    """Let `zoea serve` start a cockpit for each browser: a process, as Textual shows one app in each."""
    from zoea.cli.commands import serve

    # -P: what lies in the working directory is none of Zoea's modules.
    serve.cockpit = (sys.executable, "-P", "-m", "zoea.tui.terminal.browser_driver")


def as_text(error: ZoeaError) -> str:
    """Title and what happened on the first line, what to do below."""
    from zoea.text.control_characters import strip

    hint = f"  {strip(error.hint)}\n" if error.hint else ""
    return f"{error.title}: {strip(error.what)}\n{hint}"


def _as_json(error: ZoeaError) -> str:
    import json

    return json.dumps({"error": error.as_dict()}, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
