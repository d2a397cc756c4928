"""Restrict a project's files until the user trusts them, and record that trust.

A project's `zoea.toml` comes with a checkout. Keys that run, reach or read something take effect
only after `zoea trust` recorded the hash of exactly that content.
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
from zoea.settings.key_paths import KeyPath, format_key, get_value, merge_trees
from zoea.settings.private_file import write_private

_LARGEST = 16_000_000
ACTIVE: Mapping[str, frozenset[str]] = {
    "provider": frozenset({"base_url", "api_key", "headers"}),
    "upstream": frozenset({"command", "args", "env", "cwd", "url", "headers", "inject"}),
}
"""Keys of named entries that run, reach or read something."""

OPENING: Mapping[str, frozenset[str]] = {
    "mcp": frozenset({"http", "host", "port", "hosts"}),
    "memory": frozenset({"keep_days", "keep_memories"}),
}
"""Keys of sections that open a network port or remove stored data."""


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
            if self._record.exists() and not self._record.is_file():  # a pipe or a device would be read without end
                raise TrustError(
                    f"{self._record} cannot be read: it is not a file", hint="Delete it and run `zoea trust` again."
                )
            with self._record.open("rb") as stream:
                mode = os.fstat(stream.fileno()).st_mode
                raw = stream.read(_LARGEST)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise TrustError(f"{self._record} cannot be read: {error.strerror}") from error
        if mode & 0o022:
            raise TrustError(
                f"{self._record} can be written by others, so it cannot be trusted",
                hint=f"Run `chmod 600 {self._record}` after checking `zoea trust --list`, or delete it.",
            )
        try:
            found = json.loads(raw)["files"]
            return {str(name): {"hash": str(of["hash"]), "at": int(of["at"])} for name, of in found.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise TrustError(f"{self._record} is damaged", hint="Delete it and run `zoea trust` again.") from error

    def _write(self, record: Mapping[str, Mapping[str, Any]]) -> None:
        write_private(self._record, json.dumps({"files": record}, indent=2, sort_keys=True) + "\n")


def hash_content(raw: bytes) -> str:
    return blake3(raw).hexdigest()


def _record_key(file: Path) -> str:
    return os.path.realpath(file)


def active_keys(tree: Mapping[str, Any]) -> tuple[KeyPath, ...]:
    """Return the keys of a project file that need trust, in file order."""
    named = tuple(
        (section, name, key)
        for section, active in ACTIVE.items()
        for name, entry in _entries(tree, section)
        for key in entry
        if key in active
    )
    plain = tuple((section, key) for section, opening in OPENING.items() for key in opening & _keys(tree, section))
    return (*named, *sorted(plain))


def split_inert(tree: Mapping[str, Any], below: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the part of an untrusted file that takes effect, and the keys that do not.

    `below` holds the values of lower layers. An entry that only this file defines and that needs trust
    is left out completely, because half a provider would talk to another address.
    """
    result = merge_trees(tree, {})
    held = list(active_keys(tree))
    for section, name, *_ in held:
        if get_value(below, (section, name)) is None:
            result[section].pop(name, None)
    for name, entry in _entries(tree, "provider"):
        known = get_value(below, ("provider", name, "type"))
        if known is not None and entry.get("type", known) != known:
            held.append(("provider", name, "type"))  # another type sends the key to another address
    for section, *above, key in held:
        entry = result[section].get(above[0], {}) if above else result[section]
        entry.pop(key, None)
    return result, tuple(map(format_key, held))


def find_untrusted_keys(tree: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of a project's template that need trust. They weaken approvals or make myses."""
    held: list[KeyPath] = []
    if get_value(tree, ("tools", "ask_destructive")) is False:
        held.append(("tools", "ask_destructive"))
    if get_value(tree, ("tools", "contexts")) == "command":
        held.append(("tools", "contexts"))
    if tree.get("search") == "swarm":
        held.append(("search",))
    if "extends" in tree:  # a list replaces its parent's, and may allow more or ask less
        held += [("tools", key) for key in ("allow", "deny", "ask") if get_value(tree, ("tools", key)) is not None]
    return tuple(map(format_key, held))


def _keys(tree: Mapping[str, Any], section: str) -> frozenset[str]:
    found = tree.get(section)
    return frozenset(found) if isinstance(found, Mapping) else frozenset()


def _entries(tree: Mapping[str, Any], section: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    named = tree.get(section)
    if not isinstance(named, Mapping):
        return ()
    return tuple((name, entry) for name, entry in named.items() if isinstance(entry, Mapping))
