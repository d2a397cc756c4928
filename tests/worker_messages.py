"""What a worker of pytest-xdist leaves untold: half of six messages a test, of which there are over 11,000."""

from __future__ import annotations

from typing import Any

import pytest

_UNREAD = ("logstart", "logfinish")


class WorkerMessages:
    """Keep from the controller what it counts nowhere: that a test began or ended, or was set up without an error."""

    def __init__(self, worker: Any) -> None:
        self._send = worker.sendevent
        worker.sendevent = self._send_what_counts

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_to_serializable(self, report: object) -> dict[str, Any] | None:
        """Spare the work on a report that is not sent."""
        if isinstance(report, pytest.TestReport) and report.when != "call" and report.passed:
            return {"$report_type": None}
        return None

    def _send_what_counts(self, name: str, **content: Any) -> None:
        if name in _UNREAD or (name == "testreport" and content["data"]["$report_type"] is None):
            return
        self._send(name, **content)


def shorten_messages(config: pytest.Config) -> None:
    """Shorten what this process tells its controller.

    Only if it has one and no report shows setup and teardown.
    """
    if config.getoption("durations", None) is not None or config.getoption("xmlpath", None):
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            config.pluginmanager.register(WorkerMessages(plugin))
            return
