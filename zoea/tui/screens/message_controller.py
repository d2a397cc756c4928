"""Sends messages and broadcasts from a prompt, which keeps the text until they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from textual.app import SuspendNotSupported

from zoea.model.enums import DeliveryMode, MysisState
from zoea.model.errors import StoreError, ZoeaError
from zoea.model.values import MysisView, Recipients
from zoea.queries.broadcasts import read_commander_messages
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.commands.swarm_commands import show_receipt
from zoea.tui.screens.base import BaseScreen
from zoea.tui.terminal.external_editor import edit
from zoea.tui.widgets.message_prompt import MessagePrompt, MessageTarget

_NAMED = 3


class MessageController:
    """Opens a screen's `MessagePrompt`, sends its text, and starts the person's editor."""

    def __init__(self, screen: BaseScreen[Any]) -> None:
        self._screen = screen
        self._has_read_history = False

    @property
    def prompt(self) -> MessagePrompt:
        """The input for messages."""
        return self._screen.query_one(MessagePrompt)

    # Opening.

    def write_to(self, view: MysisView) -> None:
        """Open the prompt for one mysis."""
        self._open(to_one(view))

    def write_to_all(self) -> None:
        """Open the prompt for the marked myses, or for all."""
        cockpit = self._screen.cockpit
        self._open(to_many(cockpit.feed.in_order(), cockpit.marks))

    def _open(self, target: MessageTarget) -> None:
        self.prompt.open(target)
        if not self._has_read_history:
            self._has_read_history = True
            self._screen.cockpit.start_work(self._read_history)

    async def _read_history(self) -> None:
        opened = self._screen.cockpit.opened
        if opened is None:
            return
        try:
            said = await asyncio.to_thread(read_commander_messages, opened.database)
        except StoreError:
            return  # messages can be written without the history
        if self._screen.is_attached:
            self.prompt.remember(said)

    def resume(self) -> None:
        """Take over the draft after another screen was on top."""
        for prompt in self._screen.query(MessagePrompt):
            prompt.taken_elsewhere()

    def retarget(self) -> None:
        """Update recipients and notes of an open prompt after rows changed."""
        target = self.prompt.target
        if not self.prompt.is_open or target is None or self.prompt.is_sending:
            return
        feed = self._screen.cockpit.feed
        if target.mysis_id is not None:
            view = feed.myses.get(target.mysis_id)
            if view is not None and (fresh := to_one(view)) != target:
                self.prompt.retarget(fresh)
        elif target.is_broadcast:
            chosen = {view.id for view in feed.in_order() if view.name in target.names}
            if target.names and not chosen:
                return  # all of them are gone: sending is refused then, because no names would mean all myses
            if (fresh := to_many(feed.in_order(), chosen)) != target:
                self.prompt.retarget(fresh)

    # Sending.

    def send(self, event: MessagePrompt.Submitted) -> None:
        """Send the text of the prompt."""
        event.stop()
        self._screen.cockpit.start_work(lambda: self._send(event.target, event.text, event.mode))

    async def _send(self, target: MessageTarget, text: str, mode: DeliveryMode) -> None:
        cockpit, prompt = self._screen.cockpit, self.prompt
        try:
            api = cockpit.api
            if target.mysis_id is None:
                receipt = await api.broadcast(text, to=Recipients(names=target.names), mode=mode)
            else:
                ref = f"#{target.mysis_id}"
                if target.relaunches:
                    await api.start(ref)
                receipt = await api.send(ref, text, mode=mode)
        except ZoeaError as error:
            if prompt.is_attached:
                prompt.refused(f"{error.title}: {error.what}")
            else:
                cockpit.show_error(error)
            return
        if prompt.is_attached:
            prompt.sent()
        else:
            # The screen was left while the message was sent, so the draft is removed here.
            cockpit.drafts.note(text)
            if cockpit.drafts.of(target.key) == text:
                cockpit.drafts.keep(target.key, "")
        show_receipt(cockpit, receipt)

    # The person's own editor.

    def open_editor(self, event: MessagePrompt.EditorWanted) -> None:
        """Edit the text of the prompt in the person's own editor."""
        event.stop()
        self._screen.cockpit.start_work(lambda: self._edit(event.text), group="editor")

    async def _edit(self, text: str) -> None:
        app, prompt = self._screen.cockpit, self.prompt
        try:
            # Nothing is drawn while the editor has the terminal.
            with app.batch_update(), app.suspend():
                changed = await edit(text)
        except SuspendNotSupported:
            prompt.refused("This terminal cannot run an editor")
            return
        except OSError as error:
            prompt.refused(f"The editor did not start: {error}")
            return
        finally:
            app.refresh(layout=True)
        prompt.put(changed)


