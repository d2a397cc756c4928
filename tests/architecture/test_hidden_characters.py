"""What commands print passes through the functions that show hidden characters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.sources import PACKAGE, text_of, tree_of

COMMANDS = sorted((*(PACKAGE / "cli").rglob("*.py"), PACKAGE / "__main__.py"))
ESCAPING = {"reveal_exactly"}
"""Functions around `json.dumps` after which a terminal may show its result."""
BYTES = {"cli/output.py"}
"""Files that write bytes to stdout."""
NOT_SHOWN = {
    "cli/commands/context_search.py": "a text as it stands in stored arguments, to look for",
    "cli/commands/trust.py": "a name of a key, which `escape_unprintable` escapes with what stands around it",
}
"""Files whose JSON is not written as it is."""
SCREENS = sorted((PACKAGE / "tui").rglob("*.py"))


def uses(tree: ast.AST) -> Iterator[str]:
    """Yield each use of JSON or bytes for stdout that no function escapes."""
    escaped = {
        id(argument)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ESCAPING
        for argument in call.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.dumps", "dumps") and id(node) not in escaped:
            yield f"{node.lineno}: `dump_shown` writes JSON for a terminal"
        if isinstance(node, ast.Attribute) and ast.unparse(node).endswith("stdout.buffer"):
            yield f"{node.lineno}: `write_document` writes a document"


def test_commands_write_json_and_documents_with_hidden_characters_as_escapes() -> None:
    found = {
        str(file.relative_to(PACKAGE)): list(uses(tree_of(file)))
        for file in COMMANDS
        if str(file.relative_to(PACKAGE)) not in BYTES | NOT_SHOWN.keys()
    }
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_lines_are_joined_by_the_functions_that_keep_all_characters() -> None:
    """`str.split` takes some control characters for blanks, and leaves them out."""
    joined = re.compile(r"""["'] ["']\.join\([^()]*\b\w+(\[[^]]*\])?\.split\(\)""")
    found = [str(file.relative_to(PACKAGE)) for file in (*COMMANDS, *SCREENS) if joined.search(text_of(file))]
    assert found == []
    assert joined.search("say(' '.join(text.split()))")


def test_json_and_bytes_that_are_written_as_they_are_would_be_found() -> None:
    wrong = "print(json.dumps(x)); sys.stdout.buffer.write(y); reveal_exactly(json.dumps(z))"
    assert len(list(uses(ast.parse(wrong)))) == 2
