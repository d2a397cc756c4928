"""Modal dialogs, each with its style file beside it."""
