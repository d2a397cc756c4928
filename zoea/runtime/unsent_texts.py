"""The file of texts that were typed in a cockpit and not sent, by recipient."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from zoea.model.errors import SettingsError
from zoea.settings.private_file import lock_file, write_private
from zoea.settings.small_file import read_small_text
from zoea.text.control_characters import clean

MOST_BYTES = 64_000_000
"""Bytes of a file that are read at most; one text has 4 million characters at most."""
BROADCAST = "broadcast"


def name_recipient(mysis_id: int, *, is_task: bool = False) -> str:
    """Return the key under which the unsent message or task for a mysis is kept."""
    return f"{'task of' if is_task else 'mysis'} {mysis_id}"


def name_limits(recipient: str) -> str:
    """Return the key under which the limits of an unsent text are kept."""
    return f"limits of {recipient}"


def name_identity(recipient: str) -> str:
    """Return the key of an id, which tells unsent texts of equal words apart."""
    return f"id of {recipient}"


def read_unsent(file: Path) -> dict[str, str]:
    """Return the texts by recipient; none where the file is absent or damaged.

    Raises:
        SettingsError: There is a file that cannot be read.
    """
    try:
        stored = json.loads(read_small_text(file, MOST_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(
            f"{file} cannot be read: {error.strerror}",
            hint="Make it readable or move it away; what you type and do not send is not saved until then.",
            title="Unsent texts cannot be read",
        ) from error
    except (ValueError, RecursionError):
        return {}
    texts = stored.items() if isinstance(stored, dict) else ()
    return {recipient: text for recipient, text in texts if isinstance(text, str)}


def change_unsent(file: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    """Write what `change` makes of the kept texts, without empty ones.

    Raises:
        SettingsError: The file cannot be read or written, or could not be read again; it is unchanged.
    """
    with lock_file(file):
        unsent = {recipient: clean(text) for recipient, text in change(read_unsent(file)).items() if text}
        text = json.dumps(unsent, ensure_ascii=False)
        if len(text.encode()) > MOST_BYTES:
            raise SettingsError(
                f"over {MOST_BYTES:,} bytes of unsent texts cannot be kept", hint="Send or clear some of them."
            )
        write_private(file, text)
