"""Measure the package and compare it with its budgets.

    python -m tests.architecture.sizes --list     print the measurements
    python -m tests.architecture.sizes --lower    lower the budgets to what is measured; none is raised

The budgets are in `size_budgets.toml`. A larger one is written by hand, with the reason in the commit.
"""

from __future__ import annotations

import ast
import math
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from types import MappingProxyType

from msgspec import Struct

from tests.architecture.sources import PACKAGE, ROOT, SOURCES, nodes_of, read_imports, text_of, tree_of

BUDGETS = Path(__file__).with_name("size_budgets.toml")
COMMAND = "python -m tests.architecture.sizes --lower"
THIN_MODULE = 60
SHORT_BODY = 6
CHECKED = ("zoea", "tests", "benchmarks", "documentation")
"""Folders of Python files that ruff and mypy check."""
SILENCED = re.compile(r"#\s*(?:type: ignore\[[^]]*]|(?:ruff: )?noqa: *[A-Z]+\d+)[ #-]*(.*)")
DOCSTRING = re.compile(r'(?:\A(?:#[^\n]*\n)*|:(?: *#[^\n]*)?\n) *r?"""(.*?)(?:\n\n|""")', re.DOTALL)
"""The first paragraph of a docstring. Parsing every test for it would take half a minute."""
SENTENCE_END = re.compile(r"(?<=[.:!?])\s")
MOST_WORDS = 15
"""Words that the first sentence of a docstring may have."""
AIR = 0.01
"""Share of its lines and files that a package may still grow when its budget is lowered."""
SLACK = 0.02
"""Share of a budget that may be unused before it has to be lowered."""
LEAST_SLACK = {"lines": 60, "files": 2, "counts": 3}
"""What may be unused of a small budget."""

Budgets = Mapping[str, Mapping[str, int]]
NO_PLACES: Mapping[str, Sequence[str]] = MappingProxyType({})


class Lines(Struct):
    """Lines of files by what they hold; comments count as code.

    Attributes:
        imports: Those lines of code that are import statements.
    """

    files: int = 0
    code: int = 0
    docstrings: int = 0
    blank: int = 0
    imports: int = 0

    @property
    def total(self) -> int:
        return self.code + self.docstrings + self.blank


def measure_packages() -> dict[str, Lines]:
    """Return the lines of each package below `zoea`. `zoea` itself stands for the modules in no other package."""
    packages: defaultdict[str, Lines] = defaultdict(Lines)
    for file in SOURCES:
        above = file.relative_to(PACKAGE).parts[:-1]
        lines = packages[above[0] if above else "zoea"]
        all_lines = text_of(file).splitlines()
        docstrings = {number for node in nodes_of(file) if (text := _docstring(node)) for number in _lines_of(text)}
        blank = sum(not line.strip() for number, line in enumerate(all_lines, 1) if number not in docstrings)
        lines.files += 1
        lines.docstrings += len(docstrings)
        lines.blank += blank
        lines.code += len(all_lines) - len(docstrings) - blank
        lines.imports += sum(
            len(_lines_of(node)) for node in nodes_of(file) if isinstance(node, ast.Import | ast.ImportFrom)
        )
    return dict(sorted(packages.items()))


def _lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _docstring(node: ast.AST) -> ast.stmt | None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return None
    match node.body[0]:
        case ast.Expr(value=ast.Constant(value=str())) as statement:
            return statement
    return None


def thin_modules() -> list[str]:
    """Return the modules of under 60 lines that one other module imports."""
    importers: Counter[str] = Counter()
    for module, wanted in read_imports().items():
        importers.update(wanted - {module})
    return [
        module
        for module, count in sorted(importers.items())
        if count == 1
        if (file := (ROOT / module.replace(".", "/")).with_suffix(".py")).exists()
        if text_of(file).count("\n") < THIN_MODULE
    ]


