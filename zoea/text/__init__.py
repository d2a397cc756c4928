"""Pure text functions: clean, estimate, shorten, redact, escape hidden characters.

Each module is imported where it is used: `from zoea.text import shorten`.
"""

from __future__ import annotations

from zoea.text.control_characters import clean

__all__ = ["clean"]
