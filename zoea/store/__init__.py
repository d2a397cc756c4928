"""The SQLite database: one writer thread, readers, migrations, blobs and search.

Names are imported on first use, so that `zoea.store.database_file` stays cheap for reading commands.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoea.store.blobs import get_blob, put_blob
    from zoea.store.database_file import open_reader
    from zoea.store.readers import SearchReader
    from zoea.store.store import Store
    from zoea.store.writer import WriterStats
    from zoea.store.writer_connection import WriterConnection

__all__ = ["SearchReader", "Store", "WriterConnection", "WriterStats", "get_blob", "open_reader", "put_blob"]

_HOMES = {
    "SearchReader": "readers",
    "WriterStats": "writer",
    "Store": "store",
    "WriterConnection": "writer_connection",
    "get_blob": "blobs",
    "open_reader": "database_file",
    "put_blob": "blobs",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
