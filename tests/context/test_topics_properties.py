"""The strategy `topics` for random ledgers, sources, turns and budgets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.context.sample_histories import Story, check_all, stories, texts
from tests.context.test_properties import LIMITS
from zoea.context import (
    CriteriaHints,
    Decision,
    FrozenTurn,
    OutsideNeed,
    PackStatus,
    Plan,
    Priority,
    SourceMessages,
    StoredAnswer,
    TopicRules,
    Variant,
    plan_turn,
    request_limit,
    request_tokens,
)
from zoea.context.measure import message_chars
from zoea.context.topics.agent_texts import write_ending, write_opening
from zoea.context.topics.skip_hints import skip_hints
from zoea.context.topics.topic_block import LedgerPositions, render_topic, select_messages
from zoea.context.topics.topic_rules import read_source, write_source
from zoea.model.enums import Role
from zoea.model.errors import PlanError
from zoea.model.topics import TopicMessage
from zoea.settings.topic_source import TopicSource

TOPICS = ("ISSUE_OPENED", "STATE_SNAPSHOT", "VALIDATION_RESULT", "WORKER_PROGRESS")
CRITERIA = {"criteria_results": [{"id": "A1", "status": "CANNOT_VALIDATE", "reason": "no network"}]}
SCHEMA = {"type": "object", "required": ["summary"]}

MESSAGES = st.builds(
    TopicMessage,
    st.just(0),
    st.just(0),
    st.sampled_from(TOPICS),
    st.sampled_from(("ann", "bob")),
    texts(4000),
    st.sampled_from((None, CRITERIA)),
    created_at=st.integers(0, 10**15),
    is_raw=st.sampled_from((False, False, True)),
)
LEDGERS = st.lists(MESSAGES, max_size=8).map(
    lambda found: tuple(replace(one, id=place) for place, one in enumerate(found, start=1))
)
SOURCES = st.builds(
    TopicSource,
    topic=st.sampled_from(TOPICS),
    sender=st.sampled_from((None, None, "ann")),
    since=st.sampled_from((None, "last_task_end", "last_agent_start", "cluster_start")),
    strategy=st.sampled_from((None, "latest", "oldest", "all")),
    amount=st.sampled_from((None, 1, 3)),
    priority=st.sampled_from((None, "required", "high", "medium", "low")),
    compact_amount=st.sampled_from((1, 2)),
)


@st.composite
def topic_turns(draw: st.DrawFn, *, longest: int = 8000) -> tuple[Story, FrozenTurn]:
    """Draw a history with an open turn, a ledger, and what the turn froze."""
    story, ledger = draw(stories(longest=longest, max_events=4)), draw(LEDGERS)

    def read(need: OutsideNeed) -> StoredAnswer:
        if isinstance(need, CriteriaHints):
            return StoredAnswer.of(list(skip_hints(ledger)))
        assert isinstance(need, SourceMessages)
        source = read_source(need.source)
        positions = LedgerPositions(need.last_task_end, need.last_agent_start)
        full, compact = (
            render_topic(source.topic, select_messages(ledger, source, positions, is_compact=is_compact))
            for is_compact in (False, True)
        )
        return StoredAnswer.of({"full": full, "compact": compact, "messages": 0})

    story.recorder.outside = read
    role = draw(st.sampled_from(("worker", "validator", "")))
    rules = TopicRules(
        write_opening("wanda", role, has_schema=True, prompt="-"),
        write_ending(SCHEMA, "DONE", 7, prompt="-"),
        role,
        tuple(map(write_source, draw(st.lists(SOURCES, max_size=5)))),
        until=len(ledger),
        last_task_end=draw(st.integers(0, 8)),
        last_agent_start=draw(st.integers(0, 8)),
    )
    return story, story.recorder.frozen(**draw(LIMITS), strategy="topics", topics=rules)


def no_request_exceeds_its_budget(story: Story, frozen: FrozenTurn, plans: list[Plan]) -> None:
    for plan in plans:
        sent = request_tokens(plan.messages, tools_tokens=frozen.tools_tokens, calibration=frozen.calibration)
        assert sent <= plan.tokens <= request_limit(frozen).tokens <= frozen.max_tokens
        assert sum(len(message.content) for message in plan.messages) <= frozen.max_chars


@given(topic_turns(longest=2000), st.integers(1, 4000))
def test_a_larger_budget_never_lowers_the_first_pack_whose_decision_changes(
    made: tuple[Story, FrozenTurn], more: int
) -> None:
    story, frozen = made
    larger = replace(frozen, max_tokens=frozen.max_tokens + more, context_window=None)
    try:
        less, rest = (plan_turn(one, story.at(0, one)) for one in (replace(frozen, context_window=None), larger))
    except PlanError:
        return
    order = list(Priority)
    chosen = sorted(range(len(less.decisions)), key=lambda place: (order.index(less.decisions[place].priority), place))
    for place in chosen:
        before, after = _height(less.decisions[place]), _height(rest.decisions[place])
        if before != after:
            assert after > before
            return


@given(topic_turns(longest=2000))
def test_the_advice_for_a_pack_that_is_not_whole_makes_it_whole(made: tuple[Story, FrozenTurn]) -> None:
    story, frozen = made
    frozen = replace(frozen, context_window=None)
    try:
        plan = plan_turn(frozen, story.at(0, frozen))
    except PlanError:
        return
    for decision in plan.decisions:
        setting, _, value = decision.setting.partition(" = ")
        if setting != "context_strategy.max_tokens":
            continue
        larger = replace(frozen, max_tokens=int(value))
        again = plan_turn(larger, story.at(0, larger)).decision(decision.id)
        assert again is not None
        if request_limit(larger).setting == setting:
            assert again.variant is Variant.FULL
            assert not again.truncated


def _height(decision: Decision) -> tuple[int, bool]:
    if decision.status is PackStatus.SKIPPED:
        return 0, True
    return (2 if decision.variant is Variant.FULL else 1), not decision.truncated


def packs_stand_in_the_order_of_their_declaration(story: Story, frozen: FrozenTurn, plans: list[Plan]) -> None:
    assert frozen.topics is not None
    sources = [read_source(source).topic for source in frozen.topics.sources]
    for plan in plans:
        names = [decision.id for decision in plan.decisions]
        assert names[:3] == ["header", "system", "schema"]
        assert [name.partition(" ")[0] for name in names[3 : 3 + len(sources)]] == sources
        assert len(set(names)) == len(names)
        rest = names[3 + len(sources) :]
        assert rest == [name for name in ("skip_hints", "situation", "order", "turn", "tools") if name in rest]
        assert [one.role for one in plan.messages].count(plan.messages[0].role) == 1
        shown = [one for one in plan.decisions if one.section == "sources" and one.status is PackStatus.INCLUDED]
        blocks = [message.content for message in plan.messages[1 : 1 + len(shown)]]
        for decision, block in zip((one for one in shown if one.chars), blocks, strict=False):
            assert len(block) == decision.chars


def the_same_turn_has_the_same_bytes_after_it_was_stored(story: Story, frozen: FrozenTurn, plans: list[Plan]) -> None:
    again = FrozenTurn.from_json(frozen.to_json(), system=frozen.system)
    assert again == frozen
    assert story.plans(again) == plans


def each_character_is_accounted_for_in_a_decision(story: Story, frozen: FrozenTurn, plans: list[Plan]) -> None:
    for plan in plans:
        counted = sum(decision.chars for decision in plan.decisions if decision.id != "tools")
        assert counted == sum(map(message_chars, plan.messages))
        assert plan.tokens == sum(decision.tokens for decision in plan.decisions)


def the_prompts_of_the_turn_are_verbatim_and_behind_all_sources(
    story: Story, frozen: FrozenTurn, plans: list[Plan]
) -> None:
    for plan in plans:
        blocks = [place for place, one in enumerate(plan.messages) if one.content.startswith("## Messages from topic")]
        for memory in story.moments[0].memories:
            if memory.role is Role.USER:
                place = next(place for place, one in enumerate(plan.messages) if one.memory_id == memory.id)
                assert plan.messages[place].content.endswith(memory.content)
                assert not blocks or place > max(blocks)


OF_ANY_TURN = (
    no_request_exceeds_its_budget,
    packs_stand_in_the_order_of_their_declaration,
    the_same_turn_has_the_same_bytes_after_it_was_stored,
    each_character_is_accounted_for_in_a_decision,
    the_prompts_of_the_turn_are_verbatim_and_behind_all_sources,
)


@given(topic_turns())
def test_what_holds_for_any_turn_of_topics(made: tuple[Story, FrozenTurn]) -> None:
    story, frozen = made
    check_all(OF_ANY_TURN, story, frozen, story.plans(frozen))
