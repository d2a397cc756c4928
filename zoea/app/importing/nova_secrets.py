"""What must not come along from Zoea Nova: passwords of accounts, and whatever looks like a key. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from zoea.text import clean
from zoea.text.redact import secrets
from zoea.text.redact.within import within_text

PASSWORD = "[REDACTED_PASSWORD]"


class Secrets:
    """Takes secrets out of texts, and counts the texts that had some.

    Args:
        passwords: Of the accounts, wherever they stand; longest first.
    """

    def __init__(self, passwords: Sequence[str]) -> None:
        self.count = 0
        self._known = re.compile("|".join(map(re.escape, passwords))) if passwords else None

    def text(self, text: str) -> str:
        """What somebody said, as it may be stored."""
        return self._counted(text, secrets(self._without_known(clean(text))))

    def json(self, text: str) -> str:
        """Arguments or a result, which stay JSON where they are."""
        return self._counted(text, within_text(self._without_known(clean(text)), secrets))

    def _without_known(self, text: str) -> str:
        return self._known.sub(PASSWORD, text) if self._known else text

    def _counted(self, before: str, after: str) -> str:
        self.count += after != clean(before)
        return after
