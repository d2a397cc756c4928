"""Generators of facts and of the messages that they are planted in."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from zoea.model.enums import Role, Source
from zoea.model.values import Memory

KINDS = ("error", "decision", "identifier", "constraint")


@dataclass(frozen=True)
class Fact:
    """A sentence to plant.

    Attributes:
        key: The words that a reader needs; all must be found for it to count as recalled.
    """

    kind: str
    text: str
    key: tuple[str, ...]


@dataclass(frozen=True)
class Half:
    """One half of the facts: patterns by kind, its filler sentences, and filler that looks like facts.

    Each sentence of `noise` has new numbers, names or words of facts, and nothing in it that a reader needs later.
    """

    patterns: dict[str, tuple[str, ...]]
    filler: tuple[str, ...]
    noise: tuple[str, ...]

    def facts(self, count: int, seed: int) -> list[Fact]:
        """Return facts of all kinds in turn, each with a key of its own."""
        chance = random.Random(seed)
        made = []
        for number in range(count):
            kind = KINDS[number % len(KINDS)]
            pattern = self.patterns[kind][number // len(KINDS) % len(self.patterns[kind])]
            values = _values(chance)
            used = tuple(value for name, value in values.items() if "{" + name + "}" in pattern)
            made.append(Fact(kind, pattern.format(**values), used))
        return made


_SERVICES = ("billing", "gateway", "ledger", "mailer", "search", "uploader", "scheduler", "archive")
_TOOLS = ("PostgreSQL", "Valkey", "NATS", "Caddy", "Temporal", "ClickHouse", "Loki", "Vault")


def _values(chance: random.Random) -> dict[str, str]:
    return {
        "id": f"{chance.choice(_SERVICES)[:3]}-{chance.randrange(16**6):06x}",
        "service": chance.choice(_SERVICES),
        "tool": chance.choice(_TOOLS),
        "number": str(chance.randrange(101, 9999)),
        "path": f"/srv/{chance.choice(_SERVICES)}/{chance.randrange(10, 99)}/app.toml",
    }


known = Half(
    {
        "error": (
            "ConnectionError: {service} refused port {number}",
            "The build failed with exit code 3 in {service} at step {number}.",
            "HTTP 503 came back from {service} after {number} ms.",
            "Fehler: {service} meldet den Code {number}.",
        ),
        "decision": (
            "We decided to use {tool} for the {service} service on port {number}.",
            "Let's go with {tool} and {number} workers.",
            "Wir haben entschieden, {tool} mit {number} Verbindungen zu betreiben.",
        ),
        "identifier": (
            "The deployment is {id}.",
            "Its file is {path} and the ticket is OPS-{number}.",
            "Commit {id} of {service} has the change.",
        ),
        "constraint": (
            "Never restart {service} before {number} requests have drained.",
            "The {service} must stay below {number} MB.",
            "Do not write to {path} while {service} runs.",
            "{service} darf höchstens {number} Anfragen annehmen.",
        ),
    },
    (
        "I had a look at this part again and it reads well to me so far.",
        "The code is laid out in small functions and the names are easy to follow.",
        "Thanks, that makes sense, please carry on with the next part of it.",
        "I will read the module from the top and come back with what I see.",
        "There is a little more to say about style, but nothing that matters today.",
        "Reading on, the tests cover the usual cases and a few of the odd ones.",
        "The page loads as before and the numbers look about the same as yesterday.",
        "Let me know if you would like me to explain this piece in more detail.",
        "That is a fair question, and the answer depends a little on the day.",
        "We can talk about it later, there is no hurry with this one at all.",
        "for item in items:\n    total += item.price * item.count",
        "The second half of the file is much like the first, with longer names.",
    ),
    (
        "INFO {service} served request {number} in 14 ms",
        "DEBUG cache of {service}: 12 hits, 3 misses, page {number}",
        "I looked at line {number} of {service}.py, it is a plain loop.",
        "The table has {number} rows at the moment, give or take a few.",
        "I decided to read {service} next, it seems the shortest.",
        "No error so far in the part about {service}, {number} lines read.",
        "You must have seen page {number} of the manual of {tool} already.",
        "Nothing failed in run {number}, as usual.",
        "It never took longer than {number} ms here, I think.",
        "Compare {id} and its neighbours, they look alike to me.",
    ),
)

held_out = Half(
    {
        "error": (
            "Boom, {service} fell over again, something about socket {number} being dead.",
            "Serwer {service} zgłosił błąd numer {number}.",
            "{service} が {number} 番でエラーになりました。",
            "Le service {service} a échoué avec le code {number}.",
            "O {service} falhou na tentativa {number}.",
        ),
        "decision": (
            "After weighing it up the team landed on {tool}, capped at {number} connections.",
            "Nous avons choisi {tool} avec {number} tâches.",
            "Zdecydowano: {tool}, {number} wątków.",
            "我们决定用 {tool}，端口是 {number}。",
            "Se eligió {tool} con {number} hilos.",
        ),
        "identifier": (
            "Ask for run {id} when you call them.",
            "Le dossier porte la référence {id}.",
            "パスは {path} です。",
            "Numer zlecenia: {id}.",
        ),
        "constraint": (
            "Whatever happens, {service} has to keep under {number} MB.",
            "{service} ne doit jamais dépasser {number} requêtes.",
            "{service} 不得超过 {number} 个连接。",
            "Proibido reiniciar {service} antes de {number} pedidos.",
            "{service} nie może przekroczyć {number} MB.",
        ),
    },
    (
        "Fine by me, keep going and we will see where it leads.",
        "C'est bien comme ça, on peut continuer avec la suite.",
        "The weather has been kind and so was the last review, I think.",
        "Tak, to ma sens, przejdźmy dalej do kolejnej części.",
        "Bom, vamos em frente com a parte que falta por agora.",
        "I scrolled through the rest of it and found it pleasant to read.",
        "Das liest sich gut, ich schaue mir gleich den Rest an.",
        "好的，我们继续看下一部分吧。",
        "It is the same idea as before with a different name on the door.",
        "Nothing new on this side, everything is as it was this morning.",
    ),
    (
        "[trace] {service} step {number} ok",
        "J'ai lu la ligne {number} de {service}, rien de spécial.",
        "Strona {number} podręcznika {tool} jest całkiem ładna.",
        "We could have a look at {id} some day, or not.",
        "第 {number} 行也没有问题。",
        "I chose to skip {service} for now, {number} more to read.",
        "A página {number} não tem erros.",
        "The failing of {service} was only a joke of mine, number {number}.",
    ),
)


def converse(
    half: Half, messages: int, tokens: int, facts: list[Fact], seed: int, keep: tuple[int, int], noise: float = 0.0
) -> list[Memory]:
    """Return a conversation of prompts and answers of `tokens` base tokens each, with the facts planted between.

    Args:
        keep: How many of the first and of the last messages get no fact.
        noise: The share of filler sentences that look like facts.
    """
    chance = random.Random(seed)
    first, last = keep
    places = range(first, max(first + 1, messages - last))
    planted: dict[int, list[str]] = {}
    for fact in facts:
        planted.setdefault(chance.choice(places), []).append(fact.text)
    made = []
    for number in range(messages):
        said = planted.get(number, [])
        made.append(_message(number, _fill(half, said, tokens * 4, chance, noise)))
    return made


def _fill(half: Half, said: list[str], chars: int, chance: random.Random, noise: float) -> str:
    sentences: list[str] = []
    room = chars - sum(len(text) + 1 for text in said)
    while room > 0:
        is_noise = noise > 0 and chance.random() < noise
        sentence = chance.choice(half.noise).format(**_values(chance)) if is_noise else chance.choice(half.filler)
        sentences.append(sentence)
        room -= len(sentence) + 1
    for text in said:
        sentences.insert(chance.randrange(len(sentences) + 1) if sentences else 0, text)
    text = "\n".join(sentences)
    return text[: max(chars, sum(len(one) + 1 for one in said))] if room < 0 and not said else text


def _message(number: int, text: str) -> Memory:
    is_prompt = number % 2 == 0
    turn = number // 2 + 1
    return Memory(
        id=number + 1,
        mysis_id=1,
        turn_id=turn,
        turn_number=turn,
        seq=1 if is_prompt else 2,
        role=Role.USER if is_prompt else Role.ASSISTANT,
        source=Source.DIRECT if is_prompt else Source.LLM,
        content=text,
    )


def recalled(facts: list[Fact], text: str, is_held: Callable[[Fact, str], bool] | None = None) -> list[Fact]:
    """Return the facts with all words of their key in one line of the text, or by another judgement."""
    lines = text.splitlines()
    judge = is_held or (lambda fact, _: any(all(word in line for word in fact.key) for line in lines))
    return [fact for fact in facts if judge(fact, text)]
