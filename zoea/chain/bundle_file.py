"""The file format of bundles: a line, then frames of a length, a kind and bytes.

    zoea-bundle-1
    H  the header, JSON          one
    C  a commit, JSON            parents before their children
    B  a blob                    its BLAKE3 hash, its length in 8 bytes, its zstd form
    R  a redacted blob           its BLAKE3 hash and its length
    E  the end                   BLAKE3 of all bytes before this frame

A frame begins with the length of its bytes (4 bytes, the highest first) and its kind (1 byte).
"""

from __future__ import annotations

import io
import struct
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import BinaryIO, TypeVar

import zstandard
from blake3 import blake3
from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoea.chain.commit import Checkpoint, CommitType
from zoea.model.errors import ContextFormatError

MAGIC = b"zoea-bundle-1\n"
VERSION = 1
MOST_BLOB = 128 * 1024 * 1024
"""Bytes of the longest blob that is read, uncompressed."""
MOST_FRAME = MOST_BLOB + 16 * 1024 * 1024
"""Bytes of the longest frame that is read, of a blob that cannot be compressed."""
MOST_RECORD = 16 * 1024 * 1024
"""Bytes of the longest header or commit."""
MOST_WINDOW = 64 * 1024 * 1024
"""Bytes of a blob that its decompression may keep. Zoea's own need 8 MiB at most."""
MOST_COMMITS = 200_000
MOST_BLOBS = 2_000_000
MOST_REFS = 10_000
_CHUNK = 1024 * 1024
_HEAD = struct.Struct(">Ic")
_SIZE = struct.Struct(">Q")
_DIGEST = 32
_LARGEST = 2**62


class FrameKind(Enum):
    """The kinds of frames; see the module."""

    HEADER = b"H"
    COMMIT = b"C"
    BLOB = b"B"
    REDACTED = b"R"
    END = b"E"


class BundleFrame(Struct, frozen=True):
    """A frame, and the place of its first byte in the file."""

    kind: FrameKind
    offset: int
    data: bytes


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


Record = TypeVar("Record", bound=_Strict)


class BundleHeader(_Strict):
    """The counts of a bundle, and its refs with the ids of their commits."""

    v: int
    commits: int = Field(ge=1, le=MOST_COMMITS)
    blobs: int = Field(ge=1, le=MOST_BLOBS)
    refs: dict[str, str] = Field(max_length=MOST_REFS)


Digest = Field(pattern=r"^[0-9a-f]{64}$")
_Count = Field(ge=0, le=2**40)


class BundleCommit(_Strict):
    """A commit in a bundle: the fields behind its id, its summary and its tags."""

    id: str = Digest
    parent: str | None = Field(pattern=r"^[0-9a-f]{64}$")
    type: CommitType = Field(strict=False)
    blob: str = Digest
    lifted: list[str] = Field(max_length=100_000)
    format: str = Field(min_length=1, max_length=100)
    template: str | None = Field(pattern=r"^[0-9a-f]{64}$")
    principal: str = Field(min_length=1, max_length=200)
    machine: str = Field(max_length=300)
    session: int | None = Field(ge=0, le=_LARGEST)
    seq: int = Field(ge=1, le=_LARGEST)
    checkpoint: Checkpoint = Field(strict=False)
    ticket: str | None = Field(max_length=300)
    thread: str | None = Field(max_length=300)
    messages: int = _Count
    tokens: int = _Count
    created_at: int = Field(ge=0, le=_LARGEST)
    summary: str = Field(max_length=100_000)
    tags: list[str] = Field(max_length=1_000)
    model: str = Field(max_length=300)


def read_record(data: bytes, kind: type[Record]) -> Record:
    """Return the header or commit of a frame. Raises ContextFormatError."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(one) for one in first["loc"])
        hint = "Upgrade Zoea to read it." if first["type"] == "extra_forbidden" else ""
        raise ContextFormatError(f"a record of the bundle is wrong: {where}: {first['msg']}", hint=hint) from error


class BundleWriter:
    """Writes the frames of a bundle to a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._hasher = blake3()
        self._write(MAGIC)

    def write_record(self, kind: FrameKind, record: BundleHeader | BundleCommit) -> None:
        """Write a header or a commit."""
        self._frame(kind, record.model_dump_json().encode())

    def write_blob(self, digest: bytes, size: int, packed: bytes) -> None:
        """Write a blob with its compressed bytes."""
        self._frame(FrameKind.BLOB, digest + _SIZE.pack(size) + packed)

    def write_redacted(self, digest: bytes, size: int) -> None:
        """Write that a blob was redacted."""
        self._frame(FrameKind.REDACTED, digest + _SIZE.pack(size))

    def finish(self) -> None:
        """Write the last frame."""
        self._frame(FrameKind.END, self._hasher.digest())

    def _frame(self, kind: FrameKind, data: bytes) -> None:
        self._write(_HEAD.pack(len(data), kind.value) + data)

    def _write(self, data: bytes) -> None:
        self._hasher.update(data)
        self._stream.write(data)


