"""Zoea as an MCP server: the swarm's memory and its inbox for agents and clients outside it.

`tokens`, `install` and `view` are light; `server`, `stdio` and `http` load the SDK
and are imported only where a client is served. Source: spec memory.md, "The MCP server".
"""
