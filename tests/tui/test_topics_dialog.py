"""The box of topics: listed with counts and the newest message, read, and published from it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from tests.fakes.slow_mount import delayed
from tests.swarm.harness import script
from tests.tui.cockpit import Stage, cockpit
from tests.tui.idle_pilot import key_event
from zoea.model.errors import WorkspaceHeld
from zoea.model.request import Answer
from zoea.model.topics import PublishReceipt, TopicSummary
from zoea.queries.topic_ledger import read_messages, read_topics
from zoea.text.control_characters import prose_line
from zoea.tui.dialogs import topics
from zoea.tui.dialogs.topics import LINE_CHARS, TopicsDialog
from zoea.tui.widgets.line_list import PickList

DONE = script(Answer(text="Done."))


async def opened(stage: Stage, word: str) -> None:
    await stage.press("T", until=lambda: stage.shows(TopicsDialog) and word in stage.text())


async def test_topics_are_listed_with_their_counts_and_read(tmp_path: Path) -> None:
    async with cockpit(tmp_path, DONE, names=("alpha",)) as stage:
        await stage.api.publish("NEWS", "One.")
        await stage.api.publish("NEWS", "Two.", data={"ore": 7})
        await stage.api.publish("ISSUE_OPENED", "The login fails.")
        await opened(stage, "no mysis follows it")
        listed = stage.one(PickList)
        assert listed.ids == ["STATE_SNAPSHOT", "ISSUE_OPENED", "NEWS"]
        assert "NEWS" in listed.plain
        assert "you: Two." in listed.plain
        await stage.press("j", "j", "enter", until=lambda: '"ore": 7' in stage.text())
        assert stage.one(PickList).chosen_text == "Two."
        await stage.press("k", until=lambda: '"ore": 7' not in stage.text() and "NEWS  you" in stage.text())
        await stage.api.publish("NEWS", "Three.")
        await stage.until(lambda: "Three." in stage.text())
        assert stage.one(PickList).chosen_text == "One."
        await stage.press("escape", shows="TOPICS")
        assert stage.one(PickList).chosen == "NEWS"


async def test_keys_reach_the_messages_of_a_topic_that_takes_long_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "read_messages", delayed(read_messages))
    async with cockpit(tmp_path, DONE, names=("alpha",)) as stage:
        await stage.api.publish("NEWS", "One.")
        await stage.api.publish("NEWS", "Two.")
        await opened(stage, "no mysis follows it")
        await stage.press("j")
        for key in ("enter", "k"):
            stage.app.post_message(key_event(key))
        dialog = stage.screen
        assert isinstance(dialog, TopicsDialog)
        await stage.until(lambda: dialog.holds_keys)
        dialog.tick()
        await stage.until(lambda: stage.one(PickList).chosen_text == "One.")
        assert stage.one(PickList).has_focus


async def test_enter_that_is_typed_before_the_topics_are_read_opens_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read = threading.Event()

    def read_late(database: Path) -> tuple[TopicSummary, ...]:
        may_read.wait()
        return read_topics(database)

    monkeypatch.setattr(topics, "read_topics", read_late)
    async with cockpit(tmp_path, DONE, names=("alpha",)) as stage:
        await stage.api.publish("NEWS", "One.")
        for key in ("T", "enter"):
            stage.app.post_message(key_event(key))
        await stage.until(lambda: stage.shows(TopicsDialog) and "Reading…" in stage.text())
        may_read.set()
        await stage.until(lambda: "TOPIC NEWS" in stage.text())
        await stage.press("escape", shows="TOPICS")


async def test_long_messages_are_laid_out_once_and_not_at_each_tick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out: list[int] = []

    def count(text: str) -> str:
        laid_out.append(len(text))
        return prose_line(text)

    async with cockpit(tmp_path, DONE, names=("alpha",)) as stage:
        for _ in range(3):
            await stage.api.publish("NEWS", "é" * 30_000)
        await opened(stage, "no mysis follows it")
        await stage.press("enter", until=lambda: len(stage.one(PickList).ids) == 3)
        dialog = stage.screen
        assert isinstance(dialog, TopicsDialog)
        monkeypatch.setattr(topics, "prose_line", count)
        dialog.tick()
        assert sum(laid_out) < 100
        await stage.api.publish("NEWS", "é" * 30_000)
        await stage.until(lambda: len(stage.one(PickList).ids) == 4)
        assert max(laid_out) == LINE_CHARS


async def test_of_large_messages_the_newest_are_read_and_long_data_is_not_indented(tmp_path: Path) -> None:
    async with cockpit(tmp_path, DONE, names=("alpha",)) as stage:
        for number in range(4):
            await stage.api.publish("NEWS", data={"n": number, "a": [0] * 240_000}, is_raw=True)
        await opened(stage, "no mysis follows it")
        await stage.press("enter", until=lambda: stage.one(PickList).ids == ["2", "3", "4"])
        await stage.until(lambda: '{"n": 3, "a": [0, 0' in stage.text())


async def test_of_thousands_of_topics_the_newest_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "SHOWN", 3)
    async with cockpit(tmp_path, DONE, names=("alpha",)) as stage:
        for number in range(5):
            await stage.api.publish(f"T{number}", "x")
        await opened(stage, "and 2 topics more")
        assert stage.one(PickList).ids == ["T4", "T3", "T2"]


async def test_a_message_is_published_from_the_box(tmp_path: Path) -> None:
    async with cockpit(tmp_path, DONE, names=("alpha",)) as stage:
        await opened(stage, "No message was published yet")
        await stage.press("p")
        await stage.write("two words?")
        await stage.until(lambda: stage.one(Input).value == "two words?")
        await stage.press("enter", shows="published on two, read by no mysis")
        await stage.press("p")
        assert stage.one(Input).value == "two "
        await stage.enter('{"n": 1}')
        await stage.until(lambda: "{&quot;n&quot;" in stage.text() or '"n": 1' in stage.text())
        await stage.press("p")
        stage.one(Input).value = "STATE_SNAPSHOT x"
        await stage.press("enter", shows="only Zoea publishes on STATE_SNAPSHOT")
        await stage.press("escape", "escape", until=lambda: not stage.shows(TopicsDialog))


async def test_a_line_that_is_sent_again_after_an_error_is_published_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cockpit(tmp_path, DONE, names=("alpha",)) as stage:
        publish, results = stage.api.publish, list[str]()

        async def publish_unheard(*args: Any, **more: Any) -> PublishReceipt:
            receipt = await publish(*args, **more)
            results.append(receipt.topic)
            if len(results) == 1:
                raise WorkspaceHeld("the connection ended before the answer came")
            return receipt

        monkeypatch.setattr(stage.api, "publish", publish_unheard)
        await opened(stage, "No message was published yet")
        await stage.press("p")
        await stage.write("news One.")
        await stage.press("enter", shows="before the answer came")
        await stage.press("enter", shows="published on news")
        assert results == ["news", "news"]
        found = await stage.swarm.rows("SELECT content FROM topic_message")
        assert [row["content"] for row in found] == ["One."]
