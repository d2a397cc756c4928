"""A program that tells how it was started, and ends as it is told to."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any


def describe_start() -> dict[str, Any]:
    """Describe what a process has from its parent."""
    streams = [
        [one.encoding, one.errors, one.isatty(), one.line_buffering, getattr(one, "write_through", None), one.newlines]
        for one in (sys.stdin, sys.stdout, sys.stderr)
    ]
    return {
        "arguments": sys.argv[1:],
        "command": Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0"),
        "main": sys.modules["__main__"].__name__,
        "folder": str(Path.cwd()),
        "path": sys.path,
        "links": [str(Path(one).readlink()) for one in sys.argv[2:] if one.startswith("/proc/")],
        "environment": dict(os.environ),
        "is_session": os.getsid(0) == os.getpid(),
        "parent": os.getppid(),
        "umask": os.umask(0o022),
        "zone": [*time.tzname, time.localtime(0).tm_hour],
        "streams": streams,
        "ignored": [one.name for one in signal.Signals if signal.getsignal(one) == signal.SIG_IGN],
        "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "descriptors": sorted(int(one.name) for one in Path("/proc/self/fd").iterdir())[:4],
        "most_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "threads": threading.active_count(),
        "typed": sys.stdin.read(),
    }


def main(ending: str) -> None:
    """Tell how the program was started, then end in the named way."""
    json.dump(describe_start(), sys.stdout)
    match ending:
        case "code":
            sys.exit(70)
        case "text":
            sys.exit("the reason")
        case "error":
            raise ValueError("a defect")
        case "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        case "interrupt":
            raise KeyboardInterrupt
        case "thread":
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            sys.exit(3)


if __name__ == "__main__":
    main(sys.argv[1])
