"""The order in which tests run: files with long tests first, so that short tests fill the end of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

SECONDS = {
    "tui/test_approvals.py": 35,
    "tui/test_focus.py": 21,
    "tui/test_new_mysis.py": 20,
    "tui/test_snapshots.py": 17,
    "agents/test_agent_faults.py": 16,
    "e2e/test_cockpit_terminal.py": 15,
    "e2e/test_newcomer.py": 15,
    "tui/test_review.py": 15,
    "tui/test_prompt.py": 14,
    "e2e/test_llamacpp.py": 13,
    "e2e/test_data_directory.py": 12,
    "e2e/test_closed_terminal.py": 11,
    "e2e/test_seen_work.py": 11,
    "tui/test_settings.py": 11,
    "faults/test_restore.py": 9,
    "tui/test_syntax_marks.py": 9,
    "tui/test_opening.py": 8,
    "agents/test_agent_tools.py": 7,
    "architecture/test_house.py": 7,
    "e2e/test_moved_database.py": 7,
    "settings/test_folder_bombs.py": 7,
    "swarm/test_sessions.py": 7,
    "tools/test_upstream_faults.py": 7,
    "tui/test_dashboard_actions.py": 7,
    "tui/test_resize_and_theme_storms.py": 7,
    "acp_server/test_acp_tables.py": 6,
    "e2e/test_run.py": 6,
    "e2e/test_ssh.py": 6,
    "files/test_merge.py": 6,
    "llm/test_answer_memory.py": 6,
    "llm/test_wire_faults.py": 6,
    "tools/test_child_transport.py": 6,
    "tools/test_public_servers.py": 6,
    "tui/test_history.py": 6,
    "tui/test_type_ahead.py": 6,
    "tui/test_welcome.py": 6,
    "agents/test_agent_permissions.py": 5,
    "agents/test_agent_sessions.py": 5,
    "e2e/test_upstreams_screen.py": 5,
    "faults/test_chaos.py": 5,
    "faults/test_shutdown.py": 5,
    "files/test_odd_repositories.py": 5,
    "store/test_search.py": 5,
    "tui/test_help.py": 5,
    "web/test_gateway.py": 5,
    "e2e/test_screen_commands.py": 4,
    "faults/test_suspension.py": 4,
    "files/test_workbench.py": 4,
    "files/test_worktrees.py": 4,
    "mcp_server/test_factory.py": 4,
    "mcp_server/test_supervisor.py": 4,
    "runtime/test_swarm_files.py": 4,
    "swarm/test_forks.py": 4,
    "tui/test_command_line.py": 4,
    "tui/test_every_action.py": 4,
    "tui/test_inspector.py": 4,
    "tui/test_log.py": 4,
    "tui/test_read_only.py": 4,
    "tui/test_terminal_control.py": 4,
    "tui/test_upstreams.py": 4,
    "world/test_autopilot.py": 4,
    "architecture/test_ci.py": 3,
    "cli/test_format_packages.py": 3,
    "cli/test_import_bombs.py": 3,
    "context/test_properties.py": 3,
    "e2e/test_attached_plain.py": 3,
    "e2e/test_connect_while_running.py": 3,
    "e2e/test_files_of_myses.py": 3,
    "e2e/test_silent_connections.py": 3,
    "faults/test_kill.py": 3,
    "llm/test_storm.py": 3,
    "process/test_fork_server.py": 3,
    "store/test_related_memories.py": 3,
    "swarm/test_storm.py": 3,
    "tools/test_accounts_login.py": 3,
    "tools/test_http_answers.py": 3,
    "tui/test_broadcast_recipients.py": 3,
    "tui/test_configure.py": 3,
    "tui/test_deferred_work.py": 3,
    "tui/test_grants.py": 3,
    "tui/test_hostile_names.py": 3,
    "web/test_gateway_tables.py": 3,
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
