"""Taking secrets and personal data out of a text, each replaced by a label that says what it was.

`redact_secrets` serves logs and events, `redact_all` summaries and exports (spec/planner.md,
Redaction). Dates, times, UUIDs, hashes, versions, plain numbers and line ranges stay:
a pattern must be sure, for what it takes is gone. Every pattern is linear in the
text: it begins at a literal or at the edge of a run, and its repetitions are bounded
or cannot give back.
"""

from __future__ import annotations

from zoea.text.redact import personal_data, secret_patterns


def redact_secrets(text: str) -> str:
    """The text with keys, tokens, passwords and private keys as `[REDACTED_…]`. Idempotent."""
    return secret_patterns.redact(text)


def redact_all(text: str) -> str:
    """As `redact_secrets`, and e-mail addresses, phone numbers, national ids, payment cards and IP addresses too."""
    return personal_data.redact(secret_patterns.redact(text))
