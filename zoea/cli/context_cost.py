"""Estimates the first request of a mysis that knows the conversation up to a revision."""

from __future__ import annotations

from contextlib import closing

from zoea.chain.revisions import resolve_revision
from zoea.cli.typed_time import read_time
from zoea.model.errors import StoreMissing
from zoea.model.values import SAME_MYSIS, MysisOverrides
from zoea.runtime.first_request_estimate import FirstRequestEstimate, estimate_from_commit
from zoea.settings.paths import places
from zoea.store.database_file import connect_reader
from zoea.store.sqlite_errors import translate_errors


def estimate_first_request(
    workspace: str,
    revision: str,
    message: str,
    overrides: MysisOverrides = SAME_MYSIS,
    *,
    thread: str = "",
) -> FirstRequestEstimate:
    """Estimate the first request of a mysis made from a commit that gets this message.

    See `estimate_from_commit`.

    Raises:
        StoreMissing, RevisionError: There is no database, or no such commit.
        MissingBlob: A part of the conversation is gone.
    """
    where = places(workspace)
    if not where.database.exists():
        raise StoreMissing(f"there is no database at {where.database}", hint="`zoea run` starts a swarm.")
    with closing(connect_reader(where.database)) as conn, translate_errors():
        seq = resolve_revision(conn, revision, read_time).seq
    return estimate_from_commit(where, where.database, seq, message, overrides, thread=thread)
