"""What the strategy `window` saves and what it keeps: the table of Shannon's page, with facts planted in the middle.

Run: `python -m benchmarks.compression`. Messages of 250 tokens, a budget of 25,000. Tokens are base tokens
(characters / 4) of the conversation in the request. `facts` are those of 50 that the request holds, `held out` the
same with the other half of `benchmarks/facts`. `noisy` are those of the first half where one in three other sentences
looks like a fact, with numbers, names and words of facts. `shape` is the time in which a turn decides what it shows,
`summary` that of a first summary of all its middle, in ms. The exit code is 1 where a goal is missed.

A model adds a table: `--endpoint URL --model NAME` for an OpenAI-compatible server, or `--gguf FILE` for a model that
runs inside Zoea. `in prose` are the facts without those that Zoea appended; `requests`, `read` and `written` are what
the model did, in `s` seconds. `--sizes 50,100` leaves the long conversations out.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

from benchmarks.facts import Fact, Half, converse, held_out, known, recalled
from zoea.context.window.conversation_shape import Conversation, ConversationShape, shape_conversation
from zoea.context.window.conversation_summary import summarise
from zoea.context.window.summary_parts import ANSWER_FACTOR, SummaryProse, find_next_part
from zoea.context.window.window_estimate import estimate_messages
from zoea.context.window.window_rules import WindowRules
from zoea.llm.provider_config import ProviderConfig
from zoea.llm.registry import make
from zoea.model.ports import Provider
from zoea.model.request import Answer, ModelRequest
from zoea.model.values import Memory
from zoea.process.clock import SystemClock
from zoea.swarm.turn.summary_stage import PROSE_SHARE
from zoea.text.estimate import tokens

SIZES = (50, 100, 500, 1000)
BUDGET = 25_000
MESSAGE = 250
FACTS = 50
NOISE = 1 / 3
RULES = WindowRules()
ANSWER = 4_096
ASSUMED_WINDOW = 8_192
"""Tokens of the window of a model that tells none, and of one that runs inside Zoea."""
MOST = {100: 12_500, 500: 15_500, 1000: 15_500}
"""The most base tokens that the seed's table allows; 50 messages stay as they are."""


@dataclass(frozen=True)
class Shown:
    """What a scheme puts into the request."""

    messages: tuple[Memory, ...]
    summary: str = ""

    @property
    def text(self) -> str:
        return "\n".join([*(memory.content for memory in self.messages), self.summary])

    @property
    def tokens(self) -> int:
        return sum(tokens(memory.content) for memory in self.messages) + tokens(self.summary)


def nothing(memories: list[Memory]) -> Shown:
    return Shown(tuple(memories))


def last_messages(memories: list[Memory]) -> Shown:
    return Shown(tuple(memories[-RULES.size :]))


def shannon(memories: list[Memory]) -> Shown:
    """The first 3 and the last 20 messages, with a summary of only the last 20."""
    if estimate_messages(memories) < RULES.trigger * BUDGET:
        return nothing(memories)
    recents = memories[-RULES.recents :]
    return Shown((*memories[: RULES.primers], *recents), summarise(recents, int(RULES.target * BUDGET)))


def ours(memories: list[Memory]) -> Shown:
    shape = shape_of(memories)
    summary = summarise(shape.middle, shape.summary_tokens) if shape.is_due else ""
    return Shown((*shape.primers, *shape.recents), summary)


def shape_of(memories: list[Memory]) -> ConversationShape:
    talk = Conversation(tuple(memories[: RULES.primers]), tuple(memories[RULES.primers :]))
    return shape_conversation(RULES, talk, budget=BUDGET, overhead=0)


SCHEMES: dict[str, Callable[[list[Memory]], Shown]] = {
    "no compression": nothing,
    "last 50": last_messages,
    "Shannon's scheme": shannon,
    "ours, no model": ours,
}


@asynccontextmanager
async def open_model(asked: argparse.Namespace) -> AsyncIterator[Provider]:
    """Open the provider that the command line names."""
    if asked.gguf:
        from benchmarks.models.__main__ import MeasuredSetup, opened  # needs llama.cpp

        setup = MeasuredSetup(asked.model, "embedded", "auto")
        async with opened(Path(asked.gguf), setup, asked.context or ASSUMED_WINDOW, None) as one:
            yield one
        return
    config = ProviderConfig("openai", model=asked.model, base_url=asked.endpoint)
    provider = make("bench", config, clock=SystemClock())
    try:
        yield provider
    finally:
        await provider.close()


@dataclass
class ModelWork:
    """What a model did for one summary: its requests, and the tokens that it read and wrote."""

    requests: int = 0
    read: int = 0
    written: int = 0
    prose: str = ""


