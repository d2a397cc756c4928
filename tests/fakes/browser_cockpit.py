"""A small process that speaks Textual's web protocol, in place of a cockpit.

Writes its process id and size first, then repeats each packet. The argument selects a fault: `deaf` never
ends by itself, `mute` ends before the greeting, `sudden` ends after its first packet, `wordy` writes more
than a pipe holds before it ends, `silent` never greets, `stuck` reads nothing, `endless` draws without end.
"""

from __future__ import annotations

import os
import sys
import time


def show(kind: bytes, text: bytes) -> None:
    os.write(1, kind + len(text).to_bytes(4, "big") + text)


def main(behaviour: str) -> None:
    if behaviour == "mute":
        os.write(2, b"No running swarm: \x1b[31mnobody answers\n")
        sys.exit(5)
    while behaviour == "silent":
        time.sleep(60)
    os.write(1, b"__GANGLION__\n")
    show(b"D", f"{os.getpid()} {os.environ['COLUMNS']}x{os.environ['ROWS']}".encode())
    if behaviour == "sudden":
        show(b"M", b'{"type": "exit"}')
        return
    while behaviour == "stuck":
        time.sleep(60)
    while behaviour == "endless":
        show(b"D", b"x" * 65_536)
    while head := sys.stdin.buffer.read(5):
        payload = sys.stdin.buffer.read(int.from_bytes(head[1:], "big"))
        show(b"D", head[:1] + payload)
    if behaviour == "wordy":
        for _ in range(32):
            show(b"D", b"x" * 65_536)
    while behaviour == "deaf":
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
