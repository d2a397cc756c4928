"""Zoea as an MCP server: the swarm's memory and inbox for other programs.

`tokens`, `client_configs`, `address` and `supervisor` are light; `factory`, `resources` and the
transports load the SDK and are imported only to serve a client.
"""
