"""Tables of vendors' error codes and sentences, with the class of each.

Codes are compared in lower case without what follows a `#` or stands before it, as AWS writes them. A sentence is read
only where no code decides. The source of each row stands beside it.
"""

from __future__ import annotations

import re

from zoea.model.enums import ErrorClass
from zoea.text.lazy_pattern import compile_lazily

_LONG, _FILTER, _QUOTA = ErrorClass.CONTEXT_LENGTH, ErrorClass.CONTENT_FILTER, ErrorClass.QUOTA
_AUTH, _MODEL, _PASSING = ErrorClass.AUTH, ErrorClass.MODEL_MISSING, ErrorClass.TRANSIENT
STRENGTH = (_LONG, _FILTER, _QUOTA, _AUTH, _MODEL, _PASSING)
"""The classes in the order in which they decide where codes of several stand in one refusal."""
_VENDORS: tuple[tuple[ErrorClass, str], ...] = (
    # OpenAI: https://developers.openai.com/docs/guides/error-codes
    (_LONG, "context_length_exceeded"),
    (_FILTER, "content_filter content_filter_error content_policy_violation moderation_blocked"),
    (_QUOTA, "insufficient_quota billing_not_active billing_hard_limit_reached credit_balance_exhausted"),
    (_QUOTA, "organization_spend_limit_exceeded project_spend_limit_exceeded organization_usage_limit_exceeded"),
    (_AUTH, "invalid_api_key unauthorized account_deactivated missing_api_key expired_api_key"),
    (_MODEL, "model_not_found model_not_available"),
    (_PASSING, "rate_limit_exceeded server_error requests tokens slow_down server_is_overloaded"),
    # Anthropic: https://platform.claude.com/docs/en/api/errors; a subscription: code-yeongyu/senpi#1969
    (_LONG, "request_too_large model_context_window_exceeded prompt_too_long"),
    (_QUOTA, "billing_error enforced_spend_limit_reached usage_limit_reached usage_limit_exceeded"),
    (_AUTH, "authentication_error permission_error"),
    (_MODEL, "not_found_error"),
    (_PASSING, "overloaded_error api_error timeout_error rate_limit_error"),
    # Google: https://ai.google.dev/gemini-api/docs/troubleshooting, and google.api.ErrorReason
    (_FILTER, "prohibited_content blocklist safety"),
    (_QUOTA, "quota_exhausted quota_exceeded billing_disabled"),
    (_AUTH, "unauthenticated permission_denied api_key_invalid api_key_service_blocked service_disabled"),
    (_AUTH, "api_key_http_referrer_blocked api_key_ip_address_blocked consumer_suspended consumer_invalid"),
    (_MODEL, "not_found"),
    (_PASSING, "internal unavailable resource_exhausted deadline_exceeded too_many_requests"),
    # Mistral: https://docs.mistral.ai/resources/error-glossary; 3505: its capacity
    (_MODEL, "invalid_model unknown_model"),
    (_PASSING, "service_tier_capacity_exceeded 3505"),
    # DashScope: https://help.aliyun.com/en/model-studio/error-code; QwenLM/qwen-code#7842
    (_FILTER, "datainspectionfailed data_inspection_failed"),
    (_QUOTA, "arrearage allocationquota.freetieronly"),
    (_AUTH, "invalidapikey access_denied accessdenied"),
    (_MODEL, "modelnotfound model_not_supported modelnotsupported"),
    (_PASSING, "throttling throttling.ratequota throttling.burstrate throttling.allocationquota limit_requests"),
    (_PASSING, "limit_burst_rate"),
    # Zhipu: https://docs.bigmodel.cn/cn/faq/api-code
    (_LONG, "1261"),
    (_FILTER, "1301"),
    (_QUOTA, "1113 1304 1308 1309 1310 1313"),
    (_AUTH, "1003 1110 1111 1112 1121 token_expired"),
    (_MODEL, "1211 1220 1221 1311"),
    (_PASSING, "1120 1302 1303 1305 1312"),
    # MiniMax: https://platform.minimax.io/docs/api-reference/errorcode, those that Zhipu has not
    (_FILTER, "1026 1027"),
    (_QUOTA, "1008 2056 insufficient_balance_error"),
    (_AUTH, "1004 2049"),
    (_PASSING, "1024 1033 1039 1041"),
    # Moonshot: https://platform.kimi.ai/docs/api/errors; NousResearch/hermes-agent#36276
    (_QUOTA, "exceeded_current_quota_error"),
    (_AUTH, "invalid_authentication_error incorrect_api_key_error"),
    (_MODEL, "resource_not_found_error"),
    (_PASSING, "engine_overloaded_error rate_limit_reached_error"),
    # DeepSeek: https://api-docs.deepseek.com/quick_start/error_codes
    (_QUOTA, "insufficient_balance"),
    (_MODEL, "model_not_exist"),
    # Groq: https://console.groq.com/docs/errors and /flex-processing
    (_MODEL, "model_decommissioned"),
    (_PASSING, "capacity_exceeded tool_use_failed output_parse_failed"),
    # OpenRouter: https://openrouter.ai/docs/api/reference/errors-and-debugging
    (_QUOTA, "payment_required weight_exceeds_budget token_limit_exceeded openrouter_credits openrouter_key_limit"),
    (_QUOTA, "openrouter_guardrail_budget openrouter_workspace_budget"),
    (_PASSING, "in_flight_budget_exhausted openrouter_in_flight_budget"),
    # Bedrock: https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html
    (_LONG, "contextwindowoverflowexception"),
    (_FILTER, "guardrail_intervened"),
    (_AUTH, "accessdeniedexception unrecognizedclientexception invalidsignatureexception expiredtokenexception"),
    (_AUTH, "incompletesignature invalidclienttokenid notauthorized requestexpired"),
    (_MODEL, "modelnotfoundexception resourcenotfoundexception"),
    (_PASSING, "throttlingexception toomanyrequestsexception serviceunavailableexception serviceunavailable"),
    (_PASSING, "internalserverexception internalfailure modeltimeoutexception modelnotreadyexception"),
    (_PASSING, "modelerrorexception modelstreamerrorexception servicequotaexceededexception mpagreementbeingcreated"),
    # Azure and GitHub: https://learn.microsoft.com/azure/ai-services/openai; Copilot: earendil-works/pi#4574
    (_LONG, "model_max_prompt_tokens_exceeded tokens_limit_reached"),
    (_FILTER, "responsibleaipolicyviolation"),
    (_MODEL, "deploymentnotfound operationnotsupported"),
    # Baidu: https://cloud.baidu.com/doc/qianfan-api/s/rmwbl43x7
    (_LONG, "tokens_too_long characters_too_long"),
    # llama.cpp: tools/server/README.md, and TGI: huggingface/text-generation-inference, errors.py
    (_LONG, "exceed_context_size_error"),
    (_PASSING, "unavailable_error overloaded generation incomplete_generation"),
    # gateways: https://docs.litellm.ai/docs/proxy/error_reference, QuantumNous/new-api, and others as they report
    (_LONG, "contextwindowexceedederror context_window_exceeded context_too_long input_too_long"),
    (_LONG, "request_entity_too_large payload_too_large context_window_overflow max_context_length_exceeded"),
    (_FILTER, "sensitive_words_detected content_blocked"),
    (_QUOTA, "insufficient_credits insufficient_funds insufficient_user_quota pre_consume_token_quota_failed"),
    (_QUOTA, "credits_exhausted out_of_credits balance_exhausted budget_exceeded"),
    (_AUTH, "invalid_token wrong_api_key"),
    (_MODEL, "no_such_model model_deprecated invalid_model_id"),
    (_PASSING, "internal_server_error internal_error service_unavailable upstream_error"),
)
"""The codes and types of each vendor, below its documentation or a public report (repository and number)."""
CODES = {code: kind for kind, codes in _VENDORS for code in codes.split()}
CLEAR = compile_lazily(r"throttl|overload|capacity|^limit_|rate_limit_reached|^1\d{3}$")
"""Passing codes that no sentence changes; others, such as `rate_limit_error`, stand for an empty account too."""
QUOTA_OF_A_MINUTE = compile_lazily(r"allocated quota exceeded|error-code#token-limit", re.IGNORECASE)
"""DashScope refuses by its limit of a minute with OpenAI's code of an empty account (QwenLM/Qwen#2254)."""

