"""The cockpit in a browser, metrics over HTTP, and the gateway of external agents."""
