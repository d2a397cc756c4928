"""What fronts ask of myses: `MysisApi` over the running swarm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import nullcontext
from typing import Any

from msgspec.structs import replace

from zoea.model.enums import MysisState
from zoea.model.errors import MysisMissing, StateRefused, UsageError, ZoeaError
from zoea.model.status import CLOSED, KILLED
from zoea.model.values import Event, Lagged, Mysis, MysisView, SwarmView
from zoea.store.writer_connection import WriterConnection
from zoea.swarm import configuration, creation
from zoea.swarm import life as lf
from zoea.swarm.persistence import mysis_ops
from zoea.swarm.resolved_template import resolve_template
from zoea.swarm.swarm import Swarm, SwarmCommands


class MysisCommands(SwarmCommands):
    """The bodies of the methods of `MysisApi`, which says what each does.

    Each checks its arguments, runs one op of the store, and then feeds the life machine of the mysis.
    """

    def __init__(self, swarm: Swarm) -> None:
        super().__init__(swarm)
        self._keyed = asyncio.Lock()  # two calls with one key make one mysis

    async def create(
        self,
        name: str,
        *,
        template: str = "",
        provider: str = "",
        model: str = "",
        tags: tuple[str, ...] = (),
        start: bool = True,
        broadcast: int = 0,
        task: str = "",
        commit: str = "",
        allow_fresh: bool = False,
        on: str = "",
        worktree: bool = False,
        idempotency_key: str = "",
    ) -> MysisView:
        """See `MysisApi.create`. Raises also TemplateError and ProviderError (no such provider)."""
        services = self.swarm.services
        uid = mysis_ops.uid_of(idempotency_key) if idempotency_key else services.ids.uid()
        async with self._keyed if idempotency_key else nullcontext():
            made = next((one for one in self.swarm.runners.values() if one.mysis.uid == uid), None)
            if made is None:
                return await self._create(
                    creation.NewMysis(uid, name, provider, model, tags, task, broadcast, on=on, worktree=worktree),
                    template,
                    commit,
                    start=start,
                    allow_fresh=allow_fresh,
                )
            if start and made.life.state is MysisState.IDLE and not made.mysis.state_reason:
                await self.swarm.carried_out(made.tell(lf.Start(self.swarm.uptime())))  # the first call got no further
            return self.swarm.row(made)

    async def _create(
        self, new: creation.NewMysis, template: str, commit: str, *, start: bool, allow_fresh: bool
    ) -> MysisView:
        services = self.swarm.services
        origin = await creation.read_origin(services.store, commit, allow_fresh=allow_fresh)
        return await self.spawn(new, origin, template, start=start)

    async def spawn(
        self, new: creation.NewMysis, origin: creation.ContextOrigin, template: str = "", *, start: bool = True
    ) -> MysisView:
        """Store a new mysis, fresh or from a commit, and start it. Raises as `create`."""
        swarm, settings = self.swarm, self.swarm.settings
        files = swarm.services.files
        found = creation.find_template(template, origin, swarm.templates, settings, on=new.on)
        new, found = creation.choose_agent(new, found)
        spec = creation.build_spec(new, found, origin, settings)
        if files is not None and (new.on or found.workbench) and not new.question:
            in_use = [runner.known.template for runner in swarm.runners.values()]
            found = await files.settle(found, new.on, new.worktree, in_use)
            spec = replace(spec, template_hash=found.hash, template_body=found.text)
        swarm.services.providers.get(spec.provider)
        resolved = resolve_template(found.text, settings)
        mysis = await swarm.write(lambda conn: creation.store_new(conn, spec, found, settings, new, origin))
        if files is not None and found.worktree and not new.question:
            try:
                await files.begin(mysis.uid, mysis.name, found)
            except ZoeaError:
                await swarm.write(lambda conn: mysis_ops.archive(conn, mysis.id))
                raise
        swarm.add_template(found, resolved)
        runner = await swarm.reload(mysis)
        if start:
            await swarm.carried_out(runner.tell(lf.Start(self.swarm.uptime())))
        return swarm.row(runner)

    async def start(self, ref: str) -> MysisView:
        runner = self.swarm.runner(ref)
        await self.swarm.services.try_disk()
        if runner.life.state is MysisState.RUNNING:
            raise StateRefused(
                "mysis already running", hint=f"send it a message; to start it again, stop {runner.mysis.name} first"
            )
        await self.swarm.carried_out(runner.tell(lf.Start(self.swarm.uptime())))
        return self.swarm.row(runner)

    async def stop(self, ref: str) -> MysisView:
        runner = self.swarm.runner(ref)
        await self.swarm.services.try_disk()
        await self.swarm.carried_out(runner.tell(lf.Stop(self.swarm.uptime())))
        await runner.stopped()
        return self.swarm.row(runner)

    async def start_all(self, *, left_running: bool = False, again: bool = False, new: bool = False) -> int:
        swarm = self.swarm
        await swarm.services.try_disk()
        idle = [runner for runner in swarm.runners.values() if runner.life.state is MysisState.IDLE]
        if again or new:
            reasons = (*((CLOSED, KILLED) if again else ()), *(("",) if new else ()))
            idle = [runner for runner in idle if runner.mysis.state_reason in reasons]
        if left_running:
            idle = [runner for runner in idle if runner.mysis.id in swarm.left_running]
            swarm.left_running = frozenset()
        await swarm.tell(idle, lambda _: lf.Start(self.swarm.uptime(), resume=True))
        return len(idle)

    async def stop_all(self) -> int:
        await self.swarm.services.try_disk()
        # The idle and the errored too, because a message or a recovery would start them again.
        all_but_stopped = [one for one in self.swarm.runners.values() if one.life.state is not MysisState.STOPPED]
        count = sum(1 for runner in all_but_stopped if runner.life.state is MysisState.RUNNING)
        await self.swarm.tell(all_but_stopped, lambda _: lf.Stop(self.swarm.uptime()))
        await asyncio.gather(*(runner.stopped() for runner in all_but_stopped))
        return count

    async def delete(self, ref: str) -> MysisView:
        swarm, runner = self.swarm, self.swarm.runner(ref)
        mysis_id = runner.mysis.id
        await swarm.services.try_disk()
        swarm.leaving.add(mysis_id)
        try:
            later = (
                f"{runner.mysis.name} stops as soon as that can be stored, and is not deleted: delete it again then."
            )
            await swarm.carried_out(runner.tell(lf.Stop(swarm.uptime(), "deleted")), later)
            await runner.stopped()
            await runner.close()
            last = swarm.live_view.freeze(mysis_id)
            try:
                await swarm.write(lambda conn: mysis_ops.archive(conn, mysis_id))
            except ZoeaError:
                await swarm.reload(runner.mysis)
                raise
            del swarm.runners[mysis_id]
            swarm.live_view.remove(mysis_id)
            swarm.services.tools.forget(runner.mysis.uid)
            if swarm.services.files is not None:
                await swarm.services.files.drop(runner.mysis.uid, runner.mysis.name, runner.known.template)
        finally:
            swarm.leaving.discard(mysis_id)
            swarm.live_view.touch(mysis_id)
        return last

    async def undelete(self, mysis_id: int) -> MysisView:
        most = self.swarm.settings.swarm.max_myses
        await self.swarm.reload(await self.swarm.write(lambda conn: mysis_ops.undelete(conn, mysis_id, most)))
        return self.swarm.live_view.freeze(mysis_id)

    async def dismiss(self, ref: str) -> MysisView:
        runner = self.swarm.runner(ref)
        runner.refresh(await self.swarm.write(lambda conn: mysis_ops.dismiss(conn, runner.mysis.id)))
        return self.swarm.row(runner)

    async def configure(
        self,
        ref: str,
        *,
        template: str = "",
        provider: str = "",
        model: str = "",
        tags: tuple[str, ...] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> MysisView:
        swarm, runner = self.swarm, self.swarm.runner(ref)
        mysis, mysis_id, before = runner.mysis, runner.mysis.id, swarm.row(runner)
        change = configuration.checked(
            mysis,
            swarm.bodies.get(mysis.template_hash, ""),
            configuration.MysisChange(template, provider, model, tags, settings),
            swarm.settings,
            swarm.templates,
            swarm.services.providers,
        )

        def op(conn: WriterConnection) -> Mysis:
            return mysis_ops.configure(
                conn, mysis_id, change.template, change.provider, change.model, change.tags, change.changed
            )

        if mysis.state is MysisState.RUNNING:
            await swarm.configure(runner, op)
        else:
            await swarm.replace(runner, op)
            swarm.live_view.row(mysis_id).say(before.text, before.text_at)
        return swarm.live_view.freeze(mysis_id)

    async def hold(self, on: bool, *, ref: str = "", reason: str = "") -> None:
        swarm = self.swarm
        if ref:
            runner = swarm.runner(ref)
            mysis = await swarm.write(lambda conn: mysis_ops.hold_one(conn, runner.mysis.id, on, reason))
            swarm.hold_switch.set_mysis(runner.mysis.id, on)
            runner.refresh(mysis)
            await swarm.feed_hold([runner])
            return
        why = reason or "by you"
        await swarm.write(lambda conn: mysis_ops.hold(conn, None, on, why, by_person=True))
        swarm.hold_switch.set_swarm(on, why)
        await swarm.feed_hold(list(swarm.runners.values()))

    # What fronts read.

    async def view(self) -> SwarmView:
        await self.swarm.read_spend()
        return self.swarm.live_view.whole()

    async def mysis(self, ref: str) -> MysisView:
        return self.swarm.row(self.swarm.runner(ref))

    async def wait(self, ref: str, *, timeout_s: float = 60.0) -> MysisView:
        swarm, runner = self.swarm, self.swarm.runner(ref)
        try:
            async with asyncio.timeout(timeout_s):
                async for _ in swarm.live_view.changes():
                    if runner.mysis.id in swarm.leaving:
                        continue  # a mysis that is being deleted has not finished
                    if swarm.runners.get(runner.mysis.id) is not runner:
                        raise MysisMissing(f"{runner.mysis.name} was deleted")
                    if runner.is_settled or runner.life.state not in (MysisState.RUNNING, MysisState.IDLE):
                        return swarm.live_view.freeze(runner.mysis.id)
        except TimeoutError:
            raise UsageError(f"{runner.mysis.name} did not finish within {timeout_s:g} s") from None
        raise AssertionError("a view has no end")

    async def changes(self) -> AsyncGenerator[SwarmView, None]:
        swarm = self.swarm
        async for view in swarm.live_view.changes():
            if not await swarm.read_spend() and any(row.tokens for row in view.myses):
                # No later change may come, so that what was just spent is read when it is due.
                asyncio.get_running_loop().call_later(1.0, swarm.live_view.touch)
            yield replace(view, tokens_today=swarm.today.tokens, cost_today_micros=swarm.today.cost_micros)

    async def events(self, after: int = 0) -> AsyncGenerator[Event | Lagged, None]:
        async for item in self.swarm.services.events.listen(after):
            yield item

    async def shutdown(self) -> None:
        self.swarm.on_shutdown()
