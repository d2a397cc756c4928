"""External agents over ACP: the model gateway that serves them, and Zoea as such an agent.

Each module is imported where it is used: `from zoea.agents.gateway import GatewayServer`.
"""
