"""Arguments of Zoea's own tools as pydantic models, for JSON schemas and checks.

Lenient where the meaning is plain, because small models write so: `"20"` for 20, and null
or an empty text for an argument that is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from zoea.model.errors import UsageError
from zoea.model.values import MysisView
from zoea.text.json_text import parse_json

MAX_TEXT = 20_000
MAX_QUERY = 1_000
READ_CHARS = 10_000
CLIENT_WAIT_S = 30.0
COMMANDER = "commander"
RoleName = Literal["user", "assistant", "tool"]
SourceName = Literal["direct", "broadcast", "topic", "tool", "llm"]
PartName = Literal["content", "reasoning", "call"]
MatchName = Literal["exact", "ranked"]
ROLES, SOURCES, PARTS, MATCHES = get_args(RoleName), get_args(SourceName), get_args(PartName), get_args(MatchName)

_LARGEST = 2**53
"""Numbers above are not exact in JSON."""


def _to_number(value: Any) -> float | int:
    """Read a number, also from text. Raises PydanticCustomError."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise TypeError
        number = float(value)
        if not abs(number) < _LARGEST:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise PydanticCustomError("number_type", "is not a number") from None
    return int(number) if number.is_integer() else number


def _to_microseconds(value: Any) -> int:
    """Read an ISO 8601 time as µs UTC; UTC where it names no zone. Raises PydanticCustomError."""
    try:
        time = datetime.fromisoformat(value)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000_000)
    except (TypeError, ValueError, OverflowError):
        raise PydanticCustomError(
            "time", "must be an ISO 8601 time such as 2026-01-31T10:30:00Z, not {given}", {"given": f"{value!r:.40}"}
        ) from None


def _to_object(value: Any) -> Any:
    """Read a JSON object, also from text. Raises PydanticCustomError."""
    if isinstance(value, str):
        value = parse_json(value)
    if not isinstance(value, dict):
        raise PydanticCustomError("object", "must be a JSON object")
    return value


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "cannot be empty")
    return text


Text = Annotated[str, Field(min_length=1), AfterValidator(_refuse_blank)]
Integer = Annotated[int, BeforeValidator(_to_number)]
Id = Annotated[int, Field(ge=1), BeforeValidator(_to_number)]
Index = Annotated[int, Field(ge=0), BeforeValidator(_to_number)]
Number = Annotated[float, BeforeValidator(_to_number)]
Data = Annotated[dict[str, Any], BeforeValidator(_to_object)]
Time = Annotated[int, BeforeValidator(_to_microseconds), WithJsonSchema({"type": "string", "minLength": 1})]


class Arguments(BaseModel):
    """Base of all argument models. Unknown arguments are errors."""

    # Built at the first use: most processes use few of the models.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def parse(cls, arguments: Mapping[str, Any]) -> Self:
        """Check the arguments of a call. Raises UsageError naming the argument and its range."""
        fields = cls.model_fields
        given = {
            name: value
            for name, value in arguments.items()
            if value is not None and (value != "" or name not in fields or fields[name].is_required())
        }
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise UsageError(_explain(error, schema_of(cls))) from None


class SendArguments(Arguments):
    to: Text = Field(description="The name of the mysis that shall read it.")
    text: Text = Field(max_length=MAX_TEXT, description="What you want to say.")


class ClientSendArguments(SendArguments):
    is_task: bool = Field(
        False,
        description="True if the text is its new task: it works on it until it reports that it is done. "
        "A plain message if left out.",
    )
    context: dict[str, str | int | float] = Field(
        default_factory=dict,
        description="Limits of what it sees in this turn, for example history_window_size or token_budget_per_agent.",
    )


class SendToCommanderArguments(Arguments):
    to: Annotated[Literal["commander"], BeforeValidator(lambda to: to.lower() if isinstance(to, str) else to)] = Field(
        "commander", description="Always commander."
    )
    text: Text = Field(max_length=MAX_TEXT, description="What you want to say.")


