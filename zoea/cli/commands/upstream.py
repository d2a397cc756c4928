"""`zoea upstream`: add, import, remove, list, test and call servers of tools (MCP)."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from zoea.cli import output
from zoea.cli.output import Output
from zoea.model.errors import ToolError, UsageError
from zoea.process.command_line import argument, arguments, flag, option
from zoea.runtime.upstream_import import (
    UpstreamImport,
    describe_server,
    enable_upstream,
    import_servers,
    remove_upstream,
)
from zoea.settings.paths import Places, expand_home
from zoea.settings.small_file import MOST_FOREIGN_BYTES, read_small_text
from zoea.text.control_characters import one_line
from zoea.text.large_json import dump_shown
from zoea.text.shorten import head_with_length

_PURPOSE = 200
UPSTREAM_NAME = argument("NAME", "As `zoea upstream list` shows it.")
CALLER = "commander"
CALL_S = 60.0

T = TypeVar("T")


def import_(
    where: Places,
    file: Path = argument("FILE", "JSON file of another MCP client, with mcpServers or servers.", read=Path),
    replace: bool = flag("--replace", "Overwrite upstreams of the same name."),
) -> Output:
    """Import the servers of another MCP client. Secrets go to the credentials file."""
    try:
        text = read_small_text(expand_home(file), MOST_FOREIGN_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"cannot read {file}: {why}") from None
    outcome = import_servers(text, where, replace=replace)
    return _report(outcome, "imported")


def add(
    where: Places,
    name: str = argument("NAME", "A name of your choice."),
    words: tuple[str, ...] = arguments("SERVER...", "An address, or -- and the command with its arguments."),
    replace: bool = flag("--replace", "Overwrite an upstream of the same name."),
) -> Output:
    """Add one MCP server. Secrets in it go to the credentials file.

    Examples: zoea upstream add files -- npx -y @modelcontextprotocol/server-filesystem /data;
    zoea upstream add wiki https://mcp.example.org/mcp
    """
    text = words[0] if len(words) == 1 else shlex.join(words)
    outcome = import_servers(describe_server(name, text), where, replace=replace)
    return _report(outcome, "added")


def remove(where: Places, name: str = UPSTREAM_NAME) -> Output:
    """Remove an upstream from your settings. Its stored credentials stay."""
    remove_upstream(name, where)
    return _tell(name, "removed")


def enable(where: Places, name: str = UPSTREAM_NAME) -> Output:
    """Switch an upstream on."""
    enable_upstream(name, True, where)
    return _tell(name, "enabled")


def disable(where: Places, name: str = UPSTREAM_NAME) -> Output:
    """Switch an upstream off; its settings stay."""
    enable_upstream(name, False, where)
    return _tell(name, "disabled")


def _report(outcome: UpstreamImport, done: str) -> Output:
    """Return the imported servers. Raises UsageError where there are none, after the reasons are written."""
    result = Output(outcome.as_dict(), outcome.lines())
    if outcome.imported:
        return result
    output.write(result)
    raise UsageError(f"nothing was {done}", hint="The lines above say why." if outcome.left_out else "")


def _tell(name: str, done: str) -> Output:
    text = f"{name} is {done}. `zoea config apply`, or f5 in the cockpit, lets a running swarm use that."
    return Output({"name": name, "done": done}, text)


def list_(where: Places) -> Output:
    """List the configured upstreams without opening them."""
    from zoea.settings.layers import load

    upstreams = load(where).settings.upstream
    rows = [
        {
            "name": name,
            "transport": "stdio" if one.command else "http",
            # Arguments and queries of addresses may hold secrets, so neither is shown.
            "where": one.command or one.url.partition("?")[0],
            "session": one.session,
            "required": one.required,
            "enabled": one.enabled,
        }
        for name, one in upstreams.items()
    ]
    nothing = "There are no upstreams. Add one: zoea upstream add NAME -- COMMAND, or run: zoea upstream import FILE"
    lines = []
    width = max((len(str(row["name"])) for row in rows), default=0)
    for row in rows:
        marks = "".join(
            f"  {mark}"
            for mark in (row["session"], row["required"] and "required", not row["enabled"] and "off")
            if mark
        )
        lines.append(f"{row['name']:<{width}}  {row['transport']:<5}  {row['where']}{marks}")
    return Output(rows, lines or nothing)


def try_out(
    where: Places, name: str = UPSTREAM_NAME, schemas: bool = flag("--schemas", "Show each tool's input schema too.")
) -> Output:
    """Open an upstream, list its tools, and measure opening time and latency."""

    async def work(box: Any) -> dict[str, Any]:
        upstream = await _opened(box, name)
        latency_ms = await upstream.ping()
        catalogue = await box.session(0, CALLER, "").catalogue()
        return {
            "name": name,
            "server": upstream.status().server,
            "open_ms": upstream.status().open_ms,
            "latency_ms": latency_ms,
            "tools": [_tool(tool) for tool in catalogue.tools],
            "notes": list(upstream.status().notes),
        }

    trial = _with_box(where, name, work)
    return Output(trial, _describe_test(trial, schemas=schemas))


def _describe_test(found: dict[str, Any], *, schemas: bool) -> Iterator[str]:
    yield f"{found['name']}: {found['server'] or 'an unnamed server'}"
    yield f"opened in {found['open_ms']:.0f} ms, answers in {found['latency_ms']:.1f} ms"
    for tool in found["tools"]:
        marks = "".join(f" [{mark}]" for mark in ("read_only", "destructive", "idempotent", "asks") if tool[mark])
        purpose = head_with_length(one_line(tool["description"]), _PURPOSE)
        yield f"  {one_line(tool['name'])}{marks.replace('_', '-')}  {purpose}"
        if schemas:
            yield "    " + dump_shown(tool["input_schema"])
    for note in found["notes"]:
        yield f"note: {note}"


def call(
    where: Places,
    name: str = UPSTREAM_NAME,
    tool: str = argument("TOOL", "The tool's name, as `zoea upstream test` shows it."),
    arguments: str = argument("JSON", "Its arguments, a JSON object.", "{}"),
    mysis: str = option("--as MYSIS", "Mysis that the call is made for, with its account."),
) -> Output:
    """Call one tool and print its result.

    Example: zoea upstream call files read_file '{"path": "a.txt"}'
    """
    from zoea.model.request import AnswerCall, CallMeta
    from zoea.queries.stored_swarm import read_uid

    uid = read_uid(where.database, mysis) if mysis else ""

    async def work(box: Any) -> Any:
        upstream = await _opened(box, name)
        if upstream.config.inject and not mysis:
            raise UsageError(f"{name} needs the account of a mysis", hint="Name one: --as MYSIS")
        session = box.session(0, mysis or CALLER, "", uid=uid)
        await session.catalogue()
        meta = CallMeta(mysis_id=0, mysis=mysis or CALLER, turn_id=0, call_id=0, deadline_s=CALL_S)
        return await session.call(AnswerCall(name=tool, arguments=arguments), meta=meta)

    result = _with_box(where, name, work)
    blobs = [{"media_type": blob.media_type, "bytes": len(blob.data)} for blob in result.blobs]
    value = {"content": result.content, "is_error": result.is_error, "blobs": blobs}
    if not result.is_error:
        return Output(value, result.content)
    if not output.is_json:
        output.warn(result.content)
    return Output(value, exit_code=ToolError.exit_code)


async def _opened(box: Any, name: str) -> Any:
    """Return the upstream once it is open. Raises ToolError with the cause if it does not open."""
    upstream = box.upstream(name)
    if not await upstream.settled():
        status = upstream.status()
        hint = f"Its log is {status.log}." if status.log else ""
        raise ToolError(f"{name} did not open: {status.last_error or 'no answer in time'}", hint=hint)
    return upstream


def _with_box(where: Places, name: str, work: Callable[[Any], Awaitable[T]]) -> T:
    """Run `work` with a toolbox that holds this one upstream."""
    from zoea.runtime.accounts import CredentialAccounts, CredentialSecrets
    from zoea.runtime.upstream_set import build_upstreams
    from zoea.settings.credentials import Credentials
    from zoea.settings.layers import load
    from zoea.tools import Toolbox

    loaded = load(where)
    upstream = loaded.settings.upstream.get(name)
    if upstream is None:
        names = ", ".join(loaded.settings.upstream)
        hint = f"Configured: {names}." if names else "None is configured yet: `zoea upstream add` adds one."
        raise UsageError(f"no upstream {name}", hint=hint)
    credentials = Credentials(loaded.places.credentials)
    # Only this upstream: a missing credential of another one must not fail here.
    alone = loaded.settings.model_copy(update={"upstream": {name: upstream}})
    # As for a mysis that works here.
    configs = [config.at(Path.cwd()) for config in build_upstreams(alone, credentials)]

    async def run() -> T:
        box = Toolbox(
            configs,
            logs=loaded.places.data,
            accounts=CredentialAccounts(credentials),
            secrets=CredentialSecrets(credentials),
        )
        box.open()
        try:
            return await work(box)
        finally:
            await box.close()

    loaded.places.make_data()
    if not output.is_json:
        output.warn(f"opening {name} …")
    return asyncio.run(run())


def _tool(tool: Any) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent,
        "asks": tool.asks,
        "input_schema": tool.input_schema,
    }
