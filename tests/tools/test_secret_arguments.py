"""Secrets in arguments are marks for everybody but the server they were given to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.toolboxes import Faulty, asked, meta, with_catalogue
from tests.tools.conftest import Opener
from zoea.model.request import Answer, AnswerCall
from zoea.model.values import Native
from zoea.runtime.accounts import CredentialSecrets
from zoea.settings.credentials import Credentials
from zoea.tools.secret_arguments import is_secret_name, replace_secrets
from zoea.tools.secret_vault import KeptSecret

SECRET = 'canary "hunter2" ü\n'


def _replaced(arguments: dict[str, Any], **schema: Any) -> dict[str, Any]:
    return replace_secrets(arguments, schema, lambda value: f"<{value}>")


@walk_cases(
    "name",
    [
        *("password", "user_password", "newPassword", "secret", "clientSecret", "api_key", "X-Api-Key", "apikey"),
        *(
            "token",
            "accessToken",
            "refresh_token",
            "PASSWORD",
            "passphrase",
            "pass\u200bword",
            "pwd",
            "db_pwd",
            "tokens",
            "accessTokens",
        ),
        *(
            "passwordConfirmation",
            "password_confirmation",
            "password1",
            "password_again",
            "new_password2",
            "newPassword-2",
        ),
        *("pass_phrase", "passkey", "wifi_psk", "credentials", "userpass", "Password field", "dbpassword", "apiKey2"),
        *("private_key", "sshPrivateKey", "secret_key", "api_keys", "passwords", "secrets", "passcode"),
    ],
)
def test_a_name_that_says_secret_is_one(name: str) -> None:
    assert is_secret_name(name)


@walk_cases(
    "name",
    [
        *(
            "page_token",
            "nextPageToken",
            "next_token",
            "continuation_token",
            "max_tokens",
            "prompt_tokens",
            "secretary",
        ),
        *("compass", "bypass", "password_length", "credentials_path", "passkey_support", "key1", "nextPageToken2"),
        *("keys", "passwords_count", "token_type", "user", ""),
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert not is_secret_name(name)


def test_a_schema_that_says_secret_is_believed_at_any_depth() -> None:
    schema = {
        "properties": {
            "pin": {"type": "integer", "format": "password"},
            "door": {"$ref": "#/$defs/Door"},
            "codes": {"type": "array", "items": {"anyOf": [{"properties": {"code": {"writeOnly": True}}}]}},
        },
        "$defs": {"Door": {"properties": {"combination": {"type": "string", "writeOnly": True}}}},
    }
    found = _replaced(
        {"pin": 1234, "door": {"combination": "x", "side": "left"}, "codes": [{"code": "y"}, {"other": "z"}]}, **schema
    )
    assert found == {
        "pin": "<1234>",
        "door": {"combination": "<x>", "side": "left"},
        "codes": [{"code": "<y>"}, {"other": "z"}],
    }


def test_a_name_is_found_at_any_depth_and_leaves_of_a_secret_object_are_all_secret() -> None:
    found = _replaced({"to": [{"auth": {"token": "t", "token_type": "Bearer"}}], "secret": {"a": ["b", None, True]}})
    assert found == {"to": [{"auth": {"token": "<t>", "token_type": "Bearer"}}], "secret": {"a": ["<b>", None, True]}}


def test_numbers_and_empty_texts_of_a_token_are_no_secrets() -> None:
    assert _replaced({"token": 7, "password": "", "n": {"password": 7}}) == {
        "token": 7,
        "password": "",
        "n": {"password": "<7>"},
    }


class Keeper:
    """Keeps secrets of an earlier run."""

    def __init__(self, kept: Mapping[int, KeptSecret] | None = None) -> None:
        self.kept = dict(kept or {})

    async def load_secrets(self) -> Mapping[int, KeptSecret]:
        return dict(self.kept)

    async def save_secrets(self, kept: Mapping[int, KeptSecret]) -> None:
        self.kept.update(kept)


def _answer(*calls: AnswerCall, **more: Any) -> Answer:
    return Answer(calls=calls, native=Native("p", "m", "[]"), **more)


async def test_a_secret_is_a_mark_from_the_answer_on_and_its_server_gets_the_value(
    open_box: Opener, faulty: Faulty
) -> None:
    keeper = Keeper()
    session = await with_catalogue(open_box(faulty.config(), secrets=keeper).session(1, "alpha", ""))
    answer = await session.conceal_answer(
        _answer(
            asked("unlock", user="me", password=SECRET),
            asked("note", text=f"it is {SECRET}"),
            text=f"With {SECRET}",
            reasoning=json.dumps(SECRET),
        )
    )
    assert answer.native is None
    assert answer.text == "With ‹secret:1›"
    assert answer.reasoning == '"‹secret:1›"'
    assert [json.loads(call.arguments) for call in answer.calls] == [
        {"user": "me", "password": "‹secret:1›"},
        {"text": "it is ‹secret:1›"},
    ]
    assert keeper.kept == {1: KeptSecret("faulty", SECRET)}
    result = await session.call(answer.calls[0], meta=meta())
    assert faulty.seen("call", tool="unlock")[0]["arguments"] == {"user": "me", "password": SECRET}
    assert result.content == 'unlocked with ‹secret:1›, in JSON {"key": "‹secret:1›"}'
    await session.call(answer.calls[1], meta=meta())
    assert faulty.seen("call", tool="note")[0]["arguments"] == {"text": f"it is {SECRET}"}


async def test_the_same_value_keeps_its_mark_and_a_mark_stays_one(open_box: Opener, faulty: Faulty) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    calls = [asked("unlock", user="a", password=value) for value in ("one one", "two two", "one one", "‹secret:2›")]
    answer = await session.conceal_answer(_answer(*calls))
    assert [json.loads(call.arguments)["password"] for call in answer.calls] == [
        "‹secret:1›",
        "‹secret:2›",
        "‹secret:1›",
        "‹secret:2›",
    ]
    untouched = _answer(asked("echo", text="x"), text="nothing")
    assert await session.conceal_answer(untouched) is untouched


async def test_a_value_of_an_earlier_run_is_put_in_and_masked(open_box: Opener, faulty: Faulty) -> None:
    keeper = Keeper({7: KeptSecret("faulty", "earlier-value")})
    session = await with_catalogue(open_box(faulty.config(), secrets=keeper).session(1, "alpha", ""))
    result = await session.call(asked("echo", text="‹secret:7›"), meta=meta())
    assert faulty.seen("call", tool="echo")[0]["arguments"] == {"text": "earlier-value"}
    assert result.content == "‹secret:7›"


async def test_another_server_does_not_get_the_value(open_box: Opener, faulty: Faulty) -> None:
    keeper = Keeper({7: KeptSecret("other", "earlier-value")})
    session = await with_catalogue(open_box(faulty.config(), secrets=keeper).session(1, "alpha", ""))
    result = await session.call(asked("echo", text="‹secret:7›"), meta=meta())
    assert result.content == (
        "‹secret:7› was given to other and is not passed on to faulty. "
        "Give the value itself if this server is to have it."
    )
    unknown = await session.call(asked("echo", text="‹secret:99›"), meta=meta())
    assert unknown.content.startswith("‹secret:99› stands for no value that Zoea keeps")
    assert not faulty.seen("call")


@pytest.mark.parametrize("value", ["me", "true", "yes", "1234", "12:30", "required", "p9!"])
async def test_an_ordinary_or_very_short_value_is_kept_but_not_looked_for_in_texts(
    open_box: Opener, faulty: Faulty, value: str
) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    answer = await session.conceal_answer(_answer(asked("unlock", user="me", password=value), text=f"it is {value}"))
    assert json.loads(answer.calls[0].arguments) == {"user": "me", "password": "‹secret:1›"}
    assert answer.text == f"it is {value}"
    await session.call(answer.calls[0], meta=meta())
    assert faulty.seen("call", tool="unlock")[0]["arguments"]["password"] == value


@pytest.mark.parametrize("value", ["p9!x", "a1b2", "x-9%z"])
async def test_a_short_value_is_looked_for_where_it_stands_by_itself(
    open_box: Opener, faulty: Faulty, value: str
) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    answer = await session.conceal_answer(
        _answer(
            asked("unlock", user="me", password=value),
            asked("note", text=f"it is\n{value}, not 0{value} or {value}0"),
            text=f"{value}. u{value}",
        )
    )
    assert json.loads(answer.calls[1].arguments) == {"text": f"it is\n‹secret:1›, not 0{value} or {value}0"}
    assert answer.text == f"‹secret:1›. u{value}"
    result = await session.call(answer.calls[0], meta=meta())
    assert result.content == 'unlocked with ‹secret:1›, in JSON {"key": "‹secret:1›"}'


async def test_a_secret_in_broken_arguments_and_of_an_unknown_tool_is_a_mark_too(
    open_box: Opener, faulty: Faulty
) -> None:
    session = await with_catalogue(open_box(faulty.config()).session(1, "alpha", ""))
    broken = AnswerCall("unlock", '{"user": "me", "password": "long-enough"', broken="it is cut")
    answer = await session.conceal_answer(_answer(broken, asked("open_sesame", token="other-value")))
    assert answer.calls[0].arguments == '{"user": "me", "password": "‹secret:1›"'
    assert json.loads(answer.calls[1].arguments) == {"token": "‹secret:2›"}
    await session.call(asked("echo", text="‹secret:2›"), meta=meta())
    assert faulty.seen("call", tool="echo")[0]["arguments"] == {"text": "other-value"}


async def test_secrets_survive_in_the_credentials_file(tmp_path: Path) -> None:
    keeper = CredentialSecrets(Credentials(tmp_path / "credentials.toml"))
    assert await keeper.load_secrets() == {}
    await keeper.save_secrets({1: KeptSecret("", SECRET), 2: KeptSecret("far", 1234)})
    again = CredentialSecrets(Credentials(tmp_path / "credentials.toml"))
    assert await again.load_secrets() == {1: KeptSecret("", SECRET), 2: KeptSecret("far", 1234)}
    await again.save_secrets({1: KeptSecret("far", SECRET)})
    assert await again.load_secrets() == {1: KeptSecret("far", SECRET), 2: KeptSecret("far", 1234)}
    assert "hunter2" not in repr(await again.load_secrets())


async def test_credentials_that_cannot_be_used_stop_no_call(
    open_box: Opener, faulty: Faulty, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text("[credentials]\n")
    file.chmod(0o644)
    session = await with_catalogue(
        open_box(faulty.config(), secrets=CredentialSecrets(Credentials(file))).session(1, "alpha", "")
    )
    answer = await session.conceal_answer(_answer(asked("unlock", user="me", password=SECRET)))
    assert "hunter2" not in answer.calls[0].arguments
    assert "unlocked with ‹secret:" in (await session.call(answer.calls[0], meta=meta())).content
    assert faulty.seen("call", tool="unlock")[0]["arguments"]["password"] == SECRET
    assert "cannot be read" in caplog.text


async def test_a_password_that_a_real_server_makes_is_a_mark_in_its_result_and_logs_in(
    open_box: Opener, faulty: Faulty
) -> None:
    keeper = Keeper()
    session = await with_catalogue(open_box(faulty.config(), secrets=keeper).session(1, "alpha", ""))
    result = await session.call(asked("register", name="alpha"), meta=meta())
    (kept,) = [one for one in keeper.kept.values() if one.upstream == "faulty"]
    assert str(kept.value) not in result.content
    assert "‹secret:1›" in result.content
    answer = await session.conceal_answer(_answer(text=f"I have {kept.value}"))
    assert answer.text == "I have ‹secret:1›"
