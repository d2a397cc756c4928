"""`zoea topic`: the ledger of topics."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from zoea.cli import output
from zoea.cli.output import Output, Outputs, moment
from zoea.cli.swarm_access import command
from zoea.cli.terminal_rows import receipt_line
from zoea.model.errors import UsageError
from zoea.model.topics import EVERYONE, TopicMessage, check_published_topic, check_topic
from zoea.process.command_line import argument, arguments, flag, option, row_id, whole_number
from zoea.queries import topic_ledger as ledger
from zoea.settings.paths import Places
from zoea.settings.small_file import MOST_FOREIGN_BYTES, read_small_text
from zoea.text.control_characters import one_line, prose_line, reveal
from zoea.text.large_json import MAX_DEPTH, is_deep, parse_bounded

POLL_S = 0.2
"""How often `tail` looks for new messages."""
_SHOWN = 60

TOPIC_NAME = argument("TOPIC", "Name of a topic; capitals matter.")
ANY_TOPIC = argument("TOPIC", "Only this topic; all topics if left out.", "")
FROM_SENDER = option("--sender NAME", "Only messages of this sender.")


def list_(where: Places) -> Output:
    """List the topics: number of messages, newest message, subscribers.

    A mysis gets the messages of the topics that its template subscribes to.
    """
    database = where.database
    topics, subscribers = ledger.read_topics(database), ledger.read_subscribers(database)
    rows = [{**asdict(one), "subscribers": subscribers.pop(one.topic, [])} for one in topics]
    rows += [
        {
            "topic": topic,
            "messages": 0,
            "newest_id": None,
            "newest_sender": "",
            "newest_text": "",
            "newest_at": None,
            "subscribers": names,
        }
        for topic, names in sorted(subscribers.items())
    ]
    nothing = "There are no topics yet. `zoea topic publish TOPIC TEXT` makes one."
    return Output(rows, [_topic_line(row) for row in rows] or nothing)


def _topic_line(row: dict[str, Any]) -> str:
    newest = ""
    if row["newest_at"]:
        sender = one_line(ledger.format_sender(row["newest_sender"]))
        newest = f"  {moment(row['newest_at'])}  {sender}: {prose_line(row['newest_text'])[:_SHOWN]}"
    readers = f"  read by {', '.join(row['subscribers'])}" if row["subscribers"] else ""
    return reveal(f"{row['topic']}  {row['messages']:,}{readers}{newest}")


def read(
    where: Places,
    topic: str = TOPIC_NAME,
    last: int = option("-n, --last N", "Number of newest messages.", 20, whole_number(1, 100000)),
    before: int | None = option("--before ID", "Only messages before this id.", None, row_id),
    sender: str = FROM_SENDER,
) -> Outputs:
    """Show the newest messages of a topic, oldest first. With --json each line is one message."""
    database = where.database
    for message in ledger.read_messages(database, check_topic(topic), limit=last, before=before, sender=sender):
        yield _show(message)


def publish(
    where: Places,
    topic: str = TOPIC_NAME,
    text: tuple[str, ...] = arguments("TEXT", "The message; - reads it from stdin.", ()),
    data: str = option("--data JSON", "A JSON object; @FILE reads it from a file."),
    to: str = option("--to NAME", "Only for this mysis; if not given, for all subscribers."),
    raw: bool = flag("--raw", "Only store it: no mysis ever gets it in a prompt."),
    key: str = option("--key KEY", "Idempotency key: a repeated command with the same key publishes nothing again."),
) -> Output:
    """Publish a message on a topic. Each mysis that subscribes to it gets it as the prompt of a turn.

    Example: zoea topic publish ISSUE_OPENED "The login fails" --data '{"issue_number": 7}'
    """
    content = output.read_stdin() if text == ("-",) else " ".join(text)
    name, given = check_published_topic(topic), _parse_data(data)
    if not content.strip() and not given:
        raise UsageError("the message is empty", hint="Give the text, - to read it from stdin, or --data JSON.")
    done = command(
        where,
        lambda swarm: swarm.publish(
            name, content, data=given, receiver=to or EVERYONE, is_raw=raw, idempotency_key=key
        ),
    )
    lines = [receipt_line(line) for line in done.lines] or ["no mysis subscribes to it"]
    return Output(done, [f"message {done.id} is on {done.topic}", *lines])


def _parse_data(given: str) -> dict[str, Any] | None:
    if not given:
        return None
    text, where = given, "--data"
    if given.startswith("@"):
        where = given[1:]
        try:
            text = read_small_text(Path(where), MOST_FOREIGN_BYTES)
        except (OSError, ValueError) as problem:
            why = (problem.strerror if isinstance(problem, OSError) else "") or problem
            raise UsageError(
                f"{where} cannot be read: {why}", hint="Give --data @FILE with a JSON file that you may read."
            ) from problem
    try:
        data = parse_bounded(text.encode("utf-8", "surrogatepass"))
    except ValueError as problem:
        raise UsageError(
            f"{where} is not JSON: {problem}", hint='Give an object: --data \'{"key": "value"}\''
        ) from None
    if not isinstance(data, dict):
        raise UsageError(f"{where} is not a JSON object", hint='Give an object: --data \'{"key": "value"}\'')
    if is_deep(data):
        raise UsageError(f"{where} is nested more than {MAX_DEPTH} levels deep", hint="Give it with fewer levels.")
    return data


def tail(
    where: Places,
    topic: str = ANY_TOPIC,
    last: int = option("-n, --last N", "Number of stored messages to begin with.", 10, whole_number(0, 100000)),
    sender: str = FROM_SENDER,
) -> Outputs:
    """Show the newest messages, then each new one as it is published, until ctrl+c. Works without a running swarm."""
    database = where.database
    name = check_topic(topic) if topic else ""
    after = ledger.read_newest_id(database)
    if last:
        for message in ledger.read_messages(database, name, limit=last, before=after + 1, sender=sender):
            yield _show(message)
    while True:
        for message in ledger.read_messages_after(database, after, name, sender=sender):
            yield _show(message)
            after = message.id
        time.sleep(POLL_S)


def _show(message: TopicMessage) -> Output:
    title = f"{moment(message.created_at)}  #{message.id}  {ledger.format_origin(message)}"
    body = "\n".join(f"    {line}" for line in reveal(ledger.format_body(message)).splitlines())
    return Output(message, f"{title}\n{body}")
