"""Search memories: exact text newest first, or ranked words best first."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from heapq import merge

from msgspec.structs import replace

from zoea.model.enums import Role
from zoea.store.database_file import convert_row
from zoea.store.search import fts_terms
from zoea.store.search.excerpts import compile_pattern, cut_excerpt
from zoea.store.search.query import SEARCH_TOOLS, HitPlace, MatchMode, MemoryHit, MemoryHits, MemoryQuery, SearchColumn
from zoea.store.search.unspaced_words import is_unspaced, list_forms, rank_matches, split_words, word_pattern

FEW = 5_000
"""Below so many memories, a mysis is searched row by row."""
SCANNED = 50_000
"""Memories scanned by a query that is too short for the index."""
LOOKED = 1_000
"""The newest memories scanned before the index is asked, if matches are frequent."""
PROBED = 3
"""Terms probed to estimate that; probing all costs more than a scan in vain."""
RANKED = 5_000
"""The newest matches that a ranked search ranks."""
NO_WORDS = "the query has no words: use exact search for signs"
OLDER = "chosen from the newest {:,} matches, there are older ones"
_SOME = "no memory has all of these words; these have some of them"
NEWEST = 1 << 50
"""An id higher than every row's."""
_HIT = """
SELECT m.id AS memory_id, m.mysis_id, y.name AS mysis, y.deleted_at IS NOT NULL AS is_deleted, m.turn_id,
  t.number AS turn_number, m.role, m.source, m.created_at, m.content, m.reasoning, g.sender_kind,
  iif(g.sender_kind IN ('mysis', 'client'), g.sender_name, '') AS sender, r.id AS call_id, coalesce(r.name, '') AS tool
FROM memory m JOIN mysis y ON y.id = m.mysis_id JOIN turn t ON t.id = m.turn_id
LEFT JOIN message g ON g.id = m.message_id
LEFT JOIN tool_call r ON r.result_memory_id = m.id AND m.role = 'tool'
WHERE m.id = ?
"""
_PROPOSED = (
    "SELECT m.id FROM memory_exact f CROSS JOIN memory m ON m.id = f.rowid"
    " WHERE f.memory_exact MATCH :terms AND f.rowid < :before"
)
# A trigger keeps calls in the order of their memories, so the first call after the page ends it.
_PROPOSED_CALLS = f"""
SELECT m.id FROM call_exact f CROSS JOIN tool_call k ON k.id = f.rowid CROSS JOIN memory m ON m.id = k.memory_id
WHERE f.call_exact MATCH :terms AND f.rowid < coalesce(
  (SELECT id FROM tool_call WHERE memory_id >= :before ORDER BY memory_id, position LIMIT 1), {NEWEST})
"""
_SEARCHES = f"({', '.join(map(repr, SEARCH_TOOLS))})"
_NO_ECHO = (
    "m.id IS NOT (SELECT memory_id FROM tool_call WHERE id = :asking)",
    "NOT (m.role = 'user' AND m.turn_id IS (SELECT a.turn_id FROM tool_call k JOIN memory a ON a.id = k.memory_id"
    " WHERE k.id = :asking))",
    f"NOT EXISTS (SELECT 1 FROM tool_call WHERE result_memory_id = m.id AND name IN {_SEARCHES})",
)
_NO_SEARCH = (
    f"NOT (m.role = 'assistant' AND m.content = '' AND EXISTS (SELECT 1 FROM tool_call WHERE memory_id = m.id)"
    f" AND NOT EXISTS (SELECT 1 FROM tool_call WHERE memory_id = m.id AND name NOT IN {_SEARCHES}))"
)
"""The answer is more than calls of searches."""
_CALLS = (
    "SELECT id, position, name, name || '(' || arguments || ')' AS call FROM tool_call"
    " WHERE memory_id = ? ORDER BY position"
)


def search_memories(connection: sqlite3.Connection, query: MemoryQuery) -> MemoryHits:
    """Return a page of matching memories, newest first, or best first if ranked.

    Raises:
        sqlite3.OperationalError: The connection was interrupted.
    """
    if query.mysis_ids == ():
        return MemoryHits()
    if query.match is MatchMode.RANKED:
        return _search_ranked(connection, query)
    return _search_exact(connection, query)


def _search_exact(connection: sqlite3.Connection, query: MemoryQuery) -> MemoryHits:
    ids, down_to = _find_ids(connection, query, query.limit + 1)
    before = ids[query.limit - 1] if len(ids) > query.limit else None
    note = ""
    if before is None and down_to:
        before = down_to + 1
        note = f"looked through the newest {SCANNED:,} memories only"
    return MemoryHits(_build_hits(connection, ids[: query.limit], query), before, note)


