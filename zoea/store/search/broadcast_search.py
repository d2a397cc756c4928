"""Search broadcasts, each listed once for all its recipients."""

from __future__ import annotations

import sqlite3

from msgspec.structs import replace

from zoea.store.database_file import convert_row
from zoea.store.search import fts_terms
from zoea.store.search.excerpts import compile_pattern, cut_excerpt
from zoea.store.search.memory_search import NEWEST, NO_WORDS, OLDER, RANKED, SCANNED
from zoea.store.search.query import BroadcastHit, BroadcastHits, BroadcastQuery, MatchMode
from zoea.store.search.unspaced_words import is_unspaced, list_forms, rank_matches, split_words, word_pattern

_SOME = "no broadcast has all of these words; these have some of them"
_OF = """(g.sender_id = :mysis OR EXISTS (SELECT 1 FROM delivery d
  WHERE d.message_id = g.id AND d.mysis_id = :mysis AND d.state IN ('pending', 'taken')))"""
_COLUMNS = (
    "g.id, g.id AS message_id, g.sender_kind, g.sender_id, g.content, g.created_at,"
    " iif(g.sender_kind = 'commander', '', g.sender_name) AS sender"
)


def search_broadcasts(connection: sqlite3.Connection, query: BroadcastQuery) -> BroadcastHits:
    """Return a page of matching broadcasts, newest first, or best first if ranked.

    Raises:
        sqlite3.OperationalError: The connection was interrupted.
    """
    return _search_ranked(connection, query) if query.match is MatchMode.RANKED else _search_exact(connection, query)


def _search_exact(connection: sqlite3.Connection, query: BroadcastQuery) -> BroadcastHits:
    forms = [_find_form(connection, replace(query, text=form)) for form in list_forms(query.text)]
    rows = {row["id"]: row for found, _ in forms for row in found}
    found, down_to = sorted(rows.values(), key=lambda row: -row["id"]), max(stop for _, stop in forms)
    before, note = found[query.limit - 1]["id"] if len(found) > query.limit else None, ""
    if before is None and down_to:
        before, note = down_to + 1, f"looked through the newest {SCANNED:,} messages only"
    return BroadcastHits(_build_hits(found[: query.limit], query), before, note)


def _find_form(connection: sqlite3.Connection, query: BroadcastQuery) -> tuple[list[sqlite3.Row], int]:
    """Return a literal text's newest matches, and the id at which the scan stopped."""
    sql, values = _build_filters(query)
    fold = "lower" if query.fold else ""
    sql = f"{sql} AND instr({fold}(g.content), :words) > 0"
    values["words"] = fts_terms.fold_case(query.text, fold=query.fold)
    proposed, down_to = fts_terms.build_exact_terms(query.text, fold=query.fold), 0
    if proposed:
        source, order = "message_exact f CROSS JOIN message g ON g.id = f.rowid", "f.rowid"
        sql = f"f.message_exact MATCH :terms AND {sql}"
        newest = _newest_id(connection)
        values["terms"] = " AND ".join(
            fts_terms.choose_rare_terms(connection, "message_exact", proposed, newest, fold=query.fold)
        )
    else:
        source, order = "message g", "g.id"
        down_to = max(0, min(query.before_id or NEWEST, _newest_id(connection) + 1) - 1 - SCANNED)
        sql = f"g.id > {down_to} AND {sql}"
    rows = _read_rows(
        connection, f"SELECT {_COLUMNS} FROM {source} WHERE {sql} ORDER BY {order} DESC LIMIT :most", values
    )
    return rows, down_to


def _search_ranked(connection: sqlite3.Connection, query: BroadcastQuery) -> BroadcastHits:
    words = list(dict.fromkeys(split_words(query.text)))[: fts_terms.GRAMS]
    if any(map(is_unspaced, words)):
        return _search_unspaced(connection, query, words)
    sql, values = _build_filters(query)
    notes: list[str] = []
    for every in (True, False):
        asked = fts_terms.build_word_terms(query.text, "content", None, every=every)
        if asked is None:
            return BroadcastHits(note=NO_WORDS)
        values.update(terms=asked, most=RANKED + 1)
        rows = _read_rows(
            connection,
            "SELECT g.id, bm25(message_words) AS score FROM message_words f CROSS JOIN message g ON g.id = f.rowid"
            f" WHERE f.message_words MATCH :terms AND {sql} ORDER BY f.rowid DESC LIMIT :most",
            values,
        )
        if rows:
            if len(rows) > RANKED:
                notes.append(OLDER.format(RANKED))
            best = sorted(rows[:RANKED], key=lambda row: (row["score"], -row["id"]))[: query.limit]
            return BroadcastHits(
                _build_hits(_read_broadcasts(connection, [row["id"] for row in best]), query), note="; ".join(notes)
            )
        notes.append(_SOME)
    return _search_unspaced(connection, query, words)


