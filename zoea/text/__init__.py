"""What can be done to a text without knowing what it is for. Pure: no clock, no files, no state.

`clean` is the store's edge and `estimate.tokens` is made once, before storing;
`cut` shortens for requests and screens, `redact` takes secrets and personal data
out of logs and exports, `control` makes a text harmless to a terminal. Each is a module
of its own, loaded where it is used: `from zoea.text import cut`.
"""

from __future__ import annotations

from zoea.text.control_characters import clean

__all__ = ["clean"]
