"""A reserve of file descriptors for connections, once all others are in use.

A person must be able to look at a swarm and stop it, also where upstreams, a leak or a low limit took every descriptor.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os

log = logging.getLogger(__name__)

RESERVED = 16
REFILL_S = 1.0
USED_UP = (errno.EMFILE, errno.ENFILE)


class DescriptorReserve:
    """Holds descriptors of /dev/null that are closed where the process needs others.

    Args:
        size: How many it holds. It is filled again once a second, as far as there are free ones.
    """

    def __init__(self, size: int = RESERVED) -> None:
        self._size = size
        self._held: list[int] = []
        self._refill: asyncio.TimerHandle | None = None

    def fill(self) -> None:
        """Open the missing descriptors, as far as the limit of the process allows."""
        try:
            while len(self._held) < self._size:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as problem:
            if problem.errno not in USED_UP:
                raise

    def release(self) -> bool:
        """Close all of it; return whether that gave the process descriptors. Runs in the event loop."""
        freed, self._held = self._held, []
        for descriptor in freed:
            os.close(descriptor)
        if self._refill is None:
            self._refill = asyncio.get_running_loop().call_later(REFILL_S, self._fill_again)
        if freed:
            log.warning("all file descriptors of this process are in use; %d of the reserve were freed", len(freed))
        return bool(freed)

    def close(self) -> None:
        """Close all of it for good."""
        if self._refill is not None:
            self._refill.cancel()
        for descriptor in self._held:
            os.close(descriptor)
        self._held = []

    def _fill_again(self) -> None:
        self._refill = None
        self.fill()
        if len(self._held) < self._size:
            self._refill = asyncio.get_running_loop().call_later(REFILL_S, self._fill_again)
