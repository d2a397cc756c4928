"""Refusals of all vendors: the class, the wait and the window that each of them tells.

The sentences are written anew after public reports; the sources stand beside them (repository and number).
"""

# ruff: noqa: E501  a refusal stands on one line, as its server sends it

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.case_tables import walk_cases
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
    # Mistral: https://portkey.ai/error-library/context-length-exceeded-error-13710000
    (400, {"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", "type": "invalid_request_prompt", "code": "3051"}, 32768),
    # Moonshot: https://platform.kimi.ai/docs/api/errors, MoonshotAI/kimi-cli#2011
    (400, said("Input token length too long"), None),
    (400, said("Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)"), 262_144),
    # DashScope: https://www.alibabacloud.com/help/en/model-studio/coding-plan-faq
    (400, said("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", "invalid_parameter_error"), 30_720),
    (400, said("输入长度超出限制，最大输入长度为 8192"), 8192),
    (400, said("模型最大上下文长度为 32768 个 token，当前请求 40000"), 32768),
    (400, said("输入长度超过最大长度"), None),  # baichuan-inc/Baichuan-13B#38
    # Baidu: https://cloud.baidu.com/doc/qianfan-api/s/rmwbl43x7
    (400, said("Prompt tokens too long", "tokens_too_long"), None),
    (400, said("the max input characters is 20000", "characters_too_long"), 20_000),
    # Cohere: https://docs.cohere.com/v1/reference/errors.md
    (400, {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt"}, 4081),
    # Together: https://portkey.ai/error-library/input-validation-error-10151
    (422, said("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5013 `inputs` tokens and 128 `max_new_tokens`"), 4097),
    (400, said("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)."), 59_862),  # sgl-project/sglang#4048
    (400, said("Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens, which is not enough."), 7866),  # cline/cline#3664
    (500, said("Requested tokens (2285) exceed context window of 2048"), 2048),  # fedora-copr/logdetective-website#193
    (400, said("Number of tokens (757) exceeded maximum context length (512)."), 512),  # AIAnytime/ChatCSV-Llama2-Chatbot#2
    (400, said("The prompt size exceeds the context window size and cannot be processed."), None),  # nomic-ai/gpt4all#664
    (400, said("This model's maximum context length is 196608 tokens. However, you requested 16384 output tokens and your prompt contains at least 180225 input tokens, for a total of at least 196609 tokens. (parameter=input_tokens, value=180225)"), 196_608),  # 0xku/kon#91
    (400, said("This model's maximum context length is 16384 tokens. However, your request has 18225 input tokens. Please reduce the length of the input messages. None", None, "BadRequestError"), 16_384),  # QwenLM/Qwen-Agent#759
    (400, said("prompt token count exceeds the limit: the model has a 32k context window"), 32_000),
    (400, said("input tokens (40000) exceed 32768"), 32768),
    (400, said("The total length of all messages is too long."), None),  # BerriAI/litellm#21647
    (400, said("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. Please reduce the length of the messages."), 272_000),  # BerriAI/litellm#15968
    # What the prompt may have beside the answer: anomalyco/opencode#17746
    (400, said("You passed 99073 input tokens and requested 32000 output tokens. However, the model's context length is only 131072 tokens, resulting in a maximum input length of 99072 tokens. (parameter=input_tokens, value=99073)"), 99_072),
    (400, said("Your input exceeds the context window of this model. Please adjust your input and try again."), None),  # openai/codex#20866
    (400, said("Prompt exceeds max length"), None),  # tashfeenahmed/freellmapi#873
    (400, {"message": "Input exceeds the max input token limit", "__type": "ValidationException"}, None),  # openclaw/openclaw#58839
    (400, said("litellm.BadRequestError: AnthropicException - b'{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 179413 + 32768 > 200000, decrease input length or `max_tokens` and try again\"}}'. Received Model Group=anthropic/reef"), 200_000),  # BrokkAi/brokk-app#540
    (429, {"type": "error", "error": {"type": "rate_limit_error", "message": "Usage credits are required for long context requests."}}, None),  # anthropics/claude-code#64982
)  # fmt: skip


@walk_cases(("status", "body", "window"), TOO_LONG)
def test_each_vendor_says_in_its_own_words_that_a_request_is_too_long(
    status: int, body: Any, window: int | None
) -> None:
    error = refuse(status, body)
    assert (error.kind, error.window) == (ErrorClass.CONTEXT_LENGTH, window)


@walk_cases(
    ("status", "message"),
    [
        (429, "Too many tokens, please wait before trying again."),  # Bedrock: jin-bo/agentao#88
        (
            400,
            "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a maximum length 40",
        ),  # vercel/ai#5171
        (400, "Invalid 'tools[43].function.name': string too long. Expected 64"),  # mrexodia/ida-pro-mcp#129
        (400, "max_tokens is too large: 32000. This model supports at most 16384 completion tokens"),
        (
            400,
            "max_tokens is too large: 8192. This model supports at most 4096 completion tokens",
        ),  # ChatGPTNextWeb/NextChat#3199
        (400, "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]"),
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
    ("error code: 1015", {"retry-after": "10"}, 10.0),  # 1f916-ai/1f916#288
    ({"detail": "try again in 60 seconds"}, {}, 60.0),  # adam-fowler/swift-package-registry#2
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
    # DashScope: a limit of a minute (https://www.alibabacloud.com/help/en/model-studio/rate-limit, QwenLM/Qwen#2254)
    ({"code": "Throttling.AllocationQuota", "message": "Allocated quota exceeded, please increase your quota limit."}, {}, None),
    ({"code": "Throttling.BurstRate", "message": "Request rate increased too quickly, your quota is insufficient."}, {}, None),
    (said("You exceeded your current quota, please check your plan and billing details. For details, see: https://help.aliyun.com/zh/model-studio/error-code#token-limit", "insufficient_quota", "insufficient_quota"), {}, None),
    (said("Allocated quota exceeded, please increase your quota limit.", "insufficient_quota", "insufficient_quota"), {}, None),
    # Zhipu tells Chinese time without a zone: can1357/oh-my-pi#11014, hugalafutro/model-hotel#955, dirge-code/dirge#818
    ({"type": "error", "error": {"type": "rate_limit_error", "code": "1308", "message": "[1308][Usage limit reached for 5 hour. Your limit will reset at 2026-11-01 21:00:00][20260912001903b4955568412247d7]"}}, {}, 3_600.0),
    ({"error": {"code": "1308", "message": "已达到 5\n小时的使用上限。您的限额将在 2026-11-01 20:30:00 重置。"}}, {}, 1_800.0),
    ({"error": {"code": "1305", "message": "该模型当前访问量过大，请您稍后再试"}}, {}, None),
    # MiniMax: MiniMax-AI/MiniMax-M2.7#36
    ({"type": "error", "error": {"type": "rate_limit_error", "message": "usage limit exceeded, 5-hour usage limit reached for Token Plan Starter (0/0 used), resets at 2026-11-01T15:00:00Z (2056)"}}, {}, 10_800.0),
    # https://platform.kimi.ai/docs/api/errors
    (said("The engine is currently overloaded, please try again later", None, "engine_overloaded_error"), {}, None),
    # OpenRouter: https://openrouter.ai/docs/api/reference/errors-and-debugging
    ({"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "temporarily rate-limited upstream. Please retry shortly", "limit_source": "upstream"}}}, {"retry-after": "12"}, 12.0),
    # Cohere: https://docs.cohere.com/v1/reference/errors.md
    ({"message": "trial token rate limit exceeded, limit is 100000 tokens per minute"}, {}, None),
    # Bedrock: https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html
    ({"message": "The model is not ready for inference", "__type": "ModelNotReadyException"}, {}, None),
    (said("Usage limit reached. Resets at 14:30 UTC."), {}, 9_000.0),
    (said("Usage limit reached. Resets at 10:00 UTC."), {}, 79_200.0),
    (said("Usage limit reached. Resets at 11:58 UTC."), {}, None),  # a moment ago, not tomorrow
    (said("请求过于频繁，额度稍后恢复"), {}, None),
    # firecrawl/firecrawl#819
    ({"success": False, "error": "Rate limit exceeded. Consumed (req/min): 11, Remaining (req/min): 0. Upgrade your plan at https://reef.example/pricing or please retry after 25s, resets at Sun Nov 01 2026 12:00:25 GMT+0000 (Coordinated Universal Time)"}, {}, 25.0),
    ({"error": "Rate limit exceeded, resets at Sun Nov 01 2026 13:00:25 GMT+0100 (Central European Standard Time)"}, {}, 25.0),
    ({"error": "Too many requests", "retryAfter": 9}, {}, 9.0),  # sekine-1113/Negotole#61
    ("", {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "56", "x-ratelimit-reset": "12"}, 12.0),  # agentgateway/agentgateway#3329
    ({"detail": "rate limit exceeded for the hour window"}, {"ratelimit": '"minute";r=178;t=44, "hour";r=0;t=1724'}, 1724.0),  # runpod/runpod-mcp#64
    ({"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_at": NOW // 1_000_000 + 757}}, {}, 757.0),  # NousResearch/hermes-agent#26893
    # A time that is over, now or meaningless is none; the usual pause follows.
    (said("Too many requests"), {"retry-after": "1e9"}, None),
    (said("Too many requests"), {"retry-after": "-3"}, None),
    (said("Too many requests"), {"retry-after": "0"}, None),
    (said("Too many requests"), {"retry-after": "99999999"}, None),
    (said("Too many requests"), {"retry-after": "1e300"}, None),
    (said("Too many requests"), {"retry-after": "nan"}, None),
    (said("Too many requests"), {"retry-after": "Sun, 01 Nov 2026 11:00:00 GMT"}, None),
    (said("Too many requests"), {"retry-after": "-3", "x-ratelimit-reset": str(NOW // 1_000_000 + 11)}, 11.0),
    (said("Too many requests"), {"x-ratelimit-reset": str(NOW // 1_000_000 - 11)}, None),
    (said("Too many requests, try again in 8s"), {"retry-after": "Sun, 01 Nov 2026 11:00:00 GMT"}, 8.0),
    (google(MINUTE, "0s"), {}, None),
)  # fmt: skip


@walk_cases(("body", "headers", "seconds"), WAITS)
def test_a_429_that_names_a_time_is_waited_for_wherever_the_time_stands(
    body: Any, headers: dict[str, str], seconds: float | None
) -> None:
    error = refuse(429, body, headers)
    assert error.kind is ErrorClass.TRANSIENT
    assert error.retry_after == (None if seconds is None else pytest.approx(seconds))


@walk_cases(
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
        # OpenAI: https://help.openai.com/en/articles/5955604-troubleshooting-api-rate-limits-and-429-errors
        (429, said("You exceeded your current quota", "credit_balance_exhausted", "insufficient_quota"), ErrorClass.QUOTA),
        (429, said("The project reached its limit", "project_spend_limit_exceeded", "insufficient_quota"), ErrorClass.QUOTA),
        (503, said("The server is busy", "server_is_overloaded", "service_unavailable_error"), ErrorClass.TRANSIENT),
        # Anthropic: https://platform.claude.com/docs/en/api/errors
        (429, {"type": "error", "error": {"type": "rate_limit_error", "message": "Usage is paused", "details": {"error_code": "enforced_spend_limit_reached"}}}, ErrorClass.QUOTA),
        (400, {"type": "error", "error": {"type": "invalid_request_error", "message": "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}, ErrorClass.QUOTA),
        # Google: https://ai.google.dev/gemini-api/docs/troubleshooting
        (402, {"error": {"code": 402, "message": "Your prepay credits are depleted", "status": "RESOURCE_EXHAUSTED"}}, ErrorClass.QUOTA),
        (429, {"error": {"code": "quota_exceeded", "message": "Daily quota"}}, ErrorClass.QUOTA),
        (403, {"error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED", "details": [{"reason": "BILLING_DISABLED"}]}}, ErrorClass.QUOTA),
        # OpenRouter: https://openrouter.ai/docs/api/reference/errors-and-debugging
        (402, {"error": {"code": 402, "message": "In-flight budget", "metadata": {"limit_source": "openrouter_in_flight_budget"}}}, ErrorClass.TRANSIENT),
        (402, {"error": {"code": 402, "message": "More than your budget", "metadata": {"limit_source": "openrouter_credits"}}}, ErrorClass.QUOTA),
        (403, {"error": {"code": 403, "message": "Budget limit exceeded", "metadata": {"limit_source": "openrouter_workspace_budget"}}}, ErrorClass.QUOTA),
        # Fireworks: https://docs.fireworks.ai/guides/inference-error-codes
        (412, {"error": {"message": "Account reef is suspended, possibly due to reaching the monthly spending limit"}}, ErrorClass.QUOTA),
        # Groq: https://console.groq.com/docs/flex-processing
        (498, said("Flex tier capacity exceeded", "capacity_exceeded"), ErrorClass.TRANSIENT),
        (498, "", ErrorClass.TRANSIENT),
        # Zhipu: https://docs.bigmodel.cn/cn/faq/api-code; MiniMax: https://platform.minimax.io/docs/api-reference/errorcode
        (429, {"error": {"code": "1304", "message": "该 API 已达今日调用次数限额"}}, ErrorClass.QUOTA),
        (429, {"error": {"code": "1311", "message": "当前订阅套餐暂未开放reef权限"}}, ErrorClass.MODEL_MISSING),
        (400, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, ErrorClass.QUOTA),
        (400, {"base_resp": {"status_code": 1039, "status_msg": "token limit"}}, ErrorClass.TRANSIENT),
        (500, {"type": "error", "error": {"type": "api_error", "message": "insufficient balance (1008)"}}, ErrorClass.QUOTA),  # MiniMax-AI/MiniMax-M2#62
        (429, {"error": {"http_code": "429", "message": "insufficient balance (1008)", "type": "insufficient_balance_error"}}, ErrorClass.QUOTA),  # modelscope/modelscope#1691
        (402, {"error": {"message": "Free quota used (30 requests / 5h). Resets at 10:00 UTC. Top up for unlimited access", "type": "insufficient_quota", "code": "free_quota_exceeded"}}, ErrorClass.TRANSIENT),  # Gitlawb/openclaude#1554
        (404, {"error": {"message": "Not found the model kimi-k2-0711-preview or Permission denied", "type": "resource_not_found_error"}}, ErrorClass.MODEL_MISSING),  # langgenius/dify#39778
        # Cohere: https://docs.cohere.com/docs/rate-limits
        (429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."}, ErrorClass.QUOTA),
        # DeepSeek: https://api-docs.deepseek.com/quick_start/error_codes
        (402, said("Insufficient Balance", "invalid_request_error"), ErrorClass.QUOTA),
        # Mistral: https://docs.mistral.ai/resources/error-glossary
        (400, {"object": "error", "message": "no", "type": "invalid_request_error", "param": "model", "code": "unknown_model"}, ErrorClass.MODEL_MISSING),
        # Bedrock: https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html
        (400, {"message": "no", "__type": "ServiceQuotaExceededException"}, ErrorClass.TRANSIENT),
        (424, {"message": "no", "__type": "ModelErrorException"}, ErrorClass.TRANSIENT),
        (400, {"message": "no", "__type": "IncompleteSignature"}, ErrorClass.AUTH),
        # Azure: https://learn.microsoft.com/azure/ai-services/openai
        (404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}}, ErrorClass.MODEL_MISSING),
        (400, {"error": {"code": "OperationNotSupported", "message": "The chatCompletion operation does not work with the specified model"}}, ErrorClass.MODEL_MISSING),
        # LM Studio: canopyai/Orpheus-TTS#229, tinyhumansai/openhuman#4181
        (400, said("No models loaded. Please load a model in the developer page or use the `lms load` command."), ErrorClass.MODEL_MISSING),
        # TGI: huggingface/text-generation-inference, clients/python/text_generation/errors.py
        (429, {"error": "Model is overloaded", "error_type": "overloaded"}, ErrorClass.TRANSIENT),
        (424, {"error": "Request failed during generation: Server error", "error_type": "generation"}, ErrorClass.TRANSIENT),
        # Ollama: https://docs.ollama.com/api/errors.md
        (502, {"error": "the cloud model cannot be reached"}, ErrorClass.TRANSIENT),
        # vLLM, SGLang
        (404, {"error": {"message": "The model `reef` does not exist.", "type": "NotFoundError", "param": "model", "code": 404}}, ErrorClass.MODEL_MISSING),
        (400, {"object": "error", "message": "top_p must be in (0, 1]", "type": "BadRequest", "param": None, "code": 400}, ErrorClass.BAD_REQUEST),
    ],
)  # fmt: skip
def test_codes_decide_before_status_and_sentences(status: int, body: Any, kind: ErrorClass) -> None:
    assert refuse(status, body).kind is kind


FAR_TIMES: tuple[tuple[int, Any, dict[str, str], str], ...] = (
    (429, said("Too many requests"), {"retry-after": "864000"}, "before 2026-11-11 12:00 UTC"),
    (429, said("Too many requests"), {"retry-after": "Wed, 04 Nov 2026 12:00:00 GMT"}, "before 2026-11-04 12:00 UTC"),
    (503, "maintenance", {"retry-after": "172800"}, "before 2026-11-03 12:00 UTC"),
    (429, said("Weekly limit reached. Resets in 3 days."), {}, "before 2026-11-04 12:00 UTC"),
    # Zhipu's week, and OpenRouter's budgets
    (429, {"error": {"code": "1310", "message": "Weekly/Monthly Limit Exhausted. Your limit will reset at 2026-11-05 20:00:00"}}, {}, "before 2026-11-05 12:00 UTC"),
    (403, {"error": {"code": 403, "message": "Budget limit exceeded", "metadata": {"limit_source": "openrouter_key_limit", "resets_at": "2026-11-09T12:00:00Z"}}}, {}, "before 2026-11-09 12:00 UTC"),
)  # fmt: skip


@walk_cases(("status", "body", "headers", "until"), FAR_TIMES)
def test_a_time_too_far_away_is_not_waited_for_but_said(
    status: int, body: Any, headers: dict[str, str], until: str
) -> None:
    error = refuse(status, body, headers)
    assert (error.kind, error.retry_after) == (ErrorClass.QUOTA, None)
    assert error.title == "The provider asks to wait for days"
    assert error.what.startswith(f"reefnet takes no request {until}: ")
    assert error.hint == "Give the mysis another model or provider, or relaunch it after that time."


def test_a_server_that_loads_its_model_says_so() -> None:
    assert refuse(503, said("Loading model")).title == "The server is still loading its model"


def test_an_error_in_the_stream_names_its_time_and_window_too() -> None:
    far = error_from_stream({"error": {"code": 429, "message": "Please try again in 3 days"}}, provider="reefnet")
    assert (far.kind, far.what) == (ErrorClass.QUOTA, "reefnet takes no request for 3 days: Please try again in 3 days")
    limited = error_from_stream({"error": {"code": 429, "message": "Please try again in 3.2s"}}, provider="reefnet")
    assert (limited.kind, limited.retry_after, limited.status) == (ErrorClass.TRANSIENT, 3.2, 429)
    size = {"code": 400, "type": "exceed_context_size_error", "message": "too much", "n_ctx": 6500}
    long = error_from_stream({"error": size}, provider="reefnet")
    assert (long.kind, long.window) == (ErrorClass.CONTEXT_LENGTH, 6500)