class BroadcastArguments(Arguments):
    text: Text = Field(max_length=MAX_TEXT, description="What you want to say to all.")


class AskArguments(Arguments):
    question: Text = Field(
        max_length=MAX_TEXT, description="What you want to know, so that it can be answered in a sentence."
    )


class DoneArguments(Arguments):
    summary: Text = Field(
        max_length=MAX_TEXT, description="What you did and what came of it, in a few sentences for the commander."
    )


class ListArguments(Arguments):
    name: str = Field("", min_length=1, description="Only those whose name contains this, in any case.")
    after_id: Integer = Field(0, ge=1, description="For the next ones: the next_after_id of the answer before.")

    def select(self, myses: Iterable[MysisView]) -> list[MysisView]:
        """Choose the myses to list, oldest first."""
        name = self.name.casefold()
        chosen = (view for view in myses if view.id > self.after_id and name in view.name.casefold())
        return sorted(chosen, key=lambda view: view.id)


class WaitArguments(Arguments):
    seconds: Annotated[float, Field(ge=1, le=3_600), BeforeValidator(_to_number)] | None = Field(
        None, description="How long to wait, 1 to 3600 seconds."
    )
    until_tick: Index | None = Field(None, description="The absolute tick at which to go on.")
    reason: Text = Field(max_length=500, description="What you wait for, in a few words.")

    @model_validator(mode="after")
    def _check_one_limit(self) -> Self:
        if self.seconds is None and self.until_tick is None:
            raise PydanticCustomError("limit", "give either seconds or until_tick")
        if self.seconds is not None and self.until_tick is not None:
            raise PydanticCustomError("limit", "give either seconds or until_tick, not both")
        return self


class PublishArguments(Arguments):
    topic: Text = Field(max_length=80, description="The topic, such as PLAN_READY.")
    text: str = Field("", max_length=MAX_TEXT, description="What you want to say; may be left out where data says it.")
    data: Data | None = Field(None, description="A JSON object for programs and other agents, if there is one.")
    receiver: str = Field("", description="One subscriber by name; all subscribers if left out.")


class ReadTopicArguments(Arguments):
    topic: str = Field("", max_length=80, description="The topic; if left out, the topics are listed.")
    limit: Integer = Field(10, ge=1, le=100, description="Newest messages at most, 1 to 100; 10 if left out.")
    before_id: Id | None = Field(None, description="For older ones: the next_before_id of the answer before.")


class ContextLogArguments(Arguments):
    context: Text = Field(description="A mysis, or a commit: alpha, alpha~3, ctx-1a2b3c4d.")
    limit: Integer = Field(20, ge=1, le=100, description="Newest commits at most, 1 to 100; 20 if left out.")


class ContextMaterializeArguments(Arguments):
    context: Text = Field(description="A mysis, or a commit: alpha, alpha~3, ctx-1a2b3c4d.")
    max_chars: Integer = Field(
        1000, ge=20, le=10_000, description="Characters shown of each message; 1000 if left out."
    )


class ContextShowArguments(Arguments):
    context: Text = Field(description="A mysis, or a commit: alpha, alpha~3, ctx-1a2b3c4d.")


class ContextResolveArguments(Arguments):
    mysis: Text = Field(description="The name of a mysis.")
    at: Text = Field(description="A time, ISO 8601; without a zone it is local.")


class ContextCheckpointArguments(Arguments):
    mysis: Text = Field(description="The name of the mysis.")
    summary: str = Field("", max_length=MAX_TEXT, description="What it knows, in your words; else one is made.")


class ContextAnnotateArguments(Arguments):
    context: Text = Field(description="A commit: alpha~3, ctx-1a2b3c4d.")
    summary: str = Field("", max_length=MAX_TEXT, description="The new summary; the old one stays if left out.")
    tags: list[Text] = Field([], max_length=20, description="Tags to add.")


