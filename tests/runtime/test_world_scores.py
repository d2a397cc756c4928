"""Scores of the sandbox world: the mysis of each captain, its credits and tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoea.model.errors import WorldError
from zoea.queries.stored_swarm import read_swarm_view
from zoea.runtime.accounts import CredentialAccounts, account_key, name_key
from zoea.runtime.run_options import WORLD
from zoea.runtime.world_scores import read_credits, read_scores
from zoea.settings.credentials import Credentials
from zoea.settings.paths import Places
from zoea.store.store import Store
from zoea.store.writer_connection import WriterConnection
from zoea.swarm.persistence import mysis_ops
from zoea.world.world_log import WorldLog


@pytest.fixture
def where(tmp_path: Path) -> Places:
    made = Places(data=tmp_path / "data", config=tmp_path / "config", runtime=tmp_path / "run")
    made.make_data()
    return made


def played(where: Places, *captains: str) -> None:
    """A world in which each earned more than the one before."""
    record = WorldLog(where.world, seed=1)
    for number, name in enumerate(captains, 1):
        record.reef.register(name, "")
        record.register(name, "")
        for tool, args in (("undock", {}), ("mine", {"times": number}), ("dock", {}), ("sell", {})):
            record.reef.call(name, tool, args)
            record.call(name, tool, args)
        for _ in range(8):
            record.reef.tick()
            record.tick()
    record.commit()
    record.close()


async def swarm_of(where: Places) -> None:
    """A deleted alpha, a new alpha, and beta, which played without a stored account; tokens: 100, 200, 300."""

    def op(conn: WriterConnection) -> None:
        for uid, name in (("u1", "alpha"), ("u2", "alpha"), ("u3", "beta")):
            made = mysis_ops.create(conn, mysis_ops.MysisSpec(uid, name, "t", b"0" * 32, "", "scripted", ""), 9)
            conn.execute("UPDATE tally SET tokens = ? WHERE mysis_id = ?", (made.id * 100, made.id))
            if uid == "u1":
                mysis_ops.archive(conn, made.id)

    store = await Store.open(where.database, clock_now=lambda: 1)
    await store.write(op)
    await store.close()
    accounts = {"u1": "alpha", "u2": "alpha-2"}
    Credentials(where.credentials).set_many(
        {account_key(WORLD, uid): f'{{"account": "{name}", "password": "x"}}' for uid, name in accounts.items()}
    )


async def test_a_captain_of_another_name_gets_the_tokens_of_its_mysis(where: Places) -> None:
    played(where, "alpha", "alpha-2", "beta", "stranger")
    await swarm_of(where)
    found = {score.name: score.tokens for score in read_scores(where)}
    assert found == {"alpha": 100, "alpha-2": 200, "beta": 300, "stranger": None}
    earned = read_credits(where, read_swarm_view(where.database).myses)
    by_captain = {score.name: score.earned for score in read_scores(where)}
    assert earned == {"alpha": by_captain["alpha-2"], "beta": by_captain["beta"]}
    assert 0 < by_captain["alpha"] < by_captain["alpha-2"]


async def test_what_a_refused_registration_leaves_stored_is_no_account(where: Places) -> None:
    played(where, "alpha", "gold")
    await swarm_of(where)
    credentials = Credentials(where.credentials)
    for uid in ("u1", "u3"):
        await CredentialAccounts(credentials).save(WORLD, uid, {})
    credentials.delete(account_key(WORLD, "u2"))
    credentials.set(name_key(WORLD, "beta"), '{"account": "gold", "password": "x"}')
    assert {score.name: score.tokens for score in read_scores(where)} == {"alpha": 200, "gold": 300}


def test_a_world_without_a_swarm_is_scored_without_tokens(where: Places) -> None:
    played(where, "alpha")
    assert [(score.name, score.tokens) for score in read_scores(where)] == [("alpha", None)]


def test_a_workspace_without_a_world_has_no_score(where: Places) -> None:
    assert read_credits(where, ()) is None
    with pytest.raises(WorldError):
        read_scores(where)


def test_an_unreadable_world_has_no_score(where: Places) -> None:
    where.world.write_bytes(b"nonsense" * 1000)
    assert read_credits(where, ()) is None
