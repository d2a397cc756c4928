"""Imports modules in a thread. The first import of a library can take seconds."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from types import ModuleType

# One after another: a module that two threads import, or whose package another one is still importing, would let the
# next `import` on the event loop wait for that. And the threads of the loop are for other work.
_importer = ThreadPoolExecutor(1, "imports")
_imported: dict[str, ModuleType] = {}


async def import_in_thread(name: str) -> ModuleType:
    """Import a module in a thread, unless it was done before. Raises ImportError."""
    # Not found by `sys.modules`, where a module stands from the beginning of its import.
    if name not in _imported:
        _imported[name] = await asyncio.get_running_loop().run_in_executor(_importer, import_module, name)
    return _imported[name]
