"""Commands as text and as JSON, with and without a running swarm."""

from __future__ import annotations

import asyncio
import io
import sys

import pytest

from tests.cli.conftest import Zoea
from tests.fakes.gguf import put_model
from tests.fakes.owner import OwnerThread
from zoea import __main__
from zoea.cli.dispatch import COMMANDS, load
from zoea.llm.local.model_files import LocalModels
from zoea.model.enums import ApprovalAnswer, MysisState
from zoea.model.errors import ZoeaError
from zoea.model.values import COMMANDER, ApprovalView, GrantView, ProviderView
from zoea.settings.paths import places
from zoea.store.store import Store

COMMANDING = [
    ("new", "alpha"),
    ("send", "alpha", "mine"),
    ("broadcast", "meet"),
    ("send", "--withdraw", "1"),
    ("keep", "1"),
    ("start", "alpha"),
    ("stop", "alpha"),
    ("stop", "--swarm"),
    ("configure", "alpha", "--model", "m"),
    ("delete", "--yes", "alpha"),
    ("undelete", "#1"),
    ("dismiss", "alpha"),
    ("hold",),
    ("answer", "1", "sell"),
    ("approve", "1"),
    ("deny", "1"),
    ("grants", "--revoke", "1"),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestAlone:
    @pytest.mark.parametrize("arguments", COMMANDING)
    def test_a_command_without_a_running_swarm_exits_5(self, zoea: Zoea, arguments: tuple[str, ...]) -> None:
        ran = zoea(*arguments)
        assert (ran.code, ran.out) == (5, "")
        assert ran.err.startswith("No running swarm: ")
        assert "`zoea run`" in ran.err

    def test_json_errors_are_one_object_on_stderr(self, zoea: Zoea) -> None:
        ran = zoea("start", "alpha", "--json")
        assert ran.code == 5
        assert '"class": "NoRunningSwarm"' in ran.err
        assert '"hint"' in ran.err

    def test_an_empty_workspace_lists_no_myses(self, zoea: Zoea) -> None:
        assert zoea("list", "--json").json == []
        assert "There are no myses yet" in zoea("list").out
        assert zoea("approvals", "--json").json == []
        assert zoea("undelete").out == "There are no deleted myses\n"
        assert zoea("grants").out == "Nothing is allowed for a whole template\n"

    def test_showing_a_mysis_without_a_database_exits_4(self, zoea: Zoea) -> None:
        assert zoea("show", "alpha").code == 4
        assert zoea("log", "alpha").code == 4


def make_database() -> None:
    """Make the empty database that every swarm but the fake one has."""

    async def make() -> None:
        await (await Store.open(places().database, clock_now=lambda: 1)).close()

    asyncio.run(make())


class TestBeside:
    def test_a_mysis_is_created_listed_shown_stopped_started_and_deleted(
        self, zoea: Zoea, other_owner: OwnerThread
    ) -> None:
        make_database()
        assert zoea("new", "alpha", "--idle", "--tag", "north", "--key", "k1").out == "alpha is idle\n"
        assert zoea("new", "alpha", "--idle", "--tag", "north", "--key", "k1").out == "alpha is idle\n"
        listed = zoea("list", "--json").json
        assert [(row["name"], row["state"], row["tags"]) for row in listed] == [("alpha", "idle", ["north"])]
        assert zoea("list").out.splitlines()[1].split()[:2] == ["alpha", "idle"]
        assert zoea("show", "ALPHA", "--json").json["name"] == "alpha"
        assert "state     idle" in zoea("show", "alpha").out
        assert zoea("start", "alpha").out == "alpha is running\n"
        assert zoea("stop", "alpha", "--json").json[0]["state"] == "stopped"
        assert zoea("delete", "alpha", "--yes").out == "alpha (#1) is deleted\n"
        assert zoea("list", "--json").json == []
        assert zoea("undelete", "#1").out == "alpha is stopped\n"
        assert zoea("dismiss", "alpha", "--json").json[0]["failure"] is None
        assert zoea("dismiss", "alpha").out.startswith("alpha has nothing to dismiss; it is ")
        assert zoea("dismiss", "nobody").code == zoea("undelete", "#1").code == 6

    def test_all_are_started_and_stopped(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        for name in ("alpha", "beta"):
            zoea("new", name, "--idle")
        assert zoea("start", "--all").out == "alpha is running\nbeta is running\n"
        assert {row["state"] for row in zoea("stop", "--all", "--json").json} == {"stopped"}

    def test_a_stopped_mysis_can_be_configured(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        zoea("new", "alpha", "--idle", "--tag", "north")
        wanted = ("--model", "small", "--tag", "south", "--set", "budget.mysis=9000")
        changed = zoea("configure", "alpha", *wanted, "--json")
        assert (changed.json["model"], changed.json["tags"]) == ("small", ["south"])
        assert "small" in zoea("configure", "alpha", "--no-tags", "--set", "budget.mysis=").out
        assert zoea("configure", "alpha", "--set", "swarm.max_myses=3").code == 2

    def test_a_model_that_its_server_does_not_list_is_refused_or_kept(
        self, zoea: Zoea, other_owner: OwnerThread, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lists = tuple(f"llama-{number}" for number in range(9))
        other_owner.swarm.given_providers = (
            ProviderView("openai", "openai", "openai", models=("qwen3:8b", *lists), is_default=True),
            ProviderView("scripted", "scripted", "scripted", models=()),
        )
        refused = zoea("new", "alpha", "--idle", "--model", "qwen3:9b", "--json")
        assert (refused.code, zoea("list", "--json").json) == (2, [])
        assert "the server lists no model 'qwen3:9b'; the nearest is qwen3:8b" in refused.err
        assert "It lists: qwen3:8b, llama-0" in refused.err
        assert "and 2 more. Name one of them, or give --keep-model." in refused.err
        assert "model's name is empty" in zoea("new", "alpha", "--model", " ").err
        assert zoea("new", "alpha", "--idle", "--provider", "openai", "--model", "qwen3:8b").code == 0
        assert zoea("new", "beta", "--idle", "--provider", "scripted", "--model", "any").code == 0

        assert zoea("configure", "alpha", "--model", "other").code == 2
        assert "model's name is empty" in zoea("configure", "alpha", "--model", "").err
        monkeypatch.setattr("sys.stdin", Terminal("n\n"))
        declined = zoea("configure", "alpha", "--model", "other")
        assert (declined.code, "nothing was changed" in declined.err) == (2, True)
        assert zoea("show", "alpha", "--json").json["model"] == "qwen3:8b"
        monkeypatch.setattr("sys.stdin", Terminal("y\n"))
        assert zoea("configure", "alpha", "--model", "other", "--json").code == 2  # it cannot ask
        assert zoea("configure", "alpha", "--model", "other").code == 0
        monkeypatch.setattr("sys.stdin", io.StringIO())
        assert zoea("configure", "alpha", "--model", "other", "--json").json["model"] == "other"
        assert zoea("configure", "alpha", "--model", "another", "--keep-model", "--json").json["model"] == "another"

    def test_a_local_model_that_was_not_added_is_refused_by_name(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        other_owner.swarm.given_providers = (
            ProviderView("embedded", "embedded", "embedded", models=("qwen", "tiny")),
            ProviderView("empty", "embedded", "embedded", models=()),
        )
        refused = zoea("new", "alpha", "--idle", "--provider", "embedded", "--model", "qwem")
        assert (refused.code, zoea("list", "--json").json) == (2, [])
        assert "there is no local model 'qwem'; the nearest is qwen" in refused.err
        assert "It lists: qwen, tiny" in refused.err
        assert zoea("new", "alpha", "--idle", "--provider", "embedded", "--model", "tiny").code == 0
        assert zoea("new", "beta", "--idle", "--provider", "empty", "--model", "any").code == 0

    def test_a_local_model_is_checked_without_settings_of_its_provider(
        self, zoea: Zoea, other_owner: OwnerThread
    ) -> None:
        put_model(LocalModels(places().data / "models"), "qwen")
        refused = zoea("new", "alpha", "--idle", "--provider", "embedded", "--model", "qwem")
        assert refused.code == 2
        assert "there is no local model 'qwem'; the nearest is qwen" in refused.err

    def test_start_and_stop_need_either_names_or_all(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        assert zoea("start").code == 2
        assert zoea("stop", "alpha", "--all").code == 2

    def test_a_message_comes_from_the_commander_with_a_receipt(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        zoea("new", "alpha")
        assert zoea("send", "alpha", "mine", "the", "belt").out.splitlines() == [
            "alpha  delivered (1)",
            "zoea send --receipt 1 shows its status later, zoea send --withdraw NUMBER takes one back",
        ]
        receipt = zoea("send", "alpha", "and sell", "--mode", "steer", "--json").json
        assert receipt["lines"][0]["status"] == "delivered"
        assert other_owner.swarm.said == [(COMMANDER, "alpha", "mine the belt"), (COMMANDER, "alpha", "and sell")]

    def test_a_waiting_message_is_withdrawn(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        zoea("new", "alpha")
        zoea("hold")
        for text in ("mine", "sell"):
            zoea("send", "alpha", text)
        assert zoea("send", "--withdraw", "1").out == "1 is withdrawn\n"
        assert zoea("send", "--withdraw", "2", "--json").json == {"withdrawn": [2]}
        assert (zoea("send", "--withdraw", "2").code, other_owner.swarm.waiting) == (2, {})
        for verb, said in (
            ("send --withdraw", "there is no id"),
            ("grants --revoke", "there is no id"),
            ("approve", "does not wait"),
        ):
            assert said in zoea(*verb.split(), str(2**63)).err

    def test_messages_are_kept_and_released_by_their_ids(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        assert zoea("keep", "3", "7").out == "3 is kept\n7 is kept\n"
        assert zoea("keep", "3", "--remove", "--json").json == {"released": [3]}
        assert other_owner.swarm.preserved == {7}

    def test_a_repeated_key_sends_one_message(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        zoea("new", "alpha")
        for _ in range(2):
            zoea("send", "alpha", "mine", "--key", "k")
        assert len(other_owner.swarm.said) == 1

    def test_a_text_can_come_from_stdin(
        self, zoea: Zoea, other_owner: OwnerThread, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        zoea("new", "alpha")
        monkeypatch.setattr(sys, "stdin", io.StringIO("from a file\n"))
        zoea("send", "alpha", "-")
        assert other_owner.swarm.said[0][2] == "from a file\n"

    def test_an_empty_message_is_refused(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        assert zoea("broadcast").code == 2

    def test_a_broadcast_lists_the_skipped_myses(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        for name in ("alpha", "beta"):
            zoea("new", name)
        zoea("stop", "beta")
        assert zoea("broadcast", "meet").out.startswith("alpha  delivered (1)\nbeta  not delivered: stopped\n")
        assert zoea("broadcast", "meet", "--to", "alpha", "--json").json["lines"][0]["mysis"] == "alpha"

    def test_a_refusal_of_the_swarm_exits_6(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        ran = zoea("send", "nobody", "hello")
        assert (ran.code, ran.err) == (6, "No such mysis: no mysis 'nobody'\n  `zoea list` shows them\n")

    def test_hold_is_set_shown_and_lifted(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        zoea("new", "alpha")
        assert zoea("hold", "--reason", "lunch").out == "The swarm is on hold\n"
        assert "on hold: lunch" in zoea("list").out
        assert zoea("hold", "--lift", "--json").json == {"held": False, "mysis": None}
        assert zoea("hold", "alpha").out == "alpha is paused\n"
        assert "idle" not in zoea("show", "alpha").out.splitlines()[2]
        assert zoea("show", "alpha").out.splitlines()[2].split() == ["status", "paused"]
        zoea("hold", "alpha", "--reason", "lunch")
        assert zoea("show", "alpha").out.splitlines()[2].split() == ["status", "paused:", "lunch"]
        assert zoea("show", "alpha", "--json").json["held_reason"] == "lunch"

    def test_a_grant_is_listed_and_revoked(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        other_owner.swarm.granted = {n: GrantView(n, "miner", up, "burn", 0) for n, up in ((3, "peer"), (4, ""))}
        assert zoea("grants").out.startswith("3  miner: peer/burn  since")
        assert [grant["tool"] for grant in zoea("grants", "--json").json] == ["burn", "burn"]
        assert zoea("grants", "--revoke", "3").out == "peer/burn asks again for the myses of miner\n"
        assert zoea("grants", "--revoke", "4", "--json").json["id"] == 4
        assert zoea("grants", "--revoke", "4").code == 2

    @pytest.mark.parametrize(
        ("arguments", "answer"),
        [
            (("approve", "4"), ApprovalAnswer.ONCE),
            (("approve", "4", "--session"), ApprovalAnswer.SESSION),
            (("approve", "4", "--template"), ApprovalAnswer.TEMPLATE),
            (("deny", "4", "--say", "too dear"), ApprovalAnswer.DENIED),
            (("answer", "4", "--allow"), ApprovalAnswer.ONCE),
            (("answer", "4", "--session"), ApprovalAnswer.SESSION),
            (("answer", "4", "--template", "go", "on"), ApprovalAnswer.TEMPLATE),
            (("answer", "4", "--deny", "too", "dear"), ApprovalAnswer.DENIED),
        ],
    )
    def test_an_approval_is_shown_whole_and_answered(
        self, zoea: Zoea, other_owner: OwnerThread, arguments: tuple[str, ...], answer: ApprovalAnswer
    ) -> None:
        other_owner.swarm.asked[4] = ApprovalView(4, 1, "alpha", "sell", "reef", '{"ore":"iron"}', 1, 2)
        assert [line.split("  until")[0] for line in zoea("approvals").out.splitlines()] == [
            "4  alpha asks",
            '    reef/sell({"ore":"iron"})',
        ]
        other_owner.swarm.asked[5] = ApprovalView(5, 1, "alpha", "zoea_ask", "", '{"question":"Sell?"}', 1, 2)
        assert zoea("approvals").out.endswith("(answer)\n    Sell?\n")
        del other_owner.swarm.asked[5]
        assert zoea("approvals", "--json").json[0]["tool"] == "sell"
        assert zoea(*arguments).code == 0
        assert other_owner.swarm.answers[0][:2] == (4, answer)
        assert zoea("approvals").out == "Nothing waits for your answer\n"
        assert zoea(*arguments).code == 2

    def test_what_one_mysis_asks_is_answered_by_its_name(
        self, zoea: Zoea, other_owner: OwnerThread, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        zoea("new", "alpha")
        assert "alpha waits for no answer" in zoea("deny", "alpha").err
        other_owner.swarm.asked[4] = ApprovalView(4, 1, "alpha", "zoea_ask", "", '{"question":"Where?"}', 1, 2)
        other_owner.swarm.asked[5] = ApprovalView(5, 1, "alpha", "sell", "reef", "{}", 1, 2)
        yes_or_no = zoea("answer", "5", "south")
        assert (yes_or_no.code, "Say which: --allow or --deny." in yes_or_no.err) == (2, True)
        refused = zoea("answer", "alpha", "south")
        assert (refused.code, "alpha waits for 2 answers: 4, 5" in refused.err) == (2, True)
        changed = zoea("approve", "5", "--change", '{"ore": "tin"}')
        assert changed.out == "alpha: sell is allowed (once, with your arguments)\n"
        for nothing in ("", "  ", "-"):
            monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
            unsent = zoea("approve", "5", "--change", nothing)
            assert (unsent.code, "--change gives no arguments" in unsent.err) == (2, True)
        assert zoea("answer", "ALPHA", "take", "the", "south").out == "alpha has your answer\n"
        assert other_owner.swarm.answers == [
            (5, ApprovalAnswer.ONCE, "", '{"ore": "tin"}'),
            (4, ApprovalAnswer.ONCE, "take the south"),
        ]
        assert zoea("answer", "9" * 5000, "south").code == 2

    def test_an_answer_is_json_too(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        other_owner.swarm.asked[4] = ApprovalView(4, 1, "alpha", "sell", "reef", "{}", 1, 2)
        assert zoea("deny", "4", "--json").json == {"approval": 4, "answer": "denied"}

    def test_stop_swarm_ends_the_owner(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        assert zoea("stop", "--swarm").code == 0
        other_owner.thread.join(timeout=10)
        assert not other_owner.thread.is_alive()

    def test_delete_asks_for_confirmation(
        self, zoea: Zoea, other_owner: OwnerThread, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        zoea("new", "alpha")
        monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
        assert zoea("delete", "alpha").code == 2
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        assert "is deleted" in zoea("delete", "alpha").out

    def test_control_characters_in_a_name_are_removed(self, zoea: Zoea, other_owner: OwnerThread) -> None:
        other_owner.do(other_owner.swarm.create("evil\x1b[2Jname"))
        assert "\x1b" not in zoea("list").out + zoea("show", "#1").out


class TestWords:
    def test_help_names_every_command_in_groups(self, zoea: Zoea) -> None:
        for arguments in ((), ("--help",), ("help",)):
            assert all(f"  {name} " in zoea(*arguments).out for name in COMMANDS)

    def test_every_command_has_a_help_text(self, zoea: Zoea) -> None:
        ran = zoea("help", "send")
        assert ran.code == 0
        assert ran.out.startswith("Usage: zoea send")
        assert ran.out == zoea("send", "--help").out

    def test_a_group_without_a_command_shows_its_help(self, zoea: Zoea) -> None:
        ran = zoea("topic")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.rstrip() == zoea("topic", "--help").out.rstrip()

    def test_a_mistyped_command_of_a_group_is_answered_with_the_nearest(self, zoea: Zoea) -> None:
        ran = zoea("ctx", "refz")
        assert ran.err == "Cannot do that: there is no command `zoea ctx refz`\n  Did you mean `zoea ctx refs`?\n"
        assert zoea("prices", "xyzzy").err.endswith("  `zoea prices --help` lists the commands.\n")

    def test_a_mistyped_command_is_answered_with_the_nearest(self, zoea: Zoea) -> None:
        assert (
            zoea("brodcast").err == "Cannot do that: there is no command 'brodcast'\n  Did you mean `zoea broadcast`?\n"
        )
        assert "lists the commands" in zoea("xyzzy").err

    @pytest.mark.parametrize(
        ("word", "command"),
        [
            ("pause", "hold"),
            ("resume", "hold --lift"),
            ("remove", "delete"),
            ("create", "new"),
            ("message", "send"),
            ("settings", "config"),
            ("charts", "stats"),
        ],
    )
    def test_a_word_that_other_programs_use_is_answered_with_the_command(
        self, zoea: Zoea, word: str, command: str
    ) -> None:
        assert zoea(word).err.endswith(f"  Did you mean `zoea {command}`?\n")

    def test_a_mistyped_option_is_a_usage_error(self, zoea: Zoea) -> None:
        ran = zoea("list", "--jason")
        assert ran.code == 2
        assert "--jason" in ran.err
        assert "zoea list --help" in ran.err

    def test_the_version_is_printed(
        self, zoea: Zoea, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert zoea("--version").out.startswith("zoea ")
        monkeypatch.setattr(sys, "argv", ["zoea", "--version"])
        assert __main__.main() == 0
        assert capsys.readouterr().out.startswith("zoea ")

    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_command_can_be_loaded_and_has_help(self, zoea: Zoea, name: str) -> None:
        assert load([name])[1] == []
        assert zoea(name, "--help").out.startswith(f"Usage: zoea {name}")

    def test_an_interrupt_exits_130(self, zoea: Zoea, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(_arguments: list[str]) -> int:
            raise KeyboardInterrupt

        monkeypatch.setattr("zoea.cli.run", interrupted)
        assert zoea("list").code == 130

    def test_an_error_is_text_with_its_hint_below(self) -> None:
        error = ZoeaError("it\x1b[2J broke", hint="Mend it.")
        assert __main__.as_text(error) == "Zoea failed: it\\u001b[2J broke\n  Mend it.\n"
        assert __main__.as_text(ZoeaError("it broke", title="Oh")) == "Oh: it broke\n"

    def test_a_held_mysis_is_marked_in_its_state(self) -> None:
        assert {state.value for state in MysisState} == {"idle", "running", "stopped", "errored"}


def test_an_empty_name_creates_no_mysis(zoea: Zoea) -> None:
    for name in ("", "  "):
        ran = zoea("new", name)
        assert ran.code == 2
        assert "the name is empty" in ran.err