# Sentences for a request that is too long. The shared cases name: OpenAI, Gemini, xAI, Copilot, Kimi, TGI and vLLM
# (anomalyco/opencode#27519, #50574, earendil-works/pi#4574).
_TOO_LONG = (
    # llama.cpp, Ollama, MiniMax, LM Studio (DraconDev/pi-goal-list-loop-audit#48, openclaw/openclaw#7279)
    r"context[ _-]?(?:length|window|size|limit|overflow)",
    r"maximum (?:allowed )?(?:context|prompt|input|sequence|model)\b[^.\n]{0,20}(?:length|size|tokens|window)",
    # Anthropic, Bedrock (strands-agents/harness-sdk#1663), inference-atlas#186
    r"\b(?:prompt|input|conversation|request|messages?|payload|body|entity|sequence)\b[^.;:'\"\[\]\n]{0,40}"
    r"\btoo (?:long|large|big)\b",
    # Cohere (pydantic/pydantic-ai#4221), Bedrock
    r"too many (?:total )?(?:input |prompt )?(?:tokens|text bytes)",
    # Poolside (earendil-works/pi#4943), parenthesised (earendil-works/pi#5677), Bedrock Mantle (harness-sdk#3722)
    r"exceed\w*\b[^.\n]{0,60}\b(?:context|tokens?|max_model_len|max_seq_len|n_ctx|num_ctx|model(?:'s)? max\w*"
    r"|(?:input|prompt|sequence|model) length)",
    # Cohere, watsonx, SGLang, Kimi (openclaw/openclaw#58839, MoonshotAI/kimi-code#476)
    r"\b(?:context|window|tokens?|prompt|input|sequence|(?:message|request|payload) size)\b[^.\n]{0,80}"
    r"(?:\bexceed\w*|\bgreater than|\blonger than|\blarger than|\bmore than|\bover\b|>)[^.\n]{0,60}"
    r"\b(?:limit|max\w*|context|window|length|allowed|capacity|\d{3,})",
    # generic: anomalyco/opencode#27519; Snowflake
    r"max(?:imum)? tokens[^.\n]{0,20}exceed",
    # Groq, Cerebras, vLLM (earendil-works/pi#5929), OpenRouter (openclaw/openclaw#85921)
    r"reduce (?:the |your )?(?:length|size|number|amount|prompt|input|messages?|context)",
    # TGI
    r"(?:inputs?|tokens)\b[^.\n]{0,40}must (?:have|be) (?:<=?|less than|at most|smaller than)\s*\d",
    # vLLM where the prompt leaves no room; Vertex
    r"max_(?:completion_|new_)?tokens must be (?:at least 1|greater than|positive)[^.\n]{0,20}-\d",
    r"input token count[^.\n]{0,20} is \d[^.\n]{0,40}(?:only )?supports? up to",
    # a limit of tokens in a minute that one request is over: waiting does not help (Groq, OpenAI)
    r"request too large for|input or output tokens must be reduced|credits are required for long context",
    # Cerebras
    r"\blength is \d+[^.\n]{0,20}limit is \d",
    # Anthropic: a subscription without long context
    r"extra usage is required for long context|long context beta is not",
    # DashScope, Zhipu
    r"range of input length should be|超长|超出(?:了)?(?:模型|最大)|超过(?:了)?(?:模型|最大)|上下文"
    r"|输入[^。\n]{0,12}(?:超出|超过|过长)|(?:输入|提示)[^。\n]{0,8}长度[^。\n]{0,8}(?:超出|超过|上限)|最大输入长度",
)  # fmt: skip
TOO_LONG = compile_lazily("|".join(_TOO_LONG), re.IGNORECASE)
TOO_LONG_FOR_ANY_WAIT = compile_lazily(
    r"request too large for|(?:input|output) tokens must be reduced|long context beta is not"
    r"|(?:extra usage is|credits are) required for long context",
    re.IGNORECASE,
)
"""Refusals that speak of a rate, although only a shorter request passes."""