class ContextAskArguments(Arguments):
    context: Text = Field(description="What is asked: alpha~3, ctx-1a2b3c4d.")
    question: Text = Field(max_length=MAX_TEXT, description="The question.")
    thread: str = Field("", max_length=60, description="The thread of an earlier answer, to go on in it.")
    seconds: Number = Field(60, ge=1, le=300, description="Wait so long at most, 1 to 300; 60 if left out.")


class ContextForkArguments(Arguments):
    context: Text = Field(description="A mysis, or a commit: alpha, alpha~3, ctx-1a2b3c4d.")
    message: str = Field("", max_length=MAX_TEXT, description="The first message of the new mysis.")
    template: str = Field("", description="Another template than the commit's.")
    key: str = Field("", max_length=200, description="A repeated call with the same key makes no second mysis.")


class WaitForMysisArguments(Arguments):
    mysis: Text = Field(description="The name of the mysis to wait for.")
    seconds: Number = Field(CLIENT_WAIT_S, ge=1, le=300, description="How long at most, 1 to 300; 30 if left out.")


class SearchArguments(Arguments):
    query: str = Field(min_length=1, max_length=MAX_QUERY, description="Text that must occur exactly so; case matters.")
    limit: Integer = Field(20, ge=1, le=100, description="Results at most, 1 to 100; 20 if left out.")
    match: MatchName = Field("exact", description="exact if left out; ranked: the words in any case, best first.")
    since: Time | None = Field(None, description="Only from this time on, ISO 8601.")
    until: Time | None = Field(None, description="Only before this time.")
    before_id: Id | None = Field(None, description="For older results: the next_before_id of the answer before.")
    max_chars: Integer = Field(
        2_000, ge=100, le=READ_CHARS, description="Characters of one result at most, 100 to 10000; 2000 if left out."
    )


class MemorySearchArguments(SearchArguments):
    role: RoleName | None = Field(None, description="user: prompts, assistant: answers, tool: results.")
    source: SourceName | None = Field(None, description="Where it came from.")
    mysis_id: Id | None = Field(None, description="Only of the mysis with this id; all if left out.")


class OwnMemorySearchArguments(MemorySearchArguments):
    mysis_id: Id | None = Field(None, description="Leave it out: it is your own id.")


class RecallArguments(Arguments):
    query: str = Field(min_length=1, max_length=MAX_QUERY, description="One to three words.")
    where: Literal["messages", "reasoning", "broadcasts"] = Field("messages", description="messages if left out.")
    before_id: Id | None = Field(None, description="For older ones: next_before_id of the answer before.")


class RememberArguments(Arguments):
    id: Id | None = Field(None, description="Its id; if left out, the newest message that you were told.")
    keep: bool = Field(True, description="false keeps it no longer.")


class SlimWaitArguments(WaitArguments):
    seconds: Annotated[float, Field(ge=1, le=3_600), BeforeValidator(_to_number)] | None = Field(
        None, description="1 to 3600."
    )
    until_tick: Index | None = Field(None, description="Or an absolute tick.")
    reason: str = Field("", max_length=500, description="What for.")


class SlimReadArguments(Arguments):
    id: Id = Field(description="Its id.")
    offset: Integer = Field(0, ge=0, description="Where to read on.")


class SlimSendArguments(Arguments):
    """The mysis that a message goes to has one name in all short tools. `to` is taken too."""

    mysis: Text = Field(description="The name of the other mysis.")
    text: Text = Field()

    @model_validator(mode="before")
    @classmethod
    def _take_former_name(cls, given: Any) -> Any:
        if isinstance(given, dict) and "to" in given and "mysis" not in given:
            return {("mysis" if name == "to" else name): value for name, value in given.items()}
        return given


class SlimBroadcastArguments(Arguments):
    text: Text = Field()


class SlimAskArguments(Arguments):
    question: Text = Field()


