"""The command line in this process, as the tests of commands have it."""

from tests.cli.conftest import zoea

__all__ = ["zoea"]
