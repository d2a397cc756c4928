"""Machine codes and sentences by which vendors refuse requests, each with the class of the refusal.

Codes are compared in lower case without what follows a `#` or stands before it, as AWS writes them. A sentence is read
only where no code decides. Sources stand beside what was taken from a public report (repository and number).
"""

from __future__ import annotations

import re

from zoea.model.enums import ErrorClass

_CODES: dict[ErrorClass, str] = {
    ErrorClass.CONTEXT_LENGTH: (
        # OpenAI · llama.cpp · GitHub Copilot (earendil-works/pi#4574) · GitHub Models · Anthropic · LiteLLM · Zhipu
        "context_length_exceeded exceed_context_size_error model_max_prompt_tokens_exceeded tokens_limit_reached"
        " request_too_large contextwindowexceedederror context_window_exceeded model_context_window_exceeded"
        " context_too_long prompt_too_long input_too_long request_entity_too_large payload_too_large 1261"
        " contextwindowoverflowexception context_window_overflow max_context_length_exceeded"
    ),
    ErrorClass.CONTENT_FILTER: (
        # OpenAI · Azure · DashScope · new-api (QuantumNous/new-api) · Zhipu · Gemini · Bedrock guardrails
        "content_filter content_filter_error content_policy_violation responsibleaipolicyviolation datainspectionfailed"
        " data_inspection_failed sensitive_words_detected 1301 prohibited_content blocklist safety guardrail_intervened"
        " moderation_blocked content_blocked"
    ),
    ErrorClass.QUOTA: (
        # OpenAI · DeepSeek · Moonshot (NousResearch/hermes-agent#36276) · DashScope (QwenLM/qwen-code#7842) · new-api
        # · code-yeongyu/senpi#1969 · Zhipu
        "insufficient_quota billing_error billing_not_active billing_hard_limit_reached insufficient_balance"
        " insufficient_credits insufficient_funds insufficient_user_quota exceeded_current_quota_error arrearage"
        " payment_required usage_limit_reached usage_limit_exceeded pre_consume_token_quota_failed credits_exhausted"
        " allocationquota.freetieronly out_of_credits balance_exhausted quota_exhausted 1113"
    ),
    ErrorClass.AUTH: (
        "invalid_api_key authentication_error permission_error invalid_authentication_error incorrect_api_key_error"
        " unauthenticated permission_denied api_key_invalid invalidapikey unauthorized accessdeniedexception"
        " unrecognizedclientexception invalidsignatureexception expiredtokenexception account_deactivated"
        " missing_api_key expired_api_key token_expired access_denied invalid_token wrong_api_key"
    ),
    ErrorClass.MODEL_MISSING: (
        "model_not_found model_not_exist modelnotfound modelnotfoundexception resourcenotfoundexception"
        " deploymentnotfound model_decommissioned model_deprecated no_such_model invalid_model unknown_model"
        " model_not_supported model_not_available modelnotsupported invalid_model_id not_found_error not_found 1211"
    ),
    ErrorClass.TRANSIENT: (
        # Anthropic · OpenAI · Moonshot · Google · AWS · llama.cpp · Mistral (3505) · Zhipu (1302, 1303, 1305)
        # · DashScope; Groq's last two: its parser refuses what the model wrote, and the next attempt may be well formed
        "overloaded_error api_error timeout_error rate_limit_error rate_limit_exceeded server_error"
        " internal_server_error internal_error internal internalserverexception engine_overloaded_error"
        " rate_limit_reached_error throttlingexception throttling throttling.ratequota throttling.allocationquota"
        " toomanyrequestsexception serviceunavailableexception modeltimeoutexception modelnotreadyexception"
        " unavailable resource_exhausted deadline_exceeded unavailable_error service_unavailable too_many_requests"
        " upstream_error capacity_exceeded"
        " service_tier_capacity_exceeded 3505 1302 1303 1305 slow_down requests tokens limit_requests limit_burst_rate"
        " tool_use_failed output_parse_failed"
    ),
}
CODES: dict[str, ErrorClass] = {code: kind for kind, codes in _CODES.items() for code in codes.split()}
STRENGTH = tuple(_CODES)
"""The classes in the order in which they decide where codes of several stand in one refusal."""

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
    r"request too large for|input or output tokens must be reduced",
    # Cerebras
    r"\blength is \d+[^.\n]{0,20}limit is \d",
    # Anthropic: a subscription without long context
    r"extra usage is required for long context|long context beta is not",
    # DashScope, Zhipu
    r"range of input length should be|超长|超出最大|超过(?:了)?(?:模型|最大)|上下文",
)  # fmt: skip
TOO_LONG = re.compile("|".join(_TOO_LONG), re.IGNORECASE)
TOO_LONG_FOR_ANY_WAIT = re.compile(
    r"request too large for|(?:input|output) tokens must be reduced|extra usage is required for long context"
    r"|long context beta is not",
    re.IGNORECASE,
)
"""Refusals that speak of a rate, although only a shorter request passes."""

