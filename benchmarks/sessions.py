"""Measure what a session of `window` holds after hundreds of turns, and its cost.

Run: `python -m benchmarks.sessions [--budgets 8000,25000] [--talks dense] [--sets a] [--writers extract]`, or with
`--facts DIR` for a set that is not in the repository: a folder with `facts.jsonl` and `talk.jsonl`. Each session is
played through a real Commander and store: a prompt and an answer of about 250 tokens a turn, three minutes apart, and
its summaries are written as it goes. A fact stands in a message of its own, of the role that it names. The talk around
it is made of the sentences of its author, in another order each time, with other numbers and some other words, so that
no two messages are equal.

Each row is one session: `facts` are those of all facts whose words stand in the last request, `strong` those of errors,
decisions, identifiers and constraints, `plain` those told in plain words, then those of each kind and script; `found`
are those that recall shows for their question. `sums` are the summaries that were written, `in 100` the most of them in
any 100 turns, `asked` the requests to the model that writes them, `tokens` the base tokens of the last request, `word`
its messages word for word, `ms` the CPU of a turn. Set a was used while the rules were made; of set b only numbers were
looked at. Set c (`--sets c`) has questions in other words. `--within` puts each fact into the middle of another
message. `--table` plays the reductions of Shannon's page instead. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.rig import PLENTY, PlainTools, Rig, rig
from zoea.context.past_packs import RECALLED_CHARS
from zoea.model.enums import Finish
from zoea.model.ports import ToolSession
from zoea.model.request import Answer, AnswerCall, CallMeta, ModelInfo, ModelRequest, StreamItem, ToolResult
from zoea.model.values import Usage
from zoea.process.clock import SystemClock
from zoea.store.search import find_related
from zoea.text.estimate import tokens

SETS = Path(__file__).parent / "facts"
BUDGETS = (8_000, 25_000, 50_000)
TALKS = ("plain", "dense", "noisy")
WRITERS = ("extract", "dull")
MESSAGE_CHARS = 1_000
WIDE_CHARS = 250
"""Characters of a message in a script without spaces, whose characters are a token each."""
FIRST, LAST = 4, 15
"""Turns at the beginning and the end of a session without facts, so that none stands among the messages kept anyway."""
MINUTES_A_TURN = 3
STRONG = ("error", "decision", "identifier", "constraint")
GOALS = {8_000: (0.6, 0.8), 25_000: (0.9, 0.95), 50_000: (0.9, 0.95)}
"""The least shares of all facts, and of the strong ones, by budget."""
MOST_SUMMARIES = 6
"""The most summaries in 100 turns."""
RECALLED = 5
DULL = "They talked about the work and went on with it."
TABLE = {50: None, 100: 12_500, 500: 15_500, 1000: 15_500}
"""The most base tokens of conversations under a budget of 25,000, by messages; None where all stays word for word."""
TABLE_BUDGET = 25_000
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_WORD = re.compile(r"[^\W\d_]{4,}")
_CLAUSE = re.compile(r"(?<=[，；])")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Fact:
    """A message with something to know later: its `needles` say whether it is known."""

    id: str
    kind: str
    script: str
    role: str
    text: str
    needles: tuple[str, ...]
    question: str
    plain: bool

    def is_in(self, text: str) -> bool:
        return all(_fold(needle) in text for needle in self.needles)


@dataclass(frozen=True)
class FactSet:
    """The facts of one author, and the talk that they stand among."""

    name: str
    facts: tuple[Fact, ...]
    talk: tuple[dict[str, str], ...]

    @classmethod
    def read(cls, folder: Path) -> FactSet:
        facts = [Fact(**{**one, "needles": tuple(one["needles"])}) for one in _read_lines(folder / "facts.jsonl")]
        talk = folder / "talk.jsonl"
        return cls(folder.name, tuple(facts), tuple(_read_lines(talk if talk.exists() else SETS / "a" / talk.name)))


def _read_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _fold(text: str) -> str:
    return "".join(text.split()).casefold()


class TalkMaker:
    """Makes messages of the sentences of an author, none equal to another."""

    def __init__(self, talk: Iterable[dict[str, str]], kind: str, chance: random.Random) -> None:
        self._chance = chance
        texts: dict[tuple[str, bool], list[str]] = {}
        for one in talk:
            if one["talk"] == kind:
                texts.setdefault((one["script"], one["role"] == "tool"), []).append(one["text"])
        self._decks = {key: self._shuffled(found, is_tool=key[1]) for key, found in texts.items()}
        self._words = {key: _WORD.findall(" ".join(found)) for key, found in texts.items()}
        self._scripts = [key for key, found in texts.items() for _ in found]

    def make(self, *, is_tool: bool) -> str:
        """Return a message of a person or an agent, or of a tool. Empty where the talk has none."""
        keys = [key for key in self._scripts if key[1] is is_tool]
        if not keys:
            return ""
        key = self._chance.choice(keys)
        size = WIDE_CHARS if key[0] == "zh" else MESSAGE_CHARS
        made: list[str] = []
        while sum(map(len, made)) + len(made) < size:
            made.append(self._vary(next(self._decks[key]), key))
        return ("\n" if is_tool else "" if key[0] == "zh" else " ").join(made)

    def _shuffled(self, texts: list[str], *, is_tool: bool) -> Iterator[str]:
        """Yield the sentences of texts, or the lines of results, without end. Their order is another one each time."""
        parts = [text.splitlines() if is_tool else _SENTENCE.split(text) for text in texts]
        while True:
            self._chance.shuffle(parts)
            sentences = [one for part in parts for one in part if one.strip()]
            if not is_tool:
                self._chance.shuffle(sentences)
            yield from sentences

    def _vary(self, sentence: str, key: tuple[str, bool]) -> str:
        """Return a sentence with other numbers, and one in eight of its long words exchanged."""
        chance, words = self._chance, self._words[key]
        sentence = _DIGIT.sub(lambda _: str(chance.randrange(10)), sentence)
        if key[0] == "zh":
            clauses = _CLAUSE.split(sentence)
            chance.shuffle(clauses)
            return "".join(clauses) if len(clauses) > 2 else sentence
        return _WORD.sub(lambda word: chance.choice(words) if words and chance.random() < 1 / 8 else word[0], sentence)


@dataclass
class Turn:
    """What one turn says: its prompt, the results of its calls, its answer."""

    prompt: str
    answer: str
    results: list[str] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)


def write_session(facts: FactSet, talk: str, turns: int, seed: int = 1, *, within: bool = False) -> list[Turn]:
    """Return the turns of a session: the talk, and each fact in a message of its own, or within one of the talk."""
    chance = random.Random(f"{facts.name} {talk} {seed}")
    prose = TalkMaker(facts.talk, "plain" if talk == "noisy" else talk, chance)
    results = TalkMaker(facts.talk, talk, chance)
    made = []
    for _ in range(turns):
        turn = Turn(prose.make(is_tool=False), prose.make(is_tool=False))
        if talk == "noisy" or (talk == "dense" and chance.random() < 1 / 4):
            turn.results = [one for one in (results.make(is_tool=True),) if one]
        made.append(turn)
    places = {role: list(range(FIRST, max(FIRST + 1, turns - LAST))) for role in ("user", "assistant", "tool")}
    for fact in chance.sample(facts.facts, len(facts.facts)):
        if not places[fact.role]:
            continue
        turn = made[places[fact.role].pop(chance.randrange(len(places[fact.role])))]
        turn.facts.append(fact)
        match fact.role:
            case "user":
                turn.prompt = _place(fact, turn.prompt if within else "", chance)
            case "assistant":
                turn.answer = _place(fact, turn.answer if within else "", chance)
            case _:
                turn.results.append(_place(fact, results.make(is_tool=True) if within else "", chance))
    return made


def _place(fact: Fact, talk: str, chance: random.Random) -> str:
    """Return a fact among the sentences, or the lines, of a message."""
    parts = talk.splitlines() if fact.role == "tool" else [one for one in _SENTENCE.split(talk) if one]
    parts.insert(chance.randrange(len(parts) + 1), fact.text)
    return ("\n" if fact.role == "tool" else " ").join(parts)


class SessionModel:
    """Plays the agent of a session. It writes dull summaries where it is asked for one."""

    name = "session"
    kind = "openai"
    label = "session"
    metered = True

    def __init__(self) -> None:
        self.turn = Turn("", "")
        self.last: ModelRequest | None = None
        self.summaries = 0
        self._waiting: list[str] = []

    def begin(self, turn: Turn) -> None:
        self.turn, self._waiting = turn, list(turn.results)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        usage = Usage(request.estimated_tokens, 0, 50, 0)
        if request.messages[0].content.startswith("You write the memory"):
            self.summaries += 1
            yield Answer(text=DULL, usage=usage)
            return
        self.last = request
        if self._waiting:
            call = AnswerCall("look", json.dumps({"sector": self._waiting.pop(0)[:8]}))
            yield Answer(calls=(call,), usage=usage, finish=Finish.CALLS)
        else:
            yield Answer(text=self.turn.answer, usage=usage)

    async def models(self) -> tuple[ModelInfo, ...]:
        return ()

    async def info(self, model: str) -> ModelInfo:
        return ModelInfo(model, 200_000)

    async def close(self) -> None:
        return None


class SessionTools(PlainTools):
    """A tool that returns what the session says next."""

    def __init__(self, model: SessionModel) -> None:
        super().__init__()
        self._model = model

    def session(self, mysis_id: int, mysis: str, template: str, *, uid: str = "") -> ToolSession:
        opened: Any = super().session(mysis_id, mysis, template, uid=uid)
        opened.call = self._call
        return opened  # type: ignore[no-any-return]  # a session whose calls are answered here

    async def _call(self, call: AnswerCall, *, meta: CallMeta) -> ToolResult:
        model = self._model
        return ToolResult(model.turn.results[len(model.turn.results) - len(model._waiting) - 1])


class SessionClock(SystemClock):
    """A clock that minutes pass on between the turns."""

    def __init__(self) -> None:
        super().__init__()
        self._passed = 0

    def now(self) -> int:
        return super().now() + self._passed

    def uptime(self) -> int:
        return super().uptime() + self._passed

    @property
    def ahead(self) -> int:
        return self.now() - self.uptime()

    def follow(self) -> int:
        return 0

    def pass_minutes(self, minutes: int) -> None:
        self._passed += minutes * 60_000_000


@dataclass
class Session:
    """How a session ended.

    Attributes:
        shown: The facts that the last request holds.
        found: The facts that recall shows for their question.
        written: The turns in which a summary was written.
        cpu_ms: CPU of a turn, of the whole process.
    """

    facts: list[Fact]
    shown: list[Fact]
    found: list[Fact]
    written: list[int]
    asked: int
    tokens: int
    whole: int
    verbatim: int
    cpu_ms: float

    @property
    def most_in_100(self) -> int:
        """The most summaries in any 100 turns in a row."""
        return max((sum(first <= one < first + 100 for one in self.written) for first in self.written), default=0)


async def play(turns: Sequence[Turn], budget: int, writer: str, *, script: str = "") -> Session:
    """Play the turns of a session one after another.

    Args:
        script: That of the facts whose questions are asked at the end; those of all facts where it is empty.
    """
    model, clock = SessionModel(), SessionClock()
    settings = {
        **PLENTY,
        "context": {"strategy": "window", "summary": "extract" if writer == "extract" else "model"},
        "budget": {
            "swarm_per_day": "none",
            "background": "none",
            "token_budget_per_agent": budget,
            "token_budget_per_task": 200_000,
        },
    }
    async with rig(model, SessionTools(model), settings=settings, clock=clock) as bench:
        [mysis] = await bench.create(1)
        begun = time.process_time()
        for turn in turns:
            model.begin(turn)
            if (outcome := await bench.turn(mysis, turn.prompt)) != "answered":
                raise RuntimeError(f"a turn ended with {outcome}")
            clock.pass_minutes(MINUTES_A_TURN)
        cpu = (time.process_time() - begun) * 1_000 / len(turns)
        assert model.last is not None
        messages = model.last.messages
        text = _fold("\n".join(message.content for message in messages))
        facts = [fact for turn in turns for fact in turn.facts]
        written = await bench.store.read(
            "SELECT t.number FROM event e JOIN turn t ON t.id = e.data ->> '$.turn' WHERE e.kind = 'context.summary'"
        )
        return Session(
            facts,
            [fact for fact in facts if fact.is_in(text)],
            await find_by_questions(bench, mysis, [fact for fact in facts if script in ("", fact.script)]),
            [row[0] for row in written],
            model.summaries,
            sum(tokens(message.content) for message in messages),
            sum(tokens(one) for turn in turns for one in (turn.prompt, *turn.results, turn.answer)),
            sum(message.memory_id is not None for message in messages),
            cpu,
        )


async def find_by_questions(bench: Rig, mysis: int, facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts that the pack `recall` would show for a prompt with their question."""
    found = []
    newest = (await bench.store.read("SELECT max(id) FROM memory"))[0][0]
    async with bench.store.search_reader() as reader:
        for fact in facts:
            question = fact.question

            def read(connection: Any, question: str = question) -> str:
                hits = find_related(connection, mysis, question, newest, RECALLED, ())
                rows = [connection.execute("SELECT content FROM memory WHERE id = ?", (one,)) for one, _ in hits]
                texts = [row.fetchone()[0] for row in rows]
                shown = [text[at : at + RECALLED_CHARS] for text, (_, at) in zip(texts, hits, strict=True)]
                return "\n".join(shown)

            if fact.is_in(_fold(await reader.run(read))):
                found.append(fact)
    return found


