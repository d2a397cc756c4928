"""Estimates the first request of a mysis that knows the conversation up to a revision."""

from __future__ import annotations

from contextlib import closing

from zoea.chain.commit_rows import shortest_id
from zoea.chain.revisions import resolve_revision
from zoea.cli.typed_time import read_time
from zoea.model.errors import StoreMissing
from zoea.queries.fork_costs import read_fork_cost
from zoea.runtime.first_request import FirstRequest
from zoea.settings import load
from zoea.settings.paths import places
from zoea.store.database_file import connect_reader
from zoea.store.sqlite_errors import translate_errors


def estimate_first_request(workspace: str, revision: str, message: str) -> FirstRequest:
    """Estimate the first request of a mysis made from a commit that gets this message.

    Raises:
        StoreMissing, RevisionError: There is no database, or no such commit.
        MissingBlob: A part of the conversation is gone.
    """
    where = places(workspace)
    settings = load(where).settings
    if not where.database.exists():
        raise StoreMissing(f"there is no database at {where.database}", hint="`zoea run` starts a swarm.")
    with closing(connect_reader(where.database)) as conn, translate_errors():
        commit = resolve_revision(conn, revision, read_time)
        cost = read_fork_cost(conn, commit, message, settings)
        return FirstRequest(commit, shortest_id(conn, commit), cost, where, settings)
