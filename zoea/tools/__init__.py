"""Tools of the myses: upstream MCP servers, policy, and Zoea's own.

Start with `Toolbox`. Importing this package does not load the MCP SDK; opening an upstream does.
"""

from zoea.tools.accounts_login import AccountKeeper
from zoea.tools.policy import ContextUse, OwnTools, SearchScope, Send, ToolPolicy
from zoea.tools.toolbox import Toolbox
from zoea.tools.upstream.upstream_client import Upstream
from zoea.tools.upstream.upstream_config import UpstreamConfig, resolve_upstream

__all__ = [
    "AccountKeeper",
    "ContextUse",
    "OwnTools",
    "SearchScope",
    "Send",
    "ToolPolicy",
    "Toolbox",
    "Upstream",
    "UpstreamConfig",
    "resolve_upstream",
]
