"""Conversation of a mysis as lines: read, split into blocks, paint, lay out."""
