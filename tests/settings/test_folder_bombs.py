"""No file that a folder brings takes long to read, whatever it holds: each reader with each bomb."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import zoea
from tests.case_tables import walk_cases
from zoea.cli.dispatch import dispatch
from zoea.model.errors import ZoeaError
from zoea.settings.document import read_document
from zoea.settings.early_settings import read_early_settings
from zoea.settings.key_paths import Layer
from zoea.settings.layers import check_settings, load
from zoea.settings.paths import places
from zoea.settings.template_library import Level, Templates, import_template
from zoea.text.document_bounds import MOST_VALUES, parse_toml
from zoea.tui.theme.themes import read_theme

MOST_S = 4.0
"""Seconds of CPU, on a loaded machine too. Without bounds the bombs take from 5 seconds to hours."""
N = 800_000
MANY = 200_000
"""Characters of what a parser alone meets; enough for a pattern that takes time with their square."""
SOAK = bool(os.environ.get("ZOEA_SOAK"))
MOST = N if SOAK else MANY
"""Characters of the same for one reader of each parser."""
PARENTS = "{{parent}}" * 40_000


def make_long_toml(size: int) -> dict[str, str]:
    """Return texts of so many characters that a parser alone meets."""
    return {
        "brackets": "a = " + "[" * size,
        "digits in a text": 'turn.timeout = "' + "1" * size + '"',
        "blanks before a value": "a =" + " " * size + "1",
        "blanks after a key": "a" + " " * size + "= 1",
        "blanks in a text": 'turn.timeout = "' + " " * size + 'x"',
        "empty lines": "\n" * size,
        "comments": "#\n" * (size // 2),
        "open text": 'a = """' + '\\"' * (size // 2),
        "a word": "a" * size,
    }


