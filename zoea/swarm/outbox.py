"""Stores messages and passes their deliveries to the runners: direct ones, broadcasts, and those of topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from zoea.model.enums import DeliveryMode
from zoea.model.errors import UsageError
from zoea.model.topics import EVERYONE, SWARM_CLUSTER, PublishReceipt, check_published_topic
from zoea.model.values import Delivery, Receipt, Recipients, Sender
from zoea.settings import Template
from zoea.store import WriterConnection
from zoea.swarm.persistence import message_ops, topic_ops
from zoea.swarm.persistence.expected_spending import find_short_budgets
from zoea.swarm.resolved_template import ResolvedTemplate, request_budget
from zoea.swarm.rules import MAX_TOPIC_HOPS
from zoea.swarm.runner import MysisRunner
from zoea.swarm.services import Services
from zoea.text import clean
from zoea.text.large_json import is_large

T = TypeVar("T")


class CommandWriter(Protocol):
    """Writes for a command, a person's first."""

    async def __call__(self, op: Callable[[WriterConnection], T], *, by_person: bool = True) -> T: ...


class Outbox(Struct, frozen=True):
    """Sends for the commander, for clients and for myses.

    Attributes:
        runners: By mysis id, without copying.
        find: Returns the runner that a reference names.
        resolved: Returns the template of a mysis with its settings, by hash.
    """

    services: Services
    runners: Mapping[int, MysisRunner]
    write: CommandWriter
    find: Callable[[str], MysisRunner]
    resolved: Callable[[bytes], ResolvedTemplate]

    async def say(
        self, outgoing: message_ops.OutgoingMessage, mysis_id: int | None, to: Recipients = Recipients()
    ) -> Receipt:
        """Send a message to one mysis, or a broadcast where none is named."""
        swarm, to = self.services.settings.swarm, self._with_whole_names(to)

        def op(conn: WriterConnection) -> message_ops.SendResult:
            if mysis_id is not None:
                return message_ops.send(conn, mysis_id, outgoing, swarm.max_hops, swarm.messages_per_hour)
            return message_ops.broadcast(conn, outgoing, to, swarm.max_hops, swarm.broadcasts_per_hour)

        said = await self.write(op, by_person=outgoing.sender.is_person)
        for delivery in said.deliveries:
            self._hand_over(delivery)
        return said.receipt

    async def find_short_budgets(self, text: str, to: Recipients) -> tuple[str, ...]:
        """See `MessageApi.find_short_budgets`."""
        find = partial(
            find_short_budgets,
            text=text,
            to=self._with_whole_names(to),
            swarm=self.services.settings.budget,
            resolve=self.resolved,
            metered=self.services.providers.metered(),
            now=self.services.clock.now(),
        )
        async with self.services.store.search_reader() as reader:
            return await reader.run(find)

    def _with_whole_names(self, to: Recipients) -> Recipients:
        """Return the recipients with the names of those that an id or a part of the name refers to."""
        return replace(to, names=tuple(self.find(name).mysis.name for name in to.names))

    def _hand_over(self, delivery: Delivery) -> None:
        runner = self.runners.get(delivery.mysis_id)
        if runner is None:
            return
        if delivery.is_task:
            runner.refresh(replace(runner.mysis, goal=delivery.content, goal_reached_at=None))
        runner.arrived(delivery)
        if delivery.mode is DeliveryMode.STEER and delivery.hop < self.services.settings.swarm.max_hops:
            runner.steer(delivery)

    async def send_from_mysis(self, sender: Sender, hop: int, to: str | None, text: str) -> Receipt:
        """Send a message of a mysis to the commander or a mysis. To all where `to` is None."""
        allowed = self._template_of(sender).send
        room = self.services.settings.budget.token_budget_per_agent
        outgoing = message_ops.OutgoingMessage(message_ops.checked(text, room), sender, DeliveryMode.QUEUE, hop)
        if to is not None and to.strip().casefold() == message_ops.TO_COMMANDER and allowed != "none":
            per_hour = self.services.settings.swarm.messages_per_hour
            said = await self.write(lambda conn: message_ops.tell_commander(conn, outgoing, per_hour), by_person=False)
            return said.receipt
        if allowed != "swarm":
            raise UsageError("your template does not let you write to other myses")
        return await self.say(outgoing, None if to is None else self.find(to).mysis.id)

    def _template_of(self, sender: Sender) -> Template:
        assert sender.id is not None
        return self.resolved(self.runners[sender.id].mysis.template_hash).template

    async def publish(
        self,
        topic: str,
        text: str,
        data: Mapping[str, Any] | None,
        *,
        sender: Sender,
        receiver: str = EVERYONE,
        is_raw: bool = False,
        hop: int = 0,
        turn_id: int | None = None,
        idempotency_key: str = "",
    ) -> PublishReceipt:
        """Store a message on a topic, and hand it to its subscribers.

        Raises UsageError, MysisMissing for an unknown receiver, and RateExceeded.
        """
        if not sender.is_person and self._template_of(sender).send != "swarm":
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
        limits = self._limits()
        done = await self.write(
            lambda conn: topic_ops.publish(conn, outgoing, self.subscribers, limits), by_person=sender.is_person
        )
        self.hand_over(done.deliveries)
        return done.receipt

    def _limits(self) -> topic_ops.PublishLimits:
        return topic_ops.PublishLimits(self.services.settings.swarm.publishes_per_hour, MAX_TOPIC_HOPS)

    def subscribers(self, topic: str) -> Iterator[int]:
        """Yield the myses that have a template with this subscription."""
        for mysis_id, runner in tuple(self.runners.items()):
            if topic in self.resolved(runner.mysis.template_hash).template.subscribes:
                yield mysis_id

    def room_on(self, topic: str, receiver: str = EVERYONE) -> int:
        """Return the most tokens of a message on a topic: what a request of each of its readers may have.

        Without a subscriber it is what sources may show.
        """
        runners = [self.runners[one] for one in self.subscribers(topic)]
        if receiver != EVERYONE:
            runners = [one for one in runners if one.mysis.name.casefold() == receiver.casefold()]
        readers = [self.resolved(one.mysis.template_hash) for one in runners]
        settings = self.services.settings
        context = settings.context.model_copy(update={"strategy": "topics"})
        least = request_budget(settings.model_copy(update={"context": context}), Template())
        return min([request_budget(one.settings, one.template) for one in readers], default=least)

    def publish_in(self, conn: WriterConnection, outgoing: topic_ops.OutgoingTopicMessage) -> topic_ops.PublishResult:
        """Store a message and its deliveries in an op; `hand_over` follows once that is stored."""
        return topic_ops.publish(conn, outgoing, self.subscribers, self._limits())

    def hand_over(self, deliveries: Iterable[Delivery]) -> None:
        """Hand stored deliveries to their runners."""
        for delivery in deliveries:
            self._hand_over(delivery)

    async def catch_up_snapshot(self) -> None:
        """Publish the state of the swarm's ledger, where its last snapshot lacks messages after it."""
        limits = self._limits()
        _, deliveries = await self.services.store.write(
            lambda conn: topic_ops.publish_snapshot(conn, SWARM_CLUSTER, self.subscribers, limits.max_hops)
        )
        for delivery in deliveries:
            self._hand_over(delivery)
