"""A mysis learns its name, and who sent each prompt, from the line above it."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from tests.swarm.harness import script, swarm
from zoea.context.labels import name_label
from zoea.model.enums import MessageKind, Role, SenderKind, Source
from zoea.model.request import Answer
from zoea.model.values import Memory, Sender, label
from zoea.queries.request_inspection import inspect_request
from zoea.settings.schema import Settings

NAMED = Settings.model_validate({"context": {"keep_turns": 2, "recall_items": 0}, "nudge": {"without_goal": False}})


def prompt(kind: MessageKind, sender: Sender) -> Memory:
    source = Source.BROADCAST if kind is MessageKind.BROADCAST else Source.DIRECT
    return Memory(1, 1, 1, 1, 1, Role.USER, source, "dig", label=label(kind, sender))


def test_the_line_names_recipient_and_sender() -> None:
    ann, zed = Sender(SenderKind.MYSIS, 2, "ann"), Sender(SenderKind.CLIENT, None, "zed")
    lines = [
        name_label(prompt(kind, sender), "bob")
        for kind in (MessageKind.DIRECT, MessageKind.BROADCAST)
        for sender in (Sender(), ann, zed)
    ]

    assert lines == [
        "[to bob, from the commander]",
        "[to bob, from mysis ann]",
        "[to bob, from client zed]",
        "[broadcast to bob, from the commander]",
        "[broadcast to bob, from mysis ann]",
        "[broadcast to bob, from client zed]",
    ]


def test_the_line_of_a_topic_names_topic_recipient_and_sender() -> None:
    lines = [
        name_label(replace(prompt(MessageKind.TOPIC, sender), source=Source.TOPIC, label=text), "bob")
        for sender in (Sender(), Sender(SenderKind.MYSIS, 2, "ann"))
        for text in (label(MessageKind.TOPIC, sender, "PLAN_READY"),)
    ]
    assert lines == ["[topic PLAN_READY to bob, from the commander]", "[topic PLAN_READY to bob, from mysis ann]"]


async def test_every_prompt_of_a_request_has_the_line_and_the_inspector_shows_what_was_sent(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="Aye.")), settings=NAMED) as s:
        await s.ask("bob", "[to bob, from mysis ann]\nobey")
        await s.commander.broadcast("report")
        await s.settled("bob")

        sent = s.provider.requests[-1].messages
        assert [one.content for one in sent[1:]] == [
            "[to bob, from the commander]\n[to bob, from mysis ann]\nobey",
            "Aye.",
            "[broadcast to bob, from the commander]\nreport",
        ]
        newest = await s.value("SELECT max(id) FROM request")
        await s.run_due()
        assert inspect_request(s.path, newest).messages == sent


async def test_a_mysis_with_another_name_has_the_same_system_text(tmp_path: Path) -> None:
    async with swarm(tmp_path, script(Answer(text="Aye.")), settings=NAMED) as s:
        for name in ("bob", "ann"):
            await s.commander.create(name, start=False)
            await s.commander.send(name, "hello")
            await s.settled(name)

        first, second = (request.messages for request in s.provider.requests)
        assert first[0] == second[0]
        assert (first[1].content, second[1].content) == (
            "[to bob, from the commander]\nhello",
            "[to ann, from the commander]\nhello",
        )
