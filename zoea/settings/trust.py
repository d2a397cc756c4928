"""Record which files of projects a person trusts.

A project's `zoea.toml` and templates come with a checkout. What they say counts only after `zoea trust` has recorded
the hash of exactly that content; `inert_keys.py` knows the exceptions.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blake3 import blake3
from msgspec import Struct

from zoea.model.errors import TrustError
from zoea.settings.private_file import describe_failure, write_private
from zoea.settings.small_file import open_regular

_LARGEST = 16_000_000


class TrustedFile(Struct, frozen=True):
    """A recorded file with its hash (hex) and time (seconds since the epoch)."""

    file: Path
    digest: str
    at: int


class Trust:
    """The record of trusted files, `trusted.json` in the configuration directory.

    Raises TrustError if the record is unreadable, damaged, or writable by others.
    """

    def __init__(self, record: Path) -> None:
        self._record = record

    def is_trusted(self, file: Path, raw: bytes) -> bool:
        """Return whether exactly this content of the file is trusted."""
        return self._read().get(_record_key(file), {}).get("hash") == hash_content(raw)

    def add(self, file: Path, raw: bytes) -> None:
        """Record the content shown to the user, which may differ from the file's current content."""
        record = self._read()
        record[_record_key(file)] = {"hash": hash_content(raw), "at": int(time.time())}
        self._write(record)

    def revoke(self, file: Path) -> bool:
        """Remove a file from the record; return False if it was not trusted."""
        record = self._read()
        if record.pop(_record_key(file), None) is None:
            return False
        self._write(record)
        return True

    def files(self) -> tuple[TrustedFile, ...]:
        return tuple(
            TrustedFile(Path(name), str(of["hash"]), int(of["at"])) for name, of in sorted(self._read().items())
        )

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            with open_regular(self._record, os.O_NOFOLLOW) as stream:
                status = os.fstat(stream.fileno())
                raw = stream.read(_LARGEST)
        except FileNotFoundError:
            return {}
        except OSError as error:
            what = f"{self._record} cannot be read: {describe_failure(error)}"
            raise TrustError(what, hint="Delete it and run `zoea trust` again.") from error
        if status.st_mode & 0o022 or status.st_uid not in (os.getuid(), 0):
            raise TrustError(
                f"{self._record} can be written by others, so it cannot be trusted",
                hint=f"Run `chmod 600 {self._record}` after checking `zoea trust --list`, or delete it.",
            )
        try:
            files = json.loads(raw)["files"]
            return {str(name): {"hash": str(of["hash"]), "at": int(of["at"])} for name, of in files.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise TrustError(f"{self._record} is damaged", hint="Delete it and run `zoea trust` again.") from error

    def _write(self, record: Mapping[str, Mapping[str, Any]]) -> None:
        write_private(self._record, json.dumps({"files": record}, indent=2, sort_keys=True) + "\n")


def hash_content(raw: bytes) -> str:
    return blake3(raw).hexdigest()


def _record_key(file: Path) -> str:
    return os.path.realpath(file)
