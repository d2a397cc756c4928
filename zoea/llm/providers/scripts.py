"""The built-in scripts of the `scripted` provider: the answers of its models.

Each is a pure function of the request, so that a swarm that was killed continues with the same requests as one that was
not: no randomness, no clock, no counter; row ids and call ids are never hashed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from zoea.model.enums import ASK_TOOL, DONE_TOOL, ErrorClass, Role
from zoea.model.errors import ProviderError
from zoea.model.request import Answer, AnswerCall, Delta, ModelRequest, RequestMessage, StreamItem, ToolSpec

Reply = Answer | ProviderError | Sequence[StreamItem | ProviderError]
"""What a rule gives: an answer, a failure, or the stream itself, item by item."""

Rule = Callable[[ModelRequest], Reply | None]
"""A rule; None leaves the request to the next one."""

_PREFIX = "scripted:"
_MAX_STRING = 40
_COMMANDED = re.compile(r"\A\[(?:broadcast )?to [^\]\n]*, from the commander\]\n")
_REPEATABLE = frozenset({"mine", "get_notifications", "zoea_wait"})
"""What the loop guard lets repeat by default (`loop.exempt`)."""


def digest(*texts: str) -> str:
    """Return a hash of these texts: eight hex digits, the same in every version."""
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def prompt_of(request: ModelRequest) -> str:
    """Return the newest user message, without a line that names the commander."""
    content = next((m.content for m in reversed(request.messages) if m.role is Role.USER), "")
    return _COMMANDED.sub("", content, count=1)


def results_of(request: ModelRequest) -> tuple[RequestMessage, ...]:
    """Return the tool results since the newest user message, in order."""
    return tuple(m for m in _since_prompt(request) if m.role is Role.TOOL)


def _since_prompt(request: ModelRequest) -> tuple[RequestMessage, ...]:
    start = max((i for i, m in enumerate(request.messages) if m.role is Role.USER), default=-1)
    return request.messages[start + 1 :]


def _steps(request: ModelRequest) -> int:
    return sum(1 for m in _since_prompt(request) if m.calls)


def _conclusion(request: ModelRequest) -> Answer:
    prompt = digest(prompt_of(request))
    results = results_of(request)
    if not results:
        return Answer(text=f"Answered prompt {prompt}.")
    return Answer(text=f"Answered prompt {prompt} with result {digest(*(m.content for m in results))}.")


def deltas(answer: Answer, chars: int = 16) -> Iterator[Delta]:
    """Yield an answer in pieces of `chars`: reasoning, text, then each call's name."""
    for start in range(0, len(answer.reasoning), chars):
        yield Delta(reasoning=answer.reasoning[start : start + chars])
    for start in range(0, len(answer.text), chars):
        yield Delta(text=answer.text[start : start + chars])
    for call in answer.calls:
        yield Delta(call=call.name)


def tools_script(request: ModelRequest, steps: int = 1) -> Answer:
    """Answer with `steps` rounds of one call each, then name prompt and result.

    A prompt may give the calls to make instead, one a line: `call NAME {"a": 1}`; all are made in the first round.
    """
    prompt = prompt_of(request)
    done = _steps(request)
    calls = told_calls(prompt, request.tools)
    if calls:
        return Answer(calls=calls) if done == 0 else _conclusion(request)
    if done >= steps or not request.tools:
        return _conclusion(request)
    seed = f"{digest(prompt)}{done}"
    return Answer(text=f"Looking into prompt {digest(prompt)}.", calls=(_call(request.tools, seed),))


def parallel_script(request: ModelRequest, width: int = 3) -> Answer:
    """Answer with `width` calls in one message, then an answer."""
    if _steps(request) or not request.tools:
        return _conclusion(request)
    seed = digest(prompt_of(request))
    return Answer(calls=tuple(_call(request.tools, f"{seed}{i}") for i in range(width)))


def loop_script(request: ModelRequest) -> Answer:
    """Repeat the same call with the same arguments without end, for the loop guard."""
    if not request.tools:
        return _conclusion(request)
    guarded = [tool for tool in request.tools if tool.name not in _REPEATABLE]
    return Answer(calls=(_call(guarded or request.tools, "loop"),))


def echo_script(request: ModelRequest) -> Answer:
    return Answer(text=prompt_of(request) or "(no prompt)")


def think_script(request: ModelRequest) -> Answer:
    return Answer(text=prompt_of(request), reasoning=f"The prompt is {digest(prompt_of(request))}; saying it back.")


def broken_script(request: ModelRequest) -> Answer:
    """Answer with a call with broken arguments, then an answer after its error result."""
    if _steps(request) or not request.tools:
        return _conclusion(request)
    name = _pick(request.tools, digest(prompt_of(request))).name
    return Answer(calls=(AnswerCall(name, '{"text": ', broken="the JSON ends in the middle"),))


def failure(kind: str, retry_after: str = "") -> ProviderError:
    """Build the error of `fail:CLASS[:SECONDS]`. An unknown class is a bad request that lists the known ones."""
    names = [str(each) for each in ErrorClass]
    if kind not in names:
        return ProviderError(
            f"the script fail:{kind} names no error class",
            kind=ErrorClass.BAD_REQUEST,
            hint=f"Use one of {', '.join(names)}.",
        )
    seconds = float(retry_after) if retry_after.replace(".", "", 1).isdigit() else None
    return ProviderError("the script says so", kind=ErrorClass(kind), retry_after=seconds)


