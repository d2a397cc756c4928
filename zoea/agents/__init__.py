"""External agents over the Agent Client Protocol: their processes, sessions and data files.

Only this package and `acp_server` import `acp`, this one only where an agent is started, because that takes half
a second.
"""
