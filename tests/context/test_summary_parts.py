"""The requests for a summary fit and come to an end. They are the same for the same messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.context.sample_histories import HOSTILE, Recorder
from zoea.context.window.conversation_summary import summarise
from zoea.context.window.summary_parts import (
    LEAST_NOTE,
    LEAST_ROOM,
    MOST_PROSE,
    MOST_UNJOINED,
    SummaryPart,
    SummaryProse,
    find_next_part,
)
from zoea.context.window.window_estimate import MARGIN, estimate_text


def written(
    recorder: Recorder, earlier: str, room: int, reply: str, prose_tokens: int = 200
) -> tuple[list[SummaryPart], str]:
    """Answer every part with the same text until the prose is there."""
    known: dict[str, str] = {}
    parts: list[SummaryPart] = []
    while True:
        found = find_next_part(recorder.memories, earlier, known, prose_tokens=prose_tokens, room=room)
        if isinstance(found, SummaryProse):
            return parts, found.text
        assert found.key not in known
        known[found.key] = reply
        parts.append(found)


def conversation(messages: int, chars: int) -> Recorder:
    recorder = Recorder()
    for number in range(messages // 2):
        recorder.open(f"prompt {number} ".ljust(chars, "p"))
        recorder.answer(f"answer {number} ".ljust(chars, "a"))
    return recorder


def test_what_fits_is_one_request_with_the_memory_so_far() -> None:
    parts, prose = written(conversation(6, 100), "They had agreed on blue.", 20_000, "done")
    assert len(parts) == 1
    assert parts[0].is_last
    assert prose == "done"
    text = parts[0].messages[1].content
    assert text.index("agreed on blue") < text.index("prompt 0") < text.index("answer 2")


def test_what_does_not_fit_is_written_in_parts_whose_notes_are_joined() -> None:
    parts, _ = written(conversation(60, 1_000), "They had agreed on blue.", 3_000, "a note")
    assert [part.is_last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert len(parts) > 5
    assert "agreed on blue" in parts[-1].messages[1].content
    assert parts[-1].messages[1].content.count("a note") == len(parts) - 1
    seen = "".join(part.messages[1].content for part in parts[:-1])
    assert all(f"prompt {number} " in seen for number in range(30))


def test_few_notes_are_the_summary_together_without_a_further_request() -> None:
    parts, prose = written(conversation(20, 1_000), "", 3_000, "a note")
    assert 1 < len(parts) <= MOST_UNJOINED
    assert prose == "\n".join(["a note"] * len(parts))
    assert sum(part.prose_tokens for part in parts) <= 200
    seen = "".join(part.messages[1].content for part in parts)
    assert all(f"prompt {number} " in seen for number in range(10))


def test_a_long_conversation_asks_for_no_more_prose_than_a_model_writes_in_time() -> None:
    *notes, last = written(conversation(100, 1_000), "", 6_000, "a note", prose_tokens=6_000)[0]
    assert len(notes) > 4
    assert last.prose_tokens == MOST_PROSE
    assert last.answer_tokens == 2 * MOST_PROSE
    assert sum(note.prose_tokens for note in notes) <= max(2 * MOST_PROSE, LEAST_NOTE * len(notes))


@given(
    st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=4_000)), max_size=30),
    st.text(max_size=5_000),
    st.integers(LEAST_ROOM, 6_000),
    st.text(max_size=6_000),
)
def test_every_request_fits_and_the_parts_come_to_an_end(texts: list[str], earlier: str, room: int, reply: str) -> None:
    recorder = Recorder().open("begin")
    for text in texts:
        recorder.slice("look", text)
    parts, prose = written(recorder, earlier, room, reply)
    assert parts
    assert prose == ("\n".join([reply] * len(parts)) if not parts[-1].is_last else reply)
    for part in parts:
        assert MARGIN * sum(estimate_text(message.content) for message in part.messages) <= room * 1.1
    assert written(recorder, earlier, room, reply)[0] == parts


def test_a_fact_in_the_part_of_a_prose_that_was_cut_is_appended() -> None:
    recorder = Recorder().open("Never restart node n-17 by day.")
    prose = "It was a long talk about the weather and the sea. " * 20 + "Never restart node n-17 by day."
    text = summarise(recorder.memories, 150, prose=prose)
    assert "Never restart node n-17 by day." in text