# Sentences of a limit of a short time. They are read before those of an empty account, because both name the quota and
# the page of bills (arcobaleno64/agy-plugin-cc#136, NousResearch/hermes-agent#93455).
RATE = compile_lazily(
    r"rate[ _-]?limit|too many (?:concurrent )?requests|throttl|per[ _-]?(?:minute|min|second|sec|hour)\b"
    r"|\b[RT]P[MSH]\b|PerMinute|PerSecond|concurren|slow down|overloaded|please wait|exceeded token rate|capacity"
    r"|resource (?:has been )?exhausted|速率|频率|频繁|并发|访问量过大",
    re.IGNORECASE,
)
QUOTA = compile_lazily(
    r"(?:insufficient|not enough|out of|no|low)[ _](?:account )?(?:quota|balance|credits?|funds)"
    r"|exceeded your current quota|billing|credit balance|usage limit|spend(?:ing)?[ _](?:cap|limit)"
    r"|(?:monthly|weekly)[^.\n]{0,20}limit|arrears|overdue|payment required"
    r"|quota[^.\n]{0,20}(?:exhausted|used up|exceeded|insufficient)"
    r"|exhausted[^.\n]{0,40}(?:quota|credits|balance)|key limit exceeded|top up|recharge"
    r"|requires more credits|account[^.\n]{0,20}suspended|limited to \d[\d,]* [^.\n]{0,20}/ ?month|余额|欠费|额度",
    re.IGNORECASE,
)
FILTERED = compile_lazily(
    r"content[ _-]?(filter|policy|management)|safety system|flagged|inappropriate content|moderation|敏感",
    re.IGNORECASE,
)
NO_MODEL = compile_lazily(
    # LM Studio (canopyai/Orpheus-TTS#229)
    r"no models? (?:is |are )?loaded|"
    r"model[^.\n]{0,80}(not found|does not exist|not exist|not available|decommissioned|deprecated"
    r"|no longer (?:available|supported))|no such model|unknown model|invalid model|not a valid model"
    r"|model is not supported|模型不存在",
    re.IGNORECASE,
)
BAD_KEY = compile_lazily(
    r"(?:invalid|incorrect|wrong|missing|expired)[^.\n]{0,12} api[ _-]?key"
    r"|api[ _-]?key[^.\n]{0,20}(?:not valid|invalid|expired|missing|required)|unauthori[sz]ed",
    re.IGNORECASE,
)