def make_long_json(size: int) -> dict[str, str]:
    return {
        "brackets": '{"title": ' + "[" * size + "}",
        "comments without end": "{" + "/*" * (size // 2),
        "blanks": '{"title":' + " " * size + "x}",
        "a text without end": '"' + '\\"' * (size // 2),
        "placeholders": '{"mcpServers": {"a": {"command": "' + "${" * (size // 2) + '"}}}',
        "half a character": '{"title": "\\ud800' + "x" * size + '"}',
    }


TOML = {
    "parts of a key": "a" + ".a" * 20_000 + " = 1",
    "parts of a header": "[" + "a" + ".a" * 20_000 + "]",
    "quoted parts": '"a"' + ' . "a"' * 20_000 + " = 1",
    "parts in a table": "a = {" + "a" + ".a" * 20_000 + " = 1}",
    "sources": '[[context_strategy.sources]]\ntopic = "A"\n' * 16_000,
    "few sources": '[[context_strategy.sources]]\ntopic = "A"\n' * 4_900,
    "sources in a line": "context_strategy = {sources = [" + '{topic = "A"},' * 4_900 + "]}",
    "tables": "".join(f"[a{number}]\n" for number in range(60_000)),
    "entries": "".join(f'[provider.a{number}]\ntipe = "x"\n' for number in range(4_900)),
    "similar keys": "[swarm]\n" + "".join(f"max_mysis_{number} = 1\n" for number in range(9_900)),
    "values": "a = [" + "1," * (N // 2) + "]",
    "words": 'tool.pin = "' + "a," * (N // 2) + '"',
    "words in JSON": "tool.pin = '[" + "1," * (N // 2) + "1]'",
    "nested JSON": 'tui.keys = \'{"a": ' + "[" * N + "'",
    "braces": "a = " + "{a=" * 9_000,
    "digits": "swarm.max_myses = " + "1" * 5_000,
    "hexadecimal digits": "swarm.max_myses = 0x" + "f" * 5_000,
    "digits of a fraction": "swarm.inherit_broadcast_hours = 1." + "1" * 5_000,
    "digits of an exponent": "swarm.inherit_broadcast_hours = 1e" + "1" * 5_000,
    "parents": f'extends = "default"\nprompt = "{PARENTS}"',
    "a schema": "output_schema = {" + "not = {" * 20 + "}" * 21,
    "too long": "#" * 2_000_000,
}
JSON = {
    "digits": '{"title": ' + "1" * 5_000 + "}",
    "values": '{"title": [' + "1," * (N // 2) + "1]}",
    "keys": "{" + ",".join(f'"k{number}": 1' for number in range(60_000)) + "}",
    "the same key": "{" + '"k": 1,' * 9_000 + '"k": 1}',
    "sources": '{"contextStrategy": {"sources": [' + '{"topic": "A"},' * 60_000 + '{"topic": "A"}]}}',
    "commas": '{"title": 1' + ",/* x */" * 20_000 + "x}",
    "servers": '{"mcpServers": {' + ",".join(f'"a{number}": {{"command": "x"}}' for number in range(4_900)) + "}}",
    "too long": " " * 2_000_000,
}
YAML = {
    "digits": "session:\n  max_history: " + "1" * 5_000,
    "digits of a fraction": "session:\n  ttl: 1." + "1" * 5_000,
    "blanks in a value": "session:\n  ttl: a" + " " * 100_000 + "b",
    "blanks after a key": "session:\n  ttl" + " " * 100_000,
    "blanks before a comment": "session:\n  ttl: 3" + " " * 100_000 + "#",
    "lines": "session:\n" + "  ttl: 3\n" * 60_000,
    "keys": "session:\n" + "".join(f"  k{number}: 3\n" for number in range(60_000)),
    "too long": " " * 2_000_000,
}


def load_project(file: Path) -> object:
    file.rename("zoea.toml")
    return load(places(configured=False), env={})


def read_workspace(file: Path) -> object:
    file.write_text('workspace = "lab"\n' + file.read_text())
    file.rename("zoea.toml")
    return places()


def paint_first(file: Path) -> object:
    file.rename("zoea.toml")
    return read_early_settings(places(configured=False).config, {})


def read_template(file: Path) -> object:
    return Templates((Level(Layer.PROJECT, file.parent),)).get(file.stem)


def check_project(file: Path) -> object:
    folder = Path(".zoea/templates")
    folder.mkdir(parents=True)
    file.rename(folder / file.name)
    return check_settings(places(configured=False), env={})


# At the quick strength, what only a parser meets goes to one reader of each parser: all of it is about its length.
LONG_TOML, LONG_JSON = (make_long_toml(MANY), make_long_json(MANY)) if SOAK else ({}, {})
READERS: list[tuple[Callable[[Path], object], str, dict[str, str]]] = [
    (load_project, ".toml", {**TOML, **make_long_toml(MOST)}),
    (read_workspace, ".toml", {**TOML, **make_long_toml(MANY)}),
    (paint_first, ".toml", {**TOML, **LONG_TOML}),
    (read_template, ".toml", {**TOML, **LONG_TOML}),
    (read_theme, ".toml", {**TOML, **LONG_TOML}),
    (read_template, ".json", {**JSON, **make_long_json(MOST)}),
    (check_project, ".toml", {**TOML, **LONG_TOML}),
    (check_project, ".json", {**JSON, **LONG_JSON}),
    (lambda file: import_template(file, Path("templates")), ".json", {**JSON, **LONG_JSON}),
    (lambda file: dispatch(["upstream", "import", str(file)]), ".json", {**JSON, **make_long_json(MOST)}),
    (lambda file: dispatch(["config", "import", str(file)]), ".yaml", YAML),
]


def test_no_other_code_parses_toml_without_bounds() -> None:
    """A further reader of files parses with `parse_toml`, or checks the text before. Else it stands here."""
    bounded = {"text/document_bounds.py", "settings/document.py", "mcp_server/client_configs.py"}
    own = {
        "agents/agent_launch.py": "files of the package",
        "llm/price_writer.py": "the person's prices",
        "runtime/upstream_import.py": "the person's settings",
        "settings/config_writer.py": "the person's settings",
        "settings/credentials.py": "the person's credentials, which no other could have written",
        "settings/key_stamp.py": "the person's credentials, which no other could have written",
    }
    package = Path(zoea.__file__).parent
    parses = re.compile(r"\b(?:tomllib\.loads?|tomlkit\.(?:parse|loads?))\(")
    found = {str(file.relative_to(package)) for file in package.rglob("*.py") if parses.search(file.read_text("utf-8"))}
    assert found == bounded | set(own)


@pytest.mark.parametrize(
    ("reader", "suffix", "bombs"), READERS, ids=[f"{place}{suffix}" for place, (_, suffix, _) in enumerate(READERS)]
)
def test_a_bomb_is_read_or_refused_soon(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reader: Callable[[Path], object],
    suffix: str,
    bombs: dict[str, str],
) -> None:
    seconds = {}
    for name, text in bombs.items():
        folder = tmp_path / name
        (folder / "bombs").mkdir(parents=True)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("ZOEA_DATA_DIR", str(folder / "data"))
        monkeypatch.setenv("ZOEA_CONFIG_DIR", str(folder / "config"))
        file = folder / "bombs" / f"bomb{suffix}"
        file.write_text(text)
        before = time.process_time()
        try:
            reader(file)
        except ZoeaError:
            pass
        except Exception as error:
            error.add_note(f"of the bomb: {name}")
            raise
        seconds[name] = time.process_time() - before
    assert {name: took for name, took in seconds.items() if took > MOST_S} == {}


@walk_cases(
    ("make", "most"),
    [
        (lambda count: "a = [" + "1," * count + "]", MOST_VALUES - 1),
        (lambda count: "".join(f"a{number} = 1\n" for number in range(count)), MOST_VALUES),
        (lambda count: "".join(f"\n[a{number}]" for number in range(count)), MOST_VALUES),
        (lambda count: "a = {" + ", ".join(f"a{number} = 1" for number in range(count)) + "}", MOST_VALUES // 2),
    ],
    ids=["items", "keys", "tables", "pairs of a line"],
)
def test_a_text_of_settings_of_more_than_its_values_is_refused_and_none_of_fewer(
    make: Callable[[int], str], most: int
) -> None:
    assert parse_toml(make(most))
    with pytest.raises(ValueError, match=f"^has more than {MOST_VALUES:,} values$"):
        parse_toml(make(most + 1))


def test_what_a_text_or_a_comment_holds_is_no_value() -> None:
    marks = "=,:" * MOST_VALUES
    parsed = parse_toml(f'a = "{marks}"\nb = \'{marks}\'\nc = """\n[{marks}""" # {marks}\n')
    assert parsed == {"a": marks, "b": marks, "c": f"[{marks}"}


def test_a_settings_file_of_too_many_values_is_refused_with_the_number(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("a = [" + "1," * MOST_VALUES + "]")
    assert f"{MOST_VALUES:,} values" in str(read_document(file, Layer.PROJECT).problems)
