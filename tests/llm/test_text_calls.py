"""Calls that a model wrote as text: what is read as a call, and what stays text."""

# ruff: noqa: E501  what a model writes stands on one line

from __future__ import annotations

import json
import time

import pytest
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.fakes import anthropic_server, ollama_server, openai_server
from tests.fakes.wire_server import WireServer
from tests.llm.sample_requests import SCAN, provider, request
from tests.llm.sample_requests import answer as ask
from zoea.llm.messages.text_calls import MAX_PREAMBLE, MAX_TEXT, read_names, read_text_calls
from zoea.model.enums import Finish, ToolMode
from zoea.model.request import Answer, AnswerCall, ToolSpec

TOOLS = frozenset({"get_time", "zoea_wait", "send"})
BERLIN = AnswerCall("get_time", '{"city":"Berlin"}')
PARIS = AnswerCall("get_time", '{"city":"Paris"}')
CALL = '{"name": "get_time", "arguments": {"city": "Berlin"}}'
SECOND = '{"name": "get_time", "arguments": {"city": "Paris"}}'


@walk_cases(
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


@walk_cases("said", NO_CALLS)
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
    "LFM2": '<|tool_call_start|>[note(text="buy rope")]<|tool_call_end|>',  # lmstudio-ai/lmstudio-bug-tracker#1979, ml-explore/mlx-lm#864
    "LFM2 JSON": '<|tool_call_start|>[{"name": "note", "arguments": {"text": "buy rope"}}]<|tool_call_end|>',
    "FunctionGemma": '<start_function_call>call:note{text:<escape>buy rope<escape>}<end_function_call>',  # docker/model-runner#1045
    "Gemma 4": '<|tool_call>call:note{text:<|"|>buy rope<|"|>}<tool_call|>',  # jundot/omlx#581, NousResearch/hermes-agent#7449
    "Gemma 4 quotes": '<|tool_call>call:note{text:"buy rope"}<tool_call|>',
    "Gemma 4 round": '<|tool_call>call:note(text: "buy rope")<tool_call|>',
    "Gemma 3": "```tool_code\nprint(default_api.note(text='buy rope'))\n```",
    "Gemma 3b": "```tool_code\nnote(text='buy rope')\n```",
    "OLMo 3": '<function_calls>\nnote(text="buy rope")\n</function_calls>',  # vllm-project/vllm, olmo3_tool_parser.py
    "Llama 4 tok": '<|python_start|>[note(text="buy rope")]<|python_end|>',
    "Phi 4 mini": 'functools[{"name": "note", "arguments": {"text": "buy rope"}}]',  # vllm-project/vllm, phi4mini_tool_parser.py
    "Phi 4": '<|tool_call|>[{"name": "note", "arguments": {"text": "buy rope"}}]<|/tool_call|>',
    "Nemotron": '<TOOLCALL>[{"name": "note", "arguments": {"text": "buy rope"}}]</TOOLCALL>',
    "InternLM": '<|action_start|><|plugin|>{"name": "note", "parameters": {"text": "buy rope"}}<|action_end|>',
    "Granite": '<|tool_call|>[{"name": "note", "arguments": {"text": "buy rope"}}]',  # vllm-project/vllm, granite_tool_parser.py
    "Granite 20b": '<function_call> {"name": "note", "arguments": {"text": "buy rope"}}',
    "Apertus": '<|tools_prefix|>[{"note": {"text": "buy rope"}}]<|tools_suffix|>',  # sgl-project/sglang, apertus2509_detector.py
    "Solar": '<|tool_call:start|>note\n<|tool_arg:start|>text<|tool_arg:value|>buy rope<|tool_arg:end|>\n<|tool_call:end|>',  # vllm-project/vllm, solar_open2_tool_parser.py
    "Kimi K3": '<|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="note" index="1"<|sep|><|open|>argument key="text" type="string"<|sep|>buy rope<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',  # ggml-org/llama.cpp, models/templates/Kimi-K3.jinja
    "Kimi K3 json": '<|open|>tools<|sep|><|open|>call tool="note" index="1"<|sep|><|open|>json type="object"<|sep|>{"text": "buy rope"}<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
    "Step 3": '<｜tool_calls_begin｜>\n<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="note">\n<steptml:parameter name="text">buy rope</steptml:parameter>\n</steptml:invoke><｜tool_call_end｜>\n<｜tool_calls_end｜>',  # sgl-project/sglang, step3_detector.py
    "MiniMax M3": ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="note">]<]minimax[>[<text>buy rope]<]minimax[>[</text>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>',  # sgl-project/sglang, minimax_m3.py
    "tool_use": '<tool_use>\n<name>note</name>\n<arguments>{"text": "buy rope"}</arguments>\n</tool_use>',
    "tool_use tags": '<tool_use>\n<name>note</name>\n<parameters>\n<text>buy rope</text>\n</parameters>\n</tool_use>',
    "harmony to first": '<|start|>assistant to=functions.note<|channel|>commentary json<|message|>{"text": "buy rope"}<|call|>',
    "harmony code": '<|channel|>commentary to=functions.note code<|message|>{"text": "buy rope"}<|call|>',
    "harmony analysis": '<|channel|>analysis<|message|>I should not forget.<|end|><|start|>assistant<|channel|>commentary to=functions.note <|constrain|>json<|message|>{"text": "buy rope"}<|call|>',
    "LongCat": '<longcat_tool_call>{"name": "note", "arguments": {"text": "buy rope"}}</longcat_tool_call>',
    "Gemma 3n": '<tool_call>\n{"name": "note", "args": {"text": "buy rope"}}\n</tool_call>',  # ollama/ollama#18357
    "Nemotron mini": '<toolcall> {"type": "function", "arguments": {"text": "buy rope"}, "name": "note"} </toolcall>',  # ollama/ollama#8287
    "DeepSeek at Ollama": '<function_calls>\n<invoke name="note">\n<parameter name="text" string="true">buy rope</parameter>\n</invoke>\n</function_calls>',  # NousResearch/hermes-agent#8965
    "GigaChat": '<tool_calls> <invoke name="note"> <parameter name="text" string="true">buy rope</parameter> </invoke> </tool_calls>',  # skalesapp/skales#256
    "wrapper misspelt": '<tvoe_calls><invoke name="note"><parameter name="text">buy rope</parameter></invoke></tvoe_calls>',  # use-agent-os/agent-os#1624
    "GLM with the end of its turn": "<tool_call>note\n<arg_key>text</arg_key>\n<arg_value>buy rope</arg_value>\n</tool_call><|observation|>",  # vllm-project/vllm#58315
    "Hermes with the end of its turn": '<tool_call>\n{"name": "note", "arguments": {"text": "buy rope"}}\n</tool_call><|im_end|>',  # vllm-project/vllm#46875
    "Llama with the end of its turn": '<|python_tag|>{"name": "note", "parameters": {"text": "buy rope"}}<|eom_id|>',
    "Kimi K3 at Cursor": '<|open|>toolscall tool="note" index="1"<|sep|><|open|>argument key="text" type="string"<|sep|>buy rope<|close|>argument<|sep|><|close|>call<|sep|><|close|>toolsmessage<|sep|>',  # can1357/oh-my-pi#8495
    "Kimi without functions": '<|tool_calls_section_begin|><|tool_call_begin|>note:0<|tool_call_argument_begin|>{"text": "buy rope"}<|tool_call_end|><|tool_calls_section_end|>',
    "as a client tells it": '[Calling tool: note with arguments: {"text": "buy rope"}]',  # NousResearch/hermes-agent#27834
    "function with a name": '<tool_call><function><name>note</name><arguments>{"text": "buy rope"}</arguments></function></tool_call>',  # adolfousier/opencrabs#1260
    "function with an attribute": '<function name="note"><parameter name="text">buy rope</parameter></function>',
    "tool_call with an attribute": '<tool_call name="note">{"text": "buy rope"}</tool_call>',
    "action": '{"action": "note", "action_input": {"text": "buy rope"}}',
    "tool_calls": '{"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "note", "arguments": "{\\"text\\": \\"buy rope\\"}"}}]}',
    "Command R": 'Action: ```json\n[\n    {\n        "tool_name": "note",\n        "parameters": {"text": "buy rope"}\n    }\n]\n```',
    "fenced": "```xml\n<function=note>\n<parameter=text>\nbuy rope\n</parameter>\n</function>\n```",
}  # fmt: skip
SCHEMAS = {
    "note": {"properties": {"text": {"type": "string"}, "times": {"type": "integer"}, "tags": {"type": "array"}}}
}


@walk_cases("before", ["", "I write it down.\n\n"])
@walk_cases("family", MARKUP)
def test_a_call_in_the_markup_of_a_family_is_read_as_a_call(family: str, before: str) -> None:
    read = read_text_calls(Answer(before + MARKUP[family]), {"note"}, SCHEMAS)
    assert (read.text, read.calls) == (before.strip(), (NOTE,))


def test_a_missing_end_between_two_calls_costs_neither() -> None:  # ggml-org/llama.cpp#12153
    one = '<tool_call>\n{"name": "note", "arguments": {"text": "buy rope"}}\n'
    assert read_text_calls(Answer(f"{one}{one}</tool_call>"), {"note"}, SCHEMAS).calls == (NOTE, NOTE)


@walk_cases(
    "said",
    [
        "note<|channel|>commentary",  # vllm-project/vllm#32587, pydantic/pydantic-ai#7143
        "functions.note",  # tontinton/maki#518
        "default_api:note",  # QwenLM/qwen-code#1187
    ],
)
def test_a_name_gets_rid_of_what_a_template_adds(said: str) -> None:
    assert read_names(Answer("", calls=(replace(NOTE, name=said),)), {"note"}).calls == (NOTE,)
    for tools in ({"other"}, {said, "note"}):
        answer = Answer("", calls=(replace(NOTE, name=said),))
        assert read_names(answer, tools) is answer


def test_what_gpt_oss_says_before_its_call_stays_text() -> None:
    said = (
        "<|channel|>analysis<|message|>I should not forget.<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>I write it down.<|end|>"
        '<|start|>assistant<|channel|>commentary to=functions.note <|constrain|>json<|message|>{"text": "buy rope"}<|call|>'
    )
    read = read_text_calls(Answer(said), {"note"}, SCHEMAS)
    assert (read.text, read.calls) == ("I write it down.", (NOTE,))


@pytest.mark.parametrize("after", ["", "\nObservation: done\nAnswer: I wrote it down."])  # run-llama/llama_index#12865
def test_an_action_of_react_is_a_call_and_what_it_invents_is_left_out(after: str) -> None:
    said = 'Thought: I should note it.\nAction: note\nAction Input: {"text": "buy rope"}'
    read = read_text_calls(Answer(said + after), {"note"}, SCHEMAS)
    assert (read.text, read.calls) == ("Thought: I should note it.", (NOTE,))


def test_a_bare_list_of_python_is_a_call_only_if_it_is_the_whole_answer() -> None:  # Llama 4
    said = '[note(text="buy rope")]'
    assert read_text_calls(Answer(said), {"note"}, SCHEMAS).calls == (NOTE,)
    for longer in (f"I write it down.\n{said}", f"{said}\nDone."):
        assert read_text_calls(Answer(longer), {"note"}, SCHEMAS).calls == ()


def test_two_calls_in_one_list_of_python_are_two() -> None:
    said = '<|tool_call_start|>[note(text="a", times=2), note(text=\'b\', tags=["x"], more=true)]<|tool_call_end|>'
    calls = read_text_calls(Answer(said), {"note"}, SCHEMAS).calls
    assert [call.arguments for call in calls] == ['{"text":"a","times":2}', '{"text":"b","tags":["x"],"more":true}']


def test_values_of_gemma_keep_their_types() -> None:
    said = '<|tool_call>call:note{text:<|"|>a, {b}: "c"<|"|>,times:2,tags:[<|"|>x<|"|>],deep:{yes:true,word:bare}}<tool_call|>'
    (call,) = read_text_calls(Answer(said), {"note"}, SCHEMAS).calls
    assert json.loads(call.arguments) == {
        "text": 'a, {b}: "c"', "times": 2, "tags": ["x"], "deep": {"yes": True, "word": "bare"},
    }  # fmt: skip


@walk_cases(
    "begin",
    ["<|tool_call_start|>[a", "<|tools_prefix|>[", "<start_function_call>call:a{", "<function_calls>a", "```tool_code\na",
     "<arg_key>a</arg_key><arg_value>", "<|channel|>analysis<|message|>", "Action: a\nAction Input: {", "[a(",
     "<|python_start|>[a(", "<a>", "{'"],
)  # fmt: skip
def test_beginnings_without_an_end_take_no_time(begin: str) -> None:
    answer, started = Answer(begin * (MAX_TEXT // len(begin) - 1)), time.process_time()
    assert read_text_calls(answer, {"note"}, SCHEMAS) is answer
    assert time.process_time() - started < 2  # seconds of CPU; looking through the text for each takes many more
    answer, started = Answer("<function=note>" + answer.text[:60_000]), time.process_time()
    read_text_calls(answer, {"note"}, SCHEMAS)
    assert time.process_time() - started < 2


def test_two_calls_in_markup_are_two() -> None:
    for family in ("Qwen3-Coder", "GLM", "MiniMax", "Mistral", "Llama", "Kimi", "Solar", "Kimi K3", "FunctionGemma"):
        assert read_text_calls(Answer(f"{MARKUP[family]}\n{MARKUP[family]}"), {"note"}, SCHEMAS).calls == (NOTE, NOTE)


def test_values_in_markup_get_the_type_of_the_schema() -> None:
    said = (
        "<function=note><parameter=text>7</parameter><parameter=times>7</parameter>"
        '<parameter=tags>["a"]</parameter><parameter=more>7</parameter></function>'
    )
    (call,) = read_text_calls(Answer(said), {"note"}, SCHEMAS).calls
    assert call.arguments == '{"text":"7","times":7,"tags":["a"],"more":"7"}'


@walk_cases(
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
        'LFM2 writes `<|tool_call_start|>[note(text="x")]<|tool_call_end|>` for that.',
        '> <function=note>{"text": "x"}</function>',
        '- <function=note>{"text": "x"}</function>',
        '"<function=note>{"text": "x"}</function>"',
        'For example:\nAction: note\nAction Input: {"text": "x"}',
        "The Action: line names the tool, Action Input: its object.",
        "```tool_code\nx = note(text='a')\n```",
        "```tool_code\nnote('a')\n```",
        "[1, 2]",
        "[note]",
        '[note(text=open("x"))]',
        '```python\nnote(text="a")\n```',
        'Use it as in\n```tool_code\nnote(text="a")\n```\nwhen you need it.',
        "Write <start_function_call>call:note{text:<escape>x<escape>}<end_function_call> to note it.",
        "<tool_use> is a tag of Claude.",
        "<|tools_prefix|>[1]<|tools_suffix|>",
        '<|tools_prefix|>[{"other": {"text": "x"}}]<|tools_suffix|>',
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


@walk_cases("kind", ["openai", "anthropic", "ollama"])
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
