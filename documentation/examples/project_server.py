"""An MCP server over a small software project: its files, tests and issues. The pictures show myses that work on it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations

FILES = {
    "tidemark/table.py": "def columns(row):\n    return row.strip().strip('|').split('|')\n",
    "tidemark/links.py": "LINK = re.compile(r'\\[(.+?)\\]\\((.+?)\\)')\n",
    "tests/test_table.py": "def test_an_escaped_bar_stays_in_its_cell():\n    assert columns(ESCAPED) == CELLS\n",
    "README.md": "# tidemark\n\nMarkdown to plain text.\n",
}
ISSUES = [
    {"number": 41, "title": "A bar in a table cell splits the cell", "label": "bug"},
    {"number": 43, "title": "Links with brackets in the text are cut", "label": "bug"},
    {"number": 44, "title": "Say in the README which Markdown is read", "label": "docs"},
]


def build_server() -> MCPServer[Any]:
    """Return the server with its six tools."""
    server: MCPServer[Any] = MCPServer("project", log_level="ERROR")

    async def list_issues(label: str = "") -> str:
        return json.dumps([issue for issue in ISSUES if label in ("", issue["label"])])

    async def read_file(path: str) -> str:
        return FILES.get(path, f"there is no file {path}")

    async def search_code(words: str) -> str:
        return json.dumps([path for path, text in FILES.items() if words in text])

    async def list_failed_tests() -> str:
        await asyncio.sleep(1.2)
        return json.dumps({"passed": 61, "failed": ["test_an_escaped_bar_stays_in_its_cell"], "seconds": 1.2})

    async def measure_speed(tables: int) -> str:
        await asyncio.sleep(tables / 100)
        return json.dumps({"tables": tables, "seconds": 0.84})

    async def close_issue(number: int, comment: str) -> str:
        return json.dumps({"number": number, "state": "closed"})

    looks = ToolAnnotations(read_only_hint=True)
    server.add_tool(list_issues, description="List the open issues.", annotations=looks)
    server.add_tool(read_file, description="Read a file of the project.", annotations=looks)
    server.add_tool(search_code, description="Find the files with these words.", annotations=looks)
    server.add_tool(list_failed_tests, description="Run the tests, and list those that fail.", annotations=looks)
    server.add_tool(measure_speed, description="Convert a file of this many tables.", annotations=looks)
    ends = ToolAnnotations(destructive_hint=True)
    server.add_tool(close_issue, description="Close an issue with a comment.", annotations=ends)
    return server


if __name__ == "__main__":
    build_server().run()
