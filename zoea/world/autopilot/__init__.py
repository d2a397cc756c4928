"""Provider without a model: plays Reef by rules, from the request alone."""

from __future__ import annotations

from zoea.world.autopilot.autopilot_provider import AutopilotProvider

__all__ = ["AutopilotProvider"]
