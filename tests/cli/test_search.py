"""`zoea search`: hits, filters and pages."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from tests.cli.conftest import Zoea
from tests.store.sample_memories import broadcast, database, remember
from zoea.cli.commands import search as search_command
from zoea.settings.paths import places
from zoea.store.search import Excerpt


@pytest.fixture
def stored_messages() -> None:
    """Two myses with a few messages in the default workspace."""
    path = places("").database
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(database(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        remember(connection, "Mine Iron, please", role="user", source="direct", at=1_000_000)
        remember(connection, "", reasoning="iron is near", calls=[("mine", '{"ore": "iron"}')], at=2_000_000)
        remember(connection, "3 iron \x1b[31m[/]", mysis=2, role="tool", source="tool", at=3_000_000)
        order = broadcast(connection, "all to the iron", sender=2, to=(1,))
        told = remember(connection, "all to the iron", role="user", source="broadcast", at=4_000_000)
        connection.execute("UPDATE memory SET message_id = ? WHERE id = ?", (order, told))
        connection.execute("UPDATE mysis SET deleted_at = 1 WHERE id = 2")


def test_hits_are_listed_newest_first_with_the_next_command(zoea: Zoea, stored_messages: None) -> None:
    out = zoea("search", "iron").out
    titles = [line.split("  ", 1)[1] for line in out.splitlines() if line.startswith("19")]
    assert titles == [
        "m1  turn 1  m2 says  #4",
        "m2 (deleted)  turn 1  ⚙   #3",
        "m1  turn 1  calls ⚙ mine  #2",
        "m1  turn 1  you say  #1",
    ]
    assert "\x1b" not in out
    assert "`zoea log m1 --turn 1` shows the turn of the first one" in out
    assert "Mine Iron" in zoea("log", "m1", "--turn", "1").out
    assert zoea("log", "m1", "--turn", "2").out == ""


def test_capitals_or_exact_make_the_search_case_sensitive(zoea: Zoea, stored_messages: None) -> None:
    assert [row["id"] for row in zoea("search", "Iron", "--json").json["results"]] == [1]
    assert [row["id"] for row in zoea("search", "mine iron", "--json").json["results"]] == [1]
    assert zoea("search", "mine iron", "--exact", "--json").json["results"] == []
    assert "Nothing was found" in zoea("search", "platinum").out


def test_options_narrow_the_search(zoea: Zoea, stored_messages: None) -> None:
    def ids(*options: str) -> list[int]:
        return [row["id"] for row in zoea("search", "iron", *options, "--json").json["results"]]

    assert ids("--mysis", "M1") == [4, 2, 1]
    assert ids("--role", "tool") == ids("--source", "tool") == [3]
    assert ids("--in", "reasoning") == [2]
    assert ids("--until", "1960-01-01") == []
    assert ids("--since", "1960-01-01") == [4, 3, 2, 1]
    assert sorted(ids("--ranked")) == [1, 2, 3, 4]


def test_before_shows_the_next_page(zoea: Zoea, stored_messages: None) -> None:
    page = zoea("search", "iron", "--limit", "2", "--json").json
    assert page["next_before_id"] == 3
    assert "There is more: --before 3" in zoea("search", "iron", "-n", "2").out
    rest = zoea("search", "iron", "--before", "3", "--json").json
    assert ([row["id"] for row in rest["results"]], rest["next_before_id"]) == ([2, 1], None)


def test_a_limited_search_says_how_to_continue(
    zoea: Zoea, stored_messages: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoea.store.search.memory_search.SCANNED", 2)
    out = zoea("search", "Mi").out
    assert "Looked through the newest 2 memories only" in out
    assert "To look further: --before 3" in out
    assert "before_id" not in out
    assert "To look further" not in zoea("search", "Mi", "--before", "3").out


def test_json_shows_each_hit_in_full(zoea: Zoea, stored_messages: None) -> None:
    row = json.loads(
        zoea("search", "iron", "--mysis", "m1", "--in", "content", "--before", "3", "-n", "1", "--json").out
    )
    assert row["results"] == [
        {
            "id": 2,
            "mysis": "m1",
            "mysis_id": 1,
            "turn": 1,
            "role": "assistant",
            "source": "llm",
            "sender": "",
            "tool": "mine",
            "found_in": "call",
            "text": 'mine({"ore": "iron"})',
            "from_char": 0,
            "total_chars": 21,
            "marks": [[14, 4]],
            "created_at": 2_000_000,
        }
    ]
    [broadcast] = zoea("search", "iron", "--in", "broadcasts", "--mysis", "m1", "--json").json["results"]
    assert (broadcast["id"], broadcast["sender"], broadcast["text"]) == (1, "m2", "all to the iron")
    assert "m2 to all  #1" in zoea("search", "iron", "--in", "broadcasts").out
    assert "reasons" in zoea("search", "near").out


def test_wrong_search_arguments_are_refused(zoea: Zoea, stored_messages: None) -> None:
    assert zoea("search").code == 2
    assert "query cannot be empty" in zoea("search", "").err
    assert "--since soon is not a time" in zoea("search", "iron", "--since", "soon").err
    assert "limit" in zoea("search", "iron", "--limit", "500").err
    assert "--in broadcasts takes no --role" in zoea("search", "iron", "--in", "broadcasts", "--role", "tool").err
    assert zoea("search", "iron", "--mysis", "nobody").code == 6
    assert "signs" in zoea("search", "%%%", "--ranked").out


def test_a_search_without_a_database_says_how_to_start(zoea: Zoea) -> None:
    answer = zoea("search", "iron")
    assert answer.code == 4
    assert "zoea run" in answer.err


def test_hits_are_marked_on_a_terminal_only() -> None:
    excerpt = Excerpt("an iron\x07 ore", 5, 100, ((3, 4),))
    assert search_command.format_excerpt(excerpt, bright=True) == "… an \x1b[1;7miron\x1b[0m\\u0007 ore …"
    assert search_command.format_excerpt(excerpt, bright=False) == "… an iron\\u0007 ore …"


def test_exact_and_ranked_exclude_each_other_and_no_id_is_too_large(zoea: Zoea, stored_messages: None) -> None:
    ran = zoea("search", "iron", "--exact", "--ranked")
    assert ran.code == 2
    assert "exclude each other" in ran.err
    assert zoea("search", "a", "--before", str(2**63)).code == 2
    assert zoea("search", "a", "--before", str(2**62)).code == 0
