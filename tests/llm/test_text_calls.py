"""Calls that a model wrote as text: what is read as a call, and what stays text."""

# ruff: noqa: E501  what a model writes stands on one line

from __future__ import annotations

import pytest

from tests.fakes import anthropic_server, ollama_server, openai_server
from tests.fakes.wire_server import WireServer
from tests.llm.sample_requests import SCAN, provider, request
from tests.llm.sample_requests import answer as ask
from zoea.llm.messages.text_calls import MAX_PREAMBLE, read_text_calls
from zoea.model.enums import Finish, ToolMode
from zoea.model.request import Answer, AnswerCall, ToolSpec

TOOLS = frozenset({"get_time", "zoea_wait", "send"})
BERLIN = AnswerCall("get_time", '{"city":"Berlin"}')
PARIS = AnswerCall("get_time", '{"city":"Paris"}')
CALL = '{"name": "get_time", "arguments": {"city": "Berlin"}}'
SECOND = '{"name": "get_time", "arguments": {"city": "Paris"}}'


@pytest.mark.parametrize(
    ("said", "text", "calls"),
    [
        (CALL, "", (BERLIN,)),
        (f"\n  {CALL}\n", "", (BERLIN,)),
        (f"```json\n{CALL}\n```", "", (BERLIN,)),
        (f"```\n{CALL}\n```", "", (BERLIN,)),
        (f"```tool_call\n{CALL}\n```", "", (BERLIN,)),
        (f"<tool_call>\n{CALL}\n</tool_call>", "", (BERLIN,)),
        (f"<tool_call>{CALL}", "", (BERLIN,)),
        (f"<tools>\n{CALL}\n</tools>", "", (BERLIN,)),
        (f"[TOOL_CALLS][{CALL}]", "", (BERLIN,)),
        (f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{SECOND}\n</tool_call>", "", (BERLIN, PARIS)),
        (f"{CALL}\n{SECOND}", "", (BERLIN, PARIS)),
        (f"{CALL}, {SECOND}", "", (BERLIN, PARIS)),
        (f"[{CALL}, {SECOND}]", "", (BERLIN, PARIS)),
        (f"```json\n{CALL}\n```\n```json\n{SECOND}\n```", "", (BERLIN, PARIS)),
        ('{"name": "get_time", "parameters": {"city": "Berlin"}}', "", (BERLIN,)),
        ('{"name": "get_time", "arguments": "{\\"city\\": \\"Berlin\\"}"}', "", (BERLIN,)),
        ('{"name": "zoea_wait", "arguments": {}}', "", (AnswerCall("zoea_wait", "{}"),)),
        ('{"id": "c1", "name": "zoea_wait", "arguments": {}}', "", (AnswerCall("zoea_wait", "{}"),)),
        (f'{{"type": "function", "function": {CALL}}}', "", (BERLIN,)),
        (f"I ask for the time in Berlin.\n{CALL}", "I ask for the time in Berlin.", (BERLIN,)),
        (f"Let me look.\n\n```json\n{CALL}\n```", "Let me look.", (BERLIN,)),
        (f"I look it up.\n<tool_call>{CALL}</tool_call>", "I look it up.", (BERLIN,)),
        (f"<|python_tag|>{CALL}", "", (BERLIN,)),
        (f"<|tool_call|>[{CALL}]<|/tool_call|>", "", (BERLIN,)),
        (
            '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get_time", "parameters": {"city": "Berlin"}}]<|END_ACTION|>',
            "",
            (BERLIN,),
        ),
    ],
)
def test_a_call_written_as_text_is_read_as_a_call(said: str, text: str, calls: tuple[AnswerCall, ...]) -> None:
    read = read_text_calls(Answer(said), TOOLS)
    assert (read.text, read.calls) == (text, calls)
    assert read.are_calls_text
    assert read.finish is Finish.CALLS


NO_CALLS = [
    "It is noon in Berlin.",
    "",
    "{",
    "{}",
    "[]",
    "[1, 2, 3]",
    '"get_time"',
    '{"answer": "noon"}',
    '{"city": "Berlin", "time": "12:00"}',
    '{"name": "Berlin", "population": 3700000}',
    '{"name": "get_time"}',
    '{"name": "get_time", "arguments": null}',
    '{"name": "get_time", "arguments": 5}',
    '{"name": "get_time", "arguments": ["Berlin"]}',
    '{"name": "get_time", "arguments": "Berlin"}',
    '{"name": "get_weather", "arguments": {"city": "Berlin"}}',
    '{"name": "GET_TIME", "arguments": {"city": "Berlin"}}',
    '{"name": ["get_time"], "arguments": {}}',
    '{"name": "get_time", "arguments": {}, "result": "12:00"}',
    '{"tool": "get_time", "arguments": {"city": "Berlin"}}',
    '{"name": "get_time", "arguments": {"city": "Berlin"}',
    '{"name": "get_time", "arguments": {"city": "Ber',
    "{'name': 'get_time', 'arguments': {}}",
    f"{CALL} is how the tool is called.",
    f"{CALL}\nThis asks for the time in Berlin.",
    f"```json\n{CALL}\n```\nSend this to the server.",
    f"For example:\n{CALL}",
    f"An example of a call:\n```json\n{CALL}\n```",
    f"The call has this JSON format:\n{CALL}",
    f"A request would look like this:\n{CALL}",
    f"You can call the tool like this:\n{CALL}",
    f"The format is:\n<tool_call>\n{CALL}\n</tool_call>",
    f"Do not send\n{CALL}",
    f"I did not send this:\n{CALL}",
    f"Instead of\n{CALL}",
    f"If the city is Berlin:\n{CALL}",
    f"Either one:\n{CALL}\n{SECOND}",
    f"The schema of get_time allows\n{CALL}",
    f"The payload that failed:\n{CALL}",
    f"Ein Beispiel:\n{CALL}",
    f"Un exemple :\n{CALL}",
    f"Un ejemplo:\n{CALL}",
    f"The tool is called with {CALL}",
    f"I use `{CALL}` for that.",
    f"- {CALL}",
    f"1. {CALL}\n2. {SECOND}",
    f"> {CALL}",
    f"| call |\n|---|\n| {CALL} |",
    f"{CALL}\n---\n{SECOND}",
    f"{CALL}\n" + '{"name": "get_weather", "arguments": {}}',
    f"{CALL}\n" + '{"time": "12:00"}',
    f"print({CALL})",
    f"```python\ncall = {CALL}\n```",
    f"```json\n{CALL}\n```\n```json\n" + '{"time": "12:00"}\n```',
    "word " * (MAX_PREAMBLE // 4) + f"\n{CALL}",
    "[" * 500 + "]" * 500,
    '{"name": "get_time", "arguments": ' + '{"a":' * 500 + "1" + "}" * 501,
    f"{CALL}\n" + "x" * 100_000,
    "log entry { name: get_time }\n{not json}",
]


def test_fifty_answers_and_more_are_tried() -> None:
    assert len(set(NO_CALLS)) >= 50


@pytest.mark.parametrize("said", NO_CALLS)
def test_an_answer_that_talks_about_json_stays_text(said: str) -> None:
    answer = Answer(said)
    assert read_text_calls(answer, TOOLS) is answer


NOTE = AnswerCall("note", '{"text":"buy rope"}')
MARKUP = {
    # The shared case of markup: NousResearch/hermes-agent#83023, lablup/mlxcel#204, QwenLM/qwen-code#176,
    # ggml-org/llama.cpp#16932, Extra-Chill/data-machine#2308.
    "Qwen3-Coder": "<tool_call>\n<function=note>\n<parameter=text>\nbuy rope\n</parameter>\n</function>\n</tool_call>",
    "without the outer tag": "\n<function=note>\n<parameter=text>\nbuy rope\n</parameter>\n</function>",
    "without closing tags": "<tool_call>\n<function=note>\n<parameter=text>\nbuy rope",
    "GLM": "<tool_call>note\n<arg_key>text</arg_key>\n<arg_value>buy rope</arg_value>\n</tool_call>",
    "Claude": '<function_calls>\n<invoke name="note">\n<parameter name="text">buy rope</parameter>\n</invoke>\n</function_calls>',
    "invoke alone": '<invoke name="note">\n<parameter name="text">buy rope</parameter>\n</invoke>',  # AppsGanin/ai-free-vscode#16
    "Claude with a namespace": '<'+'antml:function_calls><'+'antml:invoke name="note"><'+'antml:parameter name="text">buy rope</'+'antml:parameter></'+'antml:invoke></'+'antml:function_calls>',
    "MiniMax": '<minimax:tool_call>\n<invoke name="note">\n<parameter name="text">buy rope</parameter>\n</invoke>\n</minimax:tool_call>',
    "DSML": '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="note">\n<｜DSML｜parameter name="text" string="true">buy rope</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',  # Kuberwastaken/claurst#395
    "DSML with two bars": '<｜｜DSML｜｜tool_calls> <｜｜DSML｜｜invoke name="note"> <｜｜DSML｜｜parameter name="text" string="true">buy rope</｜｜DSML｜｜parameter> </｜｜DSML｜｜invoke>',  # HKUDS/Vibe-Trading#262
    "DSML with an object": '<｜DSML｜calls><｜DSML｜invoke name="note">{"text": "buy rope"}</｜DSML｜invoke></｜DSML｜calls>',  # tinyhumansai/tinyagents#151
    "DSML with arguments": '<｜DSML｜invoke name="note"><｜DSML｜parameter name="arguments" string="false">{"text": "buy rope"}</｜DSML｜parameter></｜DSML｜invoke>',
    "tags alone": "<tool_call> <note> <text>buy rope</text> </note>",  # AppsGanin/ai-free-vscode#17
    "Mistral": '[TOOL_CALLS]note{"text": "buy rope"}',
    "Mistral with ARGS": '[TOOL_CALLS]note[ARGS]{"text": "buy rope"}',
    "Llama": '<function=note>{"text": "buy rope"}</function>',
    "Kimi": '<|tool_calls_section_begin|><|tool_call_begin|>functions.note:0<|tool_call_argument_begin|>{"text": "buy rope"}<|tool_call_end|><|tool_calls_section_end|>',
    "DeepSeek V3": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>note\n```json\n{"text": "buy rope"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "DeepSeek V3.1": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>note<｜tool▁sep｜>{"text": "buy rope"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "gpt-oss": '<|channel|>commentary to=functions.note <|constrain|>json<|message|>{"text": "buy rope"}<|call|>',
    "gpt-oss with its role": '<|start|>assistant<|channel|>commentary to=functions.note<|message|>{"text": "buy rope"}<|call|>',
    "fenced": "```xml\n<function=note>\n<parameter=text>\nbuy rope\n</parameter>\n</function>\n```",
}  # fmt: skip
SCHEMAS = {
    "note": {"properties": {"text": {"type": "string"}, "times": {"type": "integer"}, "tags": {"type": "array"}}}
}


@pytest.mark.parametrize("before", ["", "I write it down.\n\n"])
@pytest.mark.parametrize("family", MARKUP)
def test_a_call_in_the_markup_of_a_family_is_read_as_a_call(family: str, before: str) -> None:
    read = read_text_calls(Answer(before + MARKUP[family]), {"note"}, SCHEMAS)
    assert (read.text, read.calls) == (before.strip(), (NOTE,))


def test_two_calls_in_markup_are_two() -> None:
    for family in ("Qwen3-Coder", "GLM", "MiniMax", "Mistral", "Llama", "Kimi"):
        assert read_text_calls(Answer(f"{MARKUP[family]}\n{MARKUP[family]}"), {"note"}, SCHEMAS).calls == (NOTE, NOTE)


def test_values_in_markup_get_the_type_of_the_schema() -> None:
    said = (
        "<function=note><parameter=text>7</parameter><parameter=times>7</parameter>"
        '<parameter=tags>["a"]</parameter><parameter=more>7</parameter></function>'
    )
    (call,) = read_text_calls(Answer(said), {"note"}, SCHEMAS).calls
    assert call.arguments == '{"text":"7","times":7,"tags":["a"],"more":"7"}'


@pytest.mark.parametrize(
    "said",
    [
        f"You could write it like this example:\n```\n{MARKUP['without the outer tag']}\n```\nShall I?",
        f"{MARKUP['Qwen3-Coder']}\nThat is how I would do it.",
        f"For example: {MARKUP['Claude']}",
        f"The format is {MARKUP['Mistral']}",
        MARKUP["GLM"].replace("note", "other"),
        MARKUP["Kimi"].replace("functions.note", "functions.other"),
        "<tool_call>note it down</tool_call>",
        "The tag <tool_call> opens a call.",
        "<function=note>as I said</function>",
    ],
)
def test_markup_that_is_talked_about_stays_text(said: str) -> None:
    answer = Answer(said)
    assert read_text_calls(answer, {"note"}, SCHEMAS) is answer


def test_real_calls_a_cut_answer_and_no_tools_leave_the_text_alone() -> None:
    with_calls = Answer(CALL, calls=(BERLIN,))
    cut = Answer(CALL, finish=Finish.LENGTH)
    assert read_text_calls(with_calls, TOOLS) is with_calls
    assert read_text_calls(cut, TOOLS) is cut
    assert read_text_calls(Answer(CALL), frozenset()).calls == ()


SCAN_CALL = '```json\n{"name": "scan", "arguments": {"sector": "b"}}\n```'


def _server(kind: str) -> WireServer:
    match kind:
        case "anthropic":
            said = anthropic_server.Text(SCAN_CALL)
            return anthropic_server.AnthropicServer(anthropic_server.Say((said,)), anthropic_server.Say((said,)))
        case "ollama":
            return ollama_server.OllamaServer(ollama_server.Say(SCAN_CALL), ollama_server.Say(SCAN_CALL))
    return openai_server.OpenAIServer(openai_server.Say(SCAN_CALL), openai_server.Say(SCAN_CALL))


@pytest.mark.parametrize("kind", ["openai", "anthropic", "ollama"])
async def test_every_wire_reads_calls_from_text_unless_its_mode_is_native(kind: str) -> None:
    async with _server(kind) as server:
        url = f"{server.url}/v1" if kind == "openai" else server.url
        automatic = provider(kind, url)
        native = provider(kind, url, tool_mode=ToolMode.NATIVE)
        asked = request(tools=(SCAN,), model="reef:1b")
        read = await ask(automatic, asked)
        kept = await ask(native, asked)
        await automatic.close()
        await native.close()
    assert (read.text, read.calls) == ("", (AnswerCall("scan", '{"sector":"b"}'),))
    assert read.are_calls_text
    assert (kept.text, kept.calls) == (SCAN_CALL, ())


async def test_a_text_call_of_a_tool_that_stands_as_a_line_is_read_too() -> None:
    async with _server("openai") as server:
        model = provider("openai", f"{server.url}/v1")
        named = await ask(
            model, request(tools=(ToolSpec("look", "Looks.", {}),), other_tools=("scan",), model="reef:1b")
        )
        unknown = await ask(model, request(tools=(ToolSpec("look", "Looks.", {}),), model="reef:1b"))
        await model.close()
    assert named.calls == (AnswerCall("scan", '{"sector":"b"}'),)
    assert (unknown.text, unknown.calls) == (SCAN_CALL, ())
