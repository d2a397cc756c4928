"""What the strategy `window` saves and what it keeps: the table of Shannon's page, with facts planted in the middle.

Run: `python -m benchmarks.compression`. Messages of 250 tokens, a budget of 25,000. Tokens are base tokens
(characters / 4) of the conversation in the request. `facts` are those of 50 that the request holds, `held out` the
same with the other half of `benchmarks/facts`. `shape` is the time in which a turn decides what it shows, `summary`
that of a first summary of all its middle, in ms. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import quantiles

from benchmarks.facts import Fact, Half, converse, held_out, known, recalled
from zoea.context.window.conversation_shape import Conversation, ConversationShape, shape_conversation
from zoea.context.window.conversation_summary import summarise
from zoea.context.window.window_estimate import estimate_messages
from zoea.context.window.window_rules import WindowRules
from zoea.model.values import Memory
from zoea.text.estimate import tokens

SIZES = (50, 100, 500, 1000)
BUDGET = 25_000
MESSAGE = 250
FACTS = 50
RULES = WindowRules()
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


def talk(half: Half, size: int, seed: int) -> tuple[list[Memory], list[Fact]]:
    facts = half.facts(FACTS, seed)
    return converse(half, size, MESSAGE, facts, seed, (RULES.primers, RULES.recents)), facts


def percentiles(memories: list[Memory], rounds: int) -> tuple[float, float]:
    """Return p50 and p95 of shaping, in ms."""
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        shape_of(memories)
        taken.append((time.perf_counter() - begun) * 1000)
    cuts = quantiles(taken, n=20)
    return cuts[9], cuts[18]


def main() -> int:
    parser = argparse.ArgumentParser(description="What the strategy window saves and keeps.")
    parser.add_argument("--rounds", type=int, default=200, help="runs for the times")
    asked = parser.parse_args()
    missed: list[str] = []
    columns = ("messages", "scheme", "tokens", "saved", "facts", "held out", "shape p50", "p95", "summary")
    print("{:>8}  {:<18}{:>9}{:>7}{:>7}{:>10}{:>11}{:>7}{:>9}".format(*columns))
    for size in SIZES:
        memories, facts = talk(known, size, size)
        others, other_facts = talk(held_out, size, size + 1)
        whole = nothing(memories).tokens
        for name, scheme in SCHEMES.items():
            shown = scheme(memories)
            kept = recalled(facts, shown.text)
            held = recalled(other_facts, scheme(others).text)
            speed = ""
            if scheme is ours:
                begun = time.perf_counter()
                ours(memories)
                first = (time.perf_counter() - begun) * 1000
                p50, p95 = percentiles(memories, asked.rounds)
                speed = f"{p50:>11.1f}{p95:>7.1f}{first:>9.0f}"
            share = f"{(whole - shown.tokens) / whole:.0%}"
            print(f"{size:>8}  {name:<18}{shown.tokens:>9,}{share:>7}{len(kept):>7}{len(held):>10}{speed}", flush=True)
            if scheme is ours:
                missed += judge(size, shown, facts, kept, len(held))
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


def judge(size: int, shown: Shown, facts: list[Fact], kept: list[Fact], held: int) -> list[str]:
    """Return the goals that our scheme missed."""
    found = []
    if shown.tokens > MOST.get(size, shown.tokens):
        found.append(f"{size} messages take {shown.tokens:,} tokens, more than {MOST[size]:,}")
    if size not in MOST and shown.summary:
        found.append(f"{size} messages are summarised")
    for fact in facts:
        if fact not in kept:
            found.append(f"{size} messages: the {fact.kind} {fact.text!r} is lost")
    if len(kept) - held > FACTS // 10:
        found.append(f"{size} messages: {held} facts of the other half against {len(kept)}")
    return found


if __name__ == "__main__":
    sys.exit(main())
