"""The terminal around the cockpit: output, title, cursor, editor."""
