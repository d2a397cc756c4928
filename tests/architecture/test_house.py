"""The structure of the package: layers, file sizes, imports of the core, and modules loaded at start."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture import sizes
from tests.architecture.sources import PACKAGE, ROOT, SOURCES, nodes_of, read_early_imports, text_of, tree_of
from tests.case_tables import walk_cases

LONGEST_FILE = 600

SLEEP = re.compile(r"^\s*(?:await asyncio|time)\.sleep\((?!0\)|600\))", re.MULTILINE)
SQL = re.compile(
    r"\b(SELECT\b.*\bFROM|INSERT (OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM|PRAGMA|BEGIN IMMEDIATE|VACUUM)\b", re.DOTALL
)
SQL_PLACES = ("store/", "chain/", "queries/", "swarm/persistence/", "transfer/", "world/world_log.py")

HEAVY = {"pydantic", "mcp", "httpx", "httpx2", "aiohttp", "aiosqlite", "textual", "rich", "starlette", "anyio"}
CORE = (
    "zoea.model.ports",
    "zoea.context",
    "zoea.swarm.commander",
    "zoea.llm.registry",
    "zoea.tools",
    "zoea.runtime.owner",
)

LATE = HEAVY - {"textual", "rich"} | {"tomlkit", "keyring", "json_repair", "blake3", "zstandard"}
LATE |= {"h11", "xllamacpp", "markdown_it", "pygments"}
"""Modules that must not be loaded before the first paint of the cockpit."""
WHEN_PAINTED = """
import os, sys
from zoea.tui.terminal.terminal_driver import TerminalDriver
from zoea.runtime.run_options import RunOptions

def write(self, data):
    if sys.argv[-1] in data:
        os.write(sys.__stdout__.fileno(), " ".join(sys.modules).encode())
        os._exit(0)

