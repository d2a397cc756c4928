"""Zoea as an MCP server: the swarm's memory and its inbox for agents and clients outside it.

`tokens`, `install`, `address` and `door` are light; `server`, `stdio`, `http` and `alone` load the SDK
and are imported only where a client is served. Source: spec memory.md, "The MCP server".
"""
