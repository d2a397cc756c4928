"""`zoea providers`: list the providers in reach, each tried with one free request."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial

from zoea.cli import output
from zoea.cli.output import Output
from zoea.cli.swarm_access import edit
from zoea.llm.discovery import PORTS, ProbeResult, ProbeStatus, ProviderChoice
from zoea.llm.model_traits import describe_trait, is_trait
from zoea.llm.provider_config import SLOW_READING
from zoea.model.enums import ToolMode
from zoea.model.errors import StoreError, UsageError
from zoea.process.command_line import option
from zoea.queries.model_records import ModelFact, read_model_facts
from zoea.runtime.model_discovery import build_discovery
from zoea.settings.layers import load
from zoea.settings.paths import Places
from zoea.settings.schema import Settings
from zoea.swarm.persistence import model_facts
from zoea.text.control_characters import reveal
from zoea.text.sentences import count_of

CONTEXT_WINDOW, READING_RATE, TOOL_MODE = "context_window", "reading_rate", "tool_mode"
UNKNOWN = "unknown"
_MODELS_SHOWN = 3


def providers(
    where: Places,
    forget: str = option("--forget NAME", "Forget what was learnt of this provider's models."),
    model: str = option("--model NAME", "With --forget, only of this model."),
) -> Output:
    """List the providers that Zoea finds, and try each: its models and its latency.

    They come from the settings, from local ports and from keys in the environment.
    Each is asked for its list of models, which costs nothing. Keys are never shown, only the names
    of the variables that hold them. What Zoea has learnt of models is listed with its date.
    """
    if model and not forget:
        raise UsageError("--model is used with --forget only", hint="Name the provider: --forget NAME --model MODEL.")
    if forget:
        return _forget(where, forget, model)
    loaded = load(where)
    discovery = build_discovery(loaded, PORTS)
    with _waiting():
        results = asyncio.run(discovery.all())
    choice = discovery.choice(results)
    facts = _read_facts(where)
    there = [each.as_dict() for each in results if each.status is not ProbeStatus.ABSENT]
    return Output(
        {"providers": there, "absent": _absent(results), "choice": _choice(choice), "learned": facts},
        [text(results, choice), *slot_lines(results, loaded.settings), *fact_lines(facts, loaded.settings)],
    )


def _forget(where: Places, provider: str, model: str) -> Output:
    """Delete the learnt facts, so that the next requests begin in the usual form."""
    count = edit(
        where,
        lambda swarm: swarm.forget_facts(provider, model),
        lambda store: store.write(partial(model_facts.forget, provider=provider, model=model)),
    )
    who = f"{model} on {provider}" if model else provider
    return Output(
        {"provider": provider, "model": model or None, "forgotten": count},
        f"{count_of(count, 'fact')} about {who} {'is' if count == 1 else 'are'} forgotten",
    )


def _read_facts(where: Places) -> tuple[ModelFact, ...]:
    """Read the learnt facts of models; report a database that cannot be read."""
    try:
        return read_model_facts(where.database)
    except StoreError as problem:
        output.warn(f"What Zoea has learnt of models is not shown: {problem.what}")
        return ()


def slot_lines(found: Iterable[ProbeResult], settings: Settings) -> Iterator[str]:
    """Say for each llama.cpp server how many requests it takes at once, and why."""
    for each in found:
        slots = next((model.slots for model in each.models or () if model.slots), None)
        provider = settings.provider_named(each.name)
        if slots is None:
            continue
        if provider is not None and not provider.is_concurrency_automatic:
            most = count_of(int(provider.concurrency), "request")
            yield f"{each.name} gets up to {most} at once (provider.{each.name}.concurrency)"
        else:
            yield f"{each.name} gets up to {count_of(slots, 'request')} at once: its slots"


def fact_lines(facts: Iterable[ModelFact], settings: Settings) -> Iterator[str]:
    """Describe the learnt facts of each model, with date and consequence."""
    for fact in facts:
        since = datetime.fromtimestamp(fact.learned_at / 1_000_000).strftime("%Y-%m-%d")
        who = f"{fact.model or 'its model'} on {fact.provider}"
        provider = settings.provider_named(fact.provider)
        if fact.name == TOOL_MODE:
            yield f"{who} calls tools by a JSON schema since {since}, because it wrote calls as text" + (
                "; not in use: its tool_mode is native" if provider and provider.tool_mode is ToolMode.NATIVE else ""
            )
        elif is_trait(fact.name):
            yield f'{who} {describe_trait(fact.name)} since {since}, because of its refusal: "{fact.value}"'
        elif fact.name == CONTEXT_WINDOW:
            yield f"{who} takes {int(fact.value):,} tokens at most since {since}, as its refusal says"
        elif fact.name == READING_RATE:
            is_alone = float(fact.value) < SLOW_READING and (provider is None or provider.is_concurrency_automatic)
            yield f"{who} reads {fact.value} tokens a second ({since})" + (
                f": under {SLOW_READING}, so it gets one request at a time" if is_alone else ""
            )


def _waiting() -> AbstractContextManager[object]:
    """Show a spinner if stderr is a terminal, because a provider may take seconds."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status("Trying the providers")


def text(found: Sequence[ProbeResult], choice: ProviderChoice) -> str:
    """Format the table, each problem with its hint, and the provider of a run."""
    there = [each for each in found if each.status is not ProbeStatus.ABSENT]
    rows = [("NAME", "TYPE", "STATUS", "LATENCY", "MODELS", "FOUND"), *map(_row, there)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    ]
    amiss = [each for each in there if each.detail]
    if amiss:
        lines.append("")
    lines += [reveal(f"{each.name}: {each.detail}{'. ' + each.hint if each.hint else ''}") for each in amiss]
    lines.append("")
    if absent := _absent(found):
        lines.append(f"Nothing listens on {', '.join(absent)}")
    model = f" with {choice.model}" if choice.model else ""
    lines.append(reveal(f"A run uses {choice.name}{model}: {choice.reason}"))
    return "\n".join(lines)


def _row(found: ProbeResult) -> tuple[str, ...]:
    latency = UNKNOWN if found.latency_ms is None else f"{found.latency_ms:.0f} ms"
    return tuple(map(reveal, (found.name, found.type, str(found.status), latency, _models(found), _where(found))))


def _models(found: ProbeResult) -> str:
    if found.models is None:
        return UNKNOWN
    names = [model.name for model in found.models]
    more = f" and {len(names) - _MODELS_SHOWN} more" if len(names) > _MODELS_SHOWN else ""
    return (", ".join(names[:_MODELS_SHOWN]) + more) or "none"


def _where(found: ProbeResult) -> str:
    parts = [str(found.origin), "default" if found.is_default else "", found.address]
    parts.append(f"key in {found.variable}" if found.variable else "")
    return ", ".join(part for part in parts if part)


def _absent(found: Iterable[ProbeResult]) -> list[str]:
    return [f"{each.name} ({each.address})" for each in found if each.status is ProbeStatus.ABSENT]


def _choice(choice: ProviderChoice) -> dict[str, str | None]:
    return {
        "name": choice.name,
        "type": choice.type,
        "origin": str(choice.origin),
        "address": choice.address or None,
        "model": choice.model or None,
        "reason": choice.reason,
    }