def matching_ids(connection: sqlite3.Connection, query: MemoryQuery, most: int) -> list[int]:
    """Return the ids of the newest matches of an exact query, at most `most`. `limit` is ignored."""
    return _find_ids(connection, query, most)[0]


def _find_ids(connection: sqlite3.Connection, query: MemoryQuery, most: int) -> tuple[list[int], int]:
    """Return the newest matching ids, and the id at which the scan stopped. 0 if it covered everything.

    Letters match in composed and decomposed form.
    """
    pages = [_find_form(connection, replace(query, text=form), most) for form in list_forms(query.text)]
    return _take_distinct(merge(*(ids for ids, _ in pages), reverse=True), most), max(down_to for _, down_to in pages)


def _find_form(connection: sqlite3.Connection, query: MemoryQuery, most: int) -> tuple[list[int], int]:
    narrowed, values = _build_filters(query)
    values["words"] = fts_terms.fold_case(query.text, fold=query.fold)
    asked = fts_terms.build_exact_terms(query.text, fold=query.fold)
    truth = " OR ".join(_text_conditions(query))
    look = f"SELECT m.id FROM memory m WHERE m.id > :down_to AND {narrowed} AND ({truth}) ORDER BY m.id DESC"
    if asked and not _is_small(connection, query.mysis_ids):
        if _is_frequent(connection, query, asked, most):
            down_to = _scan_floor(connection, query, LOOKED)
            ids = _take_distinct(_iterate_ids(connection, look, {**values, "down_to": down_to}), most)
            if len(ids) == most:
                return ids, 0
        return _take_distinct(_find_by_index(connection, query, asked, narrowed, values), most), 0
    values["down_to"] = down_to = 0 if asked else _scan_floor(connection, query, SCANNED)
    return _take_distinct(_iterate_ids(connection, look, values), most), down_to


def _find_by_index(
    connection: sqlite3.Connection, query: MemoryQuery, asked: list[str], narrowed: str, values: dict[str, object]
) -> Iterable[int]:
    """Return the ids of memories and calls that the indexes propose and the text confirms."""
    owners = fts_terms.build_owner_terms(query.mysis_ids)

    def proposal(index: str, rows: str) -> dict[str, object]:
        newest = connection.execute(f"SELECT coalesce(max(id), 0) FROM {rows}").fetchone()[0]
        chosen = fts_terms.choose_rare_terms(connection, index, asked, newest, fold=query.fold)
        return {**values, "terms": " AND ".join([*chosen, *owners])}

    own = " OR ".join(_text_conditions(query, with_calls=False))
    sql = f"{_PROPOSED} AND {narrowed} AND ({own}) ORDER BY f.rowid DESC"
    ids = _iterate_ids(connection, sql, proposal("memory_exact", "memory"))
    if query.column is SearchColumn.REASONING:
        return ids
    sql = f"{_PROPOSED_CALLS} AND {narrowed} AND {_call_condition(query)} ORDER BY f.rowid DESC"
    return merge(ids, _iterate_ids(connection, sql, proposal("call_exact", "tool_call")), reverse=True)


def _search_ranked(connection: sqlite3.Connection, query: MemoryQuery) -> MemoryHits:
    columns = {
        SearchColumn.CONTENT: "content",
        SearchColumn.REASONING: "reasoning",
        SearchColumn.ANY: "content reasoning",
    }[query.column]
    words = list(dict.fromkeys(split_words(query.text)))[: fts_terms.GRAMS]
    if any(map(is_unspaced, words)):
        return _search_unspaced(connection, query, words, columns)
    note = ""
    for every in (True, False):
        asked = fts_terms.build_word_terms(query.text, columns, query.mysis_ids, every=every)
        if asked is None:
            return MemoryHits(note=NO_WORDS)
        sql, values = _build_filters(query)
        values.update(terms=asked, most=RANKED + 1)
        rows = connection.execute(
            "SELECT m.id, bm25(memory_words, 0.0, 1.0, 1.0) AS score"
            f" FROM memory_words f CROSS JOIN memory m ON m.id = f.rowid / {fts_terms.DOCUMENTS}"
            f" WHERE f.memory_words MATCH :terms AND f.rowid < :before * {fts_terms.DOCUMENTS} AND {sql}"
            " ORDER BY f.rowid DESC LIMIT :most",
            values,
        ).fetchall()
        if rows:
            best = dict[int, float]()
            for memory_id, score in rows[:RANKED]:
                best[memory_id] = min(score, best.get(memory_id, 0.0))
            ids = sorted(best, key=lambda each: (best[each], -each))[: query.limit]
            if len(rows) > RANKED:
                more = OLDER.format(RANKED)
                note = f"{note}; {more}" if note else more
            return MemoryHits(_build_hits(connection, ids, query), None, note)
        note = _SOME
    return _search_unspaced(connection, query, words, columns)


