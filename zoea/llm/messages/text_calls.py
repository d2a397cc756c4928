"""Finds tool calls that a model wrote as text instead of as calls.

Small models with native tools often answer with the JSON of the call, bare, fenced or in `<tool_call>` tags, or in the
markup of their chat template. Such an answer is taken as calls only where nothing else can be meant: the calls end the
answer, each names a tool of the toolbox and has arguments, and the text before them does not talk about JSON or
examples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from zoea.llm.messages.argument_repair import repair
from zoea.llm.messages.markup_calls import MARKS, Schemas, plain, read_markup
from zoea.model.enums import Finish
from zoea.model.request import Answer, AnswerCall
from zoea.text.large_json import is_deep

MAX_TEXT = 100_000
"""Longer answers are not searched."""
MAX_PREAMBLE = 400
"""Characters of text before the first call; a longer text explains something."""
_TAG = re.compile(
    # Phi 4 mini, Nemotron, InternLM 2 and LFM2 (vllm-project/vllm, their parsers)
    r"\[TOOL_CALLS\]|</?(?:\|?tool_calls?\|?|tools|function_calls?|calls|TOOLCALL|toolcall)>|functools(?=\s*\[)"
    r"|<\|(?:python_tag|START_ACTION|END_ACTION|/?tool_call|tool_call_(?:start|end)|action_(?:start|end)|plugin)\|>"
)
_FENCE = re.compile(r"^[ \t]*```[a-zA-Z_]*[ \t]*$", re.MULTILINE)
# openai/harmony: vllm-project/vllm#32587, pydantic/pydantic-ai#7143, tontinton/maki#518; Gemini: qwen-code#1187
_FRAME = re.compile(r"\A(?:functions|default_api)[.:]|<\|.*\Z", re.DOTALL)
_SEPARATOR = re.compile(r"[\s,;]+")
_EXPLAINS = re.compile(
    r"```|\b(?:json|examples?|e\.g|instance|format|formats|schema|syntax|template|sample|structure|payload|snippet"
    r"|would|could|might|should|don't|do not|never|not|instead|cannot|can't|if|either|or"
    r"|like this|looks? like|such as|as follows|you can|you may|beispiel|etwa|exemple|ejemplo)\b",
    re.IGNORECASE,
)
_THOUGHT = re.compile(r"^[ \t]*Thought:[^\n]*$", re.MULTILINE)
_QUOTED = re.compile(r"^[ \t]*(?:[>*|-]|\d+\.)[ \t]*\Z|[`\"'«“(]\Z", re.MULTILINE)
"""Ends a text whose next words are quoted, or an item of a list."""
_NAMES = ("name", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args")
_KEYS = frozenset({"id", "type", "function", "tool_call_id", *_NAMES, *_ARGUMENTS})
_PAIRS = (("action", "action_input"), ("tool_name", "tool_input"))
"""Keys of a call that are taken together alone, because each by itself says little."""


def read_names(answer: Answer, tools: Collection[str]) -> Answer:
    """Return the answer with the names of its calls as offered, without a template's additions."""
    named = [_FRAME.sub("", call.name) if call.name not in tools else call.name for call in answer.calls]
    calls = tuple(
        replace(call, name=name) if name in tools else call for call, name in zip(answer.calls, named, strict=True)
    )
    return answer if calls == answer.calls else replace(answer, calls=calls)


def read_text_calls(answer: Answer, tools: Collection[str], schemas: Schemas | None = None) -> Answer:
    """Return the answer with the calls of its text. Unchanged if it has calls or its text is no call.

    Args:
        tools: Names of the tools that were offered; no other name is taken.
        schemas: Of the arguments of these tools, for values that are written without a type.
    """
    if answer.calls or answer.finish is Finish.LENGTH or not tools or len(answer.text) > MAX_TEXT:
        return answer
    text = plain(answer.text)
    markup = _markup_in(text, {name: (schemas or {}).get(name, {}) for name in tools})
    if markup is None and "{" in text:
        markup = _calls_in(text, tools)
    if markup is None:
        return answer
    preamble, calls = markup
    return replace(answer, text=preamble, calls=calls, finish=Finish.CALLS, are_calls_text=True)


def _markup_in(text: str, schemas: Schemas) -> tuple[str, tuple[AnswerCall, ...]] | None:
    """Return the text before the calls, and the calls, where they are written in markup."""
    start = MARKS.search(text)
    if start is None:
        return None
    before = _FENCE.sub("", text[: start.start()])
    preamble = _TAG.sub("", before).strip()
    if len(preamble) > MAX_PREAMBLE or _EXPLAINS.search(_THOUGHT.sub("", preamble)) or _QUOTED.search(before):
        return None
    calls = read_markup(_FENCE.sub("", text[start.start() :]).strip(), schemas)
    return None if calls is None else (preamble, calls)


def _calls_in(text: str, tools: Collection[str]) -> tuple[str, tuple[AnswerCall, ...]] | None:
    """Return the text before the calls, and the calls."""
    bare = _FENCE.sub("", _TAG.sub("\n", text))
    start = re.search(r"^[ \t]*[\[{]", bare, re.MULTILINE)
    if start is None:
        return None
    preamble = bare[: start.start()].strip()
    if len(preamble) > MAX_PREAMBLE or _EXPLAINS.search(preamble):
        return None
    objects = _objects(bare[start.start() :].strip())
    calls = tuple(call for value in objects or () if (call := _call(value, tools)) is not None)
    return (preamble, calls) if objects and len(calls) == len(objects) else None


def _objects(text: str) -> list[Any] | None:
    """Return the JSON objects that the text consists of; None if it holds anything else."""
    decoder = json.JSONDecoder()
    objects: list[Any] = []
    place = 0
    while place < len(text):
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return None
        if is_deep(value):
            return None
        if isinstance(value, dict) and value.keys() == {"tool_calls"}:
            value = value["tool_calls"]
        objects += value if isinstance(value, list) else [value]
        if separator := _SEPARATOR.match(text, place):
            place = separator.end()
    return objects


def _call(value: Any, tools: Collection[str]) -> AnswerCall | None:
    """Return the call that an object describes. None if it is not one of a tool in the toolbox."""
    if not isinstance(value, dict):
        return None
    for called, arguments_key in _PAIRS:
        if value.keys() == {called, arguments_key}:
            value = {"name": value[called], "arguments": value[arguments_key]}
    if not value.keys() <= _KEYS:
        return None
    inner = value.get("function")
    if isinstance(inner, dict):
        return _call(inner, tools) if inner.keys() <= _KEYS - {"function"} else None
    name = next((value[key] for key in _NAMES if key in value), None)
    arguments = next((value[key] for key in _ARGUMENTS if key in value), None)
    if not isinstance(name, str) or name not in tools or not isinstance(arguments, (dict, str)):
        return None
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    mended, broken = repair(written)
    return None if broken else AnswerCall(name, mended)
