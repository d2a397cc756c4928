"""Reads tool calls that a server left in the markup of a chat template.

Most families are brought to one form first, `<function=NAME>` with parameters in tags or one JSON object, by the table
`_FAMILIES`; `_READERS` read that form and those with a JSON object behind a name.
"""

# ruff: noqa: E501  a spelling of a family stands on one line

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from zoea.llm.messages.argument_repair import repair
from zoea.model.request import AnswerCall

Schemas = Mapping[str, Mapping[str, Any]]

MARKS = re.compile(
    r"<function=|<invoke name=|<tool_call>|<function_calls>|\[TOOL_CALLS\]|<\|tool_call|<tool▁call"
    r"|<\|(?:start\|>assistant<\|)?channel\|>\w* ?to="
)
"""Where a call in markup may begin, after `plain`."""
LONGEST_TAGGED = 10_000
"""Characters of a call in tags of its own names; each of them is looked for to the end."""
_MOST_STEPS = 50_000_000
"""Characters of a body times its tags, of which each may be looked for to the end."""
_TAGS = re.compile(
    r"(?:\s|[,;]|</?(?:tool_calls?|function_calls?|calls|tools|tool_use)>|\[/?TOOL_CALLS\]|</?tool▁call▁end>"
    r"|<\|/?tool_calls?(?:_section)?(?:_(?:begin|end|start))?\|>(?!functions|[\w.\-/:]+\s*<\|tool_call_arg)|</?tool▁calls▁(?:begin|end)>"
    r"|<\|(?:end|call)\|>)*"
)
_NAME = r"([\w.\-/:]+?)"
_END = r"(?=<function=|<invoke name=|</?tool_call>|</function_calls>|\Z)"
_FUNCTION = re.compile(rf"<function={_NAME}>\s*(.*?)\s*(?:</function>|{_END})", re.DOTALL)
_INVOKE = re.compile(rf"<invoke name=\"{_NAME}\"\s*>\s*(.*?)\s*(?:</invoke>|{_END})", re.DOTALL)
_ARGUMENT = re.compile(
    r"<parameter(?:=([^>\s]+)| name=\"([^\"]+)\")(?:\s+string=\"(true|false)\")?\s*>"
    r"(.*?)(?:</parameter>|(?=<parameter[= ])|\Z)",
    re.DOTALL,
)
_TAGGED = re.compile(r"<([\w.\-]+)>\s*(.*?)\s*(?:</\1>|(?=</?tool_call>|\Z))", re.DOTALL)
_CHILD = re.compile(r"<([\w.\-]+)>(.*?)</\1>", re.DOTALL)
_BEFORE_JSON = (
    re.compile(rf"<\|tool_call_begin\|>\s*(?:functions\.)?{_NAME}(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*"),
    re.compile(rf"<tool▁call▁begin>(?:function<tool▁sep>)?{_NAME}\s*(?:<tool▁sep>)?\s*(?:json\s*)?(?=\{{)"),
    re.compile(
        rf"(?:<\|start\|>assistant)?<\|channel\|>\w* ?to=(?:functions\.)?{_NAME}\s*(?:<\|channel\|>\w+)?\s*"
        r"(?:<\|constrain\|>\w*|(?<=\s)\w+)?\s*<\|message\|>\s*"
    ),
)
_BARE_NAME = re.compile(rf"{_NAME}\s*(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{{)")
_AFTER_JSON = re.compile(r"\s*(?:```)?\s*(?:<\|tool_call_end\|>|<tool▁call▁end>|<\|call\|>|</function>)?")


def _from_python(match: re.Match[str]) -> str:
    """Write calls of Python in the common form. Unchanged if they are anything else than calls with literal arguments."""
    try:
        body = _JsonWords().visit(ast.parse(match["calls"].strip())).body
        if not all(isinstance(line, ast.Expr) for line in body):
            return match[0]
        values = [line.value for line in body]
        return "".join(
            [_write_python(one) for value in values for one in (value.elts if isinstance(value, ast.List) else [value])]
        )
    except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError, MemoryError):
        return match[0]


def _write_python(call: Any) -> str:
    if isinstance(call.func, ast.Name) and call.func.id == "print" and len(call.args) == 1:
        call = call.args[0]
    if call.args:
        raise ValueError("an argument without its name")
    values = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    return _write_call(ast.unparse(call.func).removeprefix("default_api."), json.dumps(values, ensure_ascii=False))


