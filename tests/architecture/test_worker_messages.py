"""A worker tells its controller every result. Of a setup or teardown it tells only errors."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.case_tables import walk_cases
from tests.worker_messages import WorkerMessages


class Worker:
    """Keeps what it is told to send."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def sendevent(self, name: str, **content: Any) -> None:
        self.sent.append((name, content))


@walk_cases("when", ["setup", "call", "teardown"])
@walk_cases("outcome", ["passed", "failed", "skipped"])
def test_only_a_setup_or_teardown_without_an_error_stays_untold(
    when: Literal["setup", "call", "teardown"], outcome: Literal["passed", "failed", "skipped"]
) -> None:
    worker = Worker()
    messages = WorkerMessages(worker)
    report = pytest.TestReport("test", ("file", 1, "test"), {}, outcome, None, when)
    data = messages.pytest_report_to_serializable(report) or {"$report_type": "TestReport"}
    worker.sendevent("testreport", data=data)
    assert len(worker.sent) == (when == "call" or outcome != "passed")


def test_a_report_of_a_collection_and_other_events_are_told() -> None:
    worker = Worker()
    assert (
        WorkerMessages(worker).pytest_report_to_serializable(pytest.CollectReport("file", "passed", None, [])) is None
    )
    worker.sendevent("logstart", nodeid="test")
    worker.sendevent("collectionfinish", ids=["test"])
    assert worker.sent == [("collectionfinish", {"ids": ["test"]})]