TerminalDriver.write = write
RunOptions.wants_screen = True  # stdout is not the terminal here, but where the names go
from zoea.__main__ import run
run(["run"])
"""


def loaded_after(*statements: str) -> set[str]:
    """The modules that an interpreter loaded while it ran the statements."""
    runs = "".join(f"try:\n    {statement}\nexcept SystemExit:\n    pass\n" for statement in statements)
    code = f"import sys\n{runs}sys.stderr.write('\\n\\n' + '\\n'.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=50, check=True)
    return set(ran.stderr.rpartition("\n\n")[2].split())


def loaded_when_painted(text: str) -> set[str]:
    """The modules that `zoea run` has loaded in a terminal when it writes a text."""
    keyboard, screen = os.openpty()
    try:
        ran = subprocess.run(
            [sys.executable, "-c", WHEN_PAINTED, text],
            cwd=ROOT,
            stdin=screen,
            stderr=screen,
            stdout=subprocess.PIPE,
            text=True,
            timeout=50,
            check=True,
            env={**os.environ, "COLUMNS": "120", "LINES": "40", "LANG": "C.UTF-8"},
        )
    finally:
        os.close(screen)
        os.close(keyboard)
    return set(ran.stdout.split())


def command(*arguments: str) -> str:
    return f"sys.argv = ['zoea', *{list(arguments)!r}]; from zoea.__main__ import main; main()"


def tops(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def packages() -> set[str]:
    return {folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists()}


class TestStarting:
    def test_printing_the_version_imports_almost_nothing(self) -> None:
        modules = loaded_after(command("--version"))
        assert {name for name in modules if name.startswith("zoea")} == {"zoea", "zoea.__main__"}
        assert not tops(modules) & (HEAVY | {"asyncio", "json", "sqlite3", "dataclasses"})

    def test_listing_loads_nothing_heavy(self) -> None:
        modules = loaded_after(command("list"))
        assert not tops(modules) & (HEAVY | {"asyncio", "difflib"})
        assert len(modules) < 200

    def test_a_command_for_a_running_swarm_loads_no_part_of_a_swarm(self) -> None:
        lines = ["send alpha hello", "new alpha", "show alpha", "stop --swarm", "approvals"]
        modules = loaded_after(*(command(*line.split()) for line in lines))
        assert {
            f"zoea.cli.{name}" for name in ("swarm_access", "commands.messages", "commands.myses", "commands.control")
        } <= modules
        assert not modules & {"zoea.context", "zoea.swarm.turn", "zoea.chain.commit_edits", "zoea.tools", "httpx2"}

    def test_searching_loads_nothing_heavy(self) -> None:
        modules = loaded_after(command("search", "iron"))
        assert not tops(modules) & (HEAVY | {"asyncio"})
        assert "zoea.model.values" not in modules
        assert len(modules) < 200

    def test_the_first_paint_loads_no_models_tools_or_option_parser(self) -> None:
        modules = loaded_when_painted("Z O E A")
        assert "zoea.tui.screens.dashboard" in modules
        assert not tops(modules) & LATE
        packages = {name.split(".")[1] for name in modules if name.startswith("zoea.")}
        assert not packages & {"llm", "tools", "swarm", "context", "chain", "world", "mission"}

    def test_stored_rows_are_painted_before_what_runs_a_swarm_is_loaded(self) -> None:
        created = ["run", "--headless", "--myses", "1", "--provider", "scripted", "--for", "100ms"]
        subprocess.run([sys.executable, "-m", "zoea", *created], cwd=ROOT, capture_output=True, timeout=50, check=True)
        modules = loaded_when_painted("alpha")
        assert "zoea.queries.stored_swarm" in modules
        assert not tops(modules) & LATE
        packages = {name.split(".")[1] for name in modules if name.startswith("zoea.")}
        assert not packages & {"llm", "tools", "context", "chain", "world", "mission"}

    def test_the_core_loads_no_screen(self) -> None:
        modules = loaded_after(*(f"import {module}" for module in CORE))
        assert modules.issuperset(CORE)
        assert not tops(modules) & {"textual"}

    def test_no_module_needs_another_to_be_loaded_before_it(self) -> None:
        """Each start can then load what it needs in any order. Most tests begin with all modules loaded."""
        try:
            TopologicalSorter(read_early_imports()).prepare()
        except CycleError as cycle:
            raise AssertionError(" -> ".join(cycle.args[1])) from None

    def test_a_run_without_a_model_server_loads_no_http_client(self) -> None:
        modules = loaded_after(command("run", "--headless", "--myses", "1", "--provider", "scripted", "--for", "100ms"))
        assert "zoea.swarm.turn.machine" in modules
        assert not tops(modules) & {"aiohttp", "httpx", "httpx2", "mcp"}

    def test_a_swarm_without_upstreams_loads_neither_their_libraries_nor_the_autopilot(self) -> None:
        modules = loaded_after("import zoea.tools, zoea.runtime.owner, zoea.runtime.compose")
        assert not tops(modules) & {"mcp", "httpx2"}
        assert "zoea.world.autopilot" not in modules


class TestFiles:
    def test_each_file_has_a_docstring_no_print_and_a_limited_length(self) -> None:
        problems = {
            str(file.relative_to(ROOT)): problem
            for file in SOURCES
            for problem, is_here in (
                (f"over {LONGEST_FILE} lines", text_of(file).count("\n") > LONGEST_FILE),
                ("no docstring", not ast.get_docstring(tree_of(file))),
                ("a call of print", any(is_print(node) for node in nodes_of(file))),
            )
            if is_here
        }
        assert problems == {}

    def test_directories_are_made_with_those_above_by_the_function_that_makes_all_private(self) -> None:
        assert [file for file in SOURCES if re.search(r"parents=True|makedirs\(", text_of(file))] == []

    def test_no_module_has_a_vague_name(self) -> None:
        vague = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
        assert not [file for file in SOURCES if file.stem in vague or file.parent.name in vague]

    def test_module_names_are_unique(self) -> None:
        """Screens, dialogs and commands may share a name with what they show or run."""
        named_by_subject = {"screens", "dialogs", "commands"}
        names = Counter(
            file.stem for file in SOURCES if file.stem[:2] != "__" and file.parent.name not in named_by_subject
        )
        assert not [name for name, count in names.items() if count > 1]

    def test_no_file_holds_a_mark_for_later_work(self) -> None:
        marks = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
        assert not [file for file in SOURCES if any(mark in text_of(file) for mark in marks)]


class TestSizes:
    """The package is no larger than `size_budgets.toml` says. A budget follows when it becomes smaller."""

    def test_nothing_is_above_its_budget_or_well_below_it(self) -> None:
        places = {"long_first_sentences": sizes.long_first_sentences()}
        assert sizes.compare(sizes.measure(), sizes.read_budgets(), places) == []

    @walk_cases(
        ("lines", "sentences"),
        [
            (3000, []),
            (2941, []),
            (
                3001,
                [
                    "lines of chain: 3001, which is 1 above the budget: describe it once, or raise lines.chain in "
                    "size_budgets.toml and say why in the commit."
                ],
            ),
            (
                2939,
                [
                    "lines of chain: 2939, well below the budget of 3000: "
                    "`python -m tests.architecture.sizes --lower` lowers it."
                ],
            ),
        ],
    )
    def test_a_number_is_at_most_its_budget_and_at_most_2_percent_below(self, lines: int, sentences: list[str]) -> None:
        assert sizes.compare({"lines": {"chain": lines}}, {"lines": {"chain": 3000}}) == sentences

    def test_a_new_package_and_one_that_is_gone_are_reported(self) -> None:
        assert sizes.compare({"lines": {"files": 9}}, {"lines": {"team": 9}}) == [
            "lines of files: 9, without a budget: add one to size_budgets.toml.",
            "lines of team: a budget for nothing: `python -m tests.architecture.sizes --lower` removes it.",
        ]

    def test_a_count_above_its_budget_names_its_places(self) -> None:
        counts, budgets = {"counts": {"long_first_sentences": 2}}, {"counts": {"long_first_sentences": 1}}
        places = {"long_first_sentences": ["zoea/a.py:1", "zoea/b.py:7"]}
        assert sizes.compare(counts, budgets, places) == [
            "long first sentences: 2, which is 1 above the budget: describe it once, or raise "
            "counts.long_first_sentences in size_budgets.toml and say why in the commit."
            "\n  zoea/a.py:1\n  zoea/b.py:7"
        ]

    def test_budgets_are_lowered_and_never_raised(self) -> None:
        measured = {"lines": {"chain": 2000, "llm": 4000}, "files": {"chain": 9}, "counts": {"short_functions": 7}}
        budgets = {
            "lines": {"chain": 3000, "llm": 3000, "gone": 5},
            "files": {"chain": 12},
            "counts": {"short_functions": 8},
        }
        assert sizes.lower(measured, budgets) == {
            "lines": {"chain": 2020, "llm": 3000},
            "files": {"chain": 10},
            "counts": {"short_functions": 7},
        }
        assert tomllib.loads(sizes.render(budgets)) == budgets

    def test_thin_modules_and_short_functions_are_counted_by_what_they_are(self) -> None:
        assert all(name.startswith("zoea.") for name in sizes.thin_modules())
        assert all(": _" in name for name in sizes.short_functions())

    @walk_cases(
        ("text", "found"),
        [
            ('"""One two. Three."""\n', [(1, "One two.")]),
            ('# A comment.\n"""One\ntwo\n\nThree.\n"""\n', [(2, "One\ntwo")]),
            ('def f() -> None:  # a reason\n    r"""One: two."""\n', [(2, "One:")]),
            ('ONE = 1\n"""Not a docstring."""\n', []),
        ],
    )
    def test_a_first_sentence_ends_with_a_mark_or_a_paragraph(self, text: str, found: list[tuple[int, str]]) -> None:
        assert list(sizes.first_sentences(text)) == found

    def test_no_docstring_of_the_package_is_missed(self) -> None:
        for file in SOURCES:
            docstrings = {
                node.body[0].lineno
                for node in nodes_of(file)
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                if ast.get_docstring(node)
            }
            assert docstrings <= {number for number, _ in sizes.first_sentences(text_of(file))}, file

    def test_a_line_without_a_check_holds_the_reason(self) -> None:
        assert [place for place, reason in sizes.silenced_lines().items() if not reason] == []


class TestTests:
    def test_only_the_wait_helper_fakes_and_random_faults_sleep(self) -> None:
        allowed = {"waiting.py", "idle_pilot.py", "test_snapshots.py", "test_search_reader.py"}
        sleeping = {
            str(file.relative_to(ROOT))
            for file in (ROOT / "tests").rglob("*.py")
            if SLEEP.search(file.read_text(encoding="utf-8")) and file.name not in allowed
        }
        assert {
            name for name in sleeping if not name.startswith(("tests/fakes/", "tests/faults/", "tests/conformance/"))
        } == set()


class TestSql:
    def test_sql_is_written_only_where_rows_are_read_and_written(self) -> None:
        elsewhere = {
            str(file.relative_to(PACKAGE))
            for file in SOURCES
            if not str(file.relative_to(PACKAGE)).startswith(SQL_PLACES)
            and any(SQL.search(text) for text in string_constants(file))
        }
        assert elsewhere == set()


class TestContracts:
    """import-linter checks the contracts (`make check`); these tests check that they cover every package."""

    @pytest.fixture
    def contracts(self) -> dict[str, dict[str, list[str]]]:
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        return {contract["id"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}

    @pytest.mark.parametrize(
        ("contract", "free"),
        [
            ("textual-in-tui", {"tui"}),
            ("mcp-at-the-edges", {"tools", "files", "mcp_server", "world"}),
            ("acp-at-the-edges", {"agents", "acp_server"}),
            ("httpx-at-the-edges", {"llm"}),
            ("aiohttp-at-the-edges", {"llm", "web"}),
            ("browsers-in-web", {"web"}),
        ],
    )
    def test_each_contract_names_every_package_it_binds(
        self, contracts: dict[str, dict[str, list[str]]], contract: str, free: set[str]
    ) -> None:
        bound = {name.removeprefix("zoea.") for name in contracts[contract]["source_modules"]}
        assert packages() - free <= bound

    def test_the_layers_are_those_of_the_design(self, contracts: dict[str, dict[str, list[str]]]) -> None:
        assert contracts["layers"]["layers"] == [
            "tui | cli",
            "runtime",
            "mcp_server | acp_server | web",
            "transfer | ipc",
            "queries",
            "(fleet)",
            "(team)",
            "swarm",
            "context | chain | llm | tools | files | agents | world",
            "store",
            "process",
            "settings",
            "model | text",
        ]


def string_constants(file: Path) -> Iterator[str]:
    """The string literals of a module, without its docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes_of(file)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes_of(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def is_print(node: ast.AST) -> bool:
    """Return whether a node is a call of `print`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
