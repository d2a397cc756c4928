"""Messages of topics in prompts: selection, text, state snapshot, hints for validators."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.context.topics.agent_texts import write_ending, write_opening
from zoea.context.topics.skip_hints import skip_hints
from zoea.context.topics.state_snapshot import describe_state, fold_state, restore_state
from zoea.context.topics.topic_block import LedgerPositions, render_topic, select_messages
from zoea.model.topics import SNAPSHOT_SENDER, SNAPSHOT_TOPIC, STATE_TOPICS, TopicMessage, no_such_topic
from zoea.settings.topic_source import TopicSource

START = LedgerPositions()


def message(number: int, topic: str = "T", sender: str = "ann", text: str = "", **more: Any) -> TopicMessage:
    return TopicMessage(number, 0, topic, sender, text, created_at=number * 1_000_000, **more)


LEDGER = tuple(message(number, sender="ann" if number % 2 else "bob") for number in range(1, 8))


def ids(source: TopicSource, positions: LedgerPositions = START, *, is_compact: bool = False) -> list[int]:
    return [one.id for one in select_messages(LEDGER, source, positions, is_compact=is_compact)]


@walk_cases(
    ("given", "wanted"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7]),
        ({"amount": 2}, [6, 7]),
        ({"strategy": "latest", "amount": 3}, [5, 6, 7]),
        ({"strategy": "oldest", "amount": 3}, [1, 2, 3]),
        ({"strategy": "all", "amount": 3}, [1, 2, 3]),
        ({"sender": "bob", "amount": 2}, [4, 6]),
        ({"since": "cluster_start"}, [1, 2, 3, 4, 5, 6, 7]),
        ({"since": "last_task_end"}, [4, 5, 6, 7]),
        ({"since": "last_agent_start"}, [6, 7]),
        ({"since": 6000}, [6, 7]),
        ({"since": "1970-01-01T00:00:06Z"}, [6, 7]),
        ({"topic": "OTHER"}, []),
    ],
)
def test_a_source_selects_messages_and_shows_them_oldest_first(given: dict[str, Any], wanted: list[int]) -> None:
    positions = LedgerPositions(last_task_end=4, last_agent_start=5)
    assert ids(TopicSource.model_validate({"topic": "T", **given}), positions) == wanted


def test_the_short_form_has_its_own_selection() -> None:
    assert ids(TopicSource(topic="T"), is_compact=True) == [7]
    assert ids(TopicSource(topic="T", strategy="oldest", amount=3, compact_amount=2), is_compact=True) == [1, 2]


def test_raw_output_is_never_shown_and_uses_up_no_amount() -> None:
    ledger = (message(1), message(2, is_raw=True), message(3, topic="AGENT_OUTPUT"), message(4))
    assert [one.id for one in select_messages(ledger, TopicSource(topic="T", amount=2), START)] == [1, 4]
    assert select_messages(ledger, TopicSource(topic="AGENT_OUTPUT"), START) == ()


def test_a_block_shows_time_sender_text_and_data() -> None:
    said = (message(1, text="go"), message(2, sender="bob", data={"n": 1}))
    assert render_topic("T", said) == (
        "## Messages from topic: T\n\n"
        "[1970-01-01T00:00:01.000Z] ann:\ngo\n\n"
        '[1970-01-01T00:00:02.000Z] bob:\nData: {\n  "n": 1\n}'
    )
    assert render_topic("T", ()) == ""


STORY = (
    message(1, "ISSUE_OPENED", text="x" * 3000, data={"title": "Mend the reef", "issueNumber": 7, "source": "github"}),
    message(
        2,
        "PLAN_READY",
        text="p" * 3000,
        data={
            "summary": "Two steps",
            "acceptanceCriteria": [{"id": f"AC{n}", "criterion": "holds"} for n in range(12)],
            "filesAffected": [f"file{n}" for n in range(30)],
        },
    ),
    message(3, "WORKER_PROGRESS", data={"percentComplete": 45, "canValidate": False, "nextSteps": ["X", "Y"]}),
)


def state_of(*messages: TopicMessage) -> dict[str, Any]:
    return restore_state(messages)


def test_the_state_keeps_its_limits() -> None:
    state = state_of(*STORY)
    assert state["task"] == {"raw": "x" * 1997 + "...", "title": "Mend the reef", "issue_number": 7, "source": "github"}
    assert len(state["plan"]["text"]) == 2500
    assert state["plan"]["acceptance_criteria"] == [f"AC{n}: holds" for n in range(2, 12)]
    assert state["plan"]["files_affected"] == [f"file{n}" for n in range(10, 30)]
    assert describe_state(state) == (
        "Task: Mend the reef\nPlan: Two steps\nProgress: 45% | canValidate=false | next: X"
    )


@walk_cases(
    ("topic", "part", "field", "most"),
    [
        ("ISSUE_OPENED", "task", "title", 300),
        ("PLAN_READY", "plan", "summary", 300),
        ("WORKER_PROGRESS", "progress", "last_summary", 300),
        ("INVESTIGATION_COMPLETE", "debug", "fix_plan", 1200),
        ("INVESTIGATION_COMPLETE", "debug", "success_criteria", 300),
    ],
)
def test_a_text_of_the_state_is_cut_to_its_limit(topic: str, part: str, field: str, most: int) -> None:
    def kept(length: int) -> str:
        found: str = state_of(message(1, topic, data={field: "x" * length}))[part][field]
        return found

    assert kept(most) == "x" * most
    assert kept(most + 1) == "x" * (most - 3) + "..."


@walk_cases(
    ("topic", "part", "field", "most"),
    [
        ("WORKER_PROGRESS", "progress", "blockers", 5),
        ("IMPLEMENTATION_READY", "progress", "next_steps", 10),
        ("INVESTIGATION_COMPLETE", "debug", "root_causes", 5),
        ("PLAN_READY", "plan", "files_affected", 20),
    ],
)
def test_a_list_of_the_state_keeps_its_last_items(topic: str, part: str, field: str, most: int) -> None:
    given = [f"{number:03}" + "x" * 300 for number in range(most + 3)]
    kept = state_of(message(1, topic, data={field: given}))[part][field]
    assert [item[:3] for item in kept] == [item[:3] for item in given[-most:]]
    assert {len(item) for item in kept} == {200}
    assert kept[0].endswith("...")


def test_a_validation_keeps_its_last_errors_and_criteria() -> None:
    criteria = [
        {
            "id": f"AC{number}",
            "status": "FAIL",
            "reason": "r" * 201,
            "evidence": {"command": "c" * 201, "exitCode": 1, "output": "long"},
        }
        for number in range(12)
    ]
    given = {"approved": False, "errors": list("abcdefg"), "criteriaResults": criteria}
    [kept] = state_of(message(1, "VALIDATION_RESULT", "v1", data=given))["validation"].values()
    assert kept["errors"] == list("cdefg")
    assert [one["id"] for one in kept["criteria_results"]] == [f"AC{number}" for number in range(2, 12)]
    assert kept["criteria_results"][0] == {
        "id": "AC2",
        "status": "FAIL",
        "reason": "r" * 197 + "...",
        "evidence": {"command": "c" * 197 + "...", "exit_code": 1},
    }


def test_one_approval_never_hides_another_rejection() -> None:
    rejected = message(4, "VALIDATION_RESULT", "v1", data={"approved": False, "errors": ["a", "b"]})
    approved = message(5, "VALIDATION_RESULT", "v2", data={"approved": True})
    state = state_of(*STORY, rejected, approved)
    assert describe_state(state).endswith("Validation: rejected (2 errors)")
    again = fold_state(state, message(6, "IMPLEMENTATION_READY", data={"canValidate": True}))
    assert "validation" not in again
    passed = [message(7, "VALIDATION_RESULT", sender, data={"approved": True}) for sender in ("v1", "v2")]
    assert describe_state(state_of(*STORY, rejected, message(6, "IMPLEMENTATION_READY"), *passed)).endswith(
        "Validation: approved"
    )


def test_an_investigation_is_part_of_the_state() -> None:
    found = message(1, "INVESTIGATION_COMPLETE", data={"fixPlan": "turn it", "rootCauses": list("abcdefg")})
    assert state_of(found) == {"debug": {"fix_plan": "turn it", "root_causes": list("cdefg")}}
    assert describe_state(state_of(found)) == "Debug: turn it"


def test_the_text_of_an_investigation_is_its_fix_plan_where_the_data_has_none() -> None:
    found = message(1, "INVESTIGATION_COMPLETE", text="Set the path.", data={"rootCauses": [{"cause": "a cookie"}]})
    assert state_of(found) == {"debug": {"fix_plan": "Set the path.", "root_causes": ["a cookie"]}}


def test_a_message_of_another_topic_changes_nothing() -> None:
    state = state_of(*STORY)
    assert fold_state(state, message(9, "CHATTER", data={"approved": True})) == state
    assert fold_state(state, STORY[2]) == state


def test_a_snapshot_of_another_sender_is_not_the_state() -> None:
    forged = message(4, SNAPSHOT_TOPIC, "mallory", data={"task": {"title": "Sink it"}})
    assert state_of(*STORY, forged) == state_of(*STORY)


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=15) | st.dictionaries(st.text(), inner), max_leaves=20
)
KEYS = [
    *(
        "title",
        "issueNumber",
        "source",
        "summary",
        "plan",
        "acceptanceCriteria",
        "filesAffected",
        "canValidate",
        "errors",
    ),
    *("percentComplete", "blockers", "nextSteps", "approved", "criteriaResults", "fixPlan", "rootCauses", "body"),
]
ledgers = st.lists(
    st.tuples(
        st.sampled_from([*STATE_TOPICS, "CHATTER"]),
        st.sampled_from(["ann", "bob"]),
        st.text(max_size=50),
        st.none() | st.dictionaries(st.sampled_from(KEYS), values, max_size=5),
    ),
    max_size=8,
)


@given(ledgers, st.integers(0, 8))
def test_a_restart_at_any_place_gives_the_same_state(told: list[tuple[Any, ...]], cut: int) -> None:
    said = [message(2 * n, topic, sender, text, data=data) for n, (topic, sender, text, data) in enumerate(told, 1)]
    whole = restore_state(said)
    before = restore_state(said[:cut])
    snapshot = message(2 * min(cut, len(said)) + 1, SNAPSHOT_TOPIC, SNAPSHOT_SENDER, data=before)
    restored = restore_state([*said[:cut], snapshot, *said[cut:]])
    assert restored == whole
    assert describe_state(whole) == describe_state(restored)


def test_a_number_that_no_float_holds_is_left_out() -> None:
    state = state_of(message(1, "WORKER_PROGRESS", "w", "Far.", data={"percent_complete": 10**400}))
    assert describe_state(state) == "Progress: Far."


def test_a_wrong_topic_is_compared_with_the_newest_ones_only() -> None:
    known = [f"OTHER_{number}" for number in range(150)]
    assert no_such_topic("NEVS", ["NEWS", *known]).hint == "did you mean NEWS?"
    assert no_such_topic("NEVS", [*known, "NEWS"]).hint.startswith("there are: OTHER_0, OTHER_1,")


def result(number: int, *criteria: tuple[str, str, str], sender: str = "v1") -> TopicMessage:
    told = [{"id": name, "status": status, "reason": reason} for name, status, reason in criteria]
    return message(number, "VALIDATION_RESULT", sender, data={"criteriaResults": told})


def test_a_hint_is_given_once_for_what_can_still_not_be_validated() -> None:
    ledger = (
        result(1, ("AC1", "CANNOT_VALIDATE", "no network"), ("AC2", "CANNOT_VALIDATE", "no key")),
        result(2, ("AC1", "CANNOT_VALIDATE", "no network here"), ("AC3", "CANNOT_VALIDATE_YET", "too early")),
        result(3, ("AC2", "PASS", "")),
        message(4, "VALIDATION_RESULT", data={"criteriaResults": "none"}),
    )
    assert skip_hints(ledger) == ("AC1: no network here",)


@walk_cases("prompt", ["Check it.", "Check it.\n", "\nCheck it.\n\n", "", "\n"])
@walk_cases("schema", [None, {"type": "object"}])
def test_one_empty_line_divides_the_parts_of_the_system_message(prompt: str, schema: dict[str, str] | None) -> None:
    opening = write_opening("wanda", "validator", has_schema=schema is not None, prompt=prompt)
    ending = write_ending(schema, "DONE", 7, prompt=prompt)
    text = opening + prompt + ending
    assert "\n\n\n" not in text
    parts = [prompt.strip()] if prompt.strip() else []
    assert [part for part in text.split("\n\n") if part in ("Check it.", "This is your turn 7 in this work.")] == [
        *parts,
        "This is your turn 7 in this work.",
    ]


@pytest.mark.parametrize("name", ["completionStatus", "completion_status"])
def test_the_progress_of_a_zeroshot_worker_is_in_the_state(name: str) -> None:
    status = {"canValidate": False, "percentComplete": 40, "blockers": ["no key"], "nextSteps": ["ask", "go on"]}
    state = state_of(message(1, "WORKER_PROGRESS", "w", "Half.", data={name: status, "summary": "Half of it."}))
    assert state["progress"] == {
        "can_validate": False,
        "percent_complete": 40,
        "blockers": ["no key"],
        "next_steps": ["ask", "go on"],
        "last_summary": "Half of it.",
    }
    assert describe_state(state) == "Progress: 40% | canValidate=false | blocked: no key | next: ask"


@walk_cases(
    ("topic", "data", "part", "expected"),
    [
        ("WORKER_PROGRESS", {"canValidate": "true"}, "progress", {"can_validate": True}),
        ("WORKER_PROGRESS", {"percentComplete": "45"}, "progress", {"percent_complete": 45}),
        ("VALIDATION_RESULT", {"approved": "false"}, "validation", {"v": {"approved": False}}),
        ("VALIDATION_RESULT", {"approved": "True"}, "validation", {"v": {"approved": True}}),
        ("VALIDATION_RESULT", {"approved": "maybe"}, "validation", {"v": {}}),
        ("WORKER_PROGRESS", {"blockers": [{"id": 1, "why": "kein Schlüssel"}, None]}, "progress",
         {"blockers": ['{"id": 1, "why": "kein Schlüssel"}', "null"]}),
        ("VALIDATION_RESULT", {"errors": [{"line": 7, "fatal": True}]}, "validation",
         {"v": {"errors": ['{"line": 7, "fatal": true}']}}),
        ("INVESTIGATION_COMPLETE", {"rootCauses": [{"cause": "race"}]}, "debug",
         {"root_causes": ["race"]}),
        ("INVESTIGATION_COMPLETE", {"rootCauses": [{"why": "race"}, "two"]}, "debug",
         {"root_causes": ['{"why": "race"}', "two"]}),
        ("VALIDATION_RESULT", {"errors": [{"file": "a.py", "message": "boom"}]}, "validation",
         {"v": {"errors": ["boom"]}}),
        ("VALIDATION_RESULT", {"issues": [{"bug": "boom"}, "plain"]}, "validation",
         {"v": {"errors": ["boom", "plain"]}}),
        ("PLAN_READY", {"acceptanceCriteria": [["a", 1]]}, "plan", {"text": "", "acceptance_criteria": ['["a", 1]']}),
        ("PLAN_READY", {"filesAffected": [{"path": "a.py"}]}, "plan",
         {"text": "", "files_affected": ['{"path": "a.py"}']}),
    ],
)  # fmt: skip
def test_values_of_other_shapes_are_read_as_they_were_meant(
    topic: str, data: dict[str, Any], part: str, expected: dict[str, Any]
) -> None:
    state = state_of(message(1, topic, "v", "", data=data))
    assert {key: value for key, value in state[part].items() if value or key != "text"} == {
        key: value for key, value in expected.items() if value or key != "text"
    }
