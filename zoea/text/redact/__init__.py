"""Replace secrets and personal data in a text by labels.

`redact_secrets` serves logs and events, `redact_all` summaries and exports. Dates, times, UUIDs,
hashes, versions, plain numbers and line ranges stay: a pattern must be certain, because redaction
loses data. Every pattern runs in linear time: it starts at a literal or at the edge of a run, and
its repetitions are bounded or possessive.
"""

from __future__ import annotations

from zoea.text.redact import personal_data, secret_patterns


def redact_secrets(text: str) -> str:
    """Replace keys, tokens, passwords and private keys by `[REDACTED_…]`. Idempotent."""
    return secret_patterns.redact(text)


def redact_all(text: str) -> str:
    """Also replace e-mail addresses, phone numbers, national ids, IBANs, payment cards and IP addresses."""
    return personal_data.redact(secret_patterns.redact(text))
