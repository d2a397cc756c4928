"""`zoea topic`: the ledger of topics."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from zoea.cli.options import AsJson, Workspace, row_ids, write_json
from zoea.cli.output import moment
from zoea.cli.swarm_access import command
from zoea.cli.terminal_rows import receipt_line
from zoea.model.errors import UsageError
from zoea.model.topics import EVERYONE, PublishReceipt, TopicMessage, check_published_topic, check_topic
from zoea.queries import topic_ledger as ledger
from zoea.settings.paths import places
from zoea.settings.small_file import MOST_FOREIGN_BYTES, read_small_text
from zoea.text.control_characters import one_line, prose_line, strip
from zoea.text.large_json import MAX_DEPTH, is_deep, parse_bounded

app = typer.Typer(
    name="topic",
    help="List, read, publish and follow messages of topics. A mysis gets those that its template subscribes to.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

POLL_S = 0.2
"""How often `tail` looks for new messages."""
_SHOWN = 60

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of a topic; capitals matter.")]
AnyTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="Only this topic; all topics if left out.")]
FromSender = Annotated[str, typer.Option("--sender", metavar="NAME", help="Only messages of this sender.")]


@app.command("list")
def list_topics(as_json: AsJson = False, workspace: Workspace = "") -> None:
    """List the topics: number of messages, newest message, subscribers."""
    database = places(workspace).database
    found, subscribers = ledger.read_topics(database), ledger.read_subscribers(database)
    rows = [
        {
            "topic": one.topic,
            "messages": one.messages,
            "newest_id": one.newest_id,
            "newest_sender": one.newest_sender,
            "newest_text": one.newest_text,
            "newest_at": one.newest_at,
            "subscribers": subscribers.pop(one.topic, []),
        }
        for one in found
    ]
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
    if as_json:
        write_json(rows)
    elif not rows:
        typer.echo("There are no topics yet. `zoea topic publish TOPIC TEXT` makes one.")
    else:
        typer.echo("\n".join(map(_topic_line, rows)))


def _topic_line(row: dict[str, Any]) -> str:
    newest = ""
    if row["newest_at"]:
        sender = one_line(ledger.format_sender(row["newest_sender"]))
        newest = f"  {moment(row['newest_at'])}  {sender}: {prose_line(row['newest_text'])[:_SHOWN]}"
    readers = f"  read by {', '.join(row['subscribers'])}" if row["subscribers"] else ""
    return strip(f"{row['topic']}  {row['messages']:,}{readers}{newest}")


@app.command("read")
def read_topic(
    topic: TopicName,
    last: Annotated[
        int, typer.Option("--last", "-n", metavar="N", min=1, max=100_000, help="Number of newest messages.")
    ] = 20,
    before: Annotated[
        int | None, typer.Option("--before", metavar="ID", callback=row_ids, help="Only messages before this id.")
    ] = None,
    sender: FromSender = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Show the newest messages of a topic, oldest first. With --json each line is one message."""
    database = places(workspace).database
    for message in ledger.read_messages(database, check_topic(topic), limit=last, before=before, sender=sender):
        _write_message(message, as_json)


@app.command("publish")
def publish(
    topic: TopicName,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="The message; - reads it from stdin.")
    ] = None,
    data: Annotated[str, typer.Option(metavar="JSON", help="A JSON object; @FILE reads it from a file.")] = "",
    to: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Only for this mysis; if not given, for all subscribers.", show_default=False
        ),
    ] = EVERYONE,
    raw: Annotated[bool, typer.Option("--raw", help="Only store it: no mysis ever gets it in a prompt.")] = False,
    key: Annotated[
        str,
        typer.Option(
            metavar="KEY", help="Idempotency key: a repeated command with the same key publishes nothing again."
        ),
    ] = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Publish a message on a topic. Each mysis that subscribes to it gets it as the prompt of a turn.

    Example: zoea topic publish ISSUE_OPENED "The login fails" --data '{"issue_number": 7}'
    """
    said = sys.stdin.read() if text == ["-"] else " ".join(text or ())
    name, given = check_published_topic(topic), _parse_data(data)
    if not said.strip() and not given:
        raise UsageError("the message is empty", hint="Give the text, - to read it from stdin, or --data JSON.")
    done = command(
        workspace,
        lambda swarm: swarm.publish(name, said, data=given, receiver=to, is_raw=raw, idempotency_key=key),
    )
    if as_json:
        write_json(done)
        return
    _write_receipt(done)


def _write_receipt(done: PublishReceipt) -> None:
    typer.echo(f"message {done.id} is on {done.topic}")
    for line in done.lines:
        typer.echo(receipt_line(line))
    if not done.lines:
        typer.echo("no mysis subscribes to it")


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
        found = parse_bounded(text.encode("utf-8", "surrogatepass"))
    except ValueError as problem:
        raise UsageError(
            f"{where} is not JSON: {problem}", hint='Give an object: --data \'{"key": "value"}\''
        ) from None
    if not isinstance(found, dict):
        raise UsageError(f"{where} is not a JSON object", hint='Give an object: --data \'{"key": "value"}\'')
    if is_deep(found):
        raise UsageError(f"{where} is nested more than {MAX_DEPTH} levels deep", hint="Give it with fewer levels.")
    return found


@app.command("tail")
def tail(
    topic: AnyTopic = "",
    last: Annotated[
        int,
        typer.Option("--last", "-n", metavar="N", min=0, max=100_000, help="Number of stored messages to begin with."),
    ] = 10,
    sender: FromSender = "",
    as_json: AsJson = False,
    workspace: Workspace = "",
) -> None:
    """Show the newest messages, then each new one as it is published, until ctrl+c. Works without a running swarm."""
    database = places(workspace).database
    name = check_topic(topic) if topic else ""
    after = ledger.read_newest_id(database)
    if last:
        for message in ledger.read_messages(database, name, limit=last, before=after + 1, sender=sender):
            _write_message(message, as_json)
    while True:
        for message in ledger.read_messages_after(database, after, name, sender=sender):
            _write_message(message, as_json)
            after = message.id
        sys.stdout.flush()
        time.sleep(POLL_S)


def _write_message(message: TopicMessage, as_json: bool) -> None:
    if as_json:
        write_json(message)
        return
    typer.echo(strip(f"{moment(message.created_at)}  #{message.id}  {ledger.format_origin(message)}"))
    typer.echo("\n".join(f"    {line}" for line in strip(ledger.format_body(message)).splitlines()))
