"""Sends messages and broadcasts from a prompt, which keeps the text until they are sent, and runs the editor."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual.app import SuspendNotSupported

from zoea.model.errors import StoreError, ZoeaError
from zoea.model.values import MysisView, Recipients
from zoea.queries.broadcasts import read_commander_messages
from zoea.tui.commands.swarm_commands import confirm_broadcast, show_receipt
from zoea.tui.screens.base import BaseScreen
from zoea.tui.swarm_list.message_targets import Audience, MessageTarget, refresh_target, target_many, target_one
from zoea.tui.widgets.message_prompt import MessagePrompt, limits_key
from zoea.tui.widgets.widget_part import WidgetPart


class MessageController:
    """Opens a screen's `MessagePrompt`, sends its text, and starts the person's editor."""

    def __init__(self, screen: BaseScreen[Any]) -> None:
        self._screen = screen
        self._has_read_history = False

    prompt = WidgetPart(MessagePrompt, within=lambda controller: controller._screen)
    """The input for messages."""

    # Opening.

    def write_to(self, view: MysisView, *, is_task: bool = False) -> None:
        """Open the prompt for one mysis; with `is_task` for its new task."""
        self._open(target_one(view, is_task=is_task))

    def write_to_many(self) -> None:
        """Open the prompt for the marked myses, else the filtered, else all."""
        audience = self._screen.cockpit.choose_audience()
        if audience.views:
            self._open(target_many(audience))
        else:
            self._screen.notify(
                f"No mysis matches the {audience.why}; B speaks to all", severity="warning", markup=False
            )
            self._screen.cockpit.type_ahead.discard_text()

    def write_to_all(self) -> None:
        """Open the prompt for all myses, also while a filter is on or myses are marked."""
        self._open(target_many(Audience(tuple(self._screen.cockpit.feed.in_order()))))

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
        fresh = refresh_target(target, self._screen.cockpit.feed.in_order())
        if fresh != target:
            self.prompt.retarget(fresh)

    # Sending.

    def send(self, event: MessagePrompt.Submitted) -> None:
        """Send the text of the prompt. First ask where it goes to many, costs much or exceeds a budget."""
        event.stop()
        if not event.target.is_broadcast:
            self._begin_sending(event)
            return
        cockpit = self._screen.cockpit
        confirm_broadcast(cockpit, event.target, event.text, lambda: self._begin_sending(event), refused=self._refuse)

    def _refuse(self, why: str) -> None:
        if self.prompt.is_attached:
            self.prompt.refused(why)

    def _begin_sending(self, event: MessagePrompt.Submitted) -> None:
        self._screen.cockpit.start_work(lambda: self._send(event))

    async def _send(self, event: MessagePrompt.Submitted) -> None:
        cockpit, prompt = self._screen.cockpit, self.prompt
        target, text, mode, limits = event.target, event.text, event.mode, event.limits
        try:
            api = cockpit.api
            if target.mysis_id is None:
                receipt = await api.broadcast(text, to=Recipients(names=target.names), mode=mode, limits=limits)
            else:
                ref = f"#{target.mysis_id}"
                if target.relaunches:
                    await api.start(ref)
                receipt = await api.send(ref, text, mode=mode, is_task=target.is_task, limits=limits)
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
                cockpit.drafts.keep(limits_key(target), "")
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


DEFAULT = "vi"


def command(env: Mapping[str, str] = os.environ) -> list[str]:
    """Return the editor with its arguments. Raises OSError for a value that is no valid shell text."""
    for name in ("VISUAL", "EDITOR"):
        if env.get(name, "").strip():
            try:
                return shlex.split(env[name])
            except ValueError as error:
                raise OSError(f"${name}: {error}") from error
    return [DEFAULT]


async def edit(text: str) -> str:
    """Return the text as the editor saved it, without the final newline that editors add.

    Raises OSError when the editor cannot be started or fails, or its file cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="zoea-") as folder:
        file = Path(folder) / "message.md"
        file.write_text(text, encoding="utf-8")
        # Python's streams have the terminal, because the usual descriptors lead to the log.
        process = await asyncio.create_subprocess_exec(
            *command(), str(file), stdout=sys.__stdout__, stderr=sys.__stderr__
        )
        code = await process.wait()
        if code:
            raise OSError(f"{Path(command()[0]).name} ended with {code}; the text is as it was")
        return file.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
