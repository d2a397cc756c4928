"""`zoea import` restores every row that `zoea export` wrote, under new ids."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.memory_store import memory_store
from tests.swarm.harness import call, plain, script, swarm
from tests.transfer.sample_exports import (
    PICTURE,
    count_rows,
    export_lines,
    import_files_into,
    import_into,
    make_sample_swarm,
    parse_without_ids,
    read_rows,
    write_lines,
)
from zoea.model.errors import SwarmFull, UsageError
from zoea.model.request import Answer
from zoea.queries.request_inspection import inspect_request
from zoea.queries.stored_swarm import read_swarm_view
from zoea.settings.schema import Settings
from zoea.store.blobs import get_blob
from zoea.store.database_file import open_reader
from zoea.transfer.export import Format, export_pieces, file_stem, read_exportable, swarm_pieces


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that is only read."""
    return asyncio.run(make_sample_swarm(tmp_path_factory.mktemp("source")))


async def test_an_exported_and_imported_swarm_has_the_same_rows(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target" / "zoea.db"
    file = write_lines(tmp_path, export_lines(source, 2, 1))
    (report,) = await import_files_into(target, file)
    assert [(arrival.name, arrival.mended) for arrival in report.arrivals] == [("beta", {}), ("alpha", {})]
    again = {name: mysis_id for mysis_id, name in read_exportable(target).items()}
    assert parse_without_ids(export_lines(target, again["beta"], again["alpha"])) == parse_without_ids(
        file.read_text("utf-8")
    )
    kinds = {line["kind"] for line in parse_without_ids(file.read_text("utf-8"))}
    assert kinds >= {"tag", "tally", "session", "spend", "catalogue", "sender", "note", "approval", "blob", "end"}

    before = count_rows(target)
    (report,) = await import_files_into(target, file)
    assert set(report.skipped) == {"alpha", "beta"}
    assert count_rows(target) == before
    # One broadcast, told once, however many files say it.
    assert read_rows(target, "SELECT count(*) FROM message WHERE kind = 'broadcast'") == [(1,)]
    with closing(open_reader(target)) as reader:
        picture = reader.execute("SELECT blob_id FROM memory_blob WHERE position = 0").fetchone()[0]
        assert get_blob(reader, picture) == PICTURE
    # A request still shows exactly the sent messages.
    (request_id,) = read_rows(target, "SELECT max(id) FROM request WHERE mysis_id = ?", again["alpha"])[0]
    assert "burn it" in [plain(one.content) for one in inspect_request(target, request_id).messages]


async def test_an_imported_swarm_is_listed_in_the_order_that_it_had(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target" / "zoea.db"
    source.mkdir()
    replies = script(Answer(calls=(call("zoea_broadcast", "Iron in the belt"),)), *[Answer(text="heard")] * 4)
    async with swarm(source, replies, settings=Settings.model_validate({"nudge": {"enabled": False}})) as inner:
        for name in ("alpha", "beta", "gamma"):
            await inner.commander.create(name, start=False)
        await inner.commander.send("gamma", "Tell them")  # so that what alpha heard names gamma, before beta
        await inner.settled("gamma")
        await inner.settled()
    exported = export_lines(source / "zoea.db", *read_exportable(source / "zoea.db"))
    await import_files_into(target, write_lines(tmp_path, exported))
    assert [one.name for one in read_swarm_view(target).myses] == ["alpha", "beta", "gamma"]


async def test_senders_and_broadcasts_are_joined_over_several_files(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target" / "zoea.db"
    files = []
    for mysis_id, name in read_exportable(source).items():
        files.append(tmp_path / f"{file_stem(mysis_id, name)}.jsonl")
        files[-1].write_text("".join(export_pieces(source, mysis_id, Format.JSONL)), encoding="utf-8")
    alpha, beta = files
    await import_files_into(target, beta)  # alpha sent it a message and is known only by name
    assert read_exportable(target) == {1: "beta"}
    assert read_exportable(target, archived=True) == {1: "beta"}
    assert "broadcast from mysis alpha" in "".join(export_pieces(target, 1, Format.MARKDOWN))
    await import_files_into(target, alpha)
    assert sorted(read_exportable(target).values()) == ["alpha", "beta"]
    ids = {name: mysis_id for mysis_id, name in read_exportable(target).items()}
    assert parse_without_ids(export_lines(target, ids["alpha"], ids["beta"])) == parse_without_ids(
        export_lines(source, 1, 2)
    )


async def test_an_imported_mysis_can_run_under_a_free_name(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    settings = Settings.model_validate({"nudge": {"enabled": False}})
    async with swarm(target, settings=settings) as inner:
        await inner.commander.create("Alpha", start=False)
        await inner.store.write(lambda conn: conn.execute("UPDATE mysis SET uid = 'own'"))
    (report,) = await import_files_into(target / "zoea.db", write_lines(tmp_path, export_lines(source, 1, 2)))
    assert [(one.name, one.wanted) for one in report.arrivals] == [("alpha-2", "alpha"), ("beta", "beta")]
    async with swarm(target, script(Answer(text="Here again")), settings=settings) as inner:
        await inner.commander.start("alpha-2")
        await inner.settled("alpha-2")
        said = await inner.rows("SELECT content FROM memory WHERE role = 'assistant' ORDER BY id DESC LIMIT 1")
        assert said == [{"content": "Here again"}]
        assert "wait for it" in str(inner.sent()[0])


async def test_a_redacted_export_can_be_imported(source: Path, tmp_path: Path) -> None:
    file = write_lines(tmp_path, "".join(export_pieces(source, 1, Format.JSONL, redact=True)))
    conn = memory_store()
    (arrival,) = import_into(conn, file).arrivals
    assert "bytes that the file does not hold are kept as redacted" in arrival.mended
    assert conn.execute("SELECT count(*) FROM blob WHERE place = 'redacted'").fetchone()[0] == 2
    conn.close()


async def test_an_import_over_the_limit_of_myses_is_refused(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target" / "zoea.db"
    file = write_lines(tmp_path, export_lines(source, 1, 2))
    with pytest.raises(SwarmFull, match="beta does not fit in"):
        await import_files_into(target, file, settings=Settings.model_validate({"swarm": {"max_myses": 1}}))
    assert count_rows(target)["mysis"] == 0


async def test_markdown_and_html_can_hold_a_whole_swarm(source: Path) -> None:
    assert "".join(swarm_pieces(source, [1, 2], Format.MARKDOWN)).count("\n# beta\n") == 1
    page = "".join(swarm_pieces(source, [1, 2], Format.HTML))
    assert page.count("<html") == page.count("</html>") == 1
    assert "<h1>alpha</h1>" in page


def test_other_formats_and_truncated_files_are_reported(tmp_path: Path) -> None:
    conn = memory_store()
    for text, words in (
        ("", "the file is empty"),
        ("SQLite format 3\0", "this is a SQLite database"),
        ("[1]\n", "not a JSON object"),
        ("{]\n", "this is not JSON"),
        ('{"kind": "conversation", "ver', "ends in the middle of a line"),
        ('{"kind": "conversation", "version": 1}\n', "its end is missing"),
        ('{"kind": "conversation", "version": 9}\n', "of version 9"),
        ('{"kind": "turn"}\n', "not an export of Zoea"),
        ('{"kind": "wish"}\n', "unknown kind of line 'wish'"),
        ('{"kind": "swarm", "version": 1, "myses": 3}\n', "0 myses"),
        (f'{{"kind": {"[" * 5000}', "ends in the middle"),
        ('{"kind": "conversation", "version": NaN}\n', "this is not JSON"),
    ):
        with pytest.raises(UsageError, match=words):
            import_into(conn, write_lines(tmp_path, text))
    (tmp_path / "latin.jsonl").write_bytes(b'{"kind": "\xe9"}\n')
    with pytest.raises(UsageError, match="line 1: this is not UTF-8"):
        import_into(conn, tmp_path / "latin.jsonl")
    with pytest.raises(UsageError, match="cannot be read"):
        import_into(conn, tmp_path / "none.jsonl")
    conn.close()