SCRIPTS: dict[str, str] = {
    "tools": "one tool call per prompt, then an answer; tools:N for N rounds",
    "parallel": "three calls in one message, then an answer; parallel:N for N",
    "echo": "says the prompt back",
    "think": "says the prompt back, with reasoning",
    "loop": "the same call for ever",
    "slow": "as tools, 0.25 s between deltas; slow:SECONDS for another pace",
    "empty": "answers nothing",
    "broken": "a call with broken arguments, then an answer",
    "cut": "breaks off in the middle of an answer",
    "fail": "fails with an error class: fail:CLASS, fail:transient:SECONDS",
}


def script_name(model: str) -> str:
    """Return the model's name without its `scripted:` prefix; `tools` if it is empty."""
    return model.removeprefix(_PREFIX) or "tools"


def builtin(request: ModelRequest) -> Reply:
    """Return the reply of the model's built-in script; an unknown name is a missing model."""
    name, _, argument = script_name(request.model).partition(":")
    count = int(argument) if argument.isdigit() else None
    match name:
        case "tools":
            return tools_script(request, 1 if count is None else count)
        case "slow":
            return tools_script(request)
        case "parallel":
            return parallel_script(request, 3 if count is None else count)
        case "echo":
            return echo_script(request)
        case "think":
            return think_script(request)
        case "loop":
            return loop_script(request)
        case "empty":
            return Answer()
        case "broken":
            return broken_script(request)
        case "cut":
            return [*list(deltas(echo_script(request)))[:2], failure(ErrorClass.TRANSIENT)]
        case "fail":
            kind, _, seconds = argument.partition(":")
            return failure(kind or str(ErrorClass.TRANSIENT), seconds)
        case _:
            return ProviderError(
                f"no script is named {name}", kind=ErrorClass.MODEL_MISSING, hint=f"Use one of {', '.join(SCRIPTS)}."
            )


def told_calls(prompt: str, tools: Sequence[ToolSpec]) -> tuple[AnswerCall, ...]:
    """Return the calls of lines `call NAME [JSON]` in a prompt, of offered tools only."""
    offered = {tool.name for tool in tools}
    calls = []
    for line in prompt.splitlines():
        word, _, rest = line.strip().partition(" ")
        name, _, arguments = rest.strip().partition(" ")
        if word == "call" and name in offered:
            calls.append(AnswerCall(name, arguments.strip() or "{}"))
    return tuple(calls)


def _call(tools: Sequence[ToolSpec], seed: str) -> AnswerCall:
    tool = _pick(tools, seed)
    return AnswerCall(tool.name, json.dumps(arguments_for(tool.input_schema, seed), sort_keys=True))


def _pick(tools: Sequence[ToolSpec], seed: str) -> ToolSpec:
    """Pick a tool by hash. Zoea's own come after others, those that ask or end the work last."""
    usual = [tool for tool in tools if not tool.asks and not tool.name.startswith("zoea_")]
    prompt = [tool for tool in tools if not tool.asks and tool.name not in (ASK_TOOL, DONE_TOOL)]
    choice = sorted(usual or prompt or tools, key=lambda tool: tool.name)
    return choice[_number(seed, "tool") % len(choice)]


def arguments_for(schema: dict[str, Any], seed: str) -> dict[str, Any]:
    """Build arguments for a JSON schema's required properties, derived from `seed` alone.

    Follows `$ref` into `$defs`, `anyOf`, `const`, `enum`, ranges and lengths; patterns and formats are ignored.
    """
    made = _value(schema, seed, schema, depth=0)
    return made if isinstance(made, dict) else {}


def _value(schema: dict[str, Any], seed: str, root: dict[str, Any], depth: int) -> Any:
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][_number(seed, "enum") % len(schema["enum"])]
    match _type(schema):
        case "object":
            if depth > 8:
                return {}
            properties: dict[str, Any] = schema.get("properties", {})
            names: Iterable[str] = schema.get("required", ())
            return {name: _value(properties.get(name, {}), f"{seed}.{name}", root, depth + 1) for name in names}
        case "array":
            least = int(schema.get("minItems", 0))
            return [_value(schema.get("items", {}), f"{seed}[{i}]", root, depth + 1) for i in range(least)]
        case "integer":
            return _within(schema, seed)
        case "number":
            return float(_within(schema, seed))
        case "boolean":
            return bool(_number(seed, "boolean") % 2)
        case "null":
            return None
        case _:
            longest = min(int(schema.get("maxLength", _MAX_STRING)), _MAX_STRING)
            text = f"text {digest(seed)}"[:longest]
            return text.ljust(int(schema.get("minLength", 0)), "x")


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    for _ in range(16):
        if "$ref" in schema:
            node: Any = root
            for part in str(schema["$ref"]).removeprefix("#/").split("/"):
                node = node.get(part, {}) if isinstance(node, dict) else {}
            schema = node if isinstance(node, dict) else {}
        elif branches := schema.get("anyOf") or schema.get("oneOf"):
            schema = branches[0]
        else:
            break
    return schema


def _type(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return str(kind[0]) if isinstance(kind, list) else str(kind)


def _within(schema: dict[str, Any], seed: str) -> int:
    low = int(schema.get("minimum", schema.get("exclusiveMinimum", 0)))
    low += "exclusiveMinimum" in schema and "minimum" not in schema
    high = int(schema.get("maximum", schema.get("exclusiveMaximum", low + 99)))
    high -= "exclusiveMaximum" in schema and "maximum" not in schema
    return low + _number(seed, "number") % (max(high - low, 0) + 1)


def _number(seed: str, salt: str) -> int:
    return int(digest(seed, salt), 16)