def _search_unspaced(connection: sqlite3.Connection, query: MemoryQuery, words: list[str], columns: str) -> MemoryHits:
    """Search words of scripts without spaces, and others that may stand directly beside such."""
    notes = dict[str, None]()

    def find(word: str) -> list[int]:
        ids = find_newest(word)
        if len(ids) > RANKED:
            notes[OLDER.format(RANKED)] = None
        return ids[:RANKED]

    def find_exact(word: str) -> list[int]:
        exact = replace(query, text=word, match=MatchMode.EXACT, fold=not is_unspaced(word))
        ids, down_to = _find_ids(connection, exact, RANKED + 1)
        if down_to:
            notes[f"looked through the newest {SCANNED:,} memories only"] = None
        return ids

    def find_newest(word: str) -> list[int]:
        if is_unspaced(word):
            return find_exact(word)
        narrowed, values = _build_filters(query)
        values["terms"] = fts_terms.build_word_terms(word, columns, query.mysis_ids, every=True)
        sql = (
            f"SELECT m.id FROM memory_words f CROSS JOIN memory m ON m.id = f.rowid / {fts_terms.DOCUMENTS}"
            f" WHERE f.memory_words MATCH :terms AND f.rowid < :before * {fts_terms.DOCUMENTS} AND {narrowed}"
            " ORDER BY f.rowid DESC"
        )
        return _take_distinct(_iterate_ids(connection, sql, values), RANKED + 1) or find_beside_unspaced(word)

    def find_beside_unspaced(word: str) -> list[int]:
        ids = find_exact(word) if len(word) >= fts_terms.GRAM else []
        pattern = word_pattern([word])
        return [row for row, text in read(ids) if pattern.search(text)]

    def read(ids: list[int]) -> Iterator[tuple[int, str]]:
        calls = "(SELECT group_concat(name || '(' || arguments || ')', ' ') FROM tool_call WHERE memory_id = m.id)"
        text = {
            SearchColumn.CONTENT: f"m.content || coalesce(' ' || {calls}, '')",
            SearchColumn.REASONING: "m.reasoning",
            SearchColumn.ANY: f"m.content || ' ' || m.reasoning || coalesce(' ' || {calls}, '')",
        }[query.column]
        for memory_id in ids[-RANKED:]:
            for row in connection.execute(f"SELECT m.id, {text} FROM memory m WHERE m.id = ?", (memory_id,)):
                yield row[0], row[1]

    ids, has_every = rank_matches(words, find, read)
    all_notes = [*([] if has_every or not ids else [_SOME]), *notes]
    return MemoryHits(_build_hits(connection, ids[: query.limit], query), None, "; ".join(all_notes))


def _build_filters(query: MemoryQuery) -> tuple[str, dict[str, object]]:
    """Return the filters as SQL over `memory m`, with their values."""
    sql, values = ["m.id < :before"], dict[str, object](before=min(query.before_id or NEWEST, NEWEST))
    for name, column, value in (
        ("role", "m.role = :role", query.role),
        ("source", "m.source = :source", query.source),
        ("since", "m.created_at >= :since", query.since),
        ("until", "m.created_at < :until", query.until),
        ("asking", " AND ".join(_NO_ECHO), query.asking_call),
    ):
        if value is not None:
            sql.append(column)
            values[name] = value
    if query.asking_call is not None and query.column is SearchColumn.CONTENT:
        sql.append(_NO_SEARCH)
    if query.mysis_ids is not None:
        sql.append(f"m.mysis_id IN ({','.join(str(int(each)) for each in query.mysis_ids)})")
    return " AND ".join(sql), values


def _text_conditions(query: MemoryQuery, *, with_calls: bool = True) -> Iterator[str]:
    """Yield the conditions over `memory m`, one for each text that may match."""
    fold = "lower" if query.fold else ""
    if query.column is not SearchColumn.REASONING:
        yield f"instr({fold}(m.content), :words) > 0"
        if with_calls:
            calls = f"SELECT 1 FROM tool_call k WHERE k.memory_id = m.id AND {_call_condition(query)}"
            yield f"m.role = 'assistant' AND EXISTS ({calls})"
    if query.column is not SearchColumn.CONTENT:
        yield f"instr({fold}(m.reasoning), :words) > 0"


