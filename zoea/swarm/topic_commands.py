"""Stores messages of topics and hands them to their subscribers: `TopicApi`, and what turns publish."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from zoea.model.errors import UsageError
from zoea.model.topics import EVERYONE, SWARM_CLUSTER, PublishReceipt, check_published_topic
from zoea.model.values import COMMANDER, Delivery, Sender
from zoea.settings.template import Template
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import topic_ops
from zoea.swarm.resolved_template import request_budget
from zoea.swarm.rules import MAX_TOPIC_HOPS
from zoea.swarm.swarm import SwarmCommands
from zoea.text import clean
from zoea.text.large_json import is_large


class TopicCommands(SwarmCommands):
    """The body of `TopicApi`, and the `TopicPublisher` of turns."""

    async def publish(
        self,
        topic: str,
        text: str = "",
        *,
        data: Mapping[str, Any] | None = None,
        receiver: str = EVERYONE,
        is_raw: bool = False,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
        hop: int = 0,
        turn_id: int | None = None,
    ) -> PublishReceipt:
        """See `TopicApi.publish`; a mysis publishes from a turn, with a hop.

        Raises UsageError, MysisMissing for an unknown receiver, and RateExceeded.
        """
        if not sender.is_person and self.swarm.template_of(sender).send != "swarm":
            raise UsageError("your template does not let you write to other myses")
        topic, text = check_published_topic(topic), clean(text)
        room = self.room_on(topic, receiver)

        def prepare() -> topic_ops.OutgoingTopicMessage:
            stored = topic_ops.checked_data(data)
            made = topic_ops.OutgoingTopicMessage(
                topic, text, stored, sender, receiver, is_raw, hop, turn_id, idempotency_key
            )
            topic_ops.check_size(made, room)
            return made

        outgoing = await asyncio.to_thread(prepare) if is_large(data) else prepare()
        done = await self.swarm.write(lambda conn: self.publish_in(conn, outgoing), by_person=sender.is_person)
        self.hand_over(done.deliveries)
        return done.receipt

    def subscribers(self, topic: str) -> Iterator[int]:
        """Yield the myses that have a template with this subscription."""
        for mysis_id, runner in tuple(self.swarm.runners.items()):
            if topic in self.swarm.resolved_template(runner.mysis.template_hash).template.subscribes:
                yield mysis_id

    def room_on(self, topic: str, receiver: str = EVERYONE) -> int:
        """Return the most tokens of a message on a topic: the smallest limit of its readers.

        Without a subscriber it is what sources may show.
        """
        runners = [self.swarm.runners[one] for one in self.subscribers(topic)]
        if receiver != EVERYONE:
            runners = [one for one in runners if one.mysis.name.casefold() == receiver.casefold()]
        readers = [self.swarm.resolved_template(one.mysis.template_hash) for one in runners]
        settings = self.swarm.settings
        context = settings.context.model_copy(update={"strategy": "topics"})
        least = request_budget(settings.model_copy(update={"context": context}), Template())
        return min([request_budget(one.settings, one.template) for one in readers], default=least)

    def publish_in(self, conn: WriterConnection, outgoing: topic_ops.OutgoingTopicMessage) -> topic_ops.PublishResult:
        """Store a message and its deliveries in an op; `hand_over` follows once that is stored."""
        limits = topic_ops.PublishLimits(self.swarm.settings.swarm.publishes_per_hour, MAX_TOPIC_HOPS)
        return topic_ops.publish(conn, outgoing, self.subscribers, limits)

    def hand_over(self, deliveries: Iterable[Delivery]) -> None:
        """Hand stored deliveries to their runners."""
        self.swarm.hand_over(deliveries)

    async def catch_up_snapshot(self) -> None:
        """Publish the state of the swarm's ledger, where its last snapshot lacks messages after it."""
        _, deliveries = await self.swarm.services.store.write(
            lambda conn: topic_ops.publish_snapshot(conn, SWARM_CLUSTER, self.subscribers, MAX_TOPIC_HOPS)
        )
        self.hand_over(deliveries)
