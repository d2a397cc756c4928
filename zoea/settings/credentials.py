"""Read and store secrets: environment, keyring, or a private file of the workspace.

Settings hold references (`env:NAME`, `keyring:NAME`, `file:NAME`), which are resolved as late as
possible. Values are `SecretStr`, so that no `repr`, log, traceback or error shows them.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from zoea.model.errors import SettingsError
from zoea.settings.endpoints import REFERENCE
from zoea.settings.private_file import describe_failure, lock_file, write_private
from zoea.settings.small_file import open_regular

KEYRING_SERVICE = "zoea"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@ -]{0,127}")
_FILE_HEAD = "# Written by Zoea. Keep it closed to others: chmod 600.\n\n[credentials]\n"
_EMBEDDED = re.compile(r"\{((?:env|keyring|file):[^{}]+)\}")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class CredentialMissing(SettingsError):
    """A reference has no value."""

    title = "A credential is missing"


class Credentials:
    """The credentials of one workspace.

    Args:
        file: The workspace's `credentials.toml`; created by the first `set`.
        env: The environment for `env:` references.
    """

    def __init__(self, file: Path, env: Mapping[str, str] | None = None) -> None:
        self._file = file
        self._env = os.environ if env is None else env
        self._seen: tuple[tuple[int, int, int], dict[str, str]] | None = None

    def __repr__(self) -> str:
        return f"Credentials({str(self._file)!r})"

    def resolve(self, reference: str) -> SecretStr:
        """Return the value of a reference.

        Raises:
            CredentialMissing: There is no value.
            SettingsError: The text is not a reference.
        """
        match = REFERENCE.fullmatch(reference)
        if match is None:
            raise SettingsError(
                "a credential is not named as env:NAME, keyring:NAME or file:NAME",
                hint="Store it with `zoea credentials set NAME` and write file:NAME.",
            )
        kind, name = match.groups()
        match kind:
            case "env":
                return self._from_environment(name)
            case "keyring":
                return self._from_keyring(name)
            case _:
                return self._from_file(name)

    def fill(self, text: str | SecretStr) -> SecretStr:
        """Resolve a header, variable or argument: a reference, or a text with `{references}` in it."""
        plain = text.get_secret_value() if isinstance(text, SecretStr) else text
        if REFERENCE.fullmatch(plain):
            return self.resolve(plain)
        return SecretStr(_EMBEDDED.sub(lambda match: self.resolve(match[1]).get_secret_value(), plain))

    def values_in(self, text: str | SecretStr) -> list[str]:
        """Return the values that `fill` puts into a text."""
        plain = text.get_secret_value() if isinstance(text, SecretStr) else text
        references = [plain] if REFERENCE.fullmatch(plain) else _EMBEDDED.findall(plain)
        return [self.resolve(reference).get_secret_value() for reference in references]

    def get(self, name: str) -> SecretStr | None:
        """Return a value from the file, or None."""
        value = self._read().get(name)
        return None if value is None else SecretStr(value)

    def set(self, name: str, value: str | SecretStr) -> None:
        """Store a value in the file.

        Raises:
            SettingsError: The name is invalid or the value empty.
        """
        self.set_many({name: value})

    def set_many(self, values: Mapping[str, str | SecretStr]) -> None:
        """Store several values in one write."""
        plain = {name: one.get_secret_value() if isinstance(one, SecretStr) else one for name, one in values.items()}
        for name, value in plain.items():
            _check_entry(name, value)
        with self._changing() as stored:
            stored.update(plain)

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename values of the file in one write. A value with the new name is replaced."""
        with self._changing() as stored:
            for old, new in names.items():
                if old in stored:
                    stored[new] = stored.pop(old)

    def delete(self, name: str) -> bool:
        """Remove a value from the file; return False if there was none."""
        with self._changing() as stored:
            return stored.pop(name, None) is not None

    def names(self) -> tuple[str, ...]:
        """Return the names in the file. A keyring cannot be listed."""
        return tuple(sorted(self._read()))

    def with_prefix(self, prefix: str) -> dict[str, SecretStr]:
        """Return the file's values by the rest of their name, for names with this prefix."""
        return {
            name.removeprefix(prefix): SecretStr(value)
            for name, value in sorted(self._read().items())
            if name.startswith(prefix)
        }

    def set_in_keyring(self, name: str, value: str | SecretStr) -> None:
        """Store a value in the system's keyring.

        Raises:
            SettingsError: There is no keyring.
        """
        plain = value.get_secret_value() if isinstance(value, SecretStr) else value
        _check_entry(name, plain)
        _keyring("set_password", KEYRING_SERVICE, name, plain)

    def delete_from_keyring(self, name: str) -> bool:
        """Remove a value from the keyring; return False if there was none."""
        if _keyring("get_password", KEYRING_SERVICE, name) is None:
            return False
        _keyring("delete_password", KEYRING_SERVICE, name)
        return True

    def _from_environment(self, name: str) -> SecretStr:
        if value := self._env.get(name):
            return SecretStr(value)
        raise CredentialMissing(f"env:{name}: the variable {name} is not set", hint=f"Set {name} and start Zoea again.")

    def _from_keyring(self, name: str) -> SecretStr:
        if value := _keyring("get_password", KEYRING_SERVICE, name):
            return SecretStr(str(value))
        raise CredentialMissing(
            f"keyring:{name}: the keyring has no such entry", hint=f"Run `zoea credentials set {name} --keyring`."
        )

    def _from_file(self, name: str) -> SecretStr:
        if (value := self.get(name)) is not None:
            return value
        raise CredentialMissing(
            f"file:{name}: {self._file} has no such entry", hint=f"Run `zoea credentials set {name}`."
        )

    def _changing(self) -> _FileChange:
        return _FileChange(self._file, self._read)

    def _read(self) -> dict[str, str]:
        """Return the file's values, read again only if it has changed."""
        try:
            stream = open_regular(self._file, os.O_NOFOLLOW)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SettingsError(
                f"{self._file} cannot be read: {describe_failure(error)}",
                hint="Put the file itself there, readable by you alone, or store the keys again after removing it.",
            ) from error
        with stream:
            stat = os.fstat(stream.fileno())
            if stat.st_mode & 0o077:
                raise SettingsError(
                    f"{self._file} can be read by others (mode {stat.st_mode & 0o777:04o})",
                    hint=f"Run `chmod 600 {self._file}`; if others may have read it, replace the keys in it.",
                    title="Credentials are readable by others",
                )
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if self._seen and self._seen[0] == stamp:
                return dict(self._seen[1])
            raw = stream.read()
        values = parse_credentials(self._file, raw)
        self._seen = (stamp, values)
        return dict(values)


