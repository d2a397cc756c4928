"""Refusals of all vendors: the class, the wait and the window that each of them tells.

The sentences are written anew after public reports; the sources stand beside them (repository and number).
"""

# ruff: noqa: E501  a refusal stands on one line, as its server sends it

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fakes.openai_server import Fail, OpenAIServer, Say
from tests.llm.sample_requests import answer, provider, request
from zoea.llm.transport.provider_errors import error_from_status, error_from_stream
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError

NOW = round(datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC).timestamp() * 1e6)


def refuse(status: int, body: Any, headers: dict[str, str] | None = None, **more: Any) -> ProviderError:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return error_from_status(status, headers or {}, data, now_us=NOW, provider="reefnet", **more)


def said(message: str, code: str | int | None = None, type: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": type, "code": code}}


TOO_LONG: tuple[tuple[int, Any, int | None], ...] = (
    # The shared case of overflow phrases: anomalyco/opencode#27519, #50574, earendil-works/pi#4574.
    (400, said("tokens in request more than max tokens allowed"), None),
    (400, [{"error": {"code": 400, "message": "The input token count (40000) exceeds the maximum number of tokens allowed (32768).", "status": "INVALID_ARGUMENT"}}], 32768),
    (400, {"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 32768 but the request contains 40000 tokens."}, 32768),
    (400, said("prompt token count of 40000 exceeds the limit of 32768", "model_max_prompt_tokens_exceeded"), 32768),
    (400, said("Invalid request: Your request exceeded model token limit: 32768"), 32768),
    (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32768. Given: 40000 `inputs` tokens and 1000 `max_new_tokens`", "error_type": "validation"}, 32768),
    (400, said("The decoder prompt (length 40000) is longer than the maximum model length of 32768.", 400, "BadRequestError"), 32768),
    (400, said("This model's maximum context length is 32768 tokens.", "context_length_exceeded"), 32768),
    # ggml-org/llama.cpp, as in DraconDev/pi-goal-list-loop-audit#48
    (400, {"error": {"code": 400, "message": "the request is over the size", "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192}}, 8192),
    (400, said("Input length (9000) exceeds model's maximum context length (8192)."), 8192),  # earendil-works/pi#5677
    (400, said("Input length 9000 exceeds the maximum allowed input length of 8192 tokens."), 8192),  # earendil-works/pi#4943
    (400, said("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"), 200_000),  # openclaw/openclaw#7279
    (400, said("This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens (6000 of text input, 3000 in the output)."), 8192),  # openclaw/openclaw#85921
    (400, said("The total tokens exceeds the model's max of 4096"), 4096),  # openclaw/openclaw#58839
    (400, {"message": "The input is too long", "__type": "com.amazon.coral#ValidationException"}, None),  # openclaw/openclaw#58839
    (400, {"message": "prompt is too long: 903884 tokens > 200000 maximum"}, 200_000),  # strands-agents/harness-sdk#1663
    (400, said("prompt tokens (9000) exceed model maximum (8192) for reef", "validation_error"), 8192),  # strands-agents/harness-sdk#3722
    (400, said("This model's maximum context length is 8192 tokens. However, you requested 0 output tokens and your prompt contains at least 8193 input tokens"), 8192),  # earendil-works/pi#5929
    (400, said("Prompt too long: 5152 tokens exceeds max_seq_len 2048 (leave room for output tokens)"), 2048),  # 0xBakeer/inference-atlas#186
    (400, {"message": "too many tokens: size limit exceeded by 19296 tokens. Try using shorter or fewer inputs. The limit for this model is 132000 tokens."}, 132_000),  # pydantic/pydantic-ai#4221
    (400, said("total message size 10176584 exceeds limit 2097152"), 2_097_152),  # MoonshotAI/kimi-code#476
    (413, said("Request too large for model `reef` on tokens per minute (TPM): Limit 6000, Requested 8000, please reduce your message size", "rate_limit_exceeded", "tokens"), 6000),  # UKGovernmentBEIS/inspect_ai#1665
    (429, said("Request too large for reef on tokens per min (TPM): Limit 10000, Requested 12000. The input or output tokens must be reduced", "rate_limit_exceeded"), 10_000),
    (413, said("Request body too large for reef model. Max size: 8000 tokens.", "tokens_limit_reached"), 8000),
    (413, "<html><head><title>413 Request Entity Too Large</title></head></html>", None),
    (500, "the request exceeds the available context size", None),
    (400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"error": {"message": "no", "code": "context_length_exceeded"}}'}}}, None),
    (400, {"code": "InvalidParameter", "message": "Range of input length should be [1, 30720]"}, 30_720),
    (400, {"error": {"code": "1261", "message": "Prompt 超长"}}, None),
    (400, said("invalid params, context window exceeds limit (2013)"), None),
)  # fmt: skip


@pytest.mark.parametrize(("status", "body", "window"), TOO_LONG)
def test_each_vendor_says_in_its_own_words_that_a_request_is_too_long(
    status: int, body: Any, window: int | None
) -> None:
    error = refuse(status, body)
    assert (error.kind, error.window) == (ErrorClass.CONTEXT_LENGTH, window)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (429, "Too many tokens, please wait before trying again."),  # Bedrock: jin-bo/agentao#88
        (
            400,
            "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a maximum length 40",
        ),  # vercel/ai#5171
        (400, "Invalid 'tools[43].function.name': string too long. Expected 64"),  # mrexodia/ida-pro-mcp#129
        (400, "max_tokens is too large: 32000. This model supports at most 16384 completion tokens"),
    ],
)
def test_what_only_sounds_too_long_is_not(status: int, message: str) -> None:
    assert refuse(status, said(message)).kind is not ErrorClass.CONTEXT_LENGTH


def test_an_empty_400_is_too_long_only_near_the_window() -> None:
    for body in ("", "{}"):
        assert refuse(400, body, fills_window=True).kind is ErrorClass.CONTEXT_LENGTH
        assert refuse(400, body).kind is ErrorClass.BAD_REQUEST
    assert refuse(400, said("Unknown field: reef"), fills_window=True).kind is ErrorClass.BAD_REQUEST


@pytest.mark.parametrize(("tokens", "requests"), [(7_000, 1), (200, 1)])
async def test_the_wire_tells_near_from_far_by_the_estimate(tokens: int, requests: int) -> None:
    async with OpenAIServer(Fail(400), otherwise=lambda _: Say("done")) as server:
        source = provider("openai", server.base_url)
        with pytest.raises(ProviderError) as caught:
            await answer(
                source, request(estimated_tokens=tokens, context_window=8192, max_output_tokens=512, model="reef")
            )
        await source.close()
        assert (caught.value.kind is ErrorClass.CONTEXT_LENGTH) == (tokens == 7_000)
        assert len(server.chats) == requests


def google(metric: str, delay: Any, wait: str = "", reason: str = "") -> list[dict[str, Any]]:
    message = f"You exceeded your current quota, please check your plan and billing details.\n* {metric}\n{wait}"
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": metric}]},
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    ]
    return [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": message, "details": details}}]


MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
WAITS: tuple[tuple[Any, dict[str, str], float | None], ...] = (
    # The shared cases of waits: dcdpr/jp#1061, RooCodeInc/Roo-Code#2118, sinas-platform/sinas#131,
    # diegosouzapw/OmniRoute#7961, elizaOS/eliza#4087.
    (google(MINUTE, "6.500s", "Please retry in 6.5s."), {}, 6.5),
    (google(MINUTE, "3.2s"), {}, 3.2),
    (google(MINUTE, "3.2s"), {"retry-after": "4"}, 4.0),
    (google(MINUTE, {"seconds": "3", "nanos": 500_000_000}), {}, 3.5),
    (google(MINUTE, None, "Please retry in 3.2s."), {}, 3.2),
    (google("", "2.463586755s", reason="QUOTA_EXHAUSTED"), {}, 2.463586755),  # NikkeTryHard/zerogravity#19
    (said("Rate limit reached for tokens per minute (TPM): Limit 6000. Please try again in 3.2s. Need more? Upgrade at the billing page.", "rate_limit_exceeded", "tokens"), {}, 3.2),
    (said("Rate limit reached for model `reef` on tokens per minute: Limit 15000, Used 11972. Please try again in 5.289s."), {}, 5.289),  # Aider-AI/aider#3265
    (said("Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in 28m48s."), {}, 1728.0),
    (said("Rate limit reached. Please try again in 120ms."), {}, 0.12),
    (said("Requests have exceeded token rate limit of your pricing tier. Please retry after 20 seconds. See https://aka.ms/oai/quotaincrease"), {}, 20.0),
    (said("Weekly usage limit reached. Resets in 6hr 29min."), {}, 23_340.0),  # NousResearch/hermes-agent#93455
    (said("Resource has been exhausted (e.g. check quota). (reset after 2h)"), {}, 7_200.0),  # diegosouzapw/OmniRoute#8163
    (said("The quota has been exhausted. It will reset at 2026-11-01T12:00:09Z"), {}, 9.0),  # QwenLM/qwen-code#7841
    (said("You hit the limit, wait 1 minute and 30 seconds"), {}, 90.0),
    ({"error": {"message": "Rate limit exceeded: free-models-per-min.", "code": 429, "metadata": {"headers": {"X-RateLimit-Limit": "16", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(NOW // 1000 + 7_000)}}}}, {}, 7.0),
    ({"error": {"message": "slow down", "retry_after": 5}}, {}, 5.0),
    ({"error": {"message": "slow down"}, "retry_after_ms": 1500}, {}, 1.5),
    ({"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_in_seconds": 600}, {}, 600.0),
    (said("Too many requests"), {"retry-after": "Sun, 01 Nov 2026 12:00:07 GMT"}, 7.0),
    (said("Too many requests"), {"retry-after-ms": "250"}, 0.25),
    (said("Too many requests"), {"x-ms-retry-after-ms": "250"}, 0.25),
    (said("Too many requests"), {"x-ratelimit-reset-tokens": "7.66s", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-requests": "2m59.56s", "x-ratelimit-remaining-requests": "14370"}, 7.66),
    (said("Too many requests"), {"x-ratelimit-reset-requests": "12ms"}, 0.012),
    (said("Too many requests"), {"x-ratelimit-reset": str(NOW // 1_000_000 + 11)}, 11.0),
    (said("Too many requests"), {"anthropic-ratelimit-requests-reset": "2026-11-01T12:00:13Z", "anthropic-ratelimit-requests-remaining": "0"}, 13.0),
    (said("Too many requests"), {"ratelimit": '"default";r=0;t=5'}, 5.0),
    (said("You exceeded your current quota, see the billing page"), {"x-ratelimit-reset-requests": "6s"}, 6.0),
    (said("Too many requests"), {}, None),
    (said("Rate limit resets every 24 hours; retry attempt 3 of 5"), {}, None),
    ({"error": {"code": "1302", "message": "您的账户已达到速率限制"}}, {}, None),
    (said("Concurrency limit exceeded for account, please retry later", None, "rate_limit_error"), {}, None),  # caidaoli/ccLoad#69
)  # fmt: skip


@pytest.mark.parametrize(("body", "headers", "seconds"), WAITS)
def test_a_429_that_names_a_time_is_waited_for_wherever_the_time_stands(
    body: Any, headers: dict[str, str], seconds: float | None
) -> None:
    error = refuse(429, body, headers)
    assert error.kind is ErrorClass.TRANSIENT
    assert error.retry_after == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        # Nothing says when: the account is empty.
        (429, said("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota", "insufficient_quota"), ErrorClass.QUOTA),
        (429, {"type": "usage_limit_reached", "message": "The usage limit has been reached"}, ErrorClass.QUOTA),  # code-yeongyu/senpi#1969
        (429, said("You've reached your monthly usage limit for this billing cycle."), ErrorClass.QUOTA),  # NousResearch/hermes-agent#36276
        (402, {"error": {"message": "This request requires more credits", "code": 402}}, ErrorClass.QUOTA),
        (403, {"error": {"code": "1113", "message": "您的账户已欠费"}}, ErrorClass.QUOTA),
        (403, {"error": {"message": "user quota is not enough", "code": "insufficient_user_quota"}}, ErrorClass.QUOTA),
        (400, {"code": "Arrearage", "message": "Access denied, please make sure your account is in good standing."}, ErrorClass.QUOTA),
        # Machine codes decide before the status and the sentence.
        (400, [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}], ErrorClass.AUTH),
        (400, {"message": "no", "__type": "com.amazonaws#UnrecognizedClientException"}, ErrorClass.AUTH),
        (400, said("The model `reef` has been decommissioned", "model_decommissioned"), ErrorClass.MODEL_MISSING),
        (400, {"object": "error", "message": "Invalid model: reef", "type": "invalid_model", "code": "1500"}, ErrorClass.MODEL_MISSING),
        (400, said("reef/9 is not a valid model ID", 400), ErrorClass.MODEL_MISSING),
        (400, {"error": {"code": "DataInspectionFailed", "message": "no"}}, ErrorClass.CONTENT_FILTER),
        (403, {"error": {"code": 403, "message": "Your input was flagged", "metadata": {"reasons": ["violence"]}}}, ErrorClass.CONTENT_FILTER),
        (400, said("Failed to call a function.", "tool_use_failed"), ErrorClass.TRANSIENT),
        (400, {"message": "Rate exceeded", "__type": "ThrottlingException"}, ErrorClass.TRANSIENT),
        (503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, ErrorClass.TRANSIENT),
    ],
)  # fmt: skip
def test_codes_decide_before_status_and_sentences(status: int, body: Any, kind: ErrorClass) -> None:
    assert refuse(status, body).kind is kind


def test_a_server_that_loads_its_model_says_so() -> None:
    assert refuse(503, said("Loading model")).title == "The server is still loading its model"


def test_an_error_in_the_stream_names_its_time_and_window_too() -> None:
    limited = error_from_stream({"error": {"code": 429, "message": "Please try again in 3.2s"}}, provider="reefnet")
    assert (limited.kind, limited.retry_after, limited.status) == (ErrorClass.TRANSIENT, 3.2, 429)
    size = {"code": 400, "type": "exceed_context_size_error", "message": "too much", "n_ctx": 6500}
    long = error_from_stream({"error": size}, provider="reefnet")
    assert (long.kind, long.window) == (ErrorClass.CONTEXT_LENGTH, 6500)
