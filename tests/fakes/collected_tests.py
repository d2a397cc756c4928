"""Collects the tests once for all workers: before they are forked. Each would need three seconds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from _pytest.python import Package


class Collection:
    """The tests that a process has collected, and that its forks take over."""

    def __init__(self) -> None:
        self.session: pytest.Session | None = None
        self.items: list[pytest.Item] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Keep the tests, and leave it to the workers to order them."""
        self.session, self.items = session, [*items]
        items.clear()

    def offer(self, session: pytest.Session) -> None:
        """Let a worker's session take the tests over if it would collect the same."""
        if self.session is not None and hasattr(session.config, "workerinput"):
            here, there = session.config, self.session.config
            if (here.rootpath, here.args) == (there.rootpath, there.args):
                vars(session)["perform_collect"] = partial(self._take, session)

    def _take(self, session: pytest.Session, _: object = None) -> Sequence[pytest.Item]:
        """Do what `Session.perform_collect` does, with tests that another session has collected."""
        kept, config = self.session, session.config
        assert kept is not None
        nodes = {node for item in self.items for node in item.iter_parents()}
        for node in {kept, *nodes}:
            node.config = config
            if isinstance(node, pytest.Dir | Package) and (node.path / "conftest.py").exists():
                config.pluginmanager._loadconftestmodules(
                    node.path,
                    config.getoption("importmode"),
                    rootpath=config.rootpath,
                    consider_namespace_packages=config.getini("consider_namespace_packages"),
                )
        session._fixturemanager, session._setupstate = kept._fixturemanager, kept._setupstate
        session._fixturemanager.config = config
        session.items = self.items
        config.pluginmanager.check_pending()
        config.hook.pytest_collection_modifyitems(session=session, config=config, items=session.items)
        config.hook.pytest_collection_finish(session=session)
        session.testscollected = len(session.items)
        return session.items


collection = Collection()
"""That of this process."""