# Sentences of a limit of a short time. They are read before those of an empty account, because both name the quota and
# the page of bills (arcobaleno64/agy-plugin-cc#136, NousResearch/hermes-agent#93455).
RATE = re.compile(
    r"rate[ _-]?limit|too many (?:concurrent )?requests|throttl|per[ _-]?(?:minute|min|second|sec|hour)\b"
    r"|\b[RT]P[MSH]\b|PerMinute|PerSecond|concurren|slow down|overloaded|please wait|exceeded token rate|capacity"
    r"|resource (?:has been )?exhausted|速率|频率|并发",
    re.IGNORECASE,
)
QUOTA = re.compile(
    r"(?:insufficient|not enough|out of|no|low)[ _](?:account )?(?:quota|balance|credits?|funds)"
    r"|exceeded your current quota|billing|credit balance|usage limit|spend(?:ing)?[ _](?:cap|limit)"
    r"|(?:monthly|weekly)[^.\n]{0,20}limit|arrears|overdue|payment required"
    r"|quota[^.\n]{0,20}(?:exhausted|used up|exceeded|insufficient)"
    r"|exhausted[^.\n]{0,40}(?:quota|credits|balance)|key limit exceeded|top up|recharge"
    r"|requires more credits|余额|欠费|额度",
    re.IGNORECASE,
)
FILTERED = re.compile(
    r"content[ _-]?(filter|policy|management)|safety system|flagged|inappropriate content|moderation|敏感",
    re.IGNORECASE,
)
NO_MODEL = re.compile(
    r"model[^.\n]{0,80}(not found|does not exist|not exist|not available|decommissioned|deprecated"
    r"|no longer (?:available|supported))|no such model|unknown model|invalid model|not a valid model"
    r"|model is not supported|模型不存在",
    re.IGNORECASE,
)
BAD_KEY = re.compile(
    r"(?:invalid|incorrect|wrong|missing|expired)[^.\n]{0,12} api[ _-]?key"
    r"|api[ _-]?key[^.\n]{0,20}(?:not valid|invalid|expired|missing|required)|unauthori[sz]ed",
    re.IGNORECASE,
)

_MINIMAX = "(2013)"
"""The number of MiniMax's refusal; no size."""
_BEYOND = re.compile(r"(?:<=?|>=?|≤|≥)\s*(?:n_ctx:?\s*)?(\d[\d,_]*)")
_LIMIT = re.compile(
    r"\b(?:max(?:imum)?|limit|length should be|window|context(?:[ _](?:length|size|window))?|n_ctx|max_seq_len"
    r"|max_model_len|allowed|only|up to|not exceed)\b(?:(?! by )[^\d.;>]){0,40}?(?:\[\d+, ?)?(\d[\d,_]*)",
    re.IGNORECASE,
)
SMALLEST_WINDOW = 256
"""Smaller numbers in a sentence about a window are something else."""


def window_in(text: str) -> int | None:
    """Return the tokens of the window, or of the prompt, that a refusal for its length allows."""
    for pattern in (_BEYOND, _LIMIT):
        found = pattern.findall(text.replace(_MINIMAX, ""))
        sizes = [int(re.sub(r"[,_]", "", digits)[:15]) for digits in found]
        if allowed := [size for size in sizes if SMALLEST_WINDOW <= size < 10**9]:
            return min(allowed)
    return None