class _JsonWords(ast.NodeTransformer):
    """Reads the words of JSON in Python."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        words = {"true": True, "false": False, "null": None}
        return ast.Constant(words[node.id]) if node.id in words else node


def _from_gemma(match: re.Match[str]) -> str:
    """Write Gemma's call in the common form: its keys and some of its values stand without quotes."""

    def quote(token: re.Match[str]) -> str:
        text, quoted, key, bare = token.groups()
        if bare is not None and re.fullmatch(r"-?\d+(?:\.\d+)?|true|false|null", bare):
            return str(bare)
        return str(quoted) if quoted is not None else json.dumps(text if text is not None else key or bare)

    written = _GEMMA_TOKENS.sub(quote, match["arguments"][1:-1])
    return _write_call(match["name"], f"{{{written}}}")


def _from_pairs(match: re.Match[str]) -> str:
    """Write Apertus' list of objects in the common form. The key of each is the name of a tool."""
    try:
        items = [item for one in json.loads(match["calls"]) for item in one.items()]
        return "".join([_write_call(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in items])
    except (ValueError, TypeError, AttributeError, RecursionError):
        return match[0]


def _write_call(name: str, arguments: str) -> str:
    return f"<function={name}>{arguments}</function>"


_GEMMA_TOKENS = re.compile(
    r"(?:<escape>|<\|\"\|>)(.*?)(?:<escape>|<\|\"\|>)|(\"(?:[^\"\\]|\\.)*\")|([\w.\-]+)(?=\s*:)|([^\s{}\[\],:]+)",
    re.DOTALL,
)
# A body ends before the next beginning, so that no text is looked through for each beginning without an end.
_BODY = r"(?:(?!<\|(?:tool|channel|python_start)|<start_function_call>|<function_calls>|<arg_key>|```tool_code|^[ \t]*Action:).)*?"
_FAMILIES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern.replace("BODY", _BODY), re.DOTALL | re.MULTILINE), form)
    for pattern, form in (
        # namespaces: Claude, MiniMax M2, Seed, DeepSeek's DSML (anomalyco/opencode#24566, Kuberwastaken/claurst#395),
        # Step 3 (sgl-project/sglang, step3_detector.py), LongCat, MiniMax M3 (minimax_m3.py)
        (r"<(/?)(?:antml:|minimax:|seed:|steptml:|longcat_(?=tool_call>)|[｜|]+DSML[｜|]+ ?)", r"<\1"),
        (r"\]<\]minimax\[>\[", ""),
        # DeepSeek and Step 3: bars of double width
        (r"[｜|](tool▁[a-z▁]+)[｜|]", r"\1"),
        (r"<｜tool_(calls?)_(begin|end)｜>", r"<tool▁\1▁\2>"),
        (r"<tool▁call▁begin>function(?:<tool▁sep>|<｜tool_sep｜>)\s*(?=<invoke )", ""),
        # ends of a turn that a server does not cut off (vllm-project/vllm#58315, #46875), and a thought without its beginning
        # (vllm-project/vllm-ascend#12398)
        (
            r"(?:\s*(?:<\|(?:im_end|eom_id|eot_id|eot|observation|user|end_of_text|endoftext|end_of_turn|return)\|>"
            r"|</s>|<eos>|<end_of_turn>|<｜end▁of▁sentence｜>))+\s*\Z",
            "",
        ),
        (r"\A\s*</think(?:ing)?>", ""),
        # the name as an attribute
        (r"<function name=\"([\w.\-/:]+)\">", r"<function=\1>"),
        (r"<tool_call name=\"([\w.\-/:]+)\">\s*(?=[{<])", r"<function=\1>"),
        # what clients write into a prompt, written again (NousResearch/hermes-agent#27834)
        (r"^\[Calling tool: ([\w.\-/:]+) with arguments: (\{BODY\})\]\s*$", r"<function=\1>\2</function>"),
        # a wrapper of another name (use-agent-os/agent-os#1624)
        (r"<(?!tool_|function_)[a-z]{1,20}_calls>\s*(?=<invoke name=)", ""),
        (r"</invoke>\s*</(?!tool_|function_)[a-z]{1,20}_calls>", "</invoke>"),
        # GLM 4.5 to 4.7 (NousResearch/hermes-agent#83023)
        (r"<tool_call>\s*([\w.\-/:]+)\s*(?=<arg_key>|</?tool_call>|\Z)", r"<function=\1>"),
        (r"<arg_key>\s*([\w.\-]+)\s*</arg_key>\s*<arg_value>(BODY)</arg_value>", r"<parameter=\1>\2</parameter>"),
        # Solar Open 2 (vllm-project/vllm, solar_open2_tool_parser.py)
        (r"<\|tool_call:start\|>\s*([\w.\-/:]+)\s*", r"<function=\1>"),
        (r"<\|tool_arg:start\|>([\w.\-]+)<\|tool_arg:value\|>(BODY)<\|tool_arg:end\|>", r"<parameter=\1>\2</parameter>"),
        (r"<\|tool_call:end\|>", "</function>"),
        # Kimi K3 (ggml-org/llama.cpp, models/templates/Kimi-K3.jinja)
        (r"<\|open\|>(?:tools)?call tool=\"([\w.\-/:]+)\"[^<]*<\|sep\|>", r"<function=\1>"),
        (r"<\|open\|>argument key=\"([^\"]+)\" type=\"string\"<\|sep\|>", r'<parameter name="\1" string="true">'),
        (r"<\|open\|>argument key=\"([^\"]+)\"[^<]*<\|sep\|>", r'<parameter name="\1" string="false">'),
        (r"<\|close\|>argument<\|sep\|>", "</parameter>"),
        (r"<\|close\|>call<\|sep\|>", "</function>"),
        (r"<\|(?:open|close)\|>(?:tools|response|message|json)[^<]*<\|sep\|>|<\|end_of_msg\|>", ""),
        # prompts of clients for models without calls (Cherry Studio), MiniMax, adolfousier/opencrabs#1260
        (r"<(?:tool_(?:use|call)|function)>\s*<name>\s*([\w.\-/:]+)\s*</name>\s*<(?:arguments|input|parameters)>", r"<function=\1>"),
        (r"</(?:arguments|input|parameters)>\s*</(?:tool_(?:use|call)|function)>", "</function>"),
        # gpt-oss: the recipient before the channel, and its thoughts (openai/harmony)
        (r"<\|start\|>assistant to=([\w.\-]+)\s*<\|channel\|>(\w+)", r"<|channel|>\2 to=\1"),
        (r"<\|channel\|>analysis<\|message\|>BODY(?:<\|end\|>|(?=<\|start\|>))", ""),
        (r"(?:<\|start\|>assistant)?<\|channel\|>(?:commentary|final)<\|message\|>(BODY)(?:<\|end\|>|(?=<\|start\|>))", r"\1\n"),
        # Cohere's Command R
        (r"^[ \t]*Action:[ \t]*(?=```(?:json)?[ \t]*$)", ""),
        # ReAct; what follows is invented (run-llama/llama_index#12865)
        (
            r"^[ \t]*Action:[ \t]*([\w.\-/:]+)[ \t]*\n+[ \t]*Action Input:\s*(\{BODY\})\s*(?:^[ \t]*Observation:.*)?\Z",
            r"<function=\1>\2</function>",
        ),
        # Apertus (sgl-project/sglang, apertus2509_detector.py)
        (r"<\|tools_prefix\|>\s*(?P<calls>\[BODY\])\s*(?:<\|tools_suffix\|>|\Z)", _from_pairs),
        # FunctionGemma (docker/model-runner#1045) and Gemma 4 (jundot/omlx#581)
        (
            r"(?:<start_function_call>|<\|tool_call>)\s*call:(?P<name>[\w.\-/]+)\s*(?P<arguments>[{(]BODY[})])\s*"
            r"(?:<end_function_call>|<tool_call\|>|\Z)",
            _from_gemma,
        ),
        # LFM2 (lmstudio-ai/lmstudio-bug-tracker#1979), Gemma 3, OLMo 3 and Llama 4 (vllm-project/vllm, pythonic parsers)
        (r"<\|tool_call_start\|>\s*(?P<calls>\[(?!\s*\{)BODY\])\s*(?:<\|tool_call_end\|>|\Z)", _from_python),
        (r"^[ \t]*```tool_code[ \t]*\n(?P<calls>BODY)\n[ \t]*```", _from_python),
        (r"<function_calls>\s*(?P<calls>[A-Za-z_]BODY)\s*(?:</function_calls>|\Z)", _from_python),
        (r"(?:\A|<\|python_start\|>)\s*(?P<calls>\[\s*[A-Za-z_][\w.]*\(BODY\)\s*\])\s*(?:<\|python_end\|>)?\s*\Z", _from_python),
    )
)  # fmt: skip
"""Spellings of each family with the common form, and the source of the spelling (template, parser or public report)."""
_SIGN = re.compile(r"[<\[▁]|```tool_code|Action:")
"""What every spelling of `_FAMILIES` holds one of. Most answers hold none, and no spelling is looked for in them."""


