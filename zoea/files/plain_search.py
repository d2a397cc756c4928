"""Lists or searches the folder it is started in, without ripgrep and git: `[-i] [EXPRESSION]`.

A program of its own, so that an expression that takes for ever can be ended. It writes what `rg --null` writes and
imports nothing of Zoea.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from fnmatch import translate

_MOST_BYTES = 16_000_000
_FIRST_BYTES = 65_536
"""Most files are smaller; a buffer of the most for each would take longer than to read it."""
MOST_GLOB = 300
_MOST_DEPTHS = 4
_Rule = tuple[re.Pattern[str], bool, bool]


def read_rules(file: os.DirEntry[str]) -> list[_Rule]:
    """Return the rules of a `.gitignore`: pattern, for folders only, negated."""
    rules: list[_Rule] = []
    try:
        if not file.is_file():  # the writer of a pipe may never come
            return rules
        with open(file, encoding="utf-8", errors="surrogateescape") as stream:
            lines = stream.read(_MOST_BYTES).splitlines()
    except OSError:
        return rules
    for line in lines:
        line = line.rstrip()
        if not line or line.startswith("#"):
            continue
        allows, line = line.startswith("!"), line.removeprefix("!")
        only_folders, line = line.endswith("/"), line.rstrip("/")
        prefix = "" if "/" in line else "**/"
        if (pattern := compile_glob(prefix + line.removeprefix("/"))) is not None:
            rules.append((pattern, only_folders, allows))
    return rules


def compile_glob(glob: str) -> re.Pattern[str] | None:
    """Convert a glob to an expression; `**` matches any folders. Return None if it is too complicated."""
    parts = [
        part
        for number, part in enumerate(glob.split("/"))
        if part != "**" or glob.split("/")[number - 1 :][:1] != ["**"] or not number
    ]
    if len(glob) > MOST_GLOB or parts.count("**") > _MOST_DEPTHS:
        return None
    last = len(parts) - 1
    texts = [_translate(part) + ("" if number == last else "/") for number, part in enumerate(parts)]
    for number, part in enumerate(parts):
        if part == "**":
            texts[number] = ".*" if number == last else "(?:.*/)?"
    try:
        return re.compile(f"(?s:{''.join(texts)})\\Z")
    except re.error:
        return None


def _translate(part: str) -> str:
    """Convert one part of a glob to a regular expression. A star does not match `/`."""
    text = translate(part)[len("(?s:") : -len(")z ")]
    return re.sub(r"\[[^]]*\]|\\.|\.\*|\.", lambda found: {".*": "[^/]*", ".": "[^/]"}.get(found[0], found[0]), text)


def walk(folder: str = "", above: tuple[tuple[str, list[_Rule]], ...] = ()) -> Iterator[str]:
    """Yield the files below a folder that no `.gitignore` names, without following links."""
    here = folder or "."
    try:
        with os.scandir(here) as listing:
            entries = {entry.name: entry for entry in listing}
    except OSError:
        return
    rules = read_rules(entries[".gitignore"]) if ".gitignore" in entries else []
    levels = (*above, (folder, rules)) if rules else above
    for name in sorted(entries):
        entry, path = entries[name], f"{folder}{name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if name == ".git" or (levels and is_ignored(path, is_folder, levels)):
            continue
        if is_folder:
            yield from walk(f"{path}/", levels)
        elif entry.is_file(follow_symlinks=False):
            yield path


def is_ignored(path: str, is_folder: bool, levels: tuple[tuple[str, list[_Rule]], ...]) -> bool:
    """Return whether the last matching rule ignores a path. Rules of deeper folders come last."""
    for folder, rules in reversed(levels):
        for pattern, only_folders, allows in reversed(rules):
            if (is_folder or not only_folders) and pattern.match(path[len(folder) :]):
                return not allows
    return False


def main(arguments: list[str]) -> int:
    """Print the files or their matching lines. Return 2 for an invalid expression."""
    out = sys.stdout.buffer
    if not arguments:
        for path in walk():
            out.write(os.fsencode(path) + b"\0")
        return 0
    flags = re.IGNORECASE if "-i" in arguments[:-1] else 0
    try:
        expression = arguments[-1].encode("utf-8", "surrogateescape")
        pattern = re.compile(expression, flags)
        anywhere = re.compile(b"" if b"\\A" in expression or b"\\Z" in expression else expression, flags | re.MULTILINE)
    except re.error as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for path in walk():
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            content = os.read(handle, _FIRST_BYTES)
            if len(content) == _FIRST_BYTES:
                content += os.read(handle, _MOST_BYTES)
        except OSError:
            continue
        finally:
            os.close(handle)
        if content.find(b"\0", 0, 8_000) >= 0 or not anywhere.search(content):
            continue
        for number, line in enumerate(content.split(b"\n"), 1):
            if pattern.search(line):
                out.write(b"%s\0%d:%s\n" % (os.fsencode(path), number, line))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
