"""The models that the servers of the providers list, read once for a dialog."""

from __future__ import annotations

from collections.abc import Callable

from zoea.model.errors import ZoeaError
from zoea.model.values import ProviderView
from zoea.tui.state.cockpit import Cockpit


class ServerModels:
    """Asks every provider for its models, which costs no tokens.

    Args:
        changed: Called when the models are known.
    """

    def __init__(self, cockpit: Cockpit, changed: Callable[[], None]) -> None:
        self._cockpit = cockpit
        self._changed = changed
        self._found: tuple[ProviderView, ...] = ()

    async def read(self) -> None:
        """Ask the providers. Where that fails, no model is offered and every name is taken as typed."""
        try:
            self._found = await self._cockpit.api.providers()
        except ZoeaError:
            return
        self._changed()

    def of(self, provider: str) -> tuple[str, ...] | None:
        """Return the models of a provider, the default one for an empty name. None where it lists none."""
        found = next((one for one in self._found if one.name == provider or (not provider and one.is_default)), None)
        return found.models or None if found is not None else None
