"""Zoea's own tools: schemas, arguments, handlers."""