class SlimDoneArguments(Arguments):
    summary: Text = Field(description="What you did and what came of it.")


class NoArguments(Arguments):
    """A tool without arguments."""


class ReadArguments(Arguments):
    id: Id = Field(description="The id of the memory.")
    offset: Integer = Field(0, ge=0, description="From which character on; 0 if left out.")
    part: PartName = Field(
        "content", description="content (if left out), reasoning, or call: name(arguments) of a tool call."
    )
    position: Index | None = Field(
        None, description="With part call: which of its calls, counted from 0; 0 if left out."
    )

    @model_validator(mode="after")
    def _check_position(self) -> Self:
        if self.position is not None and self.part != "call":
            raise PydanticCustomError("position", "position goes with part call only")
        return self


class ClientReadArguments(ReadArguments):
    max_chars: Integer = Field(
        READ_CHARS, ge=100, le=READ_CHARS, description="Characters of this part at most, 100 to 10000 (the default)."
    )


class _ShortSchema(GenerateJsonSchema):
    """JSON schemas without titles, class docstrings, defaults and null, which only cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        made.pop("description", None)
        return made

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        # Not every provider knows `const`.
        return {"type": "string", "enum": list(schema["expected"])}

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value


@cache
def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Build the JSON schema of a model, without titles and references."""
    schema = model.model_json_schema(schema_generator=_ShortSchema)
    definitions = schema.pop("$defs", {})
    inlined: dict[str, Any] = _inline(schema, definitions)
    return inlined


def _inline(schema: Any, definitions: Mapping[str, Any]) -> Any:
    match schema:
        case {"$ref": str() as reference, **beside}:
            return _inline({**definitions[reference.rpartition("/")[2]], **beside}, definitions)
        case dict():
            kept = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
            return {key: _inline(value, definitions) for key, value in kept.items()}
        case list():
            return [_inline(value, definitions) for value in schema]
        case _:
            return schema


def _explain_unknown(names: list[str], schema: Mapping[str, Any]) -> str:
    """Name the arguments that the tool does not have, and the nearest that it has."""
    properties = list(schema.get("properties", ()))
    wrong = names[0]
    parts = (name for name in properties if name.startswith(wrong) or name in wrong.split("_"))
    near = [*parts, *get_close_matches(wrong, properties, n=1)]
    takes = f"it takes {', '.join(properties)}" if properties else "it takes none"
    advice = f"did you mean {near[0]}?" if near else takes
    return f"{', '.join(names)[:100]} is not an argument of this tool; {advice}"


def _explain(error: ValidationError, schema: Mapping[str, Any]) -> str:
    """Describe the first problem: the argument, its range, and the given value."""
    problems = error.errors(include_url=False)
    unknown = [str(problem["loc"][0]) for problem in problems if problem["type"] == "extra_forbidden"]
    problem = problems[0]
    if unknown:
        return _explain_unknown(sorted(unknown), schema)
    if not problem["loc"]:
        return problem["msg"]
    name, value, context = str(problem["loc"][0]), problem["input"], problem.get("ctx", {})
    rule = schema["properties"].get(name, {})
    match problem["type"]:
        case "missing":
            return f"{name} is missing"
        case "blank" | "string_too_short":
            return f"{name} cannot be empty"
        case "string_too_long":
            return f"{name} must have at most {context['max_length']} characters, not {len(value)}"
        case "string_type":
            return f"{name} must be text"
        case "literal_error":
            return f"{name} must be one of {', '.join(rule['enum'])}, not {value!r:.40}"
        case "int_from_float":
            return f"{name} must be a whole number, not {value!r:.40}"
        case "time" | "object":
            return f"{name} {problem['msg']}"
        case _:
            limits = (
                f"from {rule['minimum']} to {rule['maximum']}" if "maximum" in rule else f"{rule['minimum']} or more"
            )
            return f"{name} must be {limits}, not {value!r:.40}"
