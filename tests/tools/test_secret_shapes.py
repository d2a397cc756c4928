"""A secret of any shape in arguments and answers is hidden on every surface.

Its server still gets it.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from tests.case_tables import walk_cases
from zoea.model.request import Answer, AnswerCall, ToolResult, ToolSpec
from zoea.text.redact import redact_all, redact_secrets
from zoea.text.redact.json_redaction import redact_json_text
from zoea.tools.results import parse_fields, parse_result
from zoea.tools.secret_vault import InMemorySecrets, SecretVault

SECRET = "canary-8Xq2"
NAMES = (
    "password",
    "pwd",
    "private_key",
    "tokens",
    "secrets",
    "api_keys",
    "accessToken",
    "db_pwd",
    "pw",
    "otp_seed",
    "mnemonic",
    "pin_code",
    "passphrase",
    "pass\u200bword",
)

FOREIGN = ("密码", "口令", "パスワード", "비밀번호", "пароль", "Passwort", "contraseña", "mot_de_passe", "hasło")


def deep(levels: int, inside: Any) -> Any:
    for _ in range(levels):
        inside = [{"a": inside}]
    return inside


SHAPES: dict[str, str] = {
    **{f"{name} as a text": json.dumps({name: SECRET}) for name in NAMES},
    **{f"{name} as a list": json.dumps({name: [SECRET]}) for name in NAMES},
    "all arguments as a text": json.dumps(json.dumps({"password": SECRET})),
    "an argument that is JSON": json.dumps({"body": json.dumps({"user": "a", "password": SECRET})}),
    "JSON in JSON in JSON": json.dumps({"a": json.dumps({"b": json.dumps({"password": SECRET})})}),
    "a cookie of curl in a list": json.dumps({"args": ["curl", "-s", "-b", f"sid={SECRET}", "https://x.example"]}),
    "a cookie of curl": json.dumps({"command": f"curl -s -b 'sid={SECRET}' https://x.example"}),
    "an option in a list": json.dumps({"args": ["--user", "a", "--password", SECRET, "--verbose"]}),
    "an option with its value": json.dumps({"args": ["--user=a", f"--password={SECRET}"]}),
    "an option in a command": json.dumps({"command": f"login --password {SECRET} --user a"}),
    "a quoted option in a command": json.dumps({"command": f"login --api-key='{SECRET}' --user a"}),
    "40 levels": json.dumps({"a": deep(20, {"password": SECRET})}),
    "100 levels": json.dumps({"a": deep(50, {"password": SECRET})}),
    "an escaped name": '{"pass\\u0077ord": "' + SECRET + '"}',
    "an escaped name in a list": '[{"\\u0070wd": "' + SECRET + '"}]',
    "a list of objects": json.dumps([{"password": SECRET}]),
    **{f"{name} as a text": json.dumps({name: SECRET}, ensure_ascii=False) for name in FOREIGN},
    "a variable in a list": json.dumps({"env": [f"DB_PASSWORD={SECRET}"]}),
    "a variable before a command": json.dumps({"command": f"PGPASSWORD={SECRET} psql"}),
    "lines of YAML": json.dumps({"body": f"user: bob\npassword: {SECRET}\n"}),
    "a block of YAML": json.dumps({"body": f"user: bob\npassword: |-\n  {SECRET}\n"}),
    "a short option in a list": json.dumps({"args": ["--user", "a", "--pw", SECRET]}),
    "a short option in a command": json.dumps({"command": f"login --pw {SECRET} --user a"}),
    "a form": json.dumps({"body": f"user=bob&password={SECRET}&x=1"}),
    "the user of an address": json.dumps({"url": f"https://bob:{SECRET}@example.com/x"}),
    "a query": json.dumps({"url": f"https://example.com/x?access_token={SECRET}&a=1"}),
    "a connection string": json.dumps({"dsn": f"host=h user=u password={SECRET} dbname=x"}),
    "a header": json.dumps({"headers": {"Authorization": f"Bearer {SECRET}"}}),
    "a header of a command": json.dumps({"command": f"curl -H 'X-Api-Key: {SECRET}' https://example.com"}),
    "lines of headers": json.dumps({"headers": f"Accept: */*\nX-Api-Key: {SECRET}"}),
    "several lines": json.dumps({"key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"}),
}
IN_CALLS: dict[str, str] = {
    **SHAPES,
    "a cookie": json.dumps({"headers": {"Cookie": f"session={SECRET}"}}),
    "a name beside its value": json.dumps({"env": [{"name": "DB_PASSWORD", "value": SECRET}]}),
    "an object": json.dumps({"clientSecret": {"value": SECRET}}),
    "wide letters": json.dumps({"ｐａｓｓｗｏｒｄ": SECRET}, ensure_ascii=False),
    "the login of a command": json.dumps({"command": f"curl -u bob:{SECRET} https://example.com"}),
    "XML": json.dumps({"body": f"<user>bob</user><password>{SECRET}</password>"}),
    "a header alone": json.dumps({"headers": [f"X-Api-Key: {SECRET}"]}),
    "pairs": json.dumps({"form": [["user", "bob"], ["password", SECRET]]}),
    "a list of credentials": json.dumps({"credentials": [SECRET]}),
    "pairs of credentials": json.dumps({"credentials": [["user", "bob"], ["password", SECRET]]}),
    "a field beside its value": json.dumps({"field": "password", "value": SECRET}),
    "an element beside its text": json.dumps({"element": "Password field", "ref": "e1", "text": SECRET}),
    "a sentence": json.dumps({"text": f"The password is {SECRET}, and my name is bob"}),
    "a name and its password": json.dumps({"auth": {"basic": ["bob", SECRET]}}),
    "a name and its password as a text": json.dumps({"http_auth": f"bob:{SECRET}"}),
    "a Chinese sentence": json.dumps({"text": f"密码是{SECRET}"}),
}
"""Shapes that are known in a call, where its server gets the value all the same."""
BROKEN = {
    "cut off": json.dumps({"password": SECRET, "a": "b"})[:-4],
    "an escaped name": '{"pass\\u0077ord": "' + SECRET + '", "a": ',
    "an option": '{"command": "login --password ' + SECRET + " --user",
}
TOOL = ToolSpec("unlock", "", {}, upstream="vault")


async def conceal(arguments: str) -> tuple[SecretVault, str]:
    vault = SecretVault(InMemorySecrets())
    call = AnswerCall(name="unlock", arguments=arguments)
    answer = await vault.conceal_answer(Answer(calls=(call,)), [(call, TOOL, {})])
    return vault, answer.calls[0].arguments


@walk_cases("shape", IN_CALLS)
async def test_a_secret_in_a_call_is_a_mark_and_its_server_gets_the_value(shape: str) -> None:
    vault, shown = await conceal(IN_CALLS[shape])
    assert SECRET not in shown
    assert "‹secret:1›" in shown
    filled = await vault.fill("vault", {"whole": json.loads(shown)})
    assert filled["whole"] == json.loads(IN_CALLS[shape])


@walk_cases("name", ["pin", "PIN", "cardPin", "sim_pin", "pin_number", "puk"])
@walk_cases("value", [48213907, "48213907"])
async def test_a_number_that_a_pin_is_called_is_a_mark(name: str, value: int | str) -> None:
    arguments = {"door": {name: value}}
    vault, shown = await conceal(json.dumps(arguments))
    assert "48213907" not in shown
    assert await vault.fill("vault", json.loads(shown)) == arguments


async def test_long_arguments_of_many_calls_keep_one_number_for_each_value() -> None:
    """They are searched in threads, so that the event loop is free."""
    vault = SecretVault(InMemorySecrets())

    async def conceal_long(number: int) -> str:
        text = "".join(f"password=canary-{(number * place) % 50}x\n" for place in range(400))
        call = AnswerCall(name="unlock", arguments=json.dumps({"body": text}))
        answer = await vault.conceal_answer(Answer(calls=(call,)), [(call, TOOL, {})])
        filled = await vault.fill("vault", json.loads(answer.calls[0].arguments))
        assert filled == {"body": text}
        return answer.calls[0].arguments

    shown = await asyncio.gather(*map(conceal_long, range(1, 9)))
    assert "canary" not in "".join(shown)
    assert len(set(re.findall(r"secret:(\d+)", "".join(shown)))) == 50


@walk_cases("shape", BROKEN)
async def test_a_secret_in_broken_arguments_is_a_mark(shape: str) -> None:
    _, shown = await conceal(BROKEN[shape])
    assert SECRET not in shown


@walk_cases("shape", SHAPES)
def test_a_secret_in_stored_json_is_redacted(shape: str) -> None:
    redacted = redact_json_text(SHAPES[shape], redact_secrets)
    assert SECRET not in redacted
    assert "[REDACTED_" in redacted
    json.loads(redacted)


@walk_cases(
    "plain",
    [
        {"tokens": 500, "max_tokens": "500", "next_token": "abc"},
        {"args": ["--verbose", "--user", "a", "--password"]},
        {"command": "grep --token-count x", "note": '{"a": [1, 2]}'},
        {"command": "login --password $PASSWORD"},
        {
            "pin": 13,
            "pins": ["A0", "2048x"],
            "spin": 12345,
            "auth": "https://example.com/x1",
            "basic": ["a", "b1", "c"],
        },
        {"pin": "A0", "pwm": "fast-123", "body": "password: |\n"},
        {"code": "token = response\npassword: Optional[str]\nsecret = read_secret(name)", "env": ["PATH=/usr/bin1"]},
        {"headers": {"Accept": "text/html2"}, "env": [{"name": "MODE", "value": "fast-123"}]},
        {"fields": ["password", "username"], "credentials": {"user": "alice12"}, "rows": [["user", "alice12"]]},
        {"field": "name", "value": "alice12", "text": "The password is required, the token is invalid"},
        {"url": "https://example.com:8080/a?page=12345678", "body": "<name>alpha-1</name>"},
    ],
)
async def test_other_arguments_stay_as_they_are(plain: dict[str, Any]) -> None:
    text = json.dumps(plain)
    assert (await conceal(text))[1] == text


async def test_a_value_with_quotes_stays_json_inside_a_text() -> None:
    arguments = {"body": json.dumps({"password": 'a "quoted" \\ one'})}
    vault, shown = await conceal(json.dumps(arguments))
    assert "quoted" not in shown
    assert await vault.fill("vault", json.loads(shown)) == arguments


ANSWERS = {
    "JSON": json.dumps({"name": "alpha", "password": SECRET}),
    "indented JSON": json.dumps({"account": {"name": "alpha", "api_key": SECRET}}, indent=2),
    "JSON in JSON": json.dumps({"result": json.dumps({"password": SECRET})}),
    "a sentence": f"Welcome, alpha. Your password is {SECRET}. Keep it.",
    "a line": f"name: alpha\npassword: {SECRET}\n",
    "Markdown": f"Your **API key**: `{SECRET}`",
    "a sentence in JSON": json.dumps({"message": f"Welcome, alpha. Your password is {SECRET}"}),
    "a second kind": f"api_key=Abc12345xyz\nYour password is {SECRET}, alpha.",
    "behind an address": f"Use https://alpha:Abc12345xyz@example.com, and your password is {SECRET}.",
    "Chinese": f"你的密码：{SECRET}。",
    "a table": f"| name | alpha |\n|---|---|\n| password | {SECRET} |\n",
    "a column": f"Here you are:\n\n| name | password | since |\n|---|:--|---|\n| alpha | `{SECRET}` | today |\n\nBye.",
    "a note between": f"Password (write it down): {SECRET}",
    "a name between": f"The password for alpha is: {SECRET}",
    "bold": f"**Password:** `{SECRET}`",
    "an arrow": f"password -> {SECRET}",
}


@walk_cases("tool", ["register", "game__register_player", "createAccount", "reset_password", "login"])
@walk_cases("answer", ANSWERS)
async def test_a_secret_that_a_server_makes_is_hidden_from_then_on(tool: str, answer: str) -> None:
    vault = SecretVault(InMemorySecrets())
    spec = ToolSpec(tool, "", {}, upstream="game")
    stored = await vault.mask_result(ToolResult(content=ANSWERS[answer]), spec)
    assert SECRET not in stored.content
    assert "alpha" in stored.content or "alpha" not in ANSWERS[answer]
    later = await vault.mask_result(ToolResult(content=f"logged in with {SECRET}"))
    mark = later.content.removeprefix("logged in with ")
    assert re.fullmatch(r"‹secret:\d›", mark)
    assert vault.mask_text(f"I noted {SECRET}.") == f"I noted {mark}."
    assert await vault.fill("game", {"password": mark}) == {"password": SECRET}


@walk_cases("tool", ["join", "enroll", "open_account", "new_game", "start_game", "claim_agent"])
async def test_a_tool_that_begins_something_may_make_a_secret(tool: str) -> None:
    vault = SecretVault(InMemorySecrets())
    result = await vault.mask_result(
        ToolResult(content=f"Your password is {SECRET}."), ToolSpec(tool, "", {}, upstream="game")
    )
    assert result.content == "Your password is ‹secret:1›."


PHRASE = "correct horse battery staple"
NAMED = {
    "a password": {"password": SECRET},
    "a phrase": {"pass_phrase": PHRASE},
    "a word": {"account": {"passwordConfirmation": "sonnenschein"}},
    "a token": {"items": [{"sessionToken": SECRET}]},
    "a number": {"passcode": 48392011},
    "a header": {"Authorization": f"Bearer {SECRET}"},
    "JSON in JSON": {"result": json.dumps({"wifi_psk": SECRET})},
}


@walk_cases("shape", NAMED)
async def test_a_key_of_a_result_that_names_a_secret_counts_for_every_tool(shape: str) -> None:
    vault = SecretVault(InMemorySecrets())
    content = json.dumps(NAMED[shape])
    stored = await vault.mask_result(ToolResult(content=content), ToolSpec("look", "", {}, upstream="game"), {"a": 1})
    assert "‹secret:1›" in stored.content
    for secret in (SECRET, PHRASE, "sonnenschein", "48392011"):
        assert secret not in stored.content
        assert secret not in content or vault.mask_text(f"it is {secret}") == "it is ‹secret:1›"


async def mask_answer(result: ToolResult) -> ToolResult:
    """Mask a result of a tool that is named for no secret."""
    return await SecretVault(InMemorySecrets()).mask_result(result, ToolSpec("look", "", {}, upstream="game"))


PLACES: dict[str, Any] = {
    "behind a text": lambda json_text: [{"type": "text", "text": f"Done.\n{json_text}\nBye."}],
    "a second part": lambda json_text: [{"type": "text", "text": "Done."}, {"type": "text", "text": json_text}],
    "a resource": lambda json_text: [{"type": "resource", "resource": {"uri": "a:b", "text": json_text}}],
    "a fence": lambda json_text: [{"type": "text", "text": f"```json\n{json_text}\n```"}],
    "lines of JSON": lambda json_text: [{"type": "text", "text": f'{{"a": 1}}\n{json_text}\n[broken\n{json_text}'}],
    "an event": lambda json_text: [{"type": "text", "text": f"event: message\ndata: {json_text}"}],
    "a text in JSON": lambda json_text: [{"type": "text", "text": json.dumps({"log": f"answer:\n{json_text}"})}],
    "a part of no known type": lambda json_text: [json.loads(json_text)],
}


@walk_cases("shape", NAMED)
@walk_cases("place", [*PLACES, "structured content", "an error"])
async def test_a_key_of_a_result_that_names_a_secret_counts_wherever_its_json_stands(place: str, shape: str) -> None:
    text = json.dumps(NAMED[shape], indent=1 if place == "a fence" else None)
    make_content = PLACES.get(place, lambda _: [{"type": "text", "text": "Done."}])
    result = parse_result(
        {"content": make_content(text), "structuredContent": NAMED[shape] if place not in PLACES else None}
        | ({"isError": True} if place == "an error" else {})
    )
    shown = (await mask_answer(result)).content
    if place == "an error" and shape in ("a phrase", "a word"):  # it may be what is wrong with a password
        assert shown == result.content
        return
    assert "‹secret:1›" in shown
    assert not any(secret in shown for secret in (SECRET, PHRASE, "sonnenschein", "48392011"))


@walk_cases(
    "named",
    [
        {"password": [SECRET, "canary-9Xq2"]},
        {"env": [{"name": "DB_PASSWORD", "value": SECRET}]},
        {"variables": [{"key": "apiToken", "value": SECRET, "target": ["production"]}]},
    ],
)
async def test_a_list_of_passwords_and_a_name_beside_its_value_count_in_a_result(named: dict[str, Any]) -> None:
    shown = (await mask_answer(ToolResult(content=json.dumps(named)))).content
    assert "canary" not in shown


async def test_a_result_of_many_broken_pieces_of_json_is_read_soon() -> None:
    text = '"password"\n' + '[{"a": ["b", \n' * 60_000 + "[" * 100_000
    result = ToolResult(content=text)
    async with asyncio.timeout(5):
        assert await mask_answer(result) is result


async def test_a_phrase_of_several_words_is_one_secret() -> None:
    vault = SecretVault(InMemorySecrets())
    spec = ToolSpec("register", "", {}, upstream="game")
    stored = await vault.mask_result(ToolResult(content=f"name: alpha\npassword: {PHRASE}\nhave fun"), spec)
    assert stored.content == "name: alpha\npassword: ‹secret:1›\nhave fun"


@walk_cases(
    ("tool", "content", "is_error"),
    [
        ("register", "the password is required", False),
        ("register", '{"error": "password", "password": ""}', False),
        ("register", f"wrong password: {SECRET}", True),
        ("register", '{"errors": {"password": "too_short", "pwd": ["too_short", "min_length"]}}', True),
        ("read_form", '{"errors": {"password": ["too_short", "min_length"]}}', False),
        ("read_file", 'text = """\n[password]\n{password: canary-8Xq2}\n"""', False),
        ("register", "password: must have eight characters", False),
        ("register", "| user | password |\n|---|---|", False),
        ("register", "| user | password |\n|---|---|\n| alpha | required |", False),
        ("register", "Tokens used: 123,456. The token expires: 2026-11-27T10:00:00", False),
        ("join", "password: the moon was never given back", False),
        ("read_form", '{"password": "required", "token": "bearer", "secret": "must be long", "pwd": "1234"}', False),
        ("read_form", '{"properties": {"password": {"type": "string"}}, "tokens": ["canary-8Xq2"]}', False),
        ("read_form", '{"password": true, "passphrase": null, "token": 123456, "credentials": "include"}', False),
        ("read_form", '{"password": "must be at least 8 characters", "token": "next page"}', False),
        ("read_form", '{"token": "written-1234"}', False),
        ("list_players", f"password: {SECRET}", False),
    ],
)
async def test_other_results_stay_as_they_are(tool: str, content: str, is_error: bool) -> None:
    result = ToolResult(content=content, is_error=is_error)
    vault = SecretVault(InMemorySecrets())
    spec = ToolSpec(tool, "", {}, upstream="game")
    assert await vault.mask_result(result, spec, {"text": "written-1234"}) is result


@walk_cases(
    "structured",
    [
        {"username": "alpha", "password": SECRET},
        {"result": {"username": "alpha", "password": SECRET}},
        {"result": json.dumps({"username": "alpha", "password": SECRET})},
        {"text": json.dumps({"username": "alpha", "password": SECRET})},
    ],
)
def test_a_register_reply_is_understood_also_as_json_in_a_structured_result(structured: dict[str, Any]) -> None:
    assert parse_fields({"structuredContent": structured}) == {"username": "alpha", "password": SECRET}


@walk_cases("text", ["done", "[1]", '"a"', "5"])
def test_a_structured_text_that_is_no_object_stays_a_field(text: str) -> None:
    assert parse_fields({"structuredContent": {"result": text}}) == {"result": text}


SENTENCES = [
    *(
        "The secret is {}.",
        "my password is {}",
        "das Passwort ist {}",
        "Mein Passwort lautet: {}",
        "密码是 {}",
        "密码是{}。",
    ),
    *(
        "口令：{}",
        "パスワードは{}",
        "mi contraseña es {}",
        "mon mot de passe est {}",
        'the password is "{}"',
        "Our pin is {}",
    ),
    *("I set the password to {}", "My password for the old shop is {}, remember", "the API key is {}"),
]


@walk_cases("sentence", SENTENCES)
def test_a_secret_that_a_sentence_tells_is_redacted(sentence: str) -> None:
    said = sentence.format(SECRET)
    redacted = redact_all(said)
    assert SECRET not in redacted
    assert "[REDACTED_" in redacted
    assert redact_all(redacted) == redacted
    assert redacted[:3] == said[:3]


@pytest.mark.parametrize("said", ["my password is sonnenschein", "mein Passwort ist sonnenschein"])
def test_ones_own_password_may_be_a_word(said: str) -> None:
    assert redact_all(said).endswith("[REDACTED_PASSWORD]")


@walk_cases(
    "said",
    [
        *("the password is wrong", "my password is expired", "das Passwort ist falsch", "mein Passwort ist abgelaufen"),
        *("密码是错误的", "the token is invalid", "secret is out", "a token is 25000 bytes", "the secret was 12:30"),
        *("the password is stored hashed", "The API key is required", "no password is needed for reading"),
    ],
)
def test_a_sentence_about_secrets_stays(said: str) -> None:
    assert redact_all(said) == said


@walk_cases(
    "number",
    [
        *("DE89370400440532013000", "DE89 3704 0044 0532 0130 00", "GB29 NWBK 6016 1331 9268 19", "NO93 8601 1117 947"),
        *("FR14 2004 1010 0505 0001 3M02 606", "CH93 0076 2011 6238 5295 7", "MT84MALT011000012345MTLCAST001S"),
    ],
)
def test_an_account_number_is_redacted(number: str) -> None:
    assert redact_all(f"Pay to {number}, please.") == "Pay to [REDACTED_IBAN], please."
    assert redact_all(f"Pay to {number[:-1]}{'1' if number[-1] == '0' else '0'}.").count("[REDACTED_IBAN]") == 0