_MINIMAX = "(2013)"
"""The number of MiniMax's refusal; no size."""
_SIZE = r"(\d[\d,_]{0,20})(k\b)?"
_WINDOWS = tuple(
    compile_lazily(pattern.replace("SIZE", _SIZE), re.IGNORECASE)
    for pattern in (
        # DashScope (QwenLM/qwen-code#4133)
        r"length should be \[\d+, ?SIZE\]",
        # Anthropic, TGI, llama.cpp and what compares two sizes
        r"(?<!<\d\d\d)(?:<=?|>=?|≤|≥)\s*(?:n_ctx:?\s*)?SIZE(?![\d>])",
        # Mistral (portkey.ai/error-library, 13710000): the size stands before its name
        r"\bSIZE[ -](?:tokens? )?(?:max(?:imum)? (?:context|input|prompt|model)|context (?:length|window|size|limit))",
        # OpenAI, Google, xAI, vLLM, SGLang, Moonshot, Cohere, OpenRouter, LM Studio
        r"\b(?:max(?:imum)?|limit|window|context(?:[ _](?:length|size|window))?|n_ctx|max_seq_len|max_model_len"
        r"|allowed|only|up to|not exceed)\b(?:(?! by )[^\d.;>]){0,40}?SIZE",
        # Chinese gateways
        r"(?:最大|最长|最多|上限|限制|不(?:能|得|可)?超过)[^\d。；]{0,20}?SIZE",
        # what names nothing else that may be meant
        r"\bexceed(?:s|ed|ing)?(?: the| model)? SIZE",
    )
)
"""Sentences that name a window, in the order in which they are tried."""
SMALLEST_WINDOW = 256
"""Smaller numbers in a sentence about a window are something else."""


def window_in(text: str) -> int | None:
    """Return the window or prompt, in tokens, that a refusal for length allows."""
    for pattern in _WINDOWS:
        named = pattern.findall(text.replace(_MINIMAX, ""))
        sizes = [int(re.sub(r"[,_]", "", digits)[:15]) * (1_000 if kilo else 1) for digits, kilo in named]
        if allowed := [size for size in sizes if SMALLEST_WINDOW <= size < 10**9]:
            return min(allowed)
    return None