def plain(text: str) -> str:
    """Return the text with the calls of all families in the common form."""
    if _SIGN.search(text) is None:
        return text
    for pattern, form in _FAMILIES:
        text = pattern.sub(form, text)
    return text


def read_markup(text: str, schemas: Schemas) -> tuple[AnswerCall, ...] | None:
    """Return the calls that a text in the form of `plain` consists of. None if it holds anything else."""
    calls: list[AnswerCall] = []
    place = _skip(text, 0)
    while place < len(text):
        markup = next((one for read in _READERS if (one := read(text, place, schemas)) is not None), None)
        if markup is None:
            return None
        name, arguments, place = markup
        mended, broken = repair(arguments)
        if name not in schemas or broken:
            return None
        calls.append(AnswerCall(name, mended))
        place = _skip(text, place)
    return tuple(calls) or None


_Found = tuple[str, str, int]
"""The name of a call, its arguments as JSON, and the place after it."""


def _skip(text: str, place: int) -> int:
    match = _TAGS.match(text, place)
    return place if match is None else match.end()


def _read_block(text: str, place: int, schemas: Schemas) -> _Found | None:
    """Read `<function=NAME>` or `<invoke name="NAME">` with parameters in tags, or with one JSON object."""
    match = _FUNCTION.match(text, place) or _INVOKE.match(text, place)
    if match is None:
        return None
    name, body = match.group(1), match.group(2)
    if body.startswith("{"):
        return name, body, match.end()
    schema = schemas.get(name, {})
    if len(body) * body.count("<") > _MOST_STEPS:
        return None
    if body and not _CHILD.sub("", body).strip() and _ARGUMENT.search(body) is None:
        values = {key: _value(value, schema, key) for key, value in _CHILD.findall(body)}
    elif _ARGUMENT.sub("", body).strip():
        return None
    else:
        values = {
            (one.group(1) or one.group(2)): _value(one.group(4), schema, one.group(1) or one.group(2), one.group(3))
            for one in _ARGUMENT.finditer(body)
        }
    if set(values) == {"arguments"} and isinstance(values["arguments"], dict):
        values = values["arguments"]
    return name, json.dumps(values, ensure_ascii=False), match.end()