def _search_unspaced(connection: sqlite3.Connection, query: BroadcastQuery, words: list[str]) -> BroadcastHits:
    """Search words of scripts without spaces, and others that may stand directly beside such."""

    def find(word: str) -> list[int]:
        ids = find_newest(word, is_exact=is_unspaced(word))
        if ids or is_unspaced(word) or len(word) < fts_terms.GRAM:
            return ids
        pattern = word_pattern([word])
        return [row for row, text in read(find_newest(word, is_exact=True)) if pattern.search(text)]

    def read(ids: list[int]) -> list[tuple[int, str]]:
        return [(row["id"], row["content"]) for row in _read_broadcasts(connection, ids[-RANKED:])]

    def find_newest(word: str, *, is_exact: bool) -> list[int]:
        narrowed, values = _build_filters(query)
        values["most"] = RANKED
        if is_exact:
            values["word"] = word
            newest = max(0, min(query.before_id or NEWEST, _newest_id(connection) + 1) - 1 - SCANNED)
            sql = f"SELECT g.id FROM message g WHERE g.id > {newest} AND instr(g.content, :word) > 0 AND {narrowed}"
            if proposed := fts_terms.build_exact_terms(word, fold=False):
                values["terms"] = " AND ".join(proposed)
                sql = (
                    "SELECT g.id FROM message_exact f CROSS JOIN message g ON g.id = f.rowid"
                    f" WHERE f.message_exact MATCH :terms AND instr(g.content, :word) > 0 AND {narrowed}"
                )
        else:
            values["terms"] = fts_terms.build_word_terms(word, "content", None, every=True)
            sql = (
                "SELECT g.id FROM message_words f CROSS JOIN message g ON g.id = f.rowid"
                f" WHERE f.message_words MATCH :terms AND {narrowed}"
            )
        return [row["id"] for row in _read_rows(connection, f"{sql} ORDER BY g.id DESC LIMIT :most", values)]

    ids, has_every = rank_matches(words, find, read)
    best = _read_broadcasts(connection, ids[: query.limit])
    return BroadcastHits(_build_hits(best, query), note="" if has_every or not ids else _SOME)


def _build_filters(query: BroadcastQuery) -> tuple[str, dict[str, object]]:
    sql, values = ["g.kind = 'broadcast'"], dict[str, object](most=query.limit + 1)
    for name, condition, value in (
        ("mysis", _OF, query.mysis_id),
        ("since", "g.created_at >= :since", query.since),
        ("until", "g.created_at < :until", query.until),
        ("before", "g.id < :before", query.before_id),
    ):
        if value is not None:
            sql.append(condition)
            values[name] = value
    return " AND ".join(sql), values


def _newest_id(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(id), 0) FROM message").fetchone()[0])


def _read_broadcasts(connection: sqlite3.Connection, ids: list[int]) -> list[sqlite3.Row]:
    """Return the broadcasts with these ids, in order, without any removed since."""
    each = (_read_rows(connection, f"SELECT {_COLUMNS} FROM message g WHERE g.id = :id", {"id": one}) for one in ids)
    return [row for rows in each for row in rows]


def _read_rows(connection: sqlite3.Connection, sql: str, values: dict[str, object]) -> list[sqlite3.Row]:
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    return cursor.execute(sql, values).fetchall()


def _build_hits(found: list[sqlite3.Row], query: BroadcastQuery) -> tuple[BroadcastHit, ...]:
    pattern = compile_pattern(query.text, query.match, fold=query.fold)
    return tuple(
        convert_row(BroadcastHit, row, excerpt=cut_excerpt(row["content"], pattern, query.max_chars)) for row in found
    )