@cache
def short_functions() -> list[str]:
    """Return the private functions with one call and a body of under 6 lines.

    Not those with a decorator, those that are passed as values, and methods that another class defines too, because
    they may override it.
    """
    methods = Counter(
        inner.name
        for file in SOURCES
        for node in nodes_of(file)
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    used = {file: Counter(_names(file)) for file in SOURCES}
    everywhere: Counter[str] = Counter()
    for names in used.values():
        everywhere.update(names)  # a sum copies all of them for each file
    return [
        f"{file.relative_to(ROOT)}: {node.name}"
        for file in SOURCES
        for node in nodes_of(file)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if re.match(r"_[^_]", node.name)
        if not node.decorator_list
        if methods[node.name] < 2
        if used[file][node.name] == 1 and (methods[node.name] == 0 or everywhere[node.name] == 1)
        if _body_lines(node) < SHORT_BODY
        if node.name in _called(file)
    ]


def silenced_lines() -> dict[str, str]:
    """Return the reason for each place that turns off a check of ruff or mypy."""
    return {
        f"{file.relative_to(ROOT)}:{number}": found[1]
        for folder in CHECKED
        for file in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(text_of(file).splitlines(), 1)
        if (found := SILENCED.search(line))
    }


def long_first_sentences() -> list[str]:
    """Return the places of docstrings whose first sentence has more than 15 words."""
    return [
        f"{file.relative_to(ROOT)}:{number}"
        for folder in CHECKED
        for file in sorted((ROOT / folder).rglob("*.py"))
        for number, sentence in first_sentences(text_of(file))
        if len(sentence.split()) > MOST_WORDS
    ]


def first_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the first sentence of each docstring of a file. A colon ends a sentence too."""
    for found in DOCSTRING.finditer(text):
        yield text.count("\n", 0, found.start(1)) + 1, SENTENCE_END.split(found[1], maxsplit=1)[0]


def _names(file: Path) -> Iterator[str]:
    """Yield each private name that a file reads, also as an attribute."""
    for node in nodes_of(file):
        if isinstance(node, ast.Name | ast.Attribute) and (name := _name(node)).startswith("_"):
            yield name


@cache
def _called(file: Path) -> set[str]:
    return {_name(node.func) for node in nodes_of(file) if isinstance(node, ast.Call)}


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = node.body[1:] if _docstring(node) else node.body
    return (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def measure() -> dict[str, dict[str, int]]:
    """Return the numbers that have budgets, in the sections of the file."""
    packages = measure_packages()
    return {
        "lines": {name: lines.total for name, lines in packages.items()},
        "files": {name: lines.files for name, lines in packages.items()},
        "counts": {
            "thin_modules": len(thin_modules()),
            "short_functions": len(short_functions()),
            "silenced_lines": len(silenced_lines()),
            "long_first_sentences": len(long_first_sentences()),
        },
    }


def read_budgets() -> dict[str, dict[str, int]]:
    """Return the budgets by section and name."""
    return tomllib.loads(BUDGETS.read_text(encoding="utf-8"))


def compare(measured: Budgets, budgets: Budgets, places: Mapping[str, Sequence[str]] = NO_PLACES) -> list[str]:
    """Return a sentence for each number above its budget, and for each budget too large.

    Args:
        places: Where the things are that a count above its budget counts, by its name.
    """
    sentences = []
    for section, numbers in measured.items():
        for name in sorted(numbers.keys() | budgets[section].keys()):
            number, budget = numbers.get(name), budgets[section].get(name)
            what = f"{section} of {name}" if section != "counts" else name.replace("_", " ")
            if budget is None:
                sentences.append(f"{what}: {number}, without a budget: add one to {BUDGETS.name}.")
            elif number is None:
                sentences.append(f"{what}: a budget for nothing: `{COMMAND}` removes it.")
            elif number > budget:
                sentences.append(
                    f"{what}: {number}, which is {number - budget} above the budget: "
                    f"describe it once, or raise {section}.{name} in {BUDGETS.name} and say why in the commit."
                    + "".join(f"\n  {place}" for place in places.get(name, ()))
                )
            elif budget - number > max(SLACK * budget, LEAST_SLACK[section]):
                sentences.append(f"{what}: {number}, well below the budget of {budget}: `{COMMAND}` lowers it.")
    return sentences


def lower(measured: Budgets, budgets: Budgets) -> dict[str, dict[str, int]]:
    """Return budgets that hold what is measured, with some air for packages. None is larger than before."""
    return {
        section: {
            name: min(budgets[section].get(name, number * 2), number if section == "counts" else _with_air(number))
            for name, number in numbers.items()
        }
        for section, numbers in measured.items()
    }


def _with_air(number: int) -> int:
    return math.ceil(number * (1 + AIR))


def render(budgets: Budgets) -> str:
    """Return the text of the file with the budgets."""
    parts = [f"# What the package may hold at most. `{COMMAND}` lowers the numbers."]
    for section, numbers in budgets.items():
        parts.append("\n".join([f"[{section}]", *(f"{name} = {number}" for name, number in numbers.items())]))
    return "\n\n".join(parts) + "\n"


def table() -> str:
    """Return all measurements as text."""
    packages = measure_packages()
    rows: list[tuple[str, ...]] = [("package", "files", "lines", "code", "docstrings", "blank", "imports")]
    rows += [
        (name, *map(str, (one.files, one.total, one.code, one.docstrings, one.blank, one.imports)))
        for name, one in packages.items()
    ]
    sums = (sum(int(row[column]) for row in rows[1:]) for column in range(1, len(rows[0])))
    rows.append(("all", *map(str, sums)))
    lines = ["".join(f"{cell:<12}" if not at else f"{cell:>11}" for at, cell in enumerate(row)) for row in rows]
    return "\n".join([*lines, "", *(f"{name:<52}{value}" for name, value in _facts().items())])


def _facts() -> dict[str, str]:
    from tests.architecture.test_defaults import OTHER_THINGS, defaults_stated_twice

    lengths = {str(file.relative_to(ROOT)): text_of(file).count("\n") for file in SOURCES}
    functions = {
        f"{file.relative_to(ROOT)}: {node.name}": len(_lines_of(node))
        for file in SOURCES
        for node in nodes_of(file)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    largest, longest = max(lengths, key=lengths.__getitem__), max(functions, key=functions.__getitem__)
    return {
        "median file, lines": f"{median(lengths.values()):.0f}",
        "largest file, lines": f"{lengths[largest]} ({largest})",
        "longest function, lines": f"{functions[longest]} ({longest})",
        f"modules with one importer under {THIN_MODULE} lines": str(len(thin_modules())),
        f"private functions called once under {SHORT_BODY} lines": str(len(short_functions())),
        "lines without a check of ruff or mypy": str(len(silenced_lines())),
        f"first sentences of more than {MOST_WORDS} words": str(len(long_first_sentences())),
        "defaults stated twice": str(len(defaults_stated_twice() - OTHER_THINGS.keys())),
        **_surface(),
    }


def _surface() -> dict[str, str]:
    from zoea.cli.dispatch import COMMANDS, Command, load
    from zoea.model.swarm_api import SwarmApi
    from zoea.settings.inert_keys import iterate_fields
    from zoea.settings.schema import Settings
    from zoea.tui.commands.action import ActionPlace
    from zoea.tui.commands.actions import of
    from zoea.tui.commands.keymap import fixed_keys

    def paths(commands: Mapping[str, str | Command], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for name, command in commands.items():
            path = (*above, name)
            yield path
            if isinstance(command, Command):
                yield from paths(command.below, path)

    loaded = [load(path)[0] for path in paths(COMMANDS)]
    options = [
        name for command in loaded for name, one in command.line.parameters.items() if one.names and name != "help"
    ]
    classes = [
        (node.name, {ast.unparse(base).split("[")[0] for base in node.bases})
        for file in sorted((PACKAGE / "tui").rglob("*.py"))
        for node in tree_of(file).body
        if isinstance(node, ast.ClassDef)
    ]
    bases = {"screens": {"CockpitScreen", "TabbedScreen"}, "dialogs": {"CockpitDialog", "ListDialog", "FormDialog"}}
    shown = {kind: sum(bool(of_it & wanted) for _, of_it in classes) for kind, wanted in bases.items()}
    methods = [name for part in SwarmApi.__mro__ for name, value in vars(part).items() if callable(value)]
    return {
        "commands (at the top)": f"{sum(command.function is not None for command in loaded)} ({len(COMMANDS)})",
        "options (different names)": f"{len(options)} ({len(set(options))})",
        "settings": str(len(list(iterate_fields(Settings)))),
        "keys (actions and fixed)": str(sum(len([*of(place), *fixed_keys(place)]) for place in ActionPlace)),
        **{f"{kind}, with their base classes": str(count) for kind, count in shown.items()},
        "API methods": str(len({name for name in methods if not name.startswith("_")})),
    }


def main(arguments: list[str]) -> int:
    """Print the measurements or lower the budgets."""
    if arguments == ["--list"]:
        sys.stdout.write(table() + "\n")
    elif arguments == ["--lower"]:
        BUDGETS.write_text(render(lower(measure(), read_budgets())), encoding="utf-8")
    else:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
