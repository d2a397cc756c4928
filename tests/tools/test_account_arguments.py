"""Accounts on servers that know nothing of Reef: arguments come from schemas and settings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.mcp_accounts import PASSWORD, ChosenSecrets, ForeignAccounts, SessionObjects
from tests.fakes.toolboxes import asked, meta, with_catalogue
from tests.tools.conftest import Opener
from tests.tools.test_accounts_login import Keeper
from zoea.model.errors import ToolError
from zoea.runtime.upstream_set import build_upstreams
from zoea.settings.credentials import Credentials
from zoea.settings.endpoints import LoginSettings
from zoea.settings.paths import places
from zoea.settings.schema import Settings
from zoea.tools import UpstreamConfig
from zoea.tools.account_arguments import is_secret_field, login_arguments, register_arguments

INJECT = {"session_id": "account"}
INNER = {"session_id": "account.sessionId"}
"""Foreign servers spell it otherwise, in an inner object."""


def _config(**login: Any) -> UpstreamConfig:
    return UpstreamConfig("game", command="x", inject=INJECT, login=LoginSettings(**login))


def _schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT = {"type": "string"}


async def test_a_server_with_other_arguments_works_with_what_is_fixed(open_box: Opener) -> None:
    game = ForeignAccounts()
    login = LoginSettings(login="sign_in", register="sign_up", name="username", fixed={"empire": "solarian"})
    keeper = Keeper()
    config = UpstreamConfig("game", server=game.server, inject=INNER, login=login)
    box = open_box(config, accounts=keeper)
    session = await with_catalogue(box.session(1, "alpha", ""))
    result = await session.call(asked("status"), meta=meta())
    assert result.content == "Welcome, ‹account› is empire solarian", "only secrets are masked"
    assert game.calls == [
        ("sign_up", {"username": "alpha", "empire": "solarian"}),
        ("sign_in", {"username": "alpha", "password": f"{PASSWORD}-alpha"}),
    ]
    assert keeper.kept["alpha"]["username"] == "alpha"
    other = await with_catalogue(box.session(2, "alpha", "", uid="other"))
    assert not (await other.call(asked("status"), meta=meta())).is_error
    assert keeper.kept["other"]["username"] == "alpha-2", "a taken name in the server's own words"


async def test_a_required_argument_that_nothing_fills_is_named(open_box: Opener) -> None:
    game = ForeignAccounts()
    login = LoginSettings(login="sign_in", register="sign_up", name="username")
    config = UpstreamConfig("game", server=game.server, inject=INJECT, login=login)
    session = await with_catalogue(open_box(config, accounts=Keeper()).session(1, "alpha", ""))
    result = await session.call(asked("status"), meta=meta())
    assert result.content.startswith(
        "sign_up of game needs empire (one of solarian, voidborn) for the account of alpha, and nothing fills it. "
        "Give it in the settings: [upstream.game.login] fixed = { empire = … }"
    )
    assert game.calls == []


async def test_a_secret_that_the_server_does_not_make_is_made_by_zoea(open_box: Opener) -> None:
    game, keeper = ChosenSecrets(), Keeper()
    login = LoginSettings(login="enter", register="create", name="nick", secret="passphrase")
    config = UpstreamConfig("game", server=game.server, inject=INJECT, login=login)
    session = await with_catalogue(open_box(config, accounts=keeper).session(1, "alpha", ""))
    assert (await session.call(asked("status"), meta=meta())).content == "in ‹account›"
    assert 12 <= len(game.players["alpha"]) <= 20
    assert keeper.kept["alpha"].items() >= {"nick": "alpha", "passphrase": game.players["alpha"]}.items()


@pytest.mark.parametrize(
    ("source", "answer", "shown"),
    [
        ("account.id", {"id": "canary-session", "started": 5}, "in ‹account›"),
        ("account.sessionId", {"sessionId": "canary-session", "id": "user-77"}, "in ‹account›"),
        ("account", {"first": "canary-one", "second": "canary-two"}, '{"first": "‹account›", "second": "‹account›"}'),
    ],
    ids=["its id", "another field", "the object"],
)
async def test_a_session_that_is_an_object_is_sent_by_its_named_field_and_never_shown(
    open_box: Opener, source: str, answer: dict[str, Any], shown: str
) -> None:
    game = SessionObjects(answer)
    config = UpstreamConfig("game", server=game.server, inject={"session": source}, login=LoginSettings())
    session = await with_catalogue(open_box(config, accounts=Keeper()).session(1, "alpha", ""))
    assert (await session.call(asked("status"), meta=meta())).content.endswith(shown)


def test_name_and_secret_are_those_of_the_settings() -> None:
    config = _config(name="callsign", secret="code")
    schema = _schema("callsign", "code", callsign=TEXT, code=TEXT, username=TEXT, password=TEXT)
    given = register_arguments(config, schema, "alpha")
    assert given["callsign"] == "alpha"
    assert set(given) == {"callsign", "code"}
    assert login_arguments(config, schema, {"callsign": "a", "code": "c"}, "alpha") == {"callsign": "a", "code": "c"}
    assert is_secret_field(config, "code", schema)
    assert not is_secret_field(config, "callsign", schema)


def test_an_account_stored_by_a_person_fits_other_argument_names() -> None:
    schema = _schema("user_name", "password", user_name=TEXT, password=TEXT, remember={"type": "boolean"})
    stored = {"account": "me", "password": "s3cret"}
    config = _config(mapping={"user_name": "account"})
    assert login_arguments(config, schema, stored, "alpha") == {"user_name": "me", "password": "s3cret"}
    with pytest.raises(ToolError, match="needs user_name"):
        login_arguments(_config(), schema, stored, "alpha")


@walk_cases("key", ["private_key", "access_key", "tokens", "refresh_token", "invite_token"])
def test_nothing_is_made_up_for_an_argument_that_the_settings_do_not_name(key: str) -> None:
    made = _schema("name", key, name=TEXT, **{key: TEXT})
    with pytest.raises(ToolError, match=f"register of game needs {key} for the account of alpha"):
        register_arguments(_config(), made, "alpha")


def test_what_can_have_one_value_only_is_filled() -> None:
    schema = _schema(
        *("name", "version", "mode", "lang"),
        name=TEXT,
        version={"const": 2},
        mode={"enum": ["json"]},
        lang={"type": "string", "default": "en"},
    )
    assert register_arguments(_config(), schema, "alpha") == {
        "name": "alpha",
        "version": 2,
        "mode": "json",
        "lang": "en",
    }


def test_a_login_names_its_missing_argument_too() -> None:
    with pytest.raises(ToolError, match="login of game needs pin for the account of alpha"):
        login_arguments(_config(), _schema("pin", pin=TEXT), {"account": "me"}, "alpha")


def test_a_number_is_sent_as_the_schema_says() -> None:
    schema = _schema("player_id", "password", player_id={"type": "integer"}, password=TEXT)
    assert login_arguments(_config(), schema, {"player_id": "7", "password": "12"}, "alpha") == {
        "player_id": 7,
        "password": "12",
    }


def test_the_settings_name_the_tools_and_their_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVITE", "welcome")
    settings = Settings.model_validate(
        {
            "upstream": {
                "game": {
                    "command": "x",
                    "inject": INJECT,
                    "login": {
                        "login": "sign_in",
                        "register": "sign_up",
                        "name": "username",
                        "secret": "password",
                        "fixed": {"empire": "solarian", "level": 3, "invite": "env:INVITE"},
                        "taken": ["in use"],
                    },
                },
                "plain": {"command": "x"},
            }
        }
    )
    game, plain = build_upstreams(settings, Credentials(places().credentials))
    assert plain.login is None
    assert game.login == LoginSettings(
        login="sign_in",
        register="sign_up",
        name="username",
        secret="password",
        fixed={"empire": "solarian", "level": 3, "invite": "welcome"},
        taken=("in use",),
    )
    assert "welcome" not in repr(game)