async def summarise_by_model(
    provider: Provider, model: str, window: int, memories: list[Memory]
) -> tuple[Shown, ModelWork]:
    """Return what our scheme shows with a model's summary. The requests are those that a turn makes."""
    shape, work = shape_of(memories), ModelWork()
    if not shape.is_due:
        return Shown((*shape.primers, *shape.recents)), work
    answers: dict[str, str] = {}
    most = min(ANSWER, window // 4)
    prose_tokens, room = min(int(PROSE_SHARE * shape.summary_tokens), most // ANSWER_FACTOR), min(BUDGET, window - most)
    while True:
        part = find_next_part(shape.middle, "", answers, prose_tokens=prose_tokens, room=room)
        if isinstance(part, SummaryProse):
            break
        request = ModelRequest(
            model, part.messages, max_output_tokens=min(most, part.answer_tokens), context_window=window
        )
        async with aclosing(provider.stream(request)) as stream:  # type: ignore[type-var]  # a generator
            async for item in stream:
                if isinstance(item, Answer):
                    answers[part.key] = item.text
                    work.requests += 1
                    work.read += item.usage.input_tokens or 0
                    work.written += item.usage.output_tokens or 0
                    sys.stderr.write(f"request {work.requests}: read {work.read:,} and wrote {work.written:,} so far\n")
    work.prose = part.text
    return Shown((*shape.primers, *shape.recents), summarise(shape.middle, shape.summary_tokens, prose=part.text)), work


async def measure_model(asked: argparse.Namespace) -> list[str]:
    """Print a table of our scheme with a model's summaries; return the goals that it missed."""
    missed: list[str] = []
    async with open_model(asked) as provider:
        windows = (asked.context, (await provider.info(asked.model)).context_window)
        window = min(filter(None, windows), default=ASSUMED_WINDOW)
        print(f"\nours, with the summaries of {asked.model} (a window of {window:,} tokens):")
        columns = ("messages", "tokens", "saved", "facts", "in prose", "requests", "read", "written", "s")
        print("{:>8}{:>9}{:>7}{:>7}{:>10}{:>10}{:>9}{:>9}{:>6}".format(*columns), flush=True)
        for size in asked.sizes:
            memories, facts = talk(known, size, size)
            begun = time.perf_counter()
            shown, work = await summarise_by_model(provider, asked.model, window, memories)
            taken = time.perf_counter() - begun
            saved, kept = 1 - shown.tokens / nothing(memories).tokens, recalled(facts, shown.text)
            print(
                f"{size:>8}{shown.tokens:>9,}{saved:>7.0%}{len(kept):>7}{len(recalled(facts, work.prose)):>10}"
                f"{work.requests:>10}{work.read:>9,}{work.written:>9,}{taken:>6.0f}",
                flush=True,
            )
            missed += [f"with a model, {one}" for one in judge(size, shown, facts, kept)]
    return missed


def talk(half: Half, size: int, seed: int, noise: float = 0.0) -> tuple[list[Memory], list[Fact]]:
    facts = half.facts(FACTS, seed)
    return converse(half, size, MESSAGE, facts, seed, (RULES.primers, RULES.recents), noise), facts


def percentiles(memories: list[Memory], rounds: int) -> tuple[float, float]:
    """Return p50 and p95 of shaping, in ms."""
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        shape_of(memories)
        taken.append((time.perf_counter() - begun) * 1000)
    cuts = quantiles(taken, n=20)
    return cuts[9], cuts[18]


def read_sizes(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(","))


def main() -> int:
    parser = argparse.ArgumentParser(description="What the strategy window saves and keeps.")
    parser.add_argument("--rounds", type=int, default=200, help="runs for the times")
    parser.add_argument("--endpoint", default="", help="address of an OpenAI-compatible server")
    parser.add_argument("--gguf", default="", help="file of a model that runs inside Zoea")
    parser.add_argument("--model", default="bench", help="the model's name")
    parser.add_argument(
        "--context", type=int, help="tokens of the model's window, where it is to have less than its own"
    )
    parser.add_argument("--sizes", type=read_sizes, default=SIZES, help="messages of the conversations, as 50,100")
    asked = parser.parse_args()
    missed: list[str] = []
    columns = ("messages", "scheme", "tokens", "saved", "facts", "held out", "noisy", "shape p50", "p95", "summary")
    print("{:>8}  {:<18}{:>9}{:>7}{:>7}{:>10}{:>7}{:>11}{:>7}{:>9}".format(*columns))
    for size in asked.sizes:
        memories, facts = talk(known, size, size)
        others, other_facts = talk(held_out, size, size + 1)
        noisy, noisy_facts = talk(known, size, size + 2, NOISE)
        whole = nothing(memories).tokens
        for name, scheme in SCHEMES.items():
            shown = scheme(memories)
            kept = recalled(facts, shown.text)
            held = recalled(other_facts, scheme(others).text)
            loud = recalled(noisy_facts, scheme(noisy).text)
            speed = ""
            if scheme is ours:
                begun = time.perf_counter()
                ours(memories)
                first = (time.perf_counter() - begun) * 1000
                p50, p95 = percentiles(memories, asked.rounds)
                speed = f"{p50:>11.1f}{p95:>7.1f}{first:>9.0f}"
            share = f"{(whole - shown.tokens) / whole:.0%}"
            print(
                f"{size:>8}  {name:<18}{shown.tokens:>9,}{share:>7}{len(kept):>7}{len(held):>10}{len(loud):>7}{speed}",
                flush=True,
            )
            if scheme is ours:
                missed += judge(size, shown, facts, kept, len(held), len(loud))
    if asked.endpoint or asked.gguf:
        missed += asyncio.run(measure_model(asked))
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


def judge(
    size: int, shown: Shown, facts: list[Fact], kept: list[Fact], held: int | None = None, loud: int | None = None
) -> list[str]:
    """Return the goals that our scheme missed. `held` and `loud` are None where only one conversation is."""
    found = []
    if shown.tokens > MOST.get(size, shown.tokens):
        found.append(f"{size} messages take {shown.tokens:,} tokens, more than {MOST[size]:,}")
    if size not in MOST and shown.summary:
        found.append(f"{size} messages are summarised")
    for fact in facts:
        if fact not in kept:
            found.append(f"{size} messages: the {fact.kind} {fact.text!r} is lost")
    if held is not None and len(kept) - held > FACTS // 10:
        found.append(f"{size} messages: {held} facts of the other half against {len(kept)}")
    if loud is not None and len(kept) - loud > FACTS // 10:
        found.append(f"{size} messages: {loud} facts among noise against {len(kept)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