def _read_tagged(text: str, place: int, schemas: Schemas) -> _Found | None:
    """Read a tag with the tool's name and one with each argument's in it."""
    match = _TAGGED.match(text, place, place + LONGEST_TAGGED)
    if match is None or match.group(1) not in schemas or _CHILD.sub("", match.group(2)).strip():
        return None
    schema = schemas[match.group(1)]
    values = {key: _value(value, schema, key) for key, value in _CHILD.findall(match.group(2))}
    return match.group(1), json.dumps(values, ensure_ascii=False), match.end()


def _read_before_json(text: str, place: int, schemas: Schemas) -> _Found | None:
    """Read a name in special tokens, or behind Mistral's token, and the object after it."""
    match = next((one for pattern in _BEFORE_JSON if (one := pattern.match(text, place)) is not None), None)
    if match is None and "[TOOL_CALLS]" in text[:place]:
        match = _BARE_NAME.match(text, place)
    if match is None:
        return None
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, match.end())
    except (ValueError, RecursionError):
        return None
    after = _AFTER_JSON.match(text, end)
    written = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else "[]"
    return match.group(1), written, end if after is None else after.end()


_READERS: tuple[Callable[[str, int, Schemas], _Found | None], ...] = (_read_block, _read_before_json, _read_tagged)


def _value(written: str, schema: Mapping[str, Any], key: str, is_text: str | None = None) -> Any:
    """Return the value of an argument, which markup gives no type: that of the tool's schema, else a text."""
    text = written.strip("\n") if written.strip() else ""
    properties = schema.get("properties")
    described = properties.get(key) if isinstance(properties, Mapping) else None
    kinds = described.get("type") if isinstance(described, Mapping) else None
    kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if is_text == "true" or (is_text is None and "string" in kinds):
        return text
    try:
        value = json.loads(text.strip().lower() if text.strip() in ("True", "False", "None") else text)
    except (ValueError, RecursionError):
        return text
    is_typed = is_text == "false" or bool(kinds) or isinstance(value, dict | list)
    return value if is_typed else text
