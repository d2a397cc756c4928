-- What a message overrides for the turn that it opens (documentation/guide/conversation-window.md), as a JSON object; empty for nothing.

ALTER TABLE message ADD COLUMN context TEXT NOT NULL DEFAULT '';
