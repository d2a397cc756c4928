"""Sessions with the MCP servers that offer tools to the myses."""