def count_by(session: Session, name: str) -> str:
    """Return shown and all facts by kind or script, as `en 20/24`."""
    whole, shown = (Counter(getattr(fact, name) for fact in facts) for facts in (session.facts, session.shown))
    return " ".join(f"{key[:5]} {shown[key]}/{whole[key]}" for key in sorted(whole))


def share_of(session: Session, facts: Iterable[Fact], kinds: Sequence[str]) -> float:
    whole = [fact for fact in session.facts if not kinds or fact.kind in kinds]
    return sum(not kinds or fact.kind in kinds for fact in facts) / max(1, len(whole))


def judge(name: str, budget: int, session: Session) -> Iterator[str]:
    """Yield the goals that a session missed."""
    least, strong = GOALS.get(budget, (0.0, 0.0))
    for title, kinds, goal in (("facts", (), least), ("strong facts", STRONG, strong)):
        if (share := share_of(session, session.shown, kinds)) < goal:
            yield f"{name}: {share:.0%} of the {title}, and {goal:.0%} is the goal"
    if session.most_in_100 > MOST_SUMMARIES:
        yield f"{name}: {session.most_in_100} summaries in 100 turns, and {MOST_SUMMARIES} is the goal"
    if session.tokens > budget:
        yield f"{name}: {session.tokens:,} tokens"


