"""Speaking to myses from a screen that has a prompt: who hears it, what it starts, what became of it.

A mixin of screens. The text stays in the prompt until the swarm has taken it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual.app import SuspendNotSupported

from zoea.model.enums import DeliveryMode, MysisState
from zoea.model.errors import StoreError, ZoeaError
from zoea.model.values import MysisView, Recipients
from zoea.queries.broadcasts import read_commander_messages
from zoea.text.control_characters import one_line
from zoea.tui import number_format
from zoea.tui.state.deferred_worker import Beside
from zoea.tui.terminal.external_editor import edit
from zoea.tui.widgets.message_prompt import MessagePrompt, MessageTarget

if TYPE_CHECKING:
    from zoea.tui.screens.base import CockpitScreen

_NAMED = 3


class Speaking:
    """What `m`, `b`, enter and ctrl+o do on a screen with a `MessagePrompt`."""

    _knows_history = False

    @property
    def _speaker(self) -> CockpitScreen[None]:
        return cast("CockpitScreen[None]", self)

    @property
    def prompt(self) -> MessagePrompt:
        return self._speaker.query_one(MessagePrompt)

    # Opening.

    def speak_to(self, view: MysisView) -> None:
        """Open the prompt for one mysis."""
        self._open(to_one(view))

    def speak_to_all(self) -> None:
        """Open the prompt for the marked, or for everybody."""
        feed, marks = self._speaker.cockpit.feed, self._speaker.cockpit.marks
        self._open(to_many(feed.in_order(), marks))

    def _open(self, target: MessageTarget) -> None:
        self.prompt.open(target)
        if not self._knows_history:
            self._knows_history = True
            self._speaker.cockpit.run_worker(Beside(self._read_history), exit_on_error=False)

    async def _read_history(self) -> None:
        opened = self._speaker.cockpit.opened
        if opened is None:
            return
        try:
            said = await asyncio.to_thread(read_commander_messages, opened.database)
        except StoreError:
            return  # the history is a help: without it people still write
        if self._speaker.is_attached:
            self.prompt.remember(said)

    def on_screen_resume(self) -> None:
        for prompt in self._speaker.query(MessagePrompt):
            prompt.taken_elsewhere()

    def retarget(self) -> None:
        """Rows changed: what stands under an open prompt is said anew."""
        target = self.prompt.target
        if not self.prompt.is_open or target is None or self.prompt.is_sending:
            return
        feed = self._speaker.cockpit.feed
        if target.mysis_id is not None:
            view = feed.myses.get(target.mysis_id)
            if view is not None and (fresh := to_one(view)) != target:
                self.prompt.retarget(fresh)
        elif target.is_broadcast:
            chosen = {view.id for view in feed.in_order() if view.name in target.names}
            if target.names and not chosen:
                return  # all of them are gone: sending says so, and never reaches everybody instead
            if (fresh := to_many(feed.in_order(), chosen)) != target:
                self.prompt.retarget(fresh)

    # Sending.

    def on_message_prompt_submitted(self, event: MessagePrompt.Submitted) -> None:
        event.stop()
        send = Beside(lambda: self._send(event.target, event.text, event.mode))
        self._speaker.cockpit.run_worker(send, exit_on_error=False)

    async def _send(self, target: MessageTarget, text: str, mode: DeliveryMode) -> None:
        cockpit, prompt = self._speaker.cockpit, self.prompt
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
            # Its screen went meanwhile: what was sent is no draft any more.
            cockpit.drafts.note(text)
            if cockpit.drafts.of(target.key) == text:
                cockpit.drafts.keep(target.key, "")
        cockpit.tell_receipt(receipt)

    # The person's own editor.

    async def on_message_prompt_editor_wanted(self, event: MessagePrompt.EditorWanted) -> None:
        event.stop()
        self._speaker.cockpit.run_worker(
            Beside(lambda: self._edit(event.text)), exclusive=True, group="editor", exit_on_error=False
        )

    async def _edit(self, text: str) -> None:
        app, prompt = self._speaker.cockpit, self.prompt
        try:
            # What would be drawn meanwhile is held back: the terminal is the editor's.
            with app.batch_update(), app.suspend():
                changed = await edit(text)
        except SuspendNotSupported:
            prompt.refused("this terminal cannot be lent to an editor")
            return
        except OSError as error:
            prompt.refused(f"the editor did not start: {error}")
            return
        finally:
            app.refresh(layout=True)
        prompt.put(changed)


def to_one(view: MysisView) -> MessageTarget:
    """One mysis as a target: what a message to it starts, or why it must be relaunched first."""
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
    """The marked as a target, or everybody where none is marked."""
    chosen = [view for view in views if view.id in marks]
    addressed = chosen or list(views)
    hearing = [view for view in addressed if view.state.accepts_messages]
    deaf = [view for view in addressed if not view.state.accepts_messages]
    started = sum(1 for view in hearing if view.state is MysisState.IDLE)
    notes = [f"{started} will be started"] if started else []
    states = ", ".join(dict.fromkeys(str(view.state) for view in deaf))
    notes += [f"{_names(deaf)} cannot hear it ({states})"] if deaf else []
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
    """About what one round of all of them reads, from their newest requests, and what that cost so far on average."""
    known = [view for view in views if view.context_used]
    if not known:
        return ["what a round costs is not known yet"] if views else []
    said = f"~{number_format.tokens(sum(view.context_used for view in known))}{_price(known)} a round"
    silent = len(views) - len(known)
    return [f"{said}, {silent} not known yet" if silent else said]


def _price(views: Sequence[MysisView]) -> str:
    """` tokens, ~$0.02`; no price where none has one or all cost nothing, unknown where only some have one."""
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
