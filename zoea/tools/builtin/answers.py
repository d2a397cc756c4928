"""Models of the answers to MCP clients, from which the output schemas are made.

A field with a default may be left out of an answer.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from zoea.model.enums import Activity, MysisState
from zoea.model.status import StatusWord
from zoea.tools.builtin.arguments import PartName, RoleName, SourceName

Id = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]
UtcTime = Annotated[str, Field(description="ISO 8601, UTC.")]


class AnswerModel(BaseModel):
    """Base of all answers. Other fields are errors."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class MemoryRow(AnswerModel):
    id: Id = Field(description="For zoea_read_memory, before_id and the like.")
    mysis_id: Id
    mysis: str = Field(description="The mysis that has the memory.")
    role: RoleName = Field(description="Who speaks: the prompt, the model, or a tool.")
    source: SourceName = Field(description="Where it came from.")
    created_at: UtcTime
    sender: str = Field("", description="Who said it, where it is a prompt: a name, or commander.")
    content: str = Field(description="The text, around the match; the whole with zoea_read_memory.")
    call: str = Field("", description="The tool call that holds the match, where it is not in the content.")
    position: Count = Field(0, description="Which call that is: for zoea_read_memory with part call.")
    from_char: Count = Field(0, description="Where the text with the match was cut: it begins at this character.")
    tool: str = Field("", description="The tool that was called or that answered.")
    is_cut: bool = Field(description="True where only a part is shown.")


class ReasoningRow(MemoryRow):
    reasoning: str = Field(description="The thought around the match.")


class BroadcastRow(AnswerModel):
    id: Id = Field(description="For before_id.")
    sender: str = Field(description="A name, or commander.")
    created_at: UtcTime
    content: str
    is_cut: bool


class SearchAnswer(AnswerModel):
    results: list[MemoryRow]
    next_before_id: Id = Field(0, description="There is more: ask again with this before_id.")
    hint: str = Field("", description="What to do where nothing or too much was found.")


class ReasoningSearchAnswer(SearchAnswer):
    results: list[ReasoningRow]  # type: ignore[assignment]  # only the schema is used


class BroadcastSearchAnswer(SearchAnswer):
    results: list[BroadcastRow]  # type: ignore[assignment]  # the schema of another kind of row


class CallRow(AnswerModel):
    position: Count
    name: str
    arguments: str
    total_chars: Count


class ReadAnswer(AnswerModel):
    id: Id
    mysis_id: Id
    mysis: str
    role: RoleName
    source: SourceName
    created_at: UtcTime
    part: PartName = Field(description="The part that is shown.")
    offset: Count
    total_chars: Count
    text: str
    calls: list[CallRow] = Field(
        description="The tools this answer called, arguments cut: the whole with part call and the position."
    )
    more_calls: Count = Field(0, description="Calls that are not listed, with the positions that follow.")
    position: Count = Field(0, description="With part call: which call it is.")
    next_offset: Count = Field(0, description="There is more: ask again with this offset.")


class MysisRow(AnswerModel):
    id: Id
    name: str
    state: MysisState = Field(description="idle and running myses take messages.")
    status: StatusWord = Field(description="Its state in one word, as people see it.")
    activity: Activity = Field(description="What it does this moment.")
    tags: list[str]
    turns: Count
    pending: Count = Field(description="Messages it has not read yet.")
    last: str = Field(description="What it said or did last, cut.")


class ListAnswer(AnswerModel):
    is_running: bool = Field(description="False: no process runs the swarm, this is as stored.")
    is_held: bool = Field(description="True: the commander lets nothing new begin.")
    myses: list[MysisRow]
    more: Count = Field(description="Myses that come after these.")
    next_after_id: Id = Field(0, description="There are more: ask again with this after_id.")


class RecipientRow(AnswerModel):
    mysis: str
    status: str
    reason: str


class ReceiptAnswer(AnswerModel):
    message_id: Id
    delivered: Count = Field(description="How many myses will read it.")
    recipients: list[RecipientRow] = Field(description="The status for each; at most 50.")
    more: Count = Field(description="Recipients that are not listed.")
    note: str = Field("", description="What of its context has no effect.")


class PublishAnswer(AnswerModel):
    message_id: Id = Field(description="Its place in the ledger.")
    topic: str
    delivered: Count = Field(description="How many subscribers read it.")
    recipients: list[RecipientRow] = Field(description="The status for each; at most 50.")
    more: Count = Field(description="Recipients that are not listed.")
    snapshot_id: Id = Field(0, description="The state snapshot that followed.")


class TopicRow(AnswerModel):
    topic: str
    messages: Count = Field(description="How many it holds.")
    newest_id: Id
    newest_at: UtcTime


class TopicMessageRow(AnswerModel):
    id: Id = Field(description="For before_id.")
    topic: str
    sender: str = Field(description="A name, or commander.")
    receiver: str = Field("", description="The one it was meant for, if not all.")
    created_at: UtcTime
    text: str
    data: dict[str, Any] = Field({}, description="Its JSON object, if it has one.")
    is_cut: bool = Field(False, description="True where only the beginning of text and data is shown, as text.")


class TopicAnswer(AnswerModel):
    topics: list[TopicRow] = Field([], description="The topics, the one with the newest message first.")
    messages: list[TopicMessageRow] = Field([], description="Messages, oldest first.")
    next_before_id: Id = Field(0, description="There are older ones: ask again with this before_id.")
    hint: str = Field("", description="What to do where nothing was found.")


class CommitRow(AnswerModel):
    id: str
    by: str = Field(description="The mysis or program that made it.")
    at: int = Field(description="When, in microseconds since the epoch.")
    checkpoint: str = Field(description="What made it: turn_boundary, tool_call, compaction, session_end or explicit.")
    messages: Count
    tokens: Count
    summary: str


class ContextMessageRow(AnswerModel):
    role: str
    content: str
    calls: list[str]


class ContextLogAnswer(AnswerModel):
    commits: list[CommitRow] = Field(description="The chain, newest first.")


class ContextShowAnswer(CommitRow):
    type: str = Field(description="delta, compaction or snapshot.")
    refs: list[str] = Field(description="Names of the commit.")
    tags: list[str]
    thread: str = Field("", description="The discussion that it belongs to.")
    ticket: str = ""
    parent: str = Field("", description="The commit before it.")
    followed_by: list[str] = Field(description="The commits after it.")


class ContextCheckpointAnswer(AnswerModel):
    commit: CommitRow
    is_new: bool = Field(description="False where nothing was new since this commit.")


class ContextAskAnswer(AnswerModel):
    is_done: bool = Field(description="False where the time is over: call zoea_wait for the mysis.")
    thread: str = Field(description="Give it with the next question.")
    mysis: str = Field(description="The mysis that answers.")
    answer: str


class ContextForkAnswer(AnswerModel):
    mysis: MysisRow


class ContextAnswer(AnswerModel):
    commit: CommitRow
    tier: Count = Field(
        description="How faithful the messages are: 1 and 2 as they were, 3 as texts, 4 not understood."
    )
    messages: list[ContextMessageRow] = Field(description="The newest messages that fit, oldest first.")
    left_out: Count = Field(description="How many older ones do not.")


class WaitAnswer(AnswerModel):
    is_done: bool
    mysis: MysisRow
    answer: str = Field(description="Its last answer, whole up to 10000 characters.")
    answer_id: Id = Field(0, description="The memory that holds the answer.")
