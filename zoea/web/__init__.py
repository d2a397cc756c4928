"""The cockpit in a browser, and metrics over HTTP."""
