"""Sessions with the MCP servers whose tools the myses use."""
