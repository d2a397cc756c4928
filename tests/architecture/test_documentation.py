"""The documentation names only files, functions, packages and layers that exist."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

from tests.architecture.sources import PACKAGE, ROOT, tree_of
from tests.case_tables import walk_cases
from zoea.context import Reason, StepKind, describe_reason, describe_step
from zoea.context.forms import FormKind
from zoea.model.enums import Activity, DeliveryMode, DeliveryState, MysisState, Outcome
from zoea.model.status import MEANINGS
from zoea.tui.conversation.focus_lines import name_pack

DOCUMENTATION = ROOT / "documentation"
HOUSE = DOCUMENTATION / "architecture" / "house.md"
PAGES = [
    *sorted(DOCUMENTATION.rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md", "SECURITY.md")),
]
WRITTEN = [page for page in PAGES if page.parent.name != "reference"]

CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|sql|tcss|toml|yml))")
SYMBOL = re.compile(r"`([\w./-]+\.py)`:`([\w.]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def resolve(name: str, page: Path) -> Path | None:
    """The file or folder that a page names: from the root, the package or the page's folder, or a unique module."""
    found = next((base / name for base in (ROOT, PACKAGE, page.parent) if (base / name).exists()), None)
    if found is None and "/" not in name:
        found = next(PACKAGE.rglob(name), None)
    return found


def named_paths(page: Path) -> Iterator[str]:
    """Paths in backticks: Python files on every page; on architecture pages every path with a slash."""
    is_architecture = page.parent.name in ("architecture", "decisions") or page.parent == ROOT
    for code in CODE.findall(page.read_text(encoding="utf-8")):
        if PATH.fullmatch(code) and (code.endswith(".py") or (is_architecture and "/" in code)):
            yield code


@cache
def defined_names(file: Path) -> set[str]:
    """Functions, classes, methods and module constants that a file defines; methods as `Class.method`."""
    names: set[str] = set()
    for node in tree_of(file).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name, body=body):
                names.add(name)
                for part in body:
                    if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                        names.add(f"{name}.{part.name}")
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


@walk_cases("page", WRITTEN, ids=relative)
def test_every_path_on_a_page_exists(page: Path) -> None:
    assert [name for name in named_paths(page) if resolve(name, page) is None] == []


@walk_cases("page", WRITTEN, ids=relative)
def test_every_function_on_a_page_is_defined_in_the_file_it_names(page: Path) -> None:
    missing = []
    for path, name in SYMBOL.findall(page.read_text(encoding="utf-8")):
        file = resolve(path, page)
        if file is None or name not in defined_names(file):
            missing.append(f"{path}:{name}")
    assert missing == []


@walk_cases("page", PAGES, ids=relative)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in targets if not (page.parent / link).exists()] == []


def test_the_readme_fits_two_screens() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    shown = [re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", line) for line in lines]
    assert sum(-(-len(line) // 100) or 1 for line in shown) <= 66
    assert [line for line in shown if len(line) > 100 and not line.startswith("- ")] == []


def test_every_package_is_in_the_picture_of_the_house() -> None:
    picture = HOUSE.read_text(encoding="utf-8")
    packages = [file.parent.relative_to(PACKAGE) for file in PACKAGE.rglob("__init__.py") if file.parent != PACKAGE]
    assert [f"{package}/" for package in packages if f"`{package}/`" not in picture] == []


def test_the_drawn_layers_are_those_of_the_import_contracts() -> None:
    _, _, after = HOUSE.read_text(encoding="utf-8").partition("## Layers")
    drawn = re.search(r"```text\n(.*?)```", after, re.DOTALL)
    assert drawn
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [one["layers"] for one in settings["tool"]["importlinter"]["contracts"] if one["id"] == "layers"]
    built = [re.sub(r" ?\| \(\w+\)", "", layer) for layer in layers if not layer.startswith("(")]  # (x): planned
    assert drawn[1].splitlines() == built


def test_the_names_that_the_cockpit_has_for_packs_are_explained() -> None:
    page = (HOUSE.parent / "walk-request.md").read_text(encoding="utf-8").replace("\n", " ")
    assert [id_ for id_ in ("history", "said", "turn", "tools") if f"*{name_pack(id_)}* is `{id_}`" not in page] == []


def test_the_words_for_reasons_and_steps_are_explained() -> None:
    page = (HOUSE.parent / "walk-request.md").read_text(encoding="utf-8")
    words = [(str(kind), describe_step(kind)) for kind in StepKind]
    words += [(str(reason), describe_reason(reason)) for reason in (Reason.BUDGET, Reason.MAX_CHARS)]
    assert [id_ for id_, said in words if f"*{said}* (`{id_}`)" not in page] == []


def test_the_guide_explains_each_status_as_the_cockpit_does() -> None:
    page = (DOCUMENTATION / "guide" / "cockpit.md").read_text(encoding="utf-8")
    assert [word for word, meaning in MEANINGS.items() if f" | {word} | {meaning} |" not in page] == []


@walk_cases(
    ("word", "values"),
    [
        ("state", MysisState),
        ("activity", Activity),
        ("delivery", DeliveryState),
        ("delivery mode", DeliveryMode),
        ("outcome", Outcome),
        ("form", FormKind),
    ],
)
def test_the_glossary_names_each_value_of_a_word(word: str, values: type[StrEnum]) -> None:
    page = (HOUSE.parent / "glossary.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| {word} \|.*$", page, re.MULTILINE)
    assert [value for value in values if f"`{value}`" not in row] == []


def test_every_invariant_names_its_tests() -> None:
    page = (DOCUMENTATION / "architecture" / "invariants.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    assert [section.split()[0] for section in sections] == [f"I{number}" for number in range(1, 11)]
    assert [section.split()[0] for section in sections if "`tests/" not in section] == []
