"""The cockpit in a browser."""
