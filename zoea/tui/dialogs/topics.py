"""The topics of the ledger with their newest messages; enter reads one, `p` publishes."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from zoea.model.errors import UsageError, ZoeaError
from zoea.model.topics import TopicMessage, TopicSummary, check_published_topic
from zoea.model.values import Event
from zoea.queries.topic_ledger import (
    format_body,
    format_origin,
    format_sender,
    read_messages,
    read_subscribers,
    read_topics,
)
from zoea.text.control_characters import one_line, prose_line, reveal, split_lines
from zoea.text.sentences import count_of
from zoea.tui import number_format
from zoea.tui.dialogs.modal import ListDialog, describe_problem
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.state.drafts import message_key
from zoea.tui.text_layout import Piece, fit_text
from zoea.tui.widgets.clickable_text import TextBlock, key_hints
from zoea.tui.widgets.line_list import PickItem, PickList

_TOPIC, _COUNT, _SENDER = 23, 8, 16
"""Column widths of a topic, its number of messages, and a sender."""
SHOWN = 200
"""Topics, and newest messages of a topic, that are listed."""
SHOWN_CHARS = 2_000_000
"""Characters of the newest messages that are listed: parsed, their data takes 20 times as much."""
LINE_CHARS = 500
"""Characters of a message in a list. Making a line of all 200 kB of it would take a quarter of a second."""
BODY_CHARS = 20_000


class TopicsDialog(ListDialog):
    """Lists the topics, or the messages of one, newest last. The text of the chosen one stands below."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("p", "publish", "publish")]

    def __init__(self) -> None:
        super().__init__()
        self._topics: tuple[TopicSummary, ...] | None = None
        self._subscribers: dict[str, list[str]] = {}
        self._topic = self._wanted = ""
        self._messages: tuple[TopicMessage, ...] = ()
        self._rows: list[PickItem] = []
        self._body: tuple[str, list[list[Piece]]] = ("", [])
        """The id of the message whose text was laid out last, and its lines."""
        self._not_before = 0.0
        self._identity = ""
        self._list = PickList(id="topics")
        self._whole = TextBlock(id="text")
        self._note = TextBlock(id="said")
        self._input = Input(id="publish", compact=True)

    def content(self) -> Iterable[Widget]:
        return self._list, VerticalScroll(self._whole, id="whole", can_focus=False), self._input, self._note

    def on_mount(self) -> None:
        self._list.focus()

    @property
    def holds_keys(self) -> bool:
        return self._is_reading and (self._topics is None or self._wanted != self._topic)

    # Actions.

    def back(self) -> None:
        """Close the line for a message, else the topic, else the dialog."""
        if self._input.has_class("-open"):
            self._close_input()
        elif self._topic:
            before, self._topic, self._wanted, self._messages = self._topic, "", "", ()
            self.draw(on=before)
        else:
            self.dismiss()

    def action_publish(self) -> None:
        """Open the line for a message on the shown topic, or on the chosen one."""
        if self._input.has_class("-open") or self.action_context().read_only_reason:
            return
        self.result = ("", "")
        self._input.placeholder = "text, or a JSON object" if self._topic else "TOPIC text"
        self._input.value = "" if self._topic or not self._list.chosen else f"{self._list.chosen} "
        self._identity = secrets.token_hex(8)  # a line that is sent twice is one message
        self._input.add_class("-open")
        self._input.focus()
        self.draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.cockpit.run_worker(DeferredWork(lambda: self._publish(event.value)), exit_on_error=False)

    def on_pick_list_chosen(self, event: PickList.Chosen) -> None:
        event.stop()
        if not self._topic:
            self._wanted = event.id  # shown once its messages are read, because an empty list would lose the focus
            self.read_again()

    def _close_input(self) -> None:
        self._input.remove_class("-open")
        self._input.value = ""
        self._list.focus()
        self.draw()

    # Reading and publishing.

    def feed_event(self, event: Event) -> None:
        """Read again after a message was published."""
        if event.kind == "topic.published":
            self.read_again()

    async def catch_up(self) -> None:
        clock = asyncio.get_running_loop().time
        # Not faster than it is read, where messages are published without end.
        await asyncio.sleep(max(0.0, self._not_before - clock()))
        began, opened, topic = clock(), self.cockpit.opened, self._wanted
        try:
            if opened is None:
                return
            listed = await asyncio.to_thread(read_topics, opened.database)
            self._subscribers = await asyncio.to_thread(read_subscribers, opened.database)
            self._topics = listed
            self.draw()  # at once, because keys that were held until now act on the rows
            if any(one.topic == topic for one in listed):
                read = partial(read_messages, opened.database, topic, limit=SHOWN, max_chars=SHOWN_CHARS)
                found = await asyncio.to_thread(read)
                rows = await asyncio.to_thread(lambda: [_message_row(one, self.cockpit.now()) for one in found])
                if topic == self._wanted and found:
                    # The cursor follows the newest message where it was on it.
                    was_on_newest = topic != self._topic or self._list.chosen == str(self._messages[-1].id)
                    self._topic, self._messages, self._rows = topic, found, rows
                    self.draw(on=str(found[-1].id) if was_on_newest else "")
        finally:
            self._not_before = clock() + min(1.0, clock() - began)
            if not self._is_old:
                self._wanted = self._topic

    async def _publish(self, line: str) -> None:
        key = message_key(self._identity, self._topic, line)
        try:
            topic, _, text = (self._topic, "", line) if self._topic else line.strip().partition(" ")
            data = _parse_object(text)
            name = check_published_topic(topic)
            done = await self.cockpit.api.publish(name, "" if data else text.strip(), data=data, idempotency_key=key)
        except ZoeaError as error:
            self.result = describe_problem(error)
            self.redraw_bars()
            return
        readers = ", ".join(one_line(reader.mysis) for reader in done.lines[:3])
        more = f" and {len(done.lines) - 3} more" if len(done.lines) > 3 else ""
        self.result = (f"published on {done.topic}, read by {readers or 'no mysis'}{more}", "running")
        if self.is_attached:
            self._close_input()
            self.read_again()

    # Drawing.

    def draw(self, on: str = "") -> None:
        if not self.is_attached:
            return
        rows = self._rows if self._topic else _topic_rows(self._topics or (), self.cockpit.now())
        self.box.border_title = Content(f"TOPIC {one_line(self._topic)}" if self._topic else "TOPICS")
        self._list.display = bool(rows)
        self._list.put(rows, on=on)
        self._whole.put(self._whole_lines())
        self._note.put([[self.note]])
        self.box.border_subtitle = key_hints(self._keys(has_rows=bool(rows)))

    def _keys(self, *, has_rows: bool) -> str:
        if self._input.has_class("-open"):
            return "enter publish · esc back"
        keys = ["enter read"] if has_rows and not self._topic else []
        return " · ".join([*keys, *([] if self.action_context().read_only_reason else ["p publish"]), "esc back"])

    def _whole_lines(self) -> list[list[Piece]]:
        if self._topics is None:
            return [[("Reading…", "quiet")]]
        if not self._topics:
            waiting = ", ".join(sorted(self._subscribers)[:10])
            words = (
                f"Subscribed to: {one_line(waiting)}"
                if waiting
                else 'A message of a topic goes to the myses with `subscribes = ["TOPIC"]` in their template.'
            )
            return [[("No message was published yet", "strong")], [], [(words, "quiet")]]
        if not self._topic:
            readers = self._subscribers.get(self._list.chosen, [])
            names = ", ".join(one_line(name) for name in readers[:10])
            more = f" and {len(readers) - 10} more" if len(readers) > 10 else ""
            return [[(f"read by {names}{more}" if names else "no mysis follows it", "quiet")]]
        found = next((one for one in self._messages if str(one.id) == self._list.chosen), None)
        if found is None:
            return []
        if self._body[0] != self._list.chosen:
            body = reveal(format_body(found, BODY_CHARS))
            lines: list[list[Piece]] = [[(line, "")] for line in split_lines(body)]
            self._body = (self._list.chosen, [[(one_line(format_origin(found)), "quiet")], *lines])
        return self._body[1]