class _FileChange:
    """Locks the file, lends its values to the block, and writes back changes."""

    def __init__(self, file: Path, read: Any) -> None:
        self._file = file
        self._read = read
        self._lock = lock_file(file)
        self._before: dict[str, str] = {}
        self._values: dict[str, str] = {}

    def __enter__(self) -> dict[str, str]:
        self._lock.__enter__()
        try:
            self._before = self._read()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        self._values = dict(self._before)
        return self._values

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None and self._values != self._before:
                lines = (f"{quote_toml(name)} = {quote_toml(value)}\n" for name, value in sorted(self._values.items()))
                write_private(self._file, _FILE_HEAD + "".join(lines))
        finally:
            self._lock.__exit__(None, None, None)


def parse_credentials(file: Path, raw: bytes) -> dict[str, str]:
    """Parse the file; error messages never contain its text."""
    values: object = None
    try:
        values = tomllib.loads(raw.decode("utf-8")).get("credentials", {})
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise SettingsError(
            f"{file} is not a credentials file", hint='It has one table, [credentials], with lines like NAME = "value".'
        )
    return values


def _check_entry(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise SettingsError(
            "a credential's name is 1 to 128 letters, digits, spaces or any of _ . / @ -",
            hint="Enter a name, not the secret: `zoea credentials set NAME`.",
        )
    if not value:
        raise SettingsError(f"the value for {name} is empty")
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise SettingsError(f"the value for {name} contains NUL or invalid Unicode")


def quote_toml(value: str) -> str:
    """Quote a text as a TOML basic string."""
    return '"' + "".join(_ESCAPES.get(char) or _escaped(char) for char in value) + '"'


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x20 or ord(char) == 0x7F else char


def _keyring(call: str, *args: str) -> Any:
    """Call the keyring library, which is an optional extra and may lack a backend."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise SettingsError(
            "the keyring library is not installed", hint="Install `zoea[keyring]`, or use file: or env: instead."
        ) from None
    try:
        return getattr(keyring, call)(*args)
    except KeyringError as error:
        raise SettingsError(
            f"the keyring cannot be used: {type(error).__name__}", hint="Unlock it, or use file: or env: instead."
        ) from None
