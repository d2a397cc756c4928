"""What a project's files may do before the person has seen them, and the record that they did.

A project's `zoea.toml` comes with a checkout, so with a stranger's intentions. What it
could run, reach or read in the person's name takes effect only after `zoea trust`
recorded the hash of that very content; any change asks again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blake3 import blake3

from zoea.model.errors import TrustError
from zoea.settings.key_paths import KeyPath, format_key, get_value, merge_trees
from zoea.settings.private_file import write_private

ACTIVE: Mapping[str, frozenset[str]] = {
    "provider": frozenset({"base_url", "api_key", "headers"}),
    "upstream": frozenset({"command", "args", "env", "cwd", "url", "headers", "inject"}),
}
"""Keys of named entries that run, reach or read something: commands, addresses, headers, credentials."""

OPENING: Mapping[str, frozenset[str]] = {
    "mcp": frozenset({"http", "host", "port", "hosts"}),
    "memory": frozenset({"keep_days", "keep_memories"}),
}
"""Keys of plain sections that open a door of the person's machine, or let go what is stored there."""


@dataclass(frozen=True, slots=True)
class Trusted:
    """A recorded file: its hash as hex, and when (seconds since the epoch)."""

    file: Path
    digest: str
    at: int


class Trust:
    """The record of trusted files, `trusted.json` in the configuration directory.

    Raises TrustError where the record itself cannot be relied on.
    """

    def __init__(self, record: Path) -> None:
        self._record = record

    def holds(self, file: Path, raw: bytes) -> bool:
        """Whether exactly this content of this file is trusted."""
        return self._read().get(_key(file), {}).get("hash") == digest(raw)

    def add(self, file: Path, raw: bytes) -> None:
        """Record the content that the person was shown (not what the file may hold by now)."""
        record = self._read()
        record[_key(file)] = {"hash": digest(raw), "at": int(time.time())}
        self._write(record)

    def revoke(self, file: Path) -> bool:
        """Forget a file; False where it was not trusted."""
        record = self._read()
        if record.pop(_key(file), None) is None:
            return False
        self._write(record)
        return True

    def files(self) -> tuple[Trusted, ...]:
        return tuple(Trusted(Path(name), str(of["hash"]), int(of["at"])) for name, of in sorted(self._read().items()))

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            with self._record.open("rb") as stream:
                mode = os.fstat(stream.fileno()).st_mode
                raw = stream.read()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise TrustError(f"{self._record} cannot be read: {error.strerror}") from error
        if mode & 0o022:
            raise TrustError(
                f"{self._record} can be written by others, so it proves nothing",
                hint=f"Run `chmod 600 {self._record}` after checking `zoea trust --list`, or delete it.",
            )
        try:
            found = json.loads(raw)["files"]
            return {str(name): {"hash": str(of["hash"]), "at": int(of["at"])} for name, of in found.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise TrustError(f"{self._record} is damaged", hint="Delete it and run `zoea trust` again.") from error

    def _write(self, record: Mapping[str, Mapping[str, Any]]) -> None:
        write_private(self._record, json.dumps({"files": record}, indent=2, sort_keys=True) + "\n")


def digest(raw: bytes) -> str:
    return blake3(raw).hexdigest()


def _key(file: Path) -> str:
    return str(file.resolve())


def find_active_keys(tree: Mapping[str, Any]) -> tuple[KeyPath, ...]:
    """The keys of a project file that need trust, in its order."""
    named = tuple(
        (section, name, key)
        for section, active in ACTIVE.items()
        for name, entry in _entries(tree, section)
        for key in entry
        if key in active
    )
    plain = tuple((section, key) for section, opening in OPENING.items() for key in opening & _keys(tree, section))
    return (*named, *sorted(plain))


def inert_part(tree: Mapping[str, Any], below: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What of an untrusted file takes effect, and the keys that do not.

    `below` is what lower layers say. An entry that the file itself introduces and that
    needs trust is left out whole: half a provider would talk to another address.
    """
    result = merge_trees(tree, {})
    held = list(find_active_keys(tree))
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
    """The keys of a project's template that loosen what a person would be asked about, and so need trust."""
    held: list[KeyPath] = []
    if get_value(tree, ("tools", "ask_destructive")) is False:
        held.append(("tools", "ask_destructive"))
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
