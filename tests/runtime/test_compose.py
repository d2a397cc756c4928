"""The composition root: providers, upstreams and policies from settings; reading a stored swarm."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from zoea.llm.providers.scripted import ScriptedProvider
from zoea.model.enums import ErrorClass, MysisState, Role
from zoea.model.errors import MysisMissing, ProviderError, SettingsError, StoreError, StoreMissing
from zoea.model.status import KILLED
from zoea.model.swarm_api import SwarmApi
from zoea.process.clock import SystemClock
from zoea.queries import stored_swarm
from zoea.runtime.compose import SwarmOptions, running_swarm
from zoea.runtime.provider_set import ProviderSet
from zoea.runtime.upstream_set import build_policies, build_policy, build_upstreams, world_upstream
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import Sharing
from zoea.settings.paths import Places
from zoea.settings.schema import Settings
from zoea.settings.template import Template
from zoea.tools import ContextUse
from zoea.tools.policy import SearchScope, Send

REACTIVE = SwarmOptions(overrides={"swarm.default_provider": "scripted", "nudge.enabled": False})


@pytest.fixture
def where(runtime: Path, tmp_path: Path) -> Places:
    made = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=runtime)
    made.make_data()
    return made


@asynccontextmanager
async def open_swarm(where: Places, options: SwarmOptions = REACTIVE) -> AsyncIterator[SwarmApi]:
    async with running_swarm(where, lambda: None, options=options) as swarm:
        yield swarm


class TestSwarm:
    async def test_a_swarm_answers_and_its_answer_is_stored(self, where: Places) -> None:
        async with open_swarm(where) as swarm:
            await swarm.create("alpha", tags=("north",))
            await swarm.send("alpha", "Hello there")
            await swarm.wait("alpha", timeout_s=20)
            live = await swarm.mysis("alpha")
        view = stored_swarm.read_mysis_view(where.database, "ALPHA")
        assert (view.turns, view.requests, view.tokens) == (live.turns, live.requests, live.tokens)
        assert (view.tags, view.template, view.provider) == (("north",), "default", "scripted")
        said = stored_swarm.read_memories(where.database, "#1")
        assert said[0].role is Role.USER
        assert "Hello there" in [memory.content for memory in said]
        assert stored_swarm.read_memories(where.database, "alpha", last=1)[0].id == said[-1].id
        assert stored_swarm.read_answer(where.database, said[-1].turn_id) == said[-1].content
        assert stored_swarm.read_message(where.database, 1) == "→ alpha: Hello there"
        assert stored_swarm.read_open_approvals(where.database) == ()
        assert stored_swarm.read_grants(where.database) == ()

    async def test_existing_providers_can_be_passed_in(self, where: Places) -> None:
        provider = ScriptedProvider(name="mine")
        swarm_options = SwarmOptions(providers={"mine": provider}, overrides={"nudge.enabled": False})
        async with open_swarm(where, swarm_options) as swarm:
            await swarm.create("alpha", provider="mine")
            await swarm.send("alpha", "Hello")
            await swarm.wait("alpha", timeout_s=20)
        assert provider.requests

    async def test_a_template_offers_its_myses_the_tools_of_commits(self, where: Places) -> None:
        templates = where.config / "templates"
        templates.mkdir(parents=True)
        (templates / "historian.toml").write_text('[tools]\ncontexts = "use"\n')
        provider = ScriptedProvider(name="mine")
        swarm_options = SwarmOptions(providers={"mine": provider}, overrides={"nudge.enabled": False})
        async with open_swarm(where, swarm_options) as swarm:
            for name, template in (("alpha", "historian"), ("beta", "default")):
                await swarm.create(name, provider="mine", template=template)
                await swarm.send(name, "Hello")
                await swarm.wait(name, timeout_s=20)
        offered = {
            request.mysis: {tool.name for tool in request.tools if tool.name.startswith("zoea_context_")}
            for request in provider.requests
        }
        assert {"zoea_context_log", "zoea_context_checkpoint"} <= offered["alpha"]
        assert offered["beta"] == set()

    async def test_the_next_start_knows_the_myses_that_ran(self, where: Places) -> None:
        async with open_swarm(where) as swarm:
            await swarm.create("alpha")
            await swarm.create("beta", start=False)
        async with open_swarm(where) as swarm:
            assert await swarm.start_all(left_running=True) == 1
            assert [view.state for view in (await swarm.view()).myses] == [MysisState.RUNNING, MysisState.IDLE]
            await swarm.stop("alpha")
            assert await swarm.start_all(left_running=True) == 0
        async with open_swarm(where) as swarm:
            assert await swarm.start_all(left_running=True) == 0

    async def test_invalid_settings_open_no_database(self, where: Places) -> None:
        with pytest.raises(SettingsError):
            async with open_swarm(where, SwarmOptions(overrides={"swarm.max_myses": -1})):
                raise AssertionError("opened")
        assert not where.database.exists()

    async def test_the_log_has_no_texts_of_conversations(self, where: Places) -> None:
        async with open_swarm(where) as swarm:
            await swarm.create("alpha")
            await swarm.send("alpha", "a very private matter")
            await swarm.wait("alpha", timeout_s=20)
        assert "private" not in where.log.read_text()


class TestAccounts:
    async def test_an_account_stored_by_name_is_not_given_to_a_later_mysis_of_that_name(self, where: Places) -> None:
        credentials = Credentials(where.credentials)
        async with open_swarm(where) as swarm:
            await swarm.create("alpha", start=False)
            await swarm.delete("alpha")
        credentials.set("account/reef/alpha", '{"account": "alpha", "password": "p1"}')
        first = stored_swarm.read_uid(where.database, "#1")
        async with open_swarm(where) as swarm:
            await swarm.create("alpha", start=False)
            assert credentials.names() == (f"account/reef/@{first}",)
        assert stored_swarm.read_uid(where.database, "alpha") != first

    async def test_a_swarm_opens_with_unreadable_credentials(self, where: Places) -> None:
        where.credentials.write_text("nonsense")
        where.credentials.chmod(0o600)
        async with open_swarm(where) as swarm:
            assert (await swarm.view()).myses == ()
        assert "accounts cannot be read" in where.log.read_text()


class TestStored:
    async def test_a_mysis_of_a_killed_swarm_is_read_as_idle(self, where: Places) -> None:
        async with open_swarm(where) as swarm:
            await swarm.create("alpha")
            await swarm.hold(True, reason="lunch")
            view = stored_swarm.read_swarm_view(where.database)
        assert (view.held, view.hold_reason) == (True, "lunch")
        assert [(mysis.name, mysis.state, mysis.state_reason) for mysis in view.myses] == [
            ("alpha", MysisState.IDLE, KILLED)
        ]

    def test_a_workspace_without_database_raises_store_missing(self, where: Places) -> None:
        with pytest.raises(StoreMissing):
            stored_swarm.read_swarm_view(where.database)

    async def test_an_unknown_name_or_id_raises_mysis_missing(self, where: Places) -> None:
        async with open_swarm(where):
            for ref in ("nobody", "#7", "#", "#99999999999999999999"):
                with pytest.raises(MysisMissing):
                    stored_swarm.read_mysis_view(where.database, ref)

    async def test_a_broken_database_raises_store_error(self, where: Places) -> None:
        async with open_swarm(where):
            await asyncio.sleep(0)
        raw = bytearray(where.database.read_bytes())
        raw[4096:] = b"\xff" * (len(raw) - 4096)
        where.database.write_bytes(raw)
        with pytest.raises(StoreError):
            stored_swarm.read_swarm_view(where.database)

    def test_an_unknown_message_has_an_empty_text(self, where: Places) -> None:
        async def opened() -> None:
            async with open_swarm(where):
                await asyncio.sleep(0)

        asyncio.run(opened())
        assert stored_swarm.read_message(where.database, 5) == ""
        assert stored_swarm.read_answer(where.database, 5) == ""


class TestProviders:
    def providers(self, where: Places, **provider: dict[str, object]) -> ProviderSet:
        return ProviderSet(Settings.model_validate({"provider": provider}), where, SystemClock())

    def test_a_provider_is_made_once_at_its_first_use(self, where: Places) -> None:
        made = self.providers(where)
        assert made.get("autopilot") is made.get("autopilot")
        assert made.get("autopilot").label == "autopilot (no model)"

    def test_the_pace_of_the_autopilot_is_a_setting(self, where: Places) -> None:
        made = self.providers(where, pilot={"type": "autopilot", "tick": 5})
        assert made.get("pilot").kind == "autopilot"

    def test_an_unknown_provider_names_the_most_similar(self, where: Places) -> None:
        with pytest.raises(ProviderError) as caught:
            self.providers(where).get("olama")
        assert (caught.value.kind, caught.value.hint) == (ErrorClass.MODEL_MISSING, "Did you mean ollama?")
        with pytest.raises(ProviderError, match="no provider"):
            self.providers(where).get("xyzzy")

    def test_a_missing_key_is_an_auth_error(self, where: Places) -> None:
        made = self.providers(where, far={"type": "openai", "api_key": "env:NO_SUCH_KEY"})
        with pytest.raises(ProviderError, match="provider far") as caught:
            made.get("far")
        assert caught.value.kind is ErrorClass.AUTH
        assert made.secrets() == ()

    def test_the_provider_set_lists_its_secrets(self, where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FAR_KEY", "abc-123-very-secret")
        made = self.providers(where, far={"type": "openai", "api_key": "env:FAR_KEY"})
        assert made.secrets() == ("abc-123-very-secret",)

    async def test_metered_providers_are_known_before_any_is_made(self, where: Places) -> None:
        made = self.providers(where, far={"type": "openai"}, pilot={"type": "autopilot"})
        metered = made.metered()
        assert (metered["far"], metered["pilot"], metered["autopilot"], metered["ollama"]) == (True, False, False, True)
        made.get("autopilot")
        await made.close()


class TestUpstreams:
    def test_an_upstream_gets_its_secrets_and_limits(self, where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TOKEN", "t0ken")
        settings = Settings.model_validate(
            {
                "upstream": {
                    "git": {
                        "command": "git-mcp",
                        "args": ["--token={env:TOKEN}"],
                        "session": "per-mysis",
                        "start_timeout": 7,
                    },
                    "web": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer {env:TOKEN}"}},
                    "game": {"command": "game", "inject": {"session_id": "account"}, "retries": 9},
                }
            }
        )
        git, web, game = build_upstreams(settings, Credentials(where.credentials))
        assert (git.args, git.session, git.start_timeout) == (("--token=t0ken",), Sharing.PER_MYSIS, 7)
        assert (web.headers, web.login) == ({"Authorization": "Bearer t0ken"}, None)
        assert game.login is not None
        assert (game.retries, dict(game.inject)) == (9, {"session_id": "account"})
        assert "t0ken" not in repr((git, web))

    def test_an_existing_world_keeps_its_seed_and_size(self, where: Places, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONPATH", "/somewhere")
        settings = Settings.model_validate({"world": {"seed": 4, "systems": 12, "tick": 0.5, "turbo": True}})
        world = world_upstream(settings, where)
        assert (world.name, world.command) == ("reef", sys.executable)
        assert world.args[world.args.index("--seed") + 1] == "4"
        assert world.args[world.args.index("--systems") + 1] == "12"
        assert world.args[world.args.index("--tick") + 1] == "0.5"
        assert "--turbo" in world.args
        assert dict(world.env) == {"PYTHONPATH": "/somewhere"}
        where.world.touch()
        assert not {"--seed", "--systems"} & set(world_upstream(settings, where).args)
        assert os.environ["PYTHONPATH"] == "/somewhere"

    def test_a_template_defines_its_tool_policy(self) -> None:
        template = Template.model_validate(
            {
                "name": "careful",
                "send": "commander",
                "search": "swarm",
                "upstreams": ["git"],
                "tools": {"allow": ["git_*"], "deny": ["git_push"], "ask": ["git_commit"], "contexts": "use"},
            }
        )
        assert build_policy(Template(), (), Settings()).contexts is ContextUse.NONE
        policy = build_policy(template, ("git", "reef"), Settings())
        assert (policy.allow, policy.ask) == (("git_*",), ("git_commit",))
        assert policy.deny == ("git_push", "reef/*")
        assert policy.contexts is ContextUse.USE
        assert (policy.send, policy.search, policy.ask_destructive) == (Send.COMMANDER, SearchScope.SWARM, True)
        policies = build_policies((), Settings())
        assert policies(template.text) == build_policy(template, (), Settings())
        assert policies(template.text) is policies(template.text)
