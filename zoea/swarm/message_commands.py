"""Stores messages and hands their deliveries to the runners: `MessageApi`, and what myses send."""

from __future__ import annotations

from functools import partial
from shlex import quote

from msgspec.structs import replace

from zoea.context.window.prompt_context import PromptContext, list_unused_limits, read_stored
from zoea.model.enums import DeliveryMode
from zoea.model.errors import UsageError
from zoea.model.values import COMMANDER, Receipt, Recipients, Sender
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import life as lf
from zoea.swarm.persistence import message_ops, mysis_ops
from zoea.swarm.persistence.expected_spending import find_short_budgets
from zoea.swarm.persistence.preserved_memories import preserve_memory
from zoea.swarm.resolved_template import request_budget
from zoea.swarm.swarm import SwarmCommands


class MessageCommands(SwarmCommands):
    """The bodies of the methods of `MessageApi`, which says what each does."""

    async def send(
        self,
        ref: str,
        text: str,
        *,
        mode: DeliveryMode = DeliveryMode.QUEUE,
        is_task: bool = False,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
        limits: str = "",
    ) -> Receipt:
        runner = self.swarm.runner(ref)
        room = self.swarm.resolved_template(runner.mysis.template_hash).settings.budget.token_budget_per_agent
        context = read_stored(limits)
        outgoing = message_ops.OutgoingMessage(
            message_ops.checked(text, room), sender, mode, 0, idempotency_key, is_task, context=context.to_json()
        )
        return self._with_notes(await self.say(outgoing, runner.mysis.id), context, quote(runner.mysis.name))

    async def broadcast(
        self,
        text: str,
        *,
        to: Recipients = Recipients(),
        mode: DeliveryMode = DeliveryMode.QUEUE,
        sender: Sender = COMMANDER,
        idempotency_key: str = "",
        limits: str = "",
    ) -> Receipt:
        room = self.swarm.settings.budget.token_budget_per_agent
        context = read_stored(limits)
        outgoing = message_ops.OutgoingMessage(
            message_ops.checked(text, room), sender, mode, 0, idempotency_key, context=context.to_json()
        )
        return self._with_notes(await self.say(outgoing, None, to), context, "NAME")

    def _with_notes(self, receipt: Receipt, context: PromptContext, ref: str) -> Receipt:
        """Return the receipt with what has no effect for any recipient, each sentence once."""
        notes: dict[str, None] = {}
        for line in receipt.lines if context != PromptContext() else ():
            own = self.swarm.resolved_template(self.swarm.runner(line.mysis).mysis.template_hash)
            bounds = {
                "token_budget_per_agent": request_budget(own.settings, own.template),
                "token_budget_per_task": own.settings.budget.token_budget_per_task,
            }
            notes |= dict.fromkeys(list_unused_limits(context, ref, bounds, own.settings.context.strategy))
        return replace(receipt, notes=tuple(notes))

    async def find_short_budgets(self, text: str, *, to: Recipients = Recipients()) -> tuple[str, ...]:
        services = self.swarm.services
        find = partial(
            find_short_budgets,
            text=text,
            to=self._with_whole_names(to),
            swarm=self.swarm.settings.budget,
            resolve=self.swarm.resolved_template,
            metered=services.providers.metered(),
            now=services.clock.now(),
        )
        async with services.store.search_reader() as reader:
            return await reader.run(find)

    def _with_whole_names(self, to: Recipients) -> Recipients:
        """Return the recipients with whole names in place of ids and parts of names."""
        return replace(to, names=tuple(self.swarm.runner(name).mysis.name for name in to.names))

    async def say(
        self, outgoing: message_ops.OutgoingMessage, mysis_id: int | None, to: Recipients = Recipients()
    ) -> Receipt:
        """Send a message to one mysis, or a broadcast where none is named."""
        swarm, to = self.swarm.settings.swarm, self._with_whole_names(to)

        def op(conn: WriterConnection) -> message_ops.SendResult:
            if mysis_id is not None:
                return message_ops.send(conn, mysis_id, outgoing, swarm.max_hops, swarm.messages_per_hour)
            return message_ops.broadcast(conn, outgoing, to, swarm.max_hops, swarm.broadcasts_per_hour)

        result = await self.swarm.write(op, by_person=outgoing.sender.is_person)
        self.swarm.hand_over(result.deliveries)
        return result.receipt

    async def send_from_mysis(self, sender: Sender, hop: int, to: str | None, text: str) -> Receipt:
        """Send a message of a mysis to the commander or a mysis. To all where `to` is None."""
        allowed = self.swarm.template_of(sender).send
        settings = self.swarm.settings
        checked = message_ops.checked(text, settings.budget.token_budget_per_agent)
        outgoing = message_ops.OutgoingMessage(checked, sender, DeliveryMode.QUEUE, hop)
        if to is not None and to.strip().casefold() == message_ops.TO_COMMANDER and allowed != "none":
            per_hour = settings.swarm.messages_per_hour
            result = await self.swarm.write(
                lambda conn: message_ops.tell_commander(conn, outgoing, per_hour), by_person=False
            )
            return result.receipt
        if allowed != "swarm":
            raise UsageError("your template does not let you write to other myses")
        return await self.say(outgoing, None if to is None else self.swarm.runner(to).mysis.id)

    async def withdraw(self, delivery_id: int) -> None:
        mysis = await self.swarm.write(lambda conn: mysis_ops.find(conn, message_ops.withdraw(conn, delivery_id)))
        runner = self.swarm.runners.get(mysis.id)
        if runner is not None:
            runner.refresh(mysis)
            gone = lf.DeliveriesGone(frozenset({delivery_id}), has_goal=bool(mysis.goal))
            await self.swarm.tell([runner], lambda _: gone)

    async def preserve(self, memory_id: int, on: bool = True) -> None:
        await self.swarm.write(lambda conn: preserve_memory(conn, memory_id, on))

    async def receipt(self, message_id: int) -> Receipt:
        return await message_ops.read_receipt(self.swarm.services.store, message_id)