def print_row(name: str, session: Session) -> None:
    plain = [fact for fact in session.facts if fact.plain]
    told = [fact for fact in session.shown if fact.plain]
    strong = [fact for fact in session.facts if fact.kind in STRONG]
    kept = [fact for fact in session.shown if fact.kind in STRONG]
    print(
        f"{name:<30}{len(session.shown):>3}/{len(session.facts):<3}{len(kept):>5}/{len(strong):<3}"
        f"{len(told):>4}/{len(plain):<3}{len(session.found):>7}{len(session.written):>6}{session.most_in_100:>8}"
        f"{session.asked:>7}{session.tokens:>8,}{session.verbatim:>6}{session.cpu_ms:>7.1f}"
        f"   {count_by(session, 'kind')}; {count_by(session, 'script')}",
        flush=True,
    )


def play_table(facts: FactSet) -> list[str]:
    """Print the reductions of Shannon's page; return the goals that were missed."""
    missed = []
    print(f"{'messages':>8}{'original':>10}{'request':>9}{'saved':>7}{'word for word':>15}{'summaries':>11}")
    for messages, most in TABLE.items():
        # The last prompt belongs to the request, and its answer to none.
        turns = write_session(FactSet(facts.name, (), facts.talk), "plain", messages // 2 + 1)
        session = asyncio.run(play(turns, TABLE_BUDGET, "extract"))
        saved = max(0.0, 1 - session.tokens / session.whole)
        print(
            f"{messages:>8}{session.whole:>10,}{session.tokens:>9,}{saved:>7.0%}{session.verbatim:>15}"
            f"{len(session.written):>11}",
            flush=True,
        )
        if most is None and session.written:
            missed.append(f"{messages} messages are summarised")
        if most is not None and session.tokens > most:
            missed.append(f"{messages} messages take {session.tokens:,} tokens, more than {most:,}")
    return missed


def show_lost(session: Session) -> None:
    for fact in session.facts:
        if fact not in session.shown:
            print(f"    lost: {fact.id} {fact.kind} {fact.role}: {fact.text}")
    for fact in session.facts:
        if fact not in session.found:
            print(f"    not recalled: {fact.id} {fact.question} | {fact.text}")


def main() -> int:
    parser = argparse.ArgumentParser(description="What a session still holds after hundreds of turns.")
    parser.add_argument("--facts", type=Path, help="folder of another set of facts")
    parser.add_argument("--sets", default="a,b", help="sets of the repository to play")
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    parser.add_argument("--talks", default=",".join(TALKS))
    parser.add_argument("--writers", default=",".join(WRITERS))
    parser.add_argument("--turns", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1, help="another order of the same sentences")
    parser.add_argument("--within", action="store_true", help="put each fact into the middle of another message")
    parser.add_argument("--table", action="store_true", help="play the reductions of Shannon's page")
    parser.add_argument("--lost", action="store_true", help="print the facts that are lost, and those not recalled")
    asked = parser.parse_args()
    sets = [FactSet.read(asked.facts)] if asked.facts else [FactSet.read(SETS / one) for one in asked.sets.split(",")]
    missed: list[str] = []
    if asked.table:
        missed = play_table(sets[0])
    else:
        columns = f"{'':<30}{'facts':>7}{'strong':>9}{'plain':>8}{'found':>7}{'sums':>6}{'in 100':>8}"
        print(f"{columns}{'asked':>7}{'tokens':>8}{'word':>6}{'ms':>7}")
        for facts in sets:
            for talk in asked.talks.split(","):
                turns = write_session(facts, talk, asked.turns, asked.seed, within=asked.within)
                for budget in map(int, asked.budgets.split(",")):
                    for writer in asked.writers.split(","):
                        name = f"set {facts.name}, {talk}, {budget:,}, {writer}"
                        session = asyncio.run(play(turns, budget, writer))
                        print_row(name, session)
                        if asked.lost:
                            show_lost(session)
                        missed += judge(name, budget, session)
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
