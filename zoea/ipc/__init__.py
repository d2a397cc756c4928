"""`SwarmApi` over a Unix socket: protocol, server, client, read-only client."""
