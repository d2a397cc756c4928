"""Recipients of a message or command from the list, and the cost of a round. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from zoea.model.enums import MysisState
from zoea.model.values import MysisView
from zoea.runtime.unsent_texts import BROADCAST, name_recipient
from zoea.text import estimate
from zoea.text.amounts import format_dollars
from zoea.text.control_characters import one_line
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.swarm_list.row_filter import RowFilter

ASK_ABOVE_TOKENS = 200_000
_NAMED = 3
_CHEAP_MICROS = 5_000
"""Prices below this are shown as under one cent."""


def is_confirmed(most: int, recipients: int, tokens: int = 0) -> bool:
    """Return whether a command to many is confirmed first: one to more than `most`, where 0 never asks.

    It is also confirmed above `ASK_ABOVE_TOKENS` of one round, because few large myses cost as much.
    """
    return bool(most) and (recipients > most or tokens > ASK_ABOVE_TOKENS)


class Audience(Struct, frozen=True):
    """The myses that a command to many is for.

    Attributes:
        why: Why these: `marked`, `filter 'ore'`; empty for all.
    """

    views: tuple[MysisView, ...]
    why: str = ""

    @classmethod
    def choose(cls, views: Sequence[MysisView], marks: Collection[int], shown: RowFilter) -> Self:
        """Return the marked myses, else those that the filter shows, else all."""
        if chosen := tuple(view for view in views if view.id in marks):
            return cls(chosen, "marked")
        if shown:
            return cls(tuple(shown.select(views)), f"filter '{one_line(shown.text)}'")
        return cls(tuple(views))


class RoundCost(Struct, frozen=True):
    """The estimated cost of one turn of each recipient, from their newest requests.

    Attributes:
        tokens: Context of those whose context is known.
        known, unknown: Their number, and the number of the others.
        micros: Price of the context; None where no price is known.
        micros_per_token: Price of one more token for all of them.
        is_complete: Every known one has a price.
    """

    tokens: int = 0
    known: int = 0
    unknown: int = 0
    micros: float | None = None
    micros_per_token: float = 0.0
    is_complete: bool = True

    @classmethod
    def of(cls, views: Sequence[MysisView]) -> Self:
        known = [view for view in views if view.context_used]
        rates = [
            view.cost_micros / view.tokens if view.cost_micros is not None and view.tokens else None for view in known
        ]
        priced = [rate for rate in rates if rate is not None]
        micros = sum(view.context_used * (rate or 0) for view, rate in zip(known, rates, strict=True))
        return cls(
            sum(view.context_used for view in known),
            len(known),
            len(views) - len(known),
            micros if priced else None,
            sum(priced),
            len(priced) == len(rates),
        )

    def count(self, text: str) -> int:
        """Return the tokens of a round with this text."""
        return self.tokens + estimate.tokens(text) * (self.known + self.unknown)

    def describe(self, text: str = "") -> str:
        """Return tokens and price of a round with this text. Empty where there is no recipient."""
        if not self.known and not self.unknown:
            return ""
        if not self.known:
            more = f"~{number_format.tokens(self.count(text))} tokens for the text; " if text else ""
            return f"{more}the cost of a turn is not known yet"
        each = "in all, if each answers once" if self.known + self.unknown > 1 else "if it answers once"
        said = f"~{number_format.tokens(self.count(text))}{self._price(text)} {each}"
        return f"{said}, {self.unknown} not known yet" if self.unknown else said

    def _price(self, text: str) -> str:
        """Return the unit and the price, as ` tokens, ~$0.02`. `$?` where only some have a price."""
        if self.micros is None or (self.is_complete and not self.micros_per_token):
            return " tokens"
        if not self.is_complete:
            return " tokens, $?"
        micros = self.micros + estimate.tokens(text) * self.micros_per_token
        return f" tokens, ~{format_dollars(micros)}" if micros >= _CHEAP_MICROS else " tokens, under $0.01"


class MessageTarget(Struct, frozen=True):
    """Describe the recipients of a message.

    Args:
        key: Identifies the draft.
        names: Recipients; empty for all.
        note: Shown below the input: who is started or skipped.
        why: Why these are the recipients of a broadcast; empty for all.
        receivers: Number of those that can receive it.
        relaunches: Whether a stopped mysis is relaunched before the message is sent.
        is_task: Whether the message is its new task.
    """

    key: str
    title: str
    names: tuple[str, ...] = ()
    is_broadcast: bool = False
    note: str = ""
    mysis_id: int | None = None
    relaunches: bool = False
    is_task: bool = False
    why: str = ""
    receivers: int = 0
    cost: RoundCost = RoundCost()

    def describe(self, text: str) -> str:
        """Return the note with the cost of a round with this text."""
        parts = (self.note, self.cost.describe(text))
        # The title of a broadcast says how many get it; a line that is cut shows what it costs.
        return " · ".join(part for part in (reversed(parts) if self.is_broadcast else parts) if part)


def target_one(view: MysisView, *, is_task: bool = False) -> MessageTarget:
    """Return one mysis as a target, with a note if it is started or relaunched."""
    relaunches = not view.state.accepts_messages
    notes = [f"it is {view.state}: enter relaunches it and sends"] if relaunches else []
    notes += ["sending starts it"] if view.state is MysisState.IDLE else []
    notes += ["it works on it until it reports that it is done"] if is_task else []
    what = "relaunch and send to" if relaunches else "task for" if is_task else "message to"
    return MessageTarget(
        name_recipient(view.id, is_task=is_task),
        f"{what} {one_line(view.name)}",
        (view.name,),
        note=" · ".join(notes),
        mysis_id=view.id,
        relaunches=relaunches,
        is_task=is_task,
        receivers=1,
        cost=RoundCost.of([view]),
    )


def target_many(audience: Audience) -> MessageTarget:
    """Return the recipients of a broadcast, with a note on those that cannot receive it."""
    hearing = [view for view in audience.views if view.state.accepts_messages]
    deaf = [view for view in audience.views if not view.state.accepts_messages]
    started = sum(1 for view in hearing if view.state is MysisState.IDLE)
    states = ", ".join(dict.fromkeys(str(view.state) for view in deaf))
    notes = [f"{list_names(deaf)} cannot receive it ({states})"] if deaf else []
    notes += [f"{started} will be started"] if started else []
    notes += (
        ["to choose who: esc (keeps the text), space marks, b again"]
        if not audience.why and len(audience.views) > 1
        else []
    )
    return MessageTarget(
        BROADCAST,
        f"broadcast to {_count_hearing(len(hearing), audience)}",
        tuple(view.name for view in audience.views) if audience.why else (),
        is_broadcast=True,
        note=" · ".join(notes),
        why=audience.why,
        receivers=len(hearing),
        cost=RoundCost.of(hearing),
    )


def _count_hearing(hearing: int, audience: Audience) -> str:
    """Return the number of recipients: `all 5 myses`, `3 of 5 myses`, `2 of 3 (marked: a, b, c)`."""
    count = len(audience.views)
    few = "" if hearing == count else f"{hearing} of "
    if audience.why:
        return f"{few}{count} ({audience.why}: {list_names(audience.views)})"
    return f"{few or 'all '}{count_of(count, 'mysis')}"


def refresh_target(target: MessageTarget, views: Sequence[MysisView]) -> MessageTarget:
    """Return the same recipients as they are now; the target itself where they are gone.

    Recipients stay those that the prompt named when it opened, also when another filter would now show others.
    """
    if target.mysis_id is not None:
        return next((target_one(view, is_task=target.is_task) for view in views if view.id == target.mysis_id), target)
    if not target.why:
        return target_many(Audience(tuple(views)))
    names = set(target.names)
    kept = tuple(view for view in views if view.name in names)
    # No names would mean all myses, so the target of deleted ones stays, and sending to it is refused.
    return replace(target_many(Audience(kept, target.why)), key=target.key) if kept else target


def list_unsent(views: Sequence[MysisView], draft_of: Callable[[str], str]) -> str:
    """Return whom unsent texts are for, by the draft of each key: `alpha, beta and a broadcast`. Empty without any."""
    drafts = {
        view.id: [draft_of(name_recipient(view.id, is_task=is_task)) for is_task in (False, True)] for view in views
    }
    names = list_names([view for view in views if any(drafts[view.id])])
    broadcast = "a broadcast" if draft_of(BROADCAST) else ""
    return " and ".join(filter(None, (names, broadcast)))


def list_names(views: Sequence[MysisView]) -> str:
    """Return the first names, and the number of the others."""
    shown = ", ".join(one_line(view.name) for view in views[:_NAMED])
    return shown if len(views) <= _NAMED else f"{shown} and {len(views) - _NAMED} more"
