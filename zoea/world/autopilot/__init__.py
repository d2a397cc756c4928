"""A provider without a model: it plays Reef by rules, from the request alone."""

from __future__ import annotations

from zoea.world.autopilot.autopilot_provider import AutopilotProvider

__all__ = ["AutopilotProvider"]
