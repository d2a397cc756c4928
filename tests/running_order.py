"""The order in which tests run: files with long tests first, so that short tests fill the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

SECONDS = {
    "tui/test_snapshots.py": 75,
    "e2e/test_cockpit_terminal.py": 45,
    "tui/test_focus.py": 26,
    "e2e/test_run.py": 26,
    "e2e/test_data_directory.py": 25,
    "e2e/test_llamacpp.py": 24,
    "e2e/test_newcomer.py": 22,
    "e2e/test_closed_terminal.py": 19,
    "tui/test_approvals.py": 17,
    "settings/test_folder_bombs.py": 17,
    "e2e/test_forks.py": 16,
    "swarm/test_sessions.py": 15,
    "tui/test_prompt.py": 13,
    "cli/test_import_bombs.py": 13,
    "mcp_server/test_supervisor.py": 13,
    "tui/test_command_line.py": 12,
    "e2e/test_screen_commands.py": 12,
    "faults/test_restore.py": 12,
    "llm/test_answer_memory.py": 11,
    "faults/test_kill.py": 11,
    "tools/test_public_servers.py": 11,
    "tui/test_every_action.py": 10,
    "e2e/test_tasks.py": 10,
    "faults/test_killed_pipeline.py": 10,
    "e2e/test_config_check.py": 10,
    "e2e/test_attached_plain.py": 10,
    "e2e/test_foreign_world.py": 9,
    "tui/test_opening.py": 9,
    "files/test_merge.py": 9,
    "e2e/test_live_settings.py": 8,
    "e2e/test_summary.py": 8,
    "e2e/test_connect_while_running.py": 8,
    "faults/test_killed_import.py": 8,
    "e2e/test_terminal.py": 8,
    "tui/test_inspector.py": 7,
    "tui/test_log.py": 7,
    "faults/test_chaos.py": 7,
    "files/test_workbench_server.py": 7,
    "e2e/test_upstreams_screen.py": 7,
    "tui/test_resize_and_theme_storms.py": 6,
    "tui/test_new_mysis.py": 6,
    "tui/test_welcome.py": 6,
    "llm/test_wire_faults.py": 6,
    "released/test_database.py": 6,
    "faults/test_suspension.py": 6,
    "e2e/test_untrusted_folder.py": 6,
    "tools/test_child_transport.py": 6,
    "e2e/test_silent_connections.py": 5,
    "e2e/test_statuses.py": 5,
    "e2e/test_moved_database.py": 5,
    "faults/test_shutdown.py": 5,
    "tui/test_placeholders.py": 5,
    "e2e/test_metrics.py": 5,
    "tui/test_keymap.py": 5,
    "context/test_window.py": 4,
    "architecture/test_house.py": 9,
    "architecture/test_ci.py": 4,
    "faults/test_children.py": 4,
    "e2e/test_send_wait.py": 4,
    "e2e/test_pipeline.py": 4,
    "store/test_faults.py": 4,
    "e2e/test_new_and_send.py": 4,
    "chain/test_formats.py": 4,
    "e2e/test_ssh.py": 3,
    "e2e/test_web_chromium.py": 3,
    "llm/test_storm.py": 3,
    "released/test_settings.py": 3,
    "e2e/test_loop_lag.py": 3,
    "tui/test_hostile_names.py": 2,
    "tui/test_monkey.py": 2,
    "transfer/test_hostile_databases.py": 2,
    "chain/test_collection_and_verification.py": 2,
    "chain/test_chain_graphs.py": 2,
    "swarm/test_turn_costs.py": 2,
    "tui/test_hostile_widgets.py": 2,
    "text/test_call_text.py": 2,
    "e2e/test_serve.py": 2,
    "released/test_open_turns.py": 2,
    "chain/test_mirror.py": 2,
    "mcp_server/test_live_swarm.py": 2,
}
"""What each file takes that holds a long test, by `--durations=0` on two cores. Only the proportions matter."""

TOGETHER = dict.fromkeys(
    (
        "architecture/test_clock.py",
        "architecture/test_defaults.py",
        "architecture/test_documentation.py",
        "architecture/test_hidden_characters.py",
        "architecture/test_language.py",
        "architecture/test_pictures.py",
        "architecture/test_private_imports.py",
        "settings/test_small_file.py",
    ),
    "architecture/test_house.py",
)
"""Files that run with another one, and which: these parse the whole package, each worker for itself."""


def find_part(test: str) -> str:
    """Return the file of a test by its id, or the one it runs with."""
    file = test.partition("::")[0].removeprefix("tests/")
    return TOGETHER.get(file, file)


def put_long_first(
    tests: Sequence[T], workers: int, file_of: Callable[[T], str], seconds: Mapping[str, float] = SECONDS
) -> list[T]:
    """Return the tests so that the share of each worker begins with long files.

    pytest-xdist (worksteal) gives each worker an equal run of the list, and idle ones what others have at their end.
    A file stays with one worker, which starts once what its tests share.
    """
    long: dict[str, list[T]] = {}
    short: list[T] = []
    for test in tests:
        file = file_of(test)
        (long.setdefault(file, []) if file in seconds else short).append(test)
    shares: list[list[T]] = [[] for _ in range(workers)]
    loads = [0.0] * workers
    for file in sorted(long, key=lambda one: seconds[one], reverse=True):
        least = loads.index(min(loads))
        shares[least] += long[file]
        loads[least] += seconds[file]
    left = iter(short)
    ordered: list[T] = []
    for worker, share in enumerate(shares):
        size = (len(tests) - len(ordered)) // (workers - worker)
        ordered += [*share, *islice(left, max(0, size - len(share)))]
    return [*ordered, *left]
