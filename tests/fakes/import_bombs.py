"""Runs one import command on files that are small, or plain, and would take gigabytes.

Usage: `python -m tests.fakes.import_bombs FOLDER COMMAND…`. Prints one line of JSON for each file: the exit code, what
the command wrote, and the most memory that it took besides what the process had before.

Bombs and the memory that a document may take are a sixteenth of their real size, because each is read by each command.
"""

from __future__ import annotations

import contextlib
import io
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cbor2
import zstandard
from blake3 import blake3

from zoea import __main__
from zoea.chain.bundle_file import BundleCommit, BundleHeader, BundleWriter, FrameKind
from zoea.chain.commit import Checkpoint, CommitIdentity, CommitType, commit_digest
from zoea.chain.formats import ZOEA, known_formats
from zoea.text import document_bounds
from zoea.transfer.jsonl_export import VERSION

MIB = 1024 * 1024
SCALE = 16
DOCUMENT_MEMORY = document_bounds.MOST_MEMORY // SCALE
MOST_MEMORY = 2048 * MIB
"""Address space of the process, so that a bomb that goes off takes no more."""
MESSAGE = b'{"role":"user","content":""}'
LINE = b'{"type":"user","message":{"role":"user","content":""}}\n'
CONVERSATIONS: dict[str, Callable[[], bytes]] = {
    "messages": lambda: b"[" + MESSAGE + (b"," + MESSAGE) * (900_000 // SCALE) + b"]",
    "empty lists": lambda: b"[[]" + b",[]" * (16_000_000 // SCALE) + b"]",
    "one object": lambda: b'{"messages":[' + b"{}," * (16_000_000 // SCALE) + b"{}]}",
    "wide text": lambda: b'[{"role":"user","content":"' + b"a" * (48 * MIB // SCALE) + "\N{ROCKET}".encode() + b'"}]',
    "escaped text": lambda: b'[{"role":"user","content":"\\ud83d\\ude80' + b"a" * (48 * MIB // SCALE) + b'"}]',
    "levels": lambda: b"[" * (1_000_000 // SCALE),
    "empty lines": lambda: b"\n" * (24 * MIB // SCALE),
    "lines": lambda: LINE * (600_000 // SCALE),
    "damaged lines": lambda: b"x\n" * (8_000_000 // SCALE),
}
"""Also put into bundles."""
HEADER = b'{"kind":"conversation","version":%d}\n' % VERSION
FILES: dict[str, Callable[[], bytes]] = {
    "rows": lambda: HEADER + b'{"kind":"tag","tag":"a"}\n' * (2_400_000 // SCALE),
    "a row of values": lambda: HEADER + b'{"kind":"tag","a":[' + b"[]," * (16_000_000 // SCALE) + b"1]}\n",
    "servers": lambda: b'{"mcpServers":{"a":{}' + b',"a":{}' * (130_000 // SCALE) + b"}}",
    # These take time, with the square of their size where no bound holds.
    "open comments": lambda: b"/*" * (3_000_000 // 8),
    "open texts": lambda: b'"\\' * (3_000_000 // 8),
    "commas": lambda: b"," + b"/**/" * (1_000_000 // 8),
}
DELTAS: dict[str, Callable[[], bytes]] = {
    "maps": lambda: _delta(b"\x9a" + (8_000_000).to_bytes(4, "big") + b"\xa0" * 8_000_000),
    "levels": lambda: _delta(b"\x81" * (1_000_000 // SCALE) + b"\x00"),
    "announced": lambda: _delta((b"\x9a" + (2**31).to_bytes(4, "big")) * 90),
    "endless": lambda: _delta(b"\x9f" * 1_000_000),
}


def _delta(entries: bytes) -> bytes:
    return b"\xa2\x61v\x01\x67entries" + entries


def bundle(format_name: str, data: bytes, *, lifted: bytes = b"", refs: int = 1) -> bytes:
    """Return a sound bundle of one commit, as an attacker would write it."""
    blobs = [one for one in (data, lifted) if one]
    own = blake3(data).digest()
    at = 1_700_000_000_000_000
    digest = commit_digest(parent=None, blob=own, principal="a", identity=CommitIdentity(1, None, None), created_at=at)
    commit = BundleCommit(
        id=digest.hex(),
        parent=None,
        type=CommitType.SNAPSHOT,
        blob=own.hex(),
        lifted=[blake3(lifted).hexdigest()] if lifted else [],
        format=format_name,
        template=None,
        principal="a",
        machine="",
        session=None,
        seq=1,
        checkpoint=Checkpoint.EXPLICIT,
        ticket=None,
        thread=None,
        messages=1,
        tokens=1,
        created_at=at,
        summary="",
        tags=[],
        model="",
    )
    stream = io.BytesIO()
    writer = BundleWriter(stream)
    named = {f"tag/{number}": commit.id for number in range(refs)}
    header = BundleHeader.model_construct(v=1, commits=1, blobs=len(blobs), refs=named)
    writer.write_record(FrameKind.HEADER, header)
    writer.write_record(FrameKind.COMMIT, commit)
    for one in blobs:
        writer.write_blob(blake3(one).digest(), len(one), zstandard.ZstdCompressor(level=3).compress(one))
    writer.finish()
    return stream.getvalue()


def make_bombs() -> Iterator[tuple[str, bytes, int]]:
    """Yield every bomb with its name and the number of bytes that it unpacks to.

    Each text comes as it is and in a bundle in each known format, each delta in a bundle.
    """
    small = cbor2.dumps({"v": 1, "entries": [{"r": "user", "c": "hi"}]}, canonical=True)
    yield "a bundle of names", bundle("zoea-v1", small, refs=200_000 // SCALE), 200_000 // SCALE * 72
    text = b"a" * (120 * MIB // SCALE)
    lifted = cbor2.CBORTag(23151, blake3(text).digest())
    long = cbor2.dumps({"v": 1, "entries": [{"r": "user", "c": lifted}] * 20}, canonical=True)
    yield "a bundle of a long text", bundle("zoea-v1", long, lifted=text), len(text)
    for name, make in DELTAS.items():
        data = make()
        yield f"a bundle of {name}", bundle("zoea-v1", data), len(data)
    for name, make in CONVERSATIONS.items():
        data = make()
        yield name, data, len(data)
        for format_name in known_formats().keys() - {ZOEA}:
            yield f"a bundle of {name} in {format_name}", bundle(format_name, data), len(data)
    for name, make in FILES.items():
        data = make()
        yield name, data, len(data)


def read_peak() -> int:
    """Return the bytes of memory that this program has had at most since `forget_peak`."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


def forget_peak() -> None:
    """Count the peak from what is in use now, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    folder, command = Path(sys.argv[1]), sys.argv[2:]
    is_option = command[-1] in ("", "@")  # what stands before the name of the file
    *command, mark = command if is_option else (*command, "")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    document_bounds.MOST_MEMORY = DOCUMENT_MEMORY
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        __main__.run([*command, f"{mark}{folder / 'none'}"])  # loads what the command needs
    for file in sorted(folder.iterdir()):
        forget_peak()
        wrote, before, begun = io.StringIO(), read_peak(), time.process_time()
        with contextlib.redirect_stdout(wrote), contextlib.redirect_stderr(wrote):
            code = __main__.run([*command, f"{mark}{file}"])
        took, seconds = read_peak() - before, round(time.process_time() - begun, 2)
        line = {"file": file.name, "code": code, "took": took, "seconds": seconds, "wrote": wrote.getvalue()[-300:]}
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