def read_frames(stream: BinaryIO) -> Iterator[BundleFrame]:
    """Yield the frames of a bundle, and check the hash at its end.

    Raises:
        ContextFormatError: It is no bundle, is cut off, or was changed.
    """
    if stream.read(len(MAGIC)) != MAGIC:
        raise ContextFormatError("the file is no bundle of this version", hint="`zoea ctx export` writes bundles.")
    hasher = blake3(MAGIC)
    while True:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            raise _cut_off()
        length, kind = _HEAD.unpack(head)
        most = MOST_RECORD if kind in (FrameKind.HEADER.value, FrameKind.COMMIT.value) else MOST_FRAME
        if length > most:
            raise ContextFormatError(f"the bundle announces a part of {length:,} bytes, more than {most:,}")
        offset = stream.tell()
        data = stream.read(length)
        if len(data) < length:
            raise _cut_off()
        try:
            frame = BundleFrame(FrameKind(kind), offset, data)
        except ValueError:
            raise ContextFormatError(f"the bundle has a part of the unknown kind {kind!r}") from None
        if frame.kind is FrameKind.END:
            if data != hasher.digest():
                raise ContextFormatError("the bundle is damaged: its bytes are not those that were written")
            if stream.read(1):
                raise ContextFormatError("the bundle goes on after its end")
            return
        hasher.update(head + data)
        yield frame


def split_blob(frame: BundleFrame) -> tuple[bytes, int, bytes]:
    """Return the hash, length and compressed bytes of a blob, the last empty where redacted."""
    least = _DIGEST + _SIZE.size
    if len(frame.data) < least:
        raise ContextFormatError("a blob of the bundle is too short to have a hash and a length")
    size = _SIZE.unpack(frame.data[_DIGEST:least])[0]
    return frame.data[:_DIGEST], size, frame.data[least:]


def unpack_part(digest: bytes, size: int, packed: bytes) -> bytes:
    """Return the bytes of a blob that `check_part` has checked. Raises ContextFormatError."""
    with _named_damage(digest):
        return zstandard.ZstdDecompressor().decompress(packed, max_output_size=size, allow_extra_data=False)


def check_part(digest: bytes, size: int, packed: bytes) -> bool:
    """Check the length and hash of a blob, and return whether it is a text. Its bytes are not kept.

    Raises ContextFormatError.
    """
    name = digest.hex()[:16]
    if size > MOST_BLOB:
        raise ContextFormatError(f"blob {name} of the bundle has {size:,} bytes, more than {MOST_BLOB:,}")
    hasher, length, is_text = blake3(), 0, True
    decoder = getincrementaldecoder("utf-8")("surrogatepass")
    with _named_damage(digest):
        announced = zstandard.get_frame_parameters(packed).content_size
        if announced != size:
            raise ContextFormatError(f"blob {name} of the bundle announces {announced:,} bytes instead of {size:,}")
        unpacking = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW)
        with unpacking.stream_reader(io.BytesIO(packed), read_across_frames=False) as stream:
            while chunk := stream.read(_CHUNK):
                hasher.update(chunk)
                length += len(chunk)
                if is_text:
                    try:
                        decoder.decode(chunk, final=length == size)
                    except UnicodeDecodeError:
                        is_text = False
    if length != size or hasher.digest() != digest:
        raise ContextFormatError(f"blob {name} of the bundle does not match its hash")
    return is_text


@contextmanager
def _named_damage(digest: bytes) -> Iterator[None]:
    try:
        yield
    except zstandard.ZstdError as error:
        raise ContextFormatError(f"blob {digest.hex()[:16]} of the bundle is damaged: {error}") from error


def _cut_off() -> ContextFormatError:
    return ContextFormatError("the bundle is cut off: its end is missing", hint="Copy the file again.")
