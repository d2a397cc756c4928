"""What an external agent is told about the model gateway."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class GatewayAccess(Struct, frozen=True):
    """The addresses of the gateway for one mysis; the token stands in each path.

    Attributes:
        openai_url: Base of chat completions and responses, ends with `/v1`.
        anthropic_url: Base of Anthropic messages, without `/v1`.
        token: Also taken as a bearer token or `x-api-key`.
    """

    openai_url: str
    anthropic_url: str
    token: str


class ModelGateway(Protocol):
    """Lets external agents call models within the budgets of their myses."""

    async def open(self, mysis_id: int) -> GatewayAccess:
        """Return the access of a mysis; the first call opens the listener. Raises ZoeaError."""
        ...

    async def close(self, mysis_id: int) -> None:
        """Withdraw the access of a mysis."""
        ...