def _topic_row(topic: TopicSummary, now: int) -> PickItem:
    newest = f"{one_line(format_sender(topic.newest_sender))}: {prose_line(topic.newest_text)}"
    return PickItem(
        ((fit_text(topic.topic, _TOPIC), "strong"), (f"{topic.messages:>{_COUNT},}  ", "quiet"), (newest, "")),
        id=topic.topic,
        right=((f"  {number_format.age(topic.newest_at, now)} ago", "quiet"),),
    )


def _topic_rows(topics: Sequence[TopicSummary], now: int) -> list[PickItem]:
    heading = f"{'topic':<{_TOPIC}}{'messages':>{_COUNT}}  newest"
    rows = [PickItem(((heading, "quiet"),))] if topics else []
    rows += [_topic_row(one, now) for one in topics[:SHOWN]]
    if (more := len(topics) - SHOWN) > 0:
        rows.append(PickItem(((f"and {count_of(more, 'topic')} more, which `zoea topic list` shows", "quiet"),)))
    return rows


def _message_row(message: TopicMessage, now: int) -> PickItem:
    text = message.text or json.dumps(message.data, ensure_ascii=False)
    return PickItem(
        (
            (f"{number_format.clock(message.created_at, now)}  ", "quiet"),
            (fit_text(one_line(format_sender(message.sender)), _SENDER), "mysis"),
            (f"  {prose_line(text[:LINE_CHARS])}", ""),
        ),
        id=str(message.id),
    )


def _parse_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a line holds; None for a plain text. Raises UsageError for a broken one."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError("this is not JSON", hint="Mend it, or put a word before the brace.") from None
    return found if isinstance(found, dict) else None
