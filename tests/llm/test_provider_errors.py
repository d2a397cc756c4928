"""Every refusal gets an error class and a readable text."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tests.case_tables import walk_cases
from zoea.llm.transport.provider_errors import clean, error_from_status, error_from_stream, read_error_body
from zoea.llm.transport.retry_times import retry_after
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError

NOW = round(datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC).timestamp() * 1e6)


def error(status: int, body: object = "", headers: dict[str, str] | None = None, *secrets: str) -> ProviderError:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return error_from_status(status, headers or {}, data, now_us=NOW, provider="reefnet", secrets=secrets)


def openai(message: str, code: str | None = None, type: str = "invalid_request_error") -> dict[str, object]:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


@walk_cases("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 529])
def test_temporary_failures_are_transient(status: int) -> None:
    assert error(status).kind is ErrorClass.TRANSIENT


@walk_cases(
    ("status", "body", "kind"),
    [
        (401, openai("Incorrect API key provided", "invalid_api_key"), ErrorClass.AUTH),
        (403, {"error": {"type": "permission_error", "message": "not yours"}}, ErrorClass.AUTH),
        (402, openai("This request requires more credits"), ErrorClass.QUOTA),
        (429, openai("You exceeded your current quota", "insufficient_quota"), ErrorClass.QUOTA),
        (400, openai("Your credit balance is too low"), ErrorClass.QUOTA),
        (400, openai("Too large", "context_length_exceeded"), ErrorClass.CONTEXT_LENGTH),
        (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}, ErrorClass.CONTEXT_LENGTH),
        (400, {"error": {"code": 400, "message": "", "type": "exceed_context_size_error"}}, ErrorClass.CONTEXT_LENGTH),
        (500, "the request exceeds the available context size", ErrorClass.CONTEXT_LENGTH),
        (413, "", ErrorClass.CONTEXT_LENGTH),
        (404, openai("The model `reef-9` does not exist", "model_not_found"), ErrorClass.MODEL_MISSING),
        (404, {"error": "model 'reef:9b' not found"}, ErrorClass.MODEL_MISSING),
        (400, openai("reef-9 is not a valid model: unknown model"), ErrorClass.MODEL_MISSING),
        (400, openai("Blocked by content filter", "content_filter"), ErrorClass.CONTENT_FILTER),
        (400, openai("The prompt was flagged"), ErrorClass.CONTENT_FILTER),
        (400, openai("Unknown parameter: reef"), ErrorClass.BAD_REQUEST),
        (422, {"detail": [{"msg": "field required"}]}, ErrorClass.BAD_REQUEST),
        (501, "", ErrorClass.BAD_REQUEST),
    ],
)  # fmt: skip
def test_a_refusal_is_classified_by_the_code_of_the_vendor(status: int, body: object, kind: ErrorClass) -> None:
    assert error(status, body).kind is kind


def test_each_class_has_a_title_and_a_hint() -> None:
    refused = error(401, openai("Incorrect API key provided", "invalid_api_key"))
    assert refused.title == "The provider refused the key"
    assert "api_key" in refused.hint
    assert refused.what == "reefnet answered 401: Incorrect API key provided"
    assert refused.status == 401


def test_an_html_page_is_reported_by_its_title_on_one_line() -> None:
    page = "<html><head><title>502\nBad Gateway</title></head><body>nginx</body></html>"
    assert error(502, page).what == "reefnet answered 502: a web page, not an answer: 502 Bad Gateway"
    assert (
        read_error_body(b"<html><script>x()</script><p>Sign in</p></html>").text == "a web page, not an answer: Sign in"
    )


def test_a_long_page_is_cut() -> None:
    assert len(read_error_body(b"x" * 10_000).text) == 400


def test_no_key_is_in_any_text() -> None:
    secret = "reef-secret-0123"
    told = error(401, openai(f"Incorrect key: {secret}, Bearer abcdef123456, sk-proj-abcdefgh12345"), {}, secret)
    assert told.what == "reefnet answered 401: Incorrect key: ‹key›, ‹key› ‹key›"
    assert clean("AIzaSyA1234567890123456789") == "‹key›"
    assert clean("", ("",)) == ""


@walk_cases(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:07 GMT"}, 7.0),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:07"}, 7.0),
        ({"retry-after": "Sun, 01 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "1e300"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_the_time_to_wait_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


def test_the_time_to_wait_goes_with_a_transient_error_only() -> None:
    assert error(429, "", {"retry-after": "2"}).retry_after == 2.0
    assert error(402, "", {"retry-after": "2"}).retry_after is None


def test_a_refusal_that_speaks_of_thinking_says_so() -> None:
    assert error(400, openai("messages.1.content.0: Invalid `signature` in `thinking` block")).names_thinking
    assert not error(400, openai("temperature is wrong")).names_thinking
    assert not error(500, openai("thinking failed")).names_thinking


@walk_cases(
    ("payload", "kind"),
    [
        ({"error": {"code": 502, "message": "Provider disconnected"}}, ErrorClass.TRANSIENT),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, ErrorClass.TRANSIENT),
        ({"error": {"message": "boom", "metadata": {"raw": "why"}}}, ErrorClass.TRANSIENT),
        ({"error": "context size exceeded"}, ErrorClass.CONTEXT_LENGTH),
        ({"error": {"code": "content_filter", "message": "no"}}, ErrorClass.CONTENT_FILTER),
        ({"error": "unauthorised", "code": 401}, ErrorClass.AUTH),
        ([{"error": {"message": "Gemini wraps it in a list", "code": 400}}], ErrorClass.TRANSIENT),
        ("boom", ErrorClass.TRANSIENT),
    ],
)
def test_an_error_inside_a_stream_is_classed_too(payload: object, kind: ErrorClass) -> None:
    assert error_from_stream(payload, provider="reefnet").kind is kind
