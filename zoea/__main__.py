"""Entry point of the `zoea` command: turns errors into text and exit codes.

It imports at the top only what every command needs, to keep the start fast.
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
    """Run the command line of this process and return its exit code."""
    _open_streams()
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):
        from zoea import __version__

        sys.stdout.write(f"zoea {__version__}\n")
        return 0

    from zoea.process.gc_tuning import short_gc

    # Otherwise pydantic reads the metadata of every installed package to find plugins: 20 ms.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    with short_gc():
        return run(arguments)


def run(arguments: list[str]) -> int:
    """Run one command. Write an error to stderr as text, or with `--json` as one JSON object."""
    from zoea.model.errors import OwnerError, ZoeaError

    try:
        from zoea.cli import run as run_command

        if arguments[:1] == ["run"]:
            _offer_screen()
        elif arguments[:1] == ["serve"]:
            _offer_browsers()
        elif arguments[:2] == ["config", "check"]:
            _offer_cockpit_check()
        code = run_command(arguments)
        sys.stdout.flush()
        return code
    except ZoeaError as error:
        return _report(error, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit; /dev/null keeps that from failing again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            hint = "Raise the limit of the shell, as with `ulimit -n 1024`, and try again."
            return _report(OwnerError(f"too many files are open for {error.filename}", hint=hint), arguments)
        # A full or broken device behind stdout gets its own exit code; any other OSError is a bug and is raised.
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"The output cannot be written: {error.strerror}\n")
        return UNWRITABLE


def _report(error: ZoeaError, arguments: list[str]) -> int:
    sys.stderr.write(_as_json(error) if "--json" in arguments else as_text(error))
    return error.exit_code


def _open_streams() -> None:
    """Open /dev/null for each standard stream that was closed before the start."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  for the life of the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As on stderr: a character that the terminal's encoding lacks is escaped instead of raising.
        sys.stdout.reconfigure(errors="backslashreplace")


def _offer_screen() -> None:
    """Let `zoea run` open the cockpit; only this module imports both `cli` and `tui`."""
    from zoea.cli.commands import run

    def start(options: RunOptions, where: Places) -> int:
        import gc

        # Importing creates little garbage; the cockpit enables collection again after its first paint.
        gc.disable()
        from zoea.tui.start import start

        return start(options, where)

    run.open_screen = start


def _offer_cockpit_check() -> None:
    """Let `zoea config check` check themes and keys, which the cockpit reads."""
    from zoea.cli.commands import config
    from zoea.tui.commands.keymap import check_cockpit

    config.check_cockpit = check_cockpit


def _offer_browsers() -> None:
    """Tell `zoea serve` how to start the process that shows the cockpit to one browser."""
    from zoea.cli.commands import serve

    # -P keeps modules of the working directory from shadowing Zoea's.
    serve.cockpit = (sys.executable, "-P", "-m", "zoea.tui.terminal.browser_driver")


def as_text(error: ZoeaError) -> str:
    """Return title and cause on the first line, the hint on the second."""
    from zoea.text.control_characters import reveal

    hint = f"  {reveal(error.hint)}\n" if error.hint else ""
    return f"{error.title}: {reveal(error.what)}\n{hint}"


def _as_json(error: ZoeaError) -> str:
    from zoea.text.large_json import dump_shown

    return dump_shown({"error": error.as_dict()}) + "\n"


if __name__ == "__main__":
    sys.exit(main())
