"""The strategy `window`: its sizes, its estimate, the shape of a conversation, and summaries without a model."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.case_tables import walk_cases
from tests.context.sample_histories import Asked, Recorder
from zoea.context import (
    CurrentTurn,
    FrozenTurn,
    MemoriesById,
    Need,
    NeedAnswer,
    ShownConversation,
    StoredAnswer,
    TurnSoFar,
    packs,
    plan_turn,
)
from zoea.context import plan as select
from zoea.context.units import read_units
from zoea.context.window.conversation_shape import Conversation, SummaryRange, shape_conversation, split_front
from zoea.context.window.conversation_summary import (
    RangeDigest,
    clean_prose,
    compose_summary,
    digest_all,
    join_digests,
    read_digest,
    read_prose,
    summarise,
    write_digest,
)
from zoea.context.window.prompt_context import (
    PromptContext,
    merge_contexts,
    override_turn,
    parse_pairs,
    parse_prompt_context,
    read_stored,
)
from zoea.context.window.salient_lines import LineKind, classify_line, find_words, rank_lines
from zoea.context.window.window_estimate import estimate_messages, estimate_text, is_code_heavy
from zoea.context.window.window_rules import WindowRules, choose_size
from zoea.model.errors import UsageError
from zoea.model.values import Memory
from zoea.text.estimate import tokens


def chat(messages: int, chars: int = 1000) -> Recorder:
    """A conversation of prompts and answers in turn."""
    recorder = Recorder()
    for number in range(0, messages, 2):
        recorder.open(f"prompt {number} ".ljust(chars, "p"))
        if number + 1 < messages:
            recorder.answer(f"answer {number + 1} ".ljust(chars, "a"))
    return recorder


def conversation(recorder: Recorder, rules: WindowRules) -> Conversation:
    units, _ = read_units(recorder.memories)
    opening = [memory for unit in split_front(units, rules.primers)[0] for memory in unit.memories]
    return Conversation(tuple(opening), tuple(recorder.memories[len(opening) :]))


@walk_cases(
    ("levels", "size"),
    [
        ((), 50),
        ((None, "75"), 75),
        (("many", 30), 30),
        ((3,), 5),
        (("1000",), 200),
        ((True, -4, 12.5, "9"), 9),
        ((7.0,), 7),
    ],
)
def test_the_first_usable_level_is_the_window_size(levels: tuple[object, ...], size: int) -> None:
    assert choose_size(levels) == size


def test_a_context_takes_numeric_texts_and_the_json_of_the_seed() -> None:
    read = parse_prompt_context(
        {"context": {"history_window_size": "100", "use_case_preset": "debugging", "token_budget_per_agent": 30000}}
    )
    assert read == PromptContext(100, "debugging", token_budget_per_agent=30000)
    assert read_stored(read.to_json()) == read
    assert read_stored("") == PromptContext()


def test_an_unknown_key_of_a_context_names_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        parse_prompt_context({"history_window": 5})
    assert "Did you mean history_window_size?" in raised.value.hint


@walk_cases("value", ["much", -1, True, 1.5])
def test_a_context_refuses_a_value_that_is_no_number(value: object) -> None:
    with pytest.raises(UsageError, match="primers_count"):
        parse_prompt_context({"primers_count": value})


def test_ratios_of_a_context_are_clamped() -> None:
    low, high = (
        parse_prompt_context({"compression_trigger_ratio": share, "compression_target_ratio": share})
        for share in (0, "2")
    )
    assert (low.compression_trigger_ratio, low.compression_target_ratio) == (0.1, 0.1)
    assert (high.compression_trigger_ratio, high.compression_target_ratio) == (0.95, 0.9)


@walk_cases(
    ("given", "size"),
    [
        ({}, 50),
        ({"use_case_preset": "debugging"}, 90),
        ({"use_case_preset": "debugging", "history_window_size": None}, 90),
        ({"use_case_preset": "debugging", "history_window_size": 120}, 120),
        ({"history_window_size": 1}, 5),
    ],
)
def test_the_window_of_a_turn_is_that_of_its_prompt_then_of_its_preset(given: dict[str, object], size: int) -> None:
    frozen = FrozenTurn(1, 1, 1, system="", strategy="window", window=WindowRules(debugging=90))
    found = override_turn(frozen, parse_prompt_context(given)).window
    assert found is not None
    assert found.size == size


def test_of_several_contexts_the_last_wins_and_of_budgets_the_lowest() -> None:
    first = PromptContext(history_window_size=10, primers_count=1, token_budget_per_agent=9000)
    last = PromptContext(history_window_size=20, token_budget_per_agent=12000)
    assert merge_contexts((first, last)) == PromptContext(20, primers_count=1, token_budget_per_agent=9000)


def test_code_counts_three_characters_a_token_and_ideographs_one_each() -> None:
    assert estimate_text("a" * 400) == 100
    assert is_code_heavy("```py\nx\n```")
    assert is_code_heavy("(" * 6 + "a" * 94)
    assert not is_code_heavy("(" * 5 + "a" * 95)
    assert estimate_text("if (x) { y[0] = z; }" * 6) == 40
    assert estimate_text("漢字" * 10) == 20
    assert estimate_text("") == 0


def test_a_thousand_messages_of_a_thousand_characters_cost_what_the_formula_says() -> None:
    assert estimate_messages(chat(1000).memories) == 280_500


@walk_cases(
    ("messages", "verbatim", "middle", "budget"),
    [(22, 22, 0, 8_000), (23, 23, 0, 8_000), (24, 23, 1, 8_000), (100, 25, 75, 25_000)],
)
def test_primers_and_recents_stay_and_the_rest_is_the_middle(
    messages: int, verbatim: int, middle: int, budget: int
) -> None:
    recorder, rules = chat(messages), WindowRules()
    shape = shape_conversation(rules, conversation(recorder, rules), budget=budget, overhead=0)
    assert len(shape.primers) + len(shape.recents) == verbatim
    assert len(shape.middle) == middle
    assert shape.is_due is bool(middle)


def test_a_conversation_within_window_and_trigger_stays_whole() -> None:
    recorder, rules = chat(50), WindowRules()
    shape = shape_conversation(rules, conversation(recorder, rules), budget=25_000, overhead=0)
    assert (len(shape.primers) + len(shape.recents), shape.middle, shape.summary_tokens) == (50, (), 0)


@walk_cases("size", [8, 30, 50, 200])
def test_never_more_messages_than_the_window_are_verbatim_and_they_leave_with_headroom(size: int) -> None:
    rules, memories = WindowRules(size=size), chat(400, 40).memories
    counts = []
    for messages in range(60, 400, 2):
        talk = conversation(Recorder(memories=memories[:messages]), rules)
        shape = shape_conversation(rules, talk, budget=50_000, overhead=0)
        assert shape.cause == ("window" if messages - 3 > size else "")
        counts.append(len(shape.recents))
    assert max(counts) <= size
    assert min(counts[-100:]) >= 0.7 * size - 1
    cuts = sum(later < former for former, later in zip(counts[-100:], counts[-99:], strict=False))
    assert cuts <= 200 / (0.15 * size) + 1, "they leave in steps"


@pytest.mark.parametrize(("messages", "middle"), [(20, 0), (21, 15)])
def test_up_to_twenty_messages_are_not_summarised_for_their_size(messages: int, middle: int) -> None:
    recorder, rules = chat(messages), WindowRules(primers=1, recents=4)
    shape = shape_conversation(rules, conversation(recorder, rules), budget=7_200, overhead=0)
    assert shape.whole >= 0.75 * 7_200
    assert len(shape.middle) == middle


@pytest.mark.parametrize("target", [0.375, 0.1])
def test_a_summary_takes_at_most_its_target_and_a_third_of_what_it_covers(target: float) -> None:
    recorder, rules = chat(100), WindowRules(target=target)
    shape = shape_conversation(rules, conversation(recorder, rules), budget=25_000, overhead=0)
    assert 0 < shape.summary_tokens <= min(target * 25_000, len(shape.middle) * 255 / 3)


def test_a_larger_budget_or_window_brings_summarised_messages_back_at_once() -> None:
    recorder = chat(120, 400)
    stored = SummaryRange(1, (2, 1), (50, 2), 97, 97 * 105, write_digest(RangeDigest(97)))
    for budget, size in ((50_000, 150), (40_000, 120)):
        rules = WindowRules(size=size)
        talk = replace(conversation(recorder, rules), ranges=(stored,))
        shape = shape_conversation(rules, talk, budget=budget, overhead=0)
        assert len(shape.primers) + len(shape.recents) == 120
        assert (shape.ranges, shape.summary_tokens) == ((), 0)
        small = shape_conversation(rules, talk, budget=1_000, overhead=0)
        assert len(small.recents) < 10
        assert small.ranges == (stored,)


def test_where_the_text_of_a_summary_is_short_more_messages_stay() -> None:
    rules = WindowRules()
    talk = conversation(chat(200), rules)
    shapes = [
        shape_conversation(rules, talk, budget=50_000, overhead=0, summary_tokens=tokens) for tokens in (None, 180)
    ]
    assert [len(shape.recents) for shape in shapes][1] > len(shapes[0].recents) >= 20


def test_kept_messages_take_at_most_a_fifth_of_the_budget_the_newest_first() -> None:
    marked = tuple(chat(8).memories)
    shape = shape_conversation(WindowRules(), Conversation(marked=marked), budget=5 * 5 * 255, overhead=0)
    assert shape.marked == marked[-5:]
    assert shape.steps == ("3 kept messages are left to the summary: kept ones have a fifth of the budget",)


def test_a_kept_message_that_is_shown_anyway_is_not_left_to_the_summary() -> None:
    talk, rules = chat(6, 4000), WindowRules()
    for place, is_left in ((0, True), (4, False)):
        kept = replace(conversation(talk, rules), marked=tuple(talk.memories[place : place + 1]))
        steps = " ".join(shape_conversation(rules, kept, budget=4_500, overhead=0).steps)
        assert ("1 kept message is left to the summary" in steps) is is_left, steps


def test_a_cut_never_splits_a_slice() -> None:
    recorder = Recorder()
    for number in range(30):
        recorder.open(f"prompt {number}")
        answer = recorder.answer("", Asked("look"), Asked("act"))
        recorder.result(answer, 0, "r" * 900)
        recorder.result(answer, 1, "r" * 900)
        recorder.answer("done")
    rules = WindowRules(primers=3, recents=20)
    shape = shape_conversation(rules, conversation(recorder, rules), budget=12_000, overhead=0)
    assert len(shape.primers) == 4
    for part in (shape.primers, shape.middle, shape.recents):
        units, omitted = read_units(part)
        assert not omitted
        assert sum(len(unit.memories) for unit in units) == len(part)


def test_what_is_given_up_to_fit_is_reported_in_order() -> None:
    recorder = Recorder().open("begin")
    for _ in range(15):
        recorder.slice("look", "r" * 6000)
    rules = WindowRules()
    shape = shape_conversation(rules, conversation(recorder, rules), budget=3_000, overhead=500)
    assert [step.split()[1] for step in shape.steps[:2]] == ["long", "recent"]
    assert len(shape.recents) >= 4
    assert shape.tokens <= 3_000


def test_a_further_summary_is_written_when_a_hundred_messages_wait_for_one() -> None:
    rules = WindowRules()
    due = []
    first = SummaryRange(1, (2, 1), (30, 2), 57, 57 * 255, write_digest(RangeDigest(57)))
    for messages in range(80, 240, 2):
        talk = replace(conversation(chat(messages), rules), ranges=(first,))
        shape = shape_conversation(rules, talk, budget=25_000, overhead=0)
        if shape.is_due:
            due.append(len(shape.middle))
    assert due[0] in range(100, 110)
    assert all(later >= former for former, later in pairwise(due))


@walk_cases(
    ("text", "kind"),
    [
        ("We decided to use PostgreSQL.", LineKind.DECISION),
        ("Never push to main.", LineKind.CONSTRAINT),
        ("ConnectionResetError: peer went away", LineKind.ERROR),
        ("Die Verbindung ist fehlgeschlagen", LineKind.ERROR),
        ("必须在周五前完成", LineKind.CONSTRAINT),
        ("The run is dep-7f3a91", LineKind.IDENTIFIER),
        ("Look at /etc/hosts", LineKind.IDENTIFIER),
        ("工单OPS-20931已创建", LineKind.IDENTIFIER),
        ("变量DB_HOST要设", LineKind.IDENTIFIER),
        ("文件config.toml已改", LineKind.IDENTIFIER),
        ("That was a pleasant walk", LineKind.OTHER),
    ],
)
def test_a_line_has_its_most_important_kind(text: str, kind: LineKind) -> None:
    assert classify_line(text) is kind


def kept(text: str) -> list[str]:
    """The lines that a summary keeps word for word, without turn and origin."""
    return [line.partition(": ")[2] for line in text.splitlines() if line.startswith("- ")]


def test_a_digest_can_be_stored_and_read_back() -> None:
    recorder = Recorder().open("We decided to use port 8443: at noon. It rains.")
    recorder.slice("build", "line 1\nValueError: bad ore")
    (digest,) = digest_all(recorder.memories)
    whole = replace(digest, prose="They decided.", failure="no answer within 30 s")
    read = read_digest(write_digest(whole), digest.messages)
    assert [(one.place, one.origin, one.text) for one in read.lines] == [
        (one.place, one.origin, one.text) for one in whole.lines
    ]
    assert (read.prose, read.failure, read.whole) == (whole.prose, whole.failure, whole.whole)


def test_a_summary_that_an_older_release_stored_is_read() -> None:
    text = (
        "They met.\nKept word for word:\n- turn 3, said: It rained.\n- turn 4, decision: We use port 8443.\n"
        "(12 less important lines are left out; the search tools find them)"
    )
    digest = read_digest(text, 40)
    assert (digest.prose, digest.whole, digest.messages) == ("They met.", 14, 40)
    composed = compose_summary([digest], 60)
    assert "We use port 8443." in composed.text
    assert composed.kept + composed.left_out == 14


def test_errors_of_results_are_kept_with_the_name_of_the_tool() -> None:
    recorder = Recorder().open("go")
    recorder.slice("build", "line 1\nValueError: bad ore\nline 3" + " of the log" * 90, is_error=True)
    assert re.search(r"^- \d+ build: .*ValueError: bad ore", summarise(recorder.memories, 400), re.MULTILINE)


def test_early_facts_survive_everything_that_is_said_after_them() -> None:
    recorder = Recorder().open("We decided to use port 8443 for the gateway.")
    recorder.answer("Greta from the night shift keeps the old importer out of it.")
    for number in range(600):
        recorder.open(f"Request {number} must be tried again after {number * 7} ms, error {number}.")
        recorder.answer(f"I had a look at part {number} again, and it failed in run {number * 3} as usual.")
    composed = compose_summary(digest_all(recorder.memories), 700)
    assert "We decided to use port 8443 for the gateway." in composed.text
    assert "Greta from the night shift" in composed.text
    assert composed.kept + composed.left_out == sum(one.whole for one in digest_all(recorder.memories))


def test_equal_texts_count_once() -> None:
    recorder = Recorder()
    for _ in range(150):
        recorder.open("Keep the gateway on port 8443.")
        recorder.answer("Noted.")
    assert summarise(recorder.memories, 2_000).count("8443") <= 3, "once in each range"


def test_ranges_that_are_joined_keep_lines_of_each() -> None:
    recorder = Recorder()
    for number in range(150):
        recorder.open(f"Sector {number} belongs to captain {'abcdefghij'[number % 10] * 4}{number}.")
        recorder.answer(f"Answer {number}.")
    digests = digest_all(recorder.memories)
    joined = join_digests(digests)
    assert joined.messages == 300
    assert {line.turn // 50 for line in joined.lines[:30]} >= {0, 1, 2}


def test_words_of_scripts_without_spaces_are_pairs_of_characters() -> None:
    assert find_words("port 8443 已经创建") == ("port", "8443", "已经", "经创", "创建")


def test_a_rare_chinese_clause_weighs_more_than_one_that_is_said_often() -> None:
    recorder = Recorder()
    for number in range(20):
        recorder.open("好的，我们继续看下一部分吧。今天的天气不错。" if number != 7 else "钥匙在老黄牛下面的抽屉里。")
        recorder.answer("没有问题，我继续看。")
    assert rank_lines(recorder.memories)[0].text == "钥匙在老黄牛下面的抽屉里。"


def test_lines_with_numbers_are_not_alike_because_their_script_has_no_spaces() -> None:
    numbered = [
        "东门的备用钥匙编号是5521。", "老周订了37张去成都的车票。", "图书馆周六8点才开门。", "冷库温度要保持零下18度。",
        "王阿姨家的门牌是204。", "这批布料一共61卷。", "渡轮下午4点半离港。", "孩子们每人领到2本练习册。",
        "面包房今天卖出390个牛角包。", "屋顶需要换掉15块瓦。",
    ]  # fmt: skip
    recorder = Recorder()
    for text in [*numbered, "她把雨伞忘在出租车上了。"]:
        recorder.open(text)
    ranked = [line.text for line in rank_lines(recorder.memories)]
    assert ranked.index(numbered[0]) < ranked.index("她把雨伞忘在出租车上了。")


def test_a_line_is_as_new_as_the_other_lines_of_its_script_are() -> None:
    recorder = Recorder()
    characters = [chr(0x4E00 + place) for place in range(3_000)]
    for number in range(100):
        recorder.open("".join(characters[number * 30 : number * 30 + 30]) + "。")
        recorder.answer(f"Then we go on with part {number} of the plan as we did with the last one.")
    recorder.open("Please send the porters through the gate at the side, not the big one, as we did last time.")
    assert rank_lines(recorder.memories)[0].text.startswith("Please send the porters")


@pytest.mark.parametrize("words", ["red foxes run north", "blue goats run south"])
def test_a_line_that_is_said_again_is_as_new_as_its_words_are_side_by_side(words: str) -> None:
    recorder = Recorder()
    other = "blue goats run south" if words.startswith("red") else "red foxes run north"
    backwards = " ".join(reversed(words.split()))
    for text in (words, other, backwards, f"now {other}", words, other):
        recorder.open(text.capitalize() + ".")
    before, memories = recorder.memories[:-2], recorder.memories[-2:]
    assert rank_lines(memories, before)[0].text == words.capitalize() + "."


@pytest.mark.parametrize("fact", ["仓库的备用钥匙和旧图纸编号是5521。", "讨论之后大家说好以后改用纸质的登记表。"])
def test_a_sign_that_few_lines_of_a_script_have_weighs_more_there(fact: str) -> None:
    recorder = Recorder()
    characters = [chr(0x4E00 + place) for place in range(3_000)]
    for number in range(100):
        recorder.open("".join(characters[number * 30 : number * 30 + 30]) + "。")
        recorder.answer(fact if number == 40 else f"I did part {number} as we said.")
    assert rank_lines(recorder.memories)[0].text == fact


def test_a_summary_takes_the_room_that_it_may_take() -> None:
    recorder = Recorder()
    for number in range(150):
        recorder.open(f"Sector {number} belongs to captain {'abcdefghij'[number % 10] * 4}{number}.")
        recorder.answer(f"Captain {number} of sector {number * 3} was told.")
    text = summarise(recorder.memories, 800)
    assert 790 <= estimate_text(text) <= 800
    assert re.search(r"^- \d+: Sector", text, re.MULTILINE), "of a person, who needs no name"
    assert re.search(r"^- \d+ answer: Captain", text, re.MULTILINE)


def test_prose_without_spaces_says_a_line_whose_words_it_holds() -> None:
    recorder = Recorder().open("数据库改用PostgreSQL。")
    assert kept(summarise(recorder.memories, 400, prose="他们决定数据库改用PostgreSQL，下周开始。")) == []


PORTERS = "Ostrava sends the porters through the side gate."


@walk_cases(
    ("fact", "is_result"),
    [(PORTERS, True), ("门禁的钥匙在老黄牛下面的抽屉里。", True), ("门禁的钥匙在老黄牛下面的抽屉里。", False)],
)
def test_a_fact_in_the_middle_of_a_long_message_is_kept(fact: str, is_result: bool) -> None:
    recorder = Recorder()
    for number in range(50):
        talk = [
            f"Error {number * 10 + other} was denied in build step {other}, so must be read." for other in range(12)
        ]
        if number == 20:
            talk.insert(6, fact)
        recorder.open("go on" if is_result else " ".join(talk))
        if is_result:
            recorder.slice("look", "\n".join(talk))
        recorder.answer("I did.")
    assert rank_lines(recorder.memories)[0].text == fact


def test_what_was_said_often_before_a_range_is_worn_in_it() -> None:
    older, newer = Recorder(), Recorder()
    for _ in range(30):
        older.open("Greta waters the plants of the foyer on Mondays.")
    newer.open("Greta waters the plants in the foyer on Mondays.")
    newer.open("Otto waters the trees of the yard on Fridays.")
    assert rank_lines(newer.memories, older.memories)[0].text.startswith("Otto")


def test_what_a_model_lost_is_appended_to_its_prose() -> None:
    recorder = Recorder().open("We decided to use port 8443. Never restart node n-17 by day. It rains.")
    text = summarise(recorder.memories, 400, prose="They decided to use port 8443 after a talk about rain.")
    assert read_prose(text) == "They decided to use port 8443 after a talk about rain."
    assert kept(text) == ["Never restart node n-17 by day. It rains."]


def test_prose_without_its_repetitions_and_the_labels_of_its_source() -> None:
    prose = "They met. They met.\n[turn 3, prompt]\nThey met.\n- 12 prompt: go on\nThe port is 8443."
    assert clean_prose(prose) == "They met.\ngo on\nThe port is 8443."


def test_redaction_wins_over_the_lines_that_are_kept() -> None:
    recorder = Recorder().open("Never share sk-abc123DEF456ghi789JKL with joe@example.org, decided on 2026-11-22.")
    text = summarise(recorder.memories, 400, prose="The key is sk-abc123DEF456ghi789JKL.")
    assert "sk-abc" not in text
    assert "joe@" not in text
    assert "2026-11-22" in text


def test_facts_are_kept_among_hundreds_of_log_lines_that_look_like_facts() -> None:
    recorder = Recorder().open("We decided to use port 8443 for the gateway.")
    recorder.answer(
        "\n".join(f"ERROR: request {number} must be tried again after {number * 7} ms" for number in range(400))
    )
    recorder.answer("The deployment is bil-4f2a91.")
    recorder.answer(
        "\n".join(f"ERROR: request {number} must be tried again after {number * 9} ms" for number in range(400))
    )
    text = summarise(recorder.memories, 400)
    assert "We decided to use port 8443 for the gateway." in text
    assert "The deployment is bil-4f2a91." in text
    assert "ERROR: request 399 must be tried again after 3591 ms" in text


@given(st.lists(st.text(max_size=300), max_size=12), st.integers(64, 600), st.text(max_size=400))
def test_a_summary_is_never_longer_than_it_may_be(texts: list[str], limit: int, prose: str) -> None:
    recorder = Recorder().open("begin")
    for text in texts:
        recorder.answer(text)
    text = summarise(recorder.memories, limit, prose=prose)
    assert tokens(text) <= limit
    assert summarise(recorder.memories, limit, prose=prose) == text


@st.composite
def talks(draw: st.DrawFn) -> Recorder:
    """A conversation with slices of any size."""
    recorder = Recorder()
    for number in range(draw(st.integers(1, 40))):
        recorder.open(f"prompt {number} " * draw(st.sampled_from((1, 30, 200))))
        for _ in range(draw(st.integers(0, 2))):
            recorder.slice("look", "result " * draw(st.sampled_from((1, 100, 2000))), is_error=draw(st.booleans()))
        if draw(st.booleans()):
            recorder.answer("answer " * draw(st.sampled_from((1, 50))))
    recorder.open("and now?")
    return recorder


@given(
    talks(),
    st.integers(2_000, 40_000),
    st.builds(
        WindowRules,
        st.integers(5, 60),
        st.integers(0, 12),
        st.integers(0, 30),
        st.floats(0.1, 0.95),
        st.floats(0.1, 0.9),
    ),
)
def test_a_plan_keeps_its_budget_its_order_and_its_bytes_and_loses_no_message(
    recorder: Recorder, budget: int, rules: WindowRules
) -> None:
    own = recorder.own()
    past = Recorder(memories=[memory for memory in recorder.memories if memory not in own])
    talk = conversation(past, rules)
    shape = shape_conversation(rules, talk, budget=budget, overhead=50)
    whole = [*shape.primers, *shape.middle, *shape.recents]
    assert sorted(memory.id for memory in whole) == [memory.id for memory in past.memories]

    before = past.memories[-1].id if past.memories else 0
    frozen = FrozenTurn(1, 2, 99, strategy="window", system="s", before=before, max_tokens=budget)
    answers = _answers(frozen, recorder, shape.primers, shape.recents, shape.elided, summarise(shape.middle, 200))
    plan = plan_turn(frozen, answers)
    assert plan.budget.over_budget_tokens == 0
    assert [one.id for one in plan.decisions] == [
        "system",
        "primers",
        "summary",
        "recents",
        "situation",
        "turn",
        "tools",
    ]
    shown = [message.memory_id for message in plan.messages if message.memory_id is not None]
    assert shown == sorted(shown)
    assert select(packs(frozen, answers), turn=CurrentTurn(frozen, answers)) == plan


def test_where_not_even_the_fewest_messages_fit_the_last_exchange_is_shown() -> None:
    recorder = Recorder()
    for number in range(6):
        recorder.open(f"prompt {number} " + "word " * 60)
        recorder.answer(f"answer {number} " + "word " * 60)
    before = recorder.memories[-1].id
    recorder.open("And now?")
    frozen = FrozenTurn(1, recorder.memories[-1].turn_id, 7, strategy="window", system="s", before=before)
    frozen = replace(frozen, max_tokens=300)
    answers = _answers(frozen, recorder, (), tuple(recorder.memories[8:12]), frozenset(), "A summary.")
    texts = [message.content for message in plan_turn(frozen, answers).messages]
    assert [one.split(" word")[0] for one in texts if "word" in one] == ["prompt 5", "answer 5"]


def _answers(
    frozen: FrozenTurn,
    recorder: Recorder,
    primers: tuple[Memory, ...],
    recents: tuple[Memory, ...],
    elided: frozenset[int],
    summary: str,
) -> dict[Need, NeedAnswer]:
    made: dict[Need, NeedAnswer] = {TurnSoFar(frozen.turn_id): recorder.record()}
    if frozen.before:
        ids = tuple(memory.id for memory in (*primers, *recents))
        view = {
            "primers": [memory.id for memory in primers],
            "recents": [memory.id for memory in recents],
            "elided": sorted(elided),
            "summary": summary,
            "steps": [],
        }
        made[ShownConversation(frozen.before)] = StoredAnswer.of(view)
        made[MemoriesById(ids)] = (*primers, *recents)
    return made


def test_the_command_line_reads_the_json_of_the_seed_as_it_stands() -> None:
    seed = """{
  "context": {
    "history_window_size": 100,           // Custom window size
    "use_case_preset": "debugging",       // Use debugging preset
    "token_budget_per_agent": 30000      // Custom agent budget
  }
}"""
    expected = PromptContext(100, "debugging", token_budget_per_agent=30000)
    assert parse_prompt_context(parse_pairs([seed])) == expected
    assert parse_prompt_context(parse_pairs([seed, "history_window_size=30"])) == replace(
        expected, history_window_size=30
    )
    assert parse_pairs(['{"use_case_preset": "// no comment"}']) == {"use_case_preset": "// no comment"}
    with pytest.raises(UsageError, match="is no JSON object"):
        parse_pairs(['{"history_window_size": }'])


def test_what_the_seed_of_shannon_sends_is_taken() -> None:
    given = {"context": {"force_p2p": True, "use_case_preset": "DEBUGGING", "token_budget_per_agent": "30000"}}
    word = "force_p2p is ignored: myses always write to each other directly."
    assert parse_prompt_context(given) == PromptContext(
        use_case_preset="debugging", token_budget_per_agent=30_000, ignored=(word,)
    )
    assert parse_prompt_context({"force_p2p": True}).to_json() == ""