def to_one(view: MysisView) -> MessageTarget:
    """Return one mysis as a target, with a note on whether it is started or relaunched."""
    relaunches = not view.state.accepts_messages
    notes = [f"it is {view.state}: enter relaunches it and sends"] if relaunches else []
    notes += ["it will be started"] if view.state is MysisState.IDLE else []
    notes += round_cost([view])
    return MessageTarget(
        f"mysis {view.id}",
        f"{'relaunch and send to' if relaunches else 'message to'} {one_line(view.name)}",
        (view.name,),
        note=" · ".join(notes),
        mysis_id=view.id,
        relaunches=relaunches,
    )


def to_many(views: Sequence[MysisView], marks: set[int]) -> MessageTarget:
    """Return the marked myses as a target, or all where none is marked."""
    chosen = [view for view in views if view.id in marks]
    addressed = chosen or list(views)
    hearing = [view for view in addressed if view.state.accepts_messages]
    deaf = [view for view in addressed if not view.state.accepts_messages]
    started = sum(1 for view in hearing if view.state is MysisState.IDLE)
    notes = [f"{started} will be started"] if started else []
    states = ", ".join(dict.fromkeys(str(view.state) for view in deaf))
    notes += [f"{_names(deaf)} cannot receive it ({states})"] if deaf else []
    notes += round_cost(hearing)
    who = f"marked: {_names(chosen)}" if chosen else "all"
    return MessageTarget(
        "broadcast",
        f"broadcast to {len(hearing)} of {len(addressed)} ({who})",
        tuple(view.name for view in chosen),
        is_broadcast=True,
        note=" · ".join(notes),
    )


def round_cost(views: Sequence[MysisView]) -> list[str]:
    """Return the estimated tokens and price of one turn of each, from their newest requests."""
    known = [view for view in views if view.context_used]
    if not known:
        return ["the cost of a turn is not known yet"] if views else []
    said = f"~{number_format.tokens(sum(view.context_used for view in known))}{_price(known)} a round"
    silent = len(views) - len(known)
    return [f"{said}, {silent} not known yet" if silent else said]


def _price(views: Sequence[MysisView]) -> str:
    """Return the unit and price of a round, as ` tokens, ~$0.02`.

    There is no price where no mysis has one or all cost nothing, and `$?` where only some have one.
    """
    rates = [view.cost_micros / view.tokens if view.cost_micros is not None and view.tokens else None for view in views]
    known = [rate for rate in rates if rate is not None]
    if not known or (len(known) == len(rates) and not any(known)):
        return " tokens"
    if len(known) < len(rates):
        return " tokens, $?"
    micros = sum(view.context_used * rate for view, rate in zip(views, known, strict=True))
    return f" tokens, ~{number_format.money(round(micros))}" if micros >= 5_000 else " tokens, under $0.01"


def _names(views: Sequence[MysisView]) -> str:
    shown = ", ".join(one_line(view.name) for view in views[:_NAMED])
    return shown if len(views) <= _NAMED else f"{shown} and {len(views) - _NAMED} more"
