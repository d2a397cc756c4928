"""`zoea` of another version of the protocol: `python -m tests.e2e.other_version PROTOCOL [ARGUMENTS]`."""

from __future__ import annotations

import sys

import zoea
from zoea.ipc import protocol


def main(number: int, arguments: list[str]) -> int:
    zoea.__version__ = "0.0.7"
    protocol.PROTOCOL = number
    from zoea.__main__ import run  # what it imports takes the names from there

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
