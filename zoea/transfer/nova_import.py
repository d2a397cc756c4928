"""Imports one mysis of Zoea Nova in one op, so completely or not at all.

Its memories become turns, and the next start continues from there. Its uid is derived
from its id and creation time in Zoea Nova, so a second import recognizes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from msgspec import Struct, field

from zoea.context import FrozenTurn
from zoea.model.enums import CallState, OpenedBy
from zoea.model.errors import NameRefused
from zoea.settings.schema import Settings
from zoea.settings.template import Template
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence.mysis_ops import check_name
from zoea.swarm.resolved_template import NUDGES
from zoea.swarm.turn import fingerprint
from zoea.text import clean, estimate
from zoea.text.redact import redact_secrets
from zoea.text.redact.json_redaction import redact_json_text
from zoea.transfer.conflicts import LONGEST_NAME, ImportTarget, insert_with_id
from zoea.transfer.nova_database import NovaDatabase, NovaMemory, NovaMysis, former_name
from zoea.transfer.nova_turns import NovaCall, NovaStep, NovaTurn, TurnBuilder
from zoea.transfer.report import ImportedMysis, Progress

REASON = "imported from Zoea Nova"
_SAID_EVERY = 500
_SAME_MOMENT = 5_000_000
"""Zoea Nova stored a broadcast once for each recipient, within this time in µs."""


_GOAL = "Carry on with your mission."
"""The myses of Zoea Nova went on without an order."""


class NovaOptions(Struct, frozen=True):
    """Options of the import.

    Attributes:
        template: For myses without their own prompt.
        provider, model: For myses with a provider that is not configured here; for all if `is_forced`.
    """

    settings: Settings
    template: Template
    provider: str
    model: str
    is_forced: bool = False


class _ImportState(Struct):
    """The counters and ids of one import."""

    mysis_id: int
    newest: int = 0
    number: int = 0
    calls: int = 0
    errors: int = 0
    senders: dict[str, int] = field(default_factory=dict)


def nova_uid(mysis: NovaMysis) -> str:
    """Return the uid of 32 hexadecimal digits, the same at every import."""
    return blake2b(f"zoea-nova\0{mysis.id}\0{mysis.created}".encode(), digest_size=16).hexdigest()


def nova_name(mysis: NovaMysis) -> str:
    """Return its name with disallowed characters replaced."""
    name = re.sub(r"[^\w .\-]+", "-", clean(mysis.name)).strip(" -")[:LONGEST_NAME].strip()
    for candidate in (name, f"nova-{name}"[:LONGEST_NAME].strip()):
        try:
            return check_name(candidate)
        except NameRefused:
            continue
    return former_name(mysis.id)


class NovaImport(Struct, frozen=True):
    """The op that imports one mysis. Call it with the writer's connection; a second call starts again.

    Args:
        everyone: All myses of the database, as possible senders.
        progress: Called with the number of memories read.
    """

    database: NovaDatabase
    mysis: NovaMysis
    everyone: list[NovaMysis]
    wanted: NovaOptions
    progress: Progress

    def __call__(self, conn: WriterConnection) -> ImportedMysis | str:
        """Return the imported mysis, or its present name if it was imported before. Raises SwarmFull."""
        arrivals = ImportTarget(conn, self.wanted.settings.swarm.max_myses)
        return arrivals.known(nova_uid(self.mysis)) or _MysisImport(self, conn, arrivals).run()


class _MysisImport:
    def __init__(self, op: NovaImport, conn: WriterConnection, arrivals: ImportTarget) -> None:
        self._op = op
        self._conn = conn
        self._arrivals = arrivals
        self._uids = {one.id: (nova_uid(one), nova_name(one)) for one in op.everyone}
        self._secrets = Secrets(op.database.passwords)
        prompt = op.database.system_prompt(op.mysis)
        self._folding = TurnBuilder(prompt)
        self._arrival = ImportedMysis("", op.mysis.name)
        self._rows = _ImportState(0)
        own = self._secrets.text(prompt).strip()
        self._template = (
            Template(name="nova", title="From Zoea Nova", prompt=own, goal=_GOAL) if own else op.wanted.template
        )

    def run(self) -> ImportedMysis:
        self._admit()
        for turn in self._folding.turns(self._watched()):
            self._store(turn)
        self._conn.execute(
            "UPDATE tally SET turns = ?, tool_calls = ?, errors = ? WHERE mysis_id = ?",
            (self._rows.number, self._rows.calls, self._rows.errors, self._rows.mysis_id),
        )
        for note in self._folding.lost_notes:
            self._arrival.notes.append(f"left out, as there is no turn it could stand in: {note[:60]!r}")
        self._arrival.mended.update(self._folding.mended)
        if self._secrets.count:
            self._arrival.mended["texts had a password or a key, which is taken out"] += self._secrets.count
        self._arrival.turns = self._rows.number
        self._arrival.tool_calls = self._rows.calls
        return self._arrival

    def _watched(self) -> Iterator[NovaMemory]:
        database, mysis = self._op.database, self._op.mysis
        total = database.count(mysis)
        for number, memory in enumerate(database.memories(mysis)):
            if number % _SAID_EVERY == 0:
                self._op.progress(self._arrival.name, number, total)
            yield memory

    def _admit(self) -> None:
        mysis, wanted, now = self._op.mysis, self._op.wanted, self._conn.now()
        name = self._arrivals.free_name(nova_name(mysis))
        provider, model = wanted.provider, wanted.model
        if not wanted.is_forced and mysis.provider:
            own = wanted.settings.provider_named(mysis.provider)
            if own is not None:
                provider, model = mysis.provider, mysis.model or own.model
            else:
                self._arrival.notes.append(
                    f"its provider {clean(mysis.provider)[:60]} is not configured here: it uses {provider}"
                    f" (`zoea configure {name} --provider NAME` gives it another)"
                )
        was = f" (was {mysis.state})" if mysis.state in ("idle", "running", "stopped", "errored") else ""
        self._arrival.name = name
        self._rows.mysis_id = self._arrivals.admit(
            {
                "uid": nova_uid(mysis),
                "name": name,
                "template_hash": self._arrivals.template(self._template),
                "provider": provider,
                "model": clean(model),
                "state": "stopped",
                "state_reason": f"{REASON}{was}",
                "state_at": now,
                "created_at": mysis.created_at or now,
                "deleted_at": None,
            }
        )
        if mysis.is_gone:
            self._arrival.notes.append("Zoea Nova had only its memories left, not the mysis itself")

    def _store(self, turn: NovaTurn) -> None:
        rows = self._rows
        rows.number += 1
        level = _level(turn)
        turn_id = insert_with_id(
            self._conn,
            "turn",
            {
                "mysis_id": rows.mysis_id,
                "number": rows.number,
                "opened_by": turn.opened_by,
                "nudge_level": level,
                "frozen": "{}",
                "outcome": turn.outcome,
                "opened_at": turn.opened_at,
                "ended_at": turn.ended_at,
            },
        )
        frozen = FrozenTurn(
            mysis_id=rows.mysis_id,
            turn_id=turn_id,
            turn_number=rows.number,
            template_hash=self._template.hash.hex(),
            opened_by=turn.opened_by,
            nudge_level=level,
            nudge_text=self._secrets.text(turn.nudge) or (NUDGES[0] if level else ""),
            before=rows.newest,
        )
        self._conn.execute("UPDATE turn SET frozen = ? WHERE id = ?", (frozen.to_json(), turn_id))
        seq = 1
        for prompt in turn.prompts:
            self._prompt(turn_id, seq, prompt)
            seq += 1
        for number, note in enumerate(turn.notes):
            self._conn.execute(
                "INSERT INTO turn_note(turn_id, after_seq, kind, content) VALUES (?,?,?,?)",
                (turn_id, seq - 1, f"imported-{number + 1}", self._secrets.text(note)),
            )
        for step in turn.steps:
            seq = self._step(turn_id, seq, step)

    def _prompt(self, turn_id: int, seq: int, memory: NovaMemory) -> None:
        content = self._secrets.text(memory.content)
        sender_id = self._sender(memory.sender)
        message_id = None
        is_broadcast = memory.source == "broadcast"
        if content:
            columns = {
                "kind": "broadcast" if is_broadcast else "direct",
                "sender_kind": "commander" if sender_id is None else "mysis",
                "sender_id": sender_id,
                "sender_name": "" if sender_id is None else self._known(memory.sender)[1],
                "content": content,
                "created_at": memory.at,
            }
            message_id = self._arrivals.message(columns, self._rows.mysis_id, moment=_SAME_MOMENT)
        memory_id = self._memory(
            turn_id,
            seq,
            {
                "role": "user",
                "source": "broadcast" if is_broadcast else "direct",
                "content": content,
                "message_id": message_id,
                "sender_id": sender_id,
            },
            memory.at,
        )
        if message_id is not None:
            insert_with_id(
                self._conn,
                "delivery",
                {
                    "message_id": message_id,
                    "mysis_id": self._rows.mysis_id,
                    "mode": "queue",
                    "state": "taken",
                    "turn_id": turn_id,
                    "memory_id": memory_id,
                    "created_at": memory.at,
                    "taken_at": memory.at,
                },
            )

    def _step(self, turn_id: int, seq: int, step: NovaStep) -> int:
        """Store an assistant message with its calls and results; return the next `seq`."""
        columns = {
            "role": "assistant",
            "source": "llm",
            "content": self._secrets.text(step.content),
            "reasoning": self._secrets.text(step.memory.reasoning),
        }
        memory_id = self._memory(turn_id, seq, columns, step.memory.at)
        for position, called in enumerate(step.calls):
            self._call(turn_id, seq, memory_id, position, called, step.memory.at)
        return seq + 1 + len(step.calls)

    def _call(self, turn_id: int, seq: int, memory_id: int, position: int, called: NovaCall, at: int) -> None:
        name = clean(called.call.name)
        arguments = self._secrets.json(called.call.arguments)
        result = self._secrets.json(called.result or "")
        call_id = insert_with_id(
            self._conn,
            "tool_call",
            {
                "memory_id": memory_id,
                "position": position,
                "provider_call_id": clean(called.call.id),
                "name": name,
                "arguments": arguments,
                "fingerprint": fingerprint.of_call(name, arguments),
                "result_fingerprint": fingerprint.of_result(result, self._op.wanted.settings.loop.volatile),
                "state": called.state,
                "started_at": at,
                "ended_at": called.at,
            },
        )
        result_id = self._memory(
            turn_id, seq + 1 + position, {"role": "tool", "source": "tool", "content": result}, called.at
        )
        self._conn.execute("UPDATE tool_call SET result_memory_id = ? WHERE id = ?", (result_id, call_id))
        self._rows.calls += 1
        self._rows.errors += called.state is not CallState.DONE

    def _memory(self, turn_id: int, seq: int, columns: dict[str, Any], at: int) -> int:
        tokens = estimate.tokens(columns["content"]) + estimate.tokens(columns.get("reasoning", ""))
        place = {"mysis_id": self._rows.mysis_id, "turn_id": turn_id, "seq": seq, "tokens": tokens, "created_at": at}
        self._rows.newest = insert_with_id(self._conn, "memory", {**columns, **place})
        self._arrival.memories += 1
        return self._rows.newest

    def _known(self, nova_id: str) -> tuple[str, str]:
        """Return uid and name of a sender. Derived from the id if it no longer exists."""
        if nova_id not in self._uids:
            name = former_name(nova_id)
            self._uids[nova_id] = (nova_uid(NovaMysis(nova_id, name)), name)
        return self._uids[nova_id]

    def _sender(self, nova_id: str) -> int | None:
        """Return the id of the sender; None for the commander."""
        if not nova_id:
            return None
        if nova_id not in self._rows.senders:
            self._rows.senders[nova_id] = self._arrivals.sender(*self._known(nova_id))
        return self._rows.senders[nova_id]


def _level(turn: NovaTurn) -> int:
    """Return the level of the nudge that opened the turn; 0 if prompts did."""
    if turn.opened_by is OpenedBy.PROMPT:
        return 0
    levels = (number for number, text in enumerate(NUDGES, 1) if turn.nudge.startswith(text))
    return next(levels, 1)


PASSWORD = "[REDACTED_PASSWORD]"


class Secrets:
    """Redacts secrets in texts and counts the changed texts.

    Args:
        passwords: Passwords of the accounts, longest first.
    """

    def __init__(self, passwords: Sequence[str]) -> None:
        self.count = 0
        self._known = re.compile("|".join(map(re.escape, passwords))) if passwords else None

    def text(self, text: str) -> str:
        """Redact a text."""
        return self._counted(text, redact_secrets(self._without_known(clean(text))))

    def json(self, text: str) -> str:
        """Redact arguments or a result; JSON stays JSON."""
        return self._counted(text, redact_json_text(self._without_known(clean(text)), redact_secrets))

    def _without_known(self, text: str) -> str:
        return self._known.sub(PASSWORD, text) if self._known else text

    def _counted(self, before: str, after: str) -> str:
        self.count += after != clean(before)
        return after
