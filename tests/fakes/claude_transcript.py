"""Builds transcripts as Claude Code writes them, line by line."""

from __future__ import annotations

import json
from types import EllipsisType
from typing import Any

SESSION = "6b1c7a52-3f0e-4c11-9d55-7a0e5c2f9b01"


class Transcript:
    """Builds a transcript. Each line follows the one before unless it names another parent."""

    def __init__(self, **common: Any) -> None:
        self.lines: list[bytes] = []
        self.newest: str | None = None
        self._count = 0
        self._common = {"isSidechain": False, "cwd": "/srv/shop", "sessionId": SESSION, "version": "2.1.197", **common}

    def put(self, kind: str, parent: str | EllipsisType | None = ..., **fields: Any) -> str:
        """Add a line of the conversation, and return its uuid."""
        self._count += 1
        key = f"10000000-0000-4000-8000-{self._count:012d}"
        above = self.newest if isinstance(parent, EllipsisType) else parent
        at = self._count
        line = {"parentUuid": above, **self._common, "type": kind, "uuid": key, **fields}
        line.setdefault("timestamp", f"2025-09-21T{13 + at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}.000Z")
        self.lines.append(json.dumps(line, ensure_ascii=False).encode())
        self.newest = str(line["uuid"])
        return self.newest

    def user(self, content: str | list[dict[str, Any]], **fields: Any) -> str:
        return self.put("user", message={"role": "user", "content": content}, **fields)

    def answer(self, name: str, *blocks: dict[str, Any], model: str = "claude-reef-1", **fields: Any) -> str:
        """Add a line of an answer; lines with the same name are parts of one."""
        message = {"id": name, "type": "message", "role": "assistant", "model": model, "content": list(blocks)}
        return self.put("assistant", message=message, requestId=f"req-{name}", **fields)

    def result(self, call: str, content: str, **fields: Any) -> str:
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": content}], **fields)

    def queued(self, prompt: str | list[dict[str, Any]], mode: str = "prompt") -> str:
        """Add a message that came while the model worked."""
        return self.put("attachment", attachment={"type": "queued_command", "prompt": prompt, "commandMode": mode})

    def boundary(self, logical: str | None, **about: Any) -> str:
        """Add the line that stands before the summary of a compaction."""
        return self.put(
            "system",
            parent=None,
            subtype="compact_boundary",
            content="Conversation compacted",
            logicalParentUuid=logical,
            compactMetadata={"trigger": "auto", "preTokens": 9_000, **about},
        )

    def summary(self, text: str, **fields: Any) -> str:
        return self.user(text, isCompactSummary=True, isVisibleInTranscriptOnly=True, **fields)

    def side(self, kind: str, **fields: Any) -> None:
        """Add a line outside the conversation."""
        self.lines.append(json.dumps({"type": kind, **fields}).encode())

    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def thinking(content: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": content, "signature": "c2lnbmVk"}


def use(call: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "Read", "input": arguments}
