"""Converting the entries of a context to memories, of which summaries are written."""

from __future__ import annotations

from zoea.chain.entries import ContextCall, ContextEntry
from zoea.model.enums import Role, Source
from zoea.swarm.memory_entries import as_memories


def test_a_summary_is_written_of_calls_errors_and_what_other_programs_said() -> None:
    asked, failed, foreign = as_memories(
        (
            ContextEntry(Role.ASSISTANT, "", "llm", calls=(ContextCall("deploy", '{"port":8443}'),)),
            ContextEntry(Role.TOOL, "refused", "tool", position=0, is_error=True),
            ContextEntry(Role.TOOL, "done", "a program's own word"),
        )
    )
    assert asked.content == 'calls deploy {"port":8443}'
    assert (failed.is_error, failed.source) == (True, Source.TOOL)
    assert foreign.source is Source.TOOL
