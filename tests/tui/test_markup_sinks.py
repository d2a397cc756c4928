"""Nothing that a model, tool or person wrote can reach a place that reads markup: shown by the source itself.

Textual parses markup in most widgets' text, in borders' titles and in notices.
Whatever is no literal must come as `Content`, or to a sink that was told not to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.case_tables import walk_cases

ROOT = Path(__file__).parents[2] / "zoea" / "tui"
TOLD = {"Static", "Label", "OptionList", "SelectionList", "RichLog", "Link"}
"""Widgets that take `markup=False`, and must be given it."""
UNTOLD = {"Button", "Checkbox", "RadioButton", "Collapsible", "TabPane", "Tab", "Tree", "DataTable", "Select", "Switch"}
"""Widgets that parse what they are given, whatever one says: only literals."""
TITLES = {"border_title", "border_subtitle", "tooltip", "title", "sub_title"}
PARSERS = {"from_markup", "from_text", "visualize", "render_markup"}
SAFE_MAKERS = {"Content", "assemble", "styled", "key_hints", "Text"}


def name_of(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def says_no_markup(call: ast.Call) -> bool:
    return any(
        word.arg == "markup" and isinstance(word.value, ast.Constant) and word.value.value is False
        for word in call.keywords
    )


def is_safe(value: ast.expr | None, names: dict[str, list[ast.expr]]) -> bool:
    """Return whether a value is safe. A literal without a bracket, `Content`, a choice or a local name of such is."""
    match value:
        case None:
            return True
        case ast.Constant(value=said):
            return not isinstance(said, str) or "[" not in said
        case ast.IfExp(body=one, orelse=other):
            return is_safe(one, names) and is_safe(other, names)
        case ast.Call():
            return name_of(value) in SAFE_MAKERS
        case ast.Name(id=name) if name in names:
            return all(is_safe(one, {}) for one in names[name])
    return False


def assigned(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """What each local name of a function is ever set to."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def sinks(source: str) -> Iterator[tuple[int, str]]:
    """Each line that feeds a sink with what might be markup, and which sink."""
    tree = ast.parse(source)
    for scope in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
        names = assigned(scope)
        for node in ast.walk(scope):
            for target in node.targets if isinstance(node, ast.Assign) else ():
                if isinstance(node, ast.Assign) and _is_title(target) and not is_safe(node.value, names):
                    yield node.lineno, ast.unparse(target)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _call(node)
        elif isinstance(node, ast.ClassDef) and {base.id for base in node.bases if isinstance(base, ast.Name)} & TOLD:
            inits = [one for one in ast.walk(node) if isinstance(one, ast.Call) and name_of(one) == "__init__"]
            if not inits or not all(says_no_markup(one) for one in inits):
                yield node.lineno, node.name


def _is_title(target: ast.expr) -> bool:
    """Return whether it is a border's title, a tooltip, or the app's own title. Another thing's `title` is none."""
    if not isinstance(target, ast.Attribute) or target.attr not in TITLES:
        return False
    is_own = isinstance(target.value, ast.Name) and target.value.id == "self"
    return is_own or target.attr not in ("title", "sub_title")


def _call(call: ast.Call) -> Iterator[tuple[int, str]]:
    name = name_of(call)
    given = [*call.args, *(word.value for word in call.keywords if word.arg != "id")]
    if name in TOLD and not says_no_markup(call):
        yield call.lineno, name
    if name in UNTOLD and not all(isinstance(one, ast.Constant) for one in given):
        yield call.lineno, name
    if name == "notify" and not says_no_markup(call) and not all(is_safe(one, {}) for one in given):
        yield call.lineno, name
    if name in PARSERS and not says_no_markup(call):
        yield call.lineno, name
    for word in call.keywords:
        if word.arg == "markup" and isinstance(word.value, ast.Constant) and word.value.value is True:
            yield call.lineno, f"{name}(markup=True)"
        if word.arg == "tooltip" and not is_safe(word.value, {}):
            yield call.lineno, "tooltip"
        if name == "TextArea" and word.arg == "placeholder" and not isinstance(word.value, ast.Constant):
            yield call.lineno, "TextArea(placeholder=…)"


def test_nothing_but_literals_reaches_a_sink_of_markup() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {sink}"
        for path in sorted(ROOT.rglob("*.py"))
        for line, sink in sinks(path.read_text("utf-8"))
    ]
    assert found == []


@walk_cases(
    "line",
    [
        "Static(view.name)",
        "self.notify(f'{view.name} is gone')",
        "self.border_title = view.name",
        "box.border_subtitle = f'{place} of {many}'",
        "box.tooltip = text",
        "Text.from_markup('x')",
        "Content.from_text(text)",
        "Button(label)",
        "OptionList(markup=True)",
        "TextArea(placeholder=text)",
        "title = view.name; box.border_title = title",
    ],
)
def test_a_sink_is_found(line: str) -> None:
    assert list(sinks(f"def draw(self, view):\n    {line}\n"))


@walk_cases(
    "line",
    [
        "Static(view.name, markup=False)",
        "self.notify(view.name, markup=False)",
        "self.notify('nobody needs you')",
        "self.border_title = Content(view.name)",
        "title = Content(view.name) if view else 'nobody'; box.border_title = title",
        "Button('Send')",
        "Content.from_text(text, markup=False)",
    ],
)
def test_literals_and_safe_makers_are_not_reported(line: str) -> None:
    assert not list(sinks(f"def draw(self, view):\n    {line}\n"))
