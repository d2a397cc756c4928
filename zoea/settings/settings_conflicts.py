"""Rules between the fields of settings, which no field can check alone."""

from __future__ import annotations

from zoea.settings.schema import Settings


def find_conflicts(settings: Settings) -> list[tuple[tuple[str, ...], str]]:
    """Return rules between fields that are broken, as (path, message)."""
    conflicts: list[tuple[tuple[str, ...], str]] = []
    budget = settings.budget
    if budget.token_budget_per_task < budget.token_budget_per_agent:
        conflicts.append(
            (
                ("budget", "token_budget_per_task"),
                f"{budget.token_budget_per_task} is below budget.token_budget_per_agent "
                f"({budget.token_budget_per_agent}); a turn must hold at least one request",
            )
        )
    if settings.llm.backoff_first > settings.llm.backoff_max:
        conflicts.append((("llm", "backoff_first"), "is above llm.backoff_max"))
    for name, upstream in settings.upstream.items():
        if bool(upstream.command) == bool(upstream.url):
            conflicts.append((("upstream", name), "needs either command or url, and not both"))
    default = settings.swarm.default_provider
    if default and settings.provider_named(default) is None:
        names = ", ".join(settings.provider) or "none is configured"
        conflicts.append((("swarm", "default_provider"), f"is not a configured provider ({names})"))
    return conflicts