def _call_condition(query: MemoryQuery) -> str:
    """Return the condition over `tool_call k`."""
    return f"instr({'lower' if query.fold else ''}(k.name || '(' || k.arguments || ')'), :words) > 0"


def _is_small(connection: sqlite3.Connection, owners: tuple[int, ...] | None) -> bool:
    """Return whether scanning the rows of one mysis is cheaper than the index."""
    if owners is None or len(owners) != 1:
        return False
    sql = "SELECT 1 FROM memory WHERE mysis_id = ? ORDER BY id LIMIT 1 OFFSET ?"
    return connection.execute(sql, (owners[0], FEW - 1)).fetchone() is None


def _is_frequent(connection: sqlite3.Connection, query: MemoryQuery, asked: list[str], most: int) -> bool:
    """Return whether a page of matches is likely among the newest rows."""
    is_narrowed = query.role or query.source or query.since or query.until or query.column is SearchColumn.REASONING
    if is_narrowed or (query.mysis_ids is not None and len(query.mysis_ids) != 1):
        return False  # the frequency among these rows is unknown
    newest = connection.execute("SELECT coalesce(max(id), 0) FROM memory").fetchone()[0]
    some = asked[:: -(-len(asked) // PROBED)]
    shares = fts_terms.estimate_shares(connection, "memory_exact", some, newest, fold=query.fold)
    return bool(shares) and shares[0][0] * LOOKED >= 2 * most


def _scan_floor(connection: sqlite3.Connection, query: MemoryQuery, most: int) -> int:
    """Return the id at which a scan stops after `most` rows. 0 if it reaches the end."""
    before = min(query.before_id or NEWEST, NEWEST)
    if query.mysis_ids is not None and len(query.mysis_ids) == 1:
        sql = "SELECT id FROM memory WHERE mysis_id = ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?"
        row = connection.execute(sql, (query.mysis_ids[0], before, most)).fetchone()
    else:
        sql = "SELECT max(id) - ? FROM memory WHERE id < ?"
        row = connection.execute(sql, (most, before)).fetchone()
    return max(0, row[0] or 0) if row is not None else 0


def _iterate_ids(connection: sqlite3.Connection, sql: str, values: dict[str, object]) -> Iterator[int]:
    """Yield the ids of a query, reading only as many rows as are consumed."""
    with closing(connection.execute(sql, values)) as rows:
        for (memory_id,) in rows:
            yield memory_id


def _take_distinct(ids: Iterable[int], most: int) -> list[int]:
    """Return the first distinct ids; equal ids are adjacent."""
    found: list[int] = []
    for memory_id in ids:
        if not found or found[-1] != memory_id:
            found.append(memory_id)
        if len(found) == most:
            break
    return found


def _build_hits(connection: sqlite3.Connection, ids: Iterable[int], query: MemoryQuery) -> tuple[MemoryHit, ...]:
    pattern = compile_pattern(query.text, query.match, fold=query.fold)
    return tuple(hit for each in ids for hit in _build_hit(connection, each, query, pattern))


def _build_hit(
    connection: sqlite3.Connection, memory_id: int, query: MemoryQuery, pattern: re.Pattern[str]
) -> Iterator[MemoryHit]:
    """Yield the hit of a memory, or nothing if it was removed since."""
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    row = cursor.execute(_HIT, (memory_id,)).fetchone()
    if row is None:
        return
    more: dict[str, object] = {"spot": HitPlace.CONTENT}
    is_there = query.column is not SearchColumn.REASONING and pattern.search(row["content"])
    content = cut_excerpt(row["content"], pattern if is_there else None, query.max_chars)
    excerpt = content
    if not is_there:
        call = None
        if query.column is not SearchColumn.REASONING and row["role"] == Role.ASSISTANT:
            calls = cursor.execute(_CALLS, (memory_id,)).fetchall()
            call = next((each for each in calls if pattern.search(each["call"])), None)
        if call is not None:
            more = {"spot": HitPlace.CALL, "tool": call["name"], "call_id": call["id"], "position": call["position"]}
            excerpt = cut_excerpt(call["call"], pattern, query.max_chars)
        elif query.column is not SearchColumn.CONTENT:
            more, excerpt = {"spot": HitPlace.REASONING}, cut_excerpt(row["reasoning"], pattern, query.max_chars)
    yield convert_row(MemoryHit, row, excerpt=excerpt, content=content, **more)
