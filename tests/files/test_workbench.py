"""The tools of the workbench: what a model reads and changes, and what it is told when it may not."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.fakes.processes import find_processes
from tests.fakes.unwaited_processes import unwaited
from tests.files.repositories import commit, git, make_repository, snapshot, state
from tests.files.rights import checked_rights
from tests.waiting import until
from zoea.files import file_search
from zoea.files.plain_search import compile_glob, main
from zoea.files.safe_folder import SafeFolder
from zoea.files.workbench import MOST_BYTES, Picture, Workbench
from zoea.files.workbench_server import answer, find_problem, list_tools
from zoea.files.workbench_tools import TOOLS
from zoea.files.worktrees import Worktrees
from zoea.model.errors import FilesError
from zoea.process import command_runs
from zoea.process.command_runs import HEAD, TAIL, BoundedOutput
from zoea.process.sandbox import Sandbox, build_environment, find_sandbox
from zoea.text.command_lines import takes_command

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "root", a__py="one\ntwo\nthree\n", b__txt="b\n")
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "c.py").write_text("two of c\n")
    (root / "src" / "deep" / "d.py").write_text("d\n")
    (root / ".gitignore").write_text("build/\n*.log\n!kept.log\n/only-here\n")
    (root / "build").mkdir()
    for name in ("build/out.py", "x.log", "kept.log", "only-here", "src/only-here"):
        (root / name).write_text("two ignored\n")
    (root / "link.py").symlink_to("/etc/passwd")
    return root


def open_workbench(root: Path, **values: Any) -> Workbench:
    return Workbench(SafeFolder(root), Sandbox(root, text="not confined"), **values)


@pytest.fixture
async def bench(root: Path) -> AsyncIterator[Workbench]:
    workbench = open_workbench(root)
    yield workbench
    await workbench.close()


async def call(bench: Workbench, name: str, **arguments: Any) -> str:
    """Call a tool as a client does; raise FilesError for an error result."""
    result = await answer(bench, name, arguments)
    text = "".join(getattr(part, "text", "") for part in result.content)
    if result.is_error:
        raise FilesError(text)
    return text


class TestReading:
    async def test_only_newlines_end_lines(self, bench: Workbench, root: Path) -> None:
        """Git and editors count lines so. What is read as it stands can be found again by an edit."""
        (root / "a.py").write_text("one\u2028two\x0cthree\x85\nfour\n")
        assert await call(bench, "read_file", path="a.py") == "     1\tone\u2028two\x0cthree\x85\n     2\tfour"
        (root / "a.py").write_text("one\ntwo\x0cthree\x85\nfour\n")
        with pytest.raises(FilesError, match=r"(?s)-one\u2028two\x0cthree\x85\n\+one\n\+two"):
            await call(bench, "write_file", path="a.py", content="x")

    async def test_lines_are_numbered(self, bench: Workbench) -> None:
        assert await call(bench, "read_file", path="a.py") == "     1\tone\n     2\ttwo\n     3\tthree"

    @pytest.mark.parametrize(
        ("start", "lines", "text"),
        [
            (2, 1, "     2\ttwo\n[1 more lines: read on with start=3]"),
            (3, 9, "     3\tthree"),
            (4, 9, "[3 lines; none from 4 on]"),
        ],
    )
    async def test_a_range_says_what_follows(self, bench: Workbench, start: int, lines: int, text: str) -> None:
        assert await call(bench, "read_file", path="a.py", start=start, lines=lines) == text

    async def test_much_text_is_cut_and_says_so(self, bench: Workbench, root: Path) -> None:
        (root / "long").write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * 2_000)
        assert "more lines: read on with start=" in await call(bench, "read_file", path="long")
        (root / "one").write_text("x" * 100_000)
        assert "the rest of this line is left out" in await call(bench, "read_file", path="one")

    async def test_an_image_is_an_image(self, bench: Workbench, root: Path) -> None:
        for name, content, media in (
            ("x", PNG, "image/png"), ("y", b"\xff\xd8\xff", "image/jpeg"), ("z", b"RIFF0000WEBP", "image/webp"),
        ):  # fmt: skip
            (root / name).write_bytes(content)
            found = await bench.call("read_file", {"path": name})
            assert found == Picture(base64.b64encode(content).decode(), media)
        (image,) = (await answer(bench, "read_file", {"path": "x"})).content
        assert image.type == "image"

    async def test_another_binary_file_is_refused_by_name_and_size(self, bench: Workbench, root: Path) -> None:
        (root / "x.bin").write_bytes(b"\x7fELF\0" + b"x" * 100)
        with pytest.raises(FilesError, match=r"x\.bin is binary and has 105 bytes"):
            await call(bench, "read_file", path="x.bin")

    async def test_what_is_missing_or_too_large_is_said(self, bench: Workbench, root: Path) -> None:
        with pytest.raises(FilesError, match="no file missing"):
            await call(bench, "read_file", path="missing")
        with (root / "huge").open("wb") as stream:
            stream.truncate(MOST_BYTES + 1)
        with pytest.raises(FilesError, match="bytes"):
            await call(bench, "read_file", path="huge")


class TestWriting:
    async def test_a_new_file_is_made(self, bench: Workbench, root: Path) -> None:
        assert await call(bench, "write_file", path="new/x.py", content="text\n") == "made new/x.py: 5 bytes"
        assert (root / "new" / "x.py").read_text() == "text\n"

    async def test_a_file_that_was_not_read_is_not_overwritten(self, bench: Workbench, root: Path) -> None:
        with pytest.raises(FilesError, match="was not read"):
            await call(bench, "write_file", path="a.py", content="x")
        await call(bench, "read_file", path="a.py")
        assert "replaced" in await call(bench, "write_file", path="./a.py", content="x")
        assert "replaced" in await call(bench, "write_file", path=f"{root}/a.py", content="y")
        assert (root / "a.py").read_text() == "y"

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [("write_file", {"content": "x"}), ("edit_file", {"edits": [{"old": "one", "new": "1"}]})],
    )
    async def test_a_file_that_was_changed_since_is_not_overwritten(
        self, bench: Workbench, root: Path, tool: str, arguments: dict[str, Any]
    ) -> None:
        await call(bench, "read_file", path="a.py")
        (root / "a.py").write_text("one\ntheirs\nthree\n")
        with pytest.raises(FilesError, match=r"changed since you read it(?s:.*)-two\n\+theirs"):
            await call(bench, tool, path="a.py", **arguments)
        assert (root / "a.py").read_text() == "one\ntheirs\nthree\n"
        await call(bench, "read_file", path="a.py")
        await call(bench, tool, path="a.py", **arguments)

    async def test_a_large_file_that_was_changed_is_not_overwritten_either(self, bench: Workbench, root: Path) -> None:
        (root / "large").write_text("x\n" * 200_000)
        await call(bench, "read_file", path="large")
        (root / "large").write_text("y\n")
        with pytest.raises(FilesError, match="too large to compare"):
            await call(bench, "write_file", path="large", content="x")

    async def test_several_edits_are_made_together_and_shown(self, bench: Workbench, root: Path) -> None:
        edits = [{"old": "one", "new": "1"}, {"old": "three\n", "new": ""}]
        assert "-one\n+1\n two\n-three" in await call(bench, "edit_file", path="a.py", edits=edits)
        assert (root / "a.py").read_text() == "1\ntwo\n"

    @pytest.mark.parametrize(
        ("edits", "match"),
        [
            ([{"old": "one", "new": "1"}, {"old": "four", "new": ""}], "edit 2: the old text stands 0 times"),
            ([{"old": "e", "new": ""}], "stands 3 times"),
            ([{"old": "", "new": "x"}], "stands 0 times"),
            ([{"old": "two", "new": "two"}], "change nothing"),
            ([{"old": "two", "new": "two"}] * 101, "too many"),
        ],
    )
    async def test_an_edit_that_does_not_fit_changes_nothing(
        self, bench: Workbench, root: Path, edits: list[dict[str, str]], match: str
    ) -> None:
        with pytest.raises(FilesError, match=match):
            await call(bench, "edit_file", path="a.py", edits=edits)
        assert (root / "a.py").read_text() == "one\ntwo\nthree\n"
        with pytest.raises(FilesError, match="no file"):
            await call(bench, "edit_file", path="missing", edits=edits[:1])

    async def test_line_ends_stay(self, bench: Workbench, root: Path) -> None:
        (root / "crlf").write_bytes(b"one\r\ntwo\r\n")
        assert "CR LF" in await call(bench, "read_file", path="crlf")
        await call(bench, "edit_file", path="crlf", edits=[{"old": "one\ntwo", "new": "1\n2"}])
        assert (root / "crlf").read_bytes() == b"1\r\n2\r\n"
        await call(bench, "write_file", path="crlf", content="3\n4\n")
        assert (root / "crlf").read_bytes() == b"3\r\n4\r\n"

    async def test_bytes_that_are_no_utf_8_stay(self, bench: Workbench, root: Path) -> None:
        (root / "latin").write_bytes(b"caf\xe9 one\n")
        await call(bench, "edit_file", path="latin", edits=[{"old": "one", "new": "\u00e9\ud800"}])
        assert (root / "latin").read_bytes() == b"caf\xe9 \xc3\xa9?\n"

    async def test_too_much_is_refused(self, bench: Workbench) -> None:
        with pytest.raises(FilesError, match="too many"):
            await call(bench, "write_file", path="new", content="x" * (MOST_BYTES + 1))


def use_ripgrep(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("rg") is None:
        use_python(monkeypatch)  # ripgrep is not everywhere; the two answer the same


def use_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "rg" else "/usr/bin/git")


def use_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)


FILES = [".gitignore", "a.py", "b.txt", "kept.log", "src/c.py", "src/deep/d.py", "src/only-here"]


def use_git_with_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    use_git(monkeypatch)
    grep = "column = true\nfullName = true\nlineNumber = false\npatternType = fixed\nheading = true"
    more = "[submodule]\nrecurse = true\n[color]\nui = always\n[core]\nquotePath = true\nfsmonitor = missing\n"
    (Path.home() / ".gitconfig").write_text(f"[grep]\n{grep}\n{more}")


@pytest.mark.parametrize("program", [use_ripgrep, use_git, use_git_with_settings, use_python])
class TestSearching:
    @pytest.fixture
    async def found(
        self, root: Path, program: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[Workbench]:
        program(monkeypatch)
        workbench = open_workbench(root)
        yield workbench
        await workbench.close()

    @pytest.mark.parametrize(
        ("arguments", "files"),
        [
            ({}, FILES),
            ({"path": "src"}, FILES[4:]),
            ({"pattern": "*.py"}, ["a.py", "src/c.py", "src/deep/d.py"]),
            ({"pattern": "src/*.py"}, ["src/c.py"]),
            ({"pattern": "src/**/*.py"}, ["src/c.py", "src/deep/d.py"]),
            ({"pattern": "**"}, FILES),
            ({"path": "src", "pattern": "[d].py"}, ["src/deep/d.py"]),
            ({"path": "missing"}, ["[no files]"]),
            ({"most": 1, "pattern": "a.*"}, ["a.py", "[cut at 1]"]),
        ],
    )
    async def test_files_are_listed_without_ignored_ones_and_links(
        self, found: Workbench, arguments: dict[str, Any], files: list[str]
    ) -> None:
        lines = (await call(found, "list_files", **arguments)).split("\n")
        assert [line for line in lines if line != "link.py"] == files

    @pytest.mark.parametrize(
        ("arguments", "lines"),
        [
            ({"expression": "^t[w]o"}, ["a.py:2:two", "kept.log:1:two ignored", "src/c.py:1:two of c",
                                        "src/only-here:1:two ignored"]),
            ({"expression": "TWO", "pattern": "*.py", "ignore_case": True}, ["a.py:2:two", "src/c.py:1:two of c"]),
            ({"expression": "TWO"}, ["[no matches]"]),
            ({"expression": "two", "path": "src", "pattern": "c.*"}, ["src/c.py:1:two of c"]),
            ({"expression": "root:"}, ["[no matches]"]),
            ({"expression": "-e"}, ["[no matches]"]),
        ],
    )  # fmt: skip
    async def test_lines_are_found(self, found: Workbench, arguments: dict[str, Any], lines: list[str]) -> None:
        assert (await call(found, "search_files", **arguments)).split("\n") == lines

    async def test_many_and_long_lines_are_cut_and_say_so(self, found: Workbench, root: Path) -> None:
        (root / "many").write_text("needle " + "x" * 1_000 + "\n" + "needle\n" * 50)
        lines = (await call(found, "search_files", expression="needle", most=20)).split("\n")
        assert "… [1,007 characters]" in lines[0]
        assert lines[20:] == ["[cut at 20]"]
        assert unwaited.take() == []

    async def test_the_end_of_a_large_file_is_searched(self, found: Workbench, root: Path) -> None:
        (root / "large").write_text("x" * 99 + "\n" + "line\n" * 40_000 + "needle")
        assert await call(found, "search_files", expression="needle") == "large:40002:needle"

    async def test_a_pattern_that_cannot_be_read_is_refused(self, found: Workbench) -> None:
        for expression in ("(", "a\nb", "a\0b"):
            with pytest.raises(FilesError):
                await call(found, "search_files", expression=expression)
        with pytest.raises(FilesError, match="too complicated"):
            await call(found, "list_files", pattern="**/a/" * 9)

    async def test_a_search_that_takes_for_ever_is_ended(
        self, found: Workbench, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(file_search, "DEADLINE_S", 0.2)
        monkeypatch.setattr(
            found._search, "_search_line", lambda *_: [sys.executable, "-c", "import time; time.sleep(600)"]
        )
        assert "ended after 0.2 s" in await call(found, "search_files", expression="x")
        assert unwaited.take() == []


@walk_cases(
    ("glob", "name", "fits"),
    [
        ("*.py", "a.py", True), ("*.py", "a/b.py", False), ("?.py", "/.py", False), ("**/x", "x", True),
        ("**/**/x", "a/b/x", True), ("a/**", "a/b/c", True), ("a/**/b", "a/b", True), ("a/**/b", "a/x/y/b", True),
        ("[!a].py", "b.py", True), ("[a", "[a", True), ("a.b", "axb", False), ("*a*b*", "xaxbx", True),
        ("é*", "éa", True), ("[z-a]", "b", False), ("*" + "a*" * 60 + "b", "a" * 250, False),
    ],
)  # fmt: skip
def test_a_glob_stands_for_names(glob: str, name: str, fits: bool) -> None:
    compiled = compile_glob(glob)
    assert compiled is not None
    assert bool(compiled.match(name)) is fits


def test_the_plain_search_reports_what_it_cannot_read(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(root)
    (root / "binary").write_bytes(b"two\0")
    (root / "closed").mkdir(mode=0o000)
    (root / "src" / ".gitignore").write_text("*.c\n")
    for name in ("unreadable", "src/.gitignore"):
        (root / name).touch()
        (root / name).chmod(0o000)
    with checked_rights():
        assert main(["("]) == 2
        assert main(["two of"]) == 0
        assert main([]) == 0
    (root / "closed").chmod(0o700)
    out = capfdbinary.readouterr().out
    assert b"src/c.py\x001:two of c\n" in out
    assert b"build" not in out


@pytest.mark.timeout(20)
def test_anything_in_the_place_of_a_gitignore_holds_up_no_plain_search(
    root: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(root)
    for name, target in (("itself", ".gitignore"), ("device", "/dev/zero")):
        (root / name).mkdir()
        (root / name / ".gitignore").symlink_to(target)
    os.mkfifo(root / "src" / ".gitignore")
    assert main(["two of"]) == 0
    assert b"src/c.py\x001:two of c\n" in capfdbinary.readouterr().out


class TestRunning:
    async def test_the_answer_has_code_output_and_confinement(self, bench: Workbench) -> None:
        text = await call(bench, "run", command="echo out; echo err >&2; pwd")
        here = bench.folder.path
        size = len(str(here)) + 9
        assert text == f"[exit code 0; {size} bytes of output]\nout\nerr\n{here}\n\n[not confined]"

    @pytest.mark.parametrize("code", [1, 3, 127, 128, -9])
    async def test_a_command_that_fails_is_an_error_with_its_output(self, bench: Workbench, code: int) -> None:
        line = f"exit {code}" if code >= 0 else f"kill {code} $$"
        with pytest.raises(FilesError, match=rf"^\[exit code {code}; 4 bytes of output\]\nout\n\n\[not confined\]"):
            await call(bench, "run", command=f"echo out; {line}")

    async def test_a_hundred_megabytes_are_bounded_while_they_are_read(self, bench: Workbench) -> None:
        text = await call(bench, "run", command="echo begin; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end")
        assert "100,000,011 bytes of output" in text
        assert len(text) < HEAD + TAIL + 300
        assert "begin\n" in text
        assert "bytes left out]" in text
        assert "end\n" in text

    async def test_a_command_gets_no_secrets(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("OPENAI_API_KEY", "ZOEA_DATA_DIR", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "LD_PRELOAD"):
            monkeypatch.setenv(name, "hidden-value")
        text = await call(bench, "run", command="env")
        assert "hidden-value" not in text
        assert "PATH=" in text

    async def test_a_command_that_ignores_sigterm_is_ended_at_its_deadline(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(command_runs, "_TERM_GRACE_S", 0.1)
        with pytest.raises(FilesError, match=r"^\[ended after its deadline of 1 s; 3 bytes of output\]\non\n"):
            await call(bench, "run", command="trap '' TERM; echo on; while :; do sleep 600; done", timeout=1)
        assert not find_processes((str(bench.folder.path),))

    async def test_what_a_command_leaves_behind_is_ended(self, bench: Workbench, root: Path) -> None:
        text = await call(bench, "run", command="sleep 600 & echo $! > pid; sleep 0.1")
        assert "exit code 0" in text
        await until(lambda: not _is_running(root / "pid"))

    async def test_a_command_that_is_cancelled_is_ended(self, bench: Workbench, root: Path) -> None:
        task = asyncio.create_task(call(bench, "run", command="echo $$ > pid; exec sleep 600"))
        await until(lambda: (root / "pid").exists() and (root / "pid").read_text().strip())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not _is_running(root / "pid"))

    async def test_a_command_in_the_background_is_followed_and_stopped(self, bench: Workbench) -> None:
        assert "command 1 runs" in await call(bench, "run", command="echo begun; exec sleep 600", background=True)
        await until(lambda: "begun" in bench.runs.find(1).output.text)
        assert (await call(bench, "run_output", number=1)).startswith("[running; 6 bytes of output]\nbegun")
        assert (await call(bench, "run_stop", number=1)).startswith("[stopped; 6 bytes")
        assert (await call(bench, "run_stop", number=1)).startswith("[stopped; 6 bytes")
        with pytest.raises(FilesError, match="no command 2"):
            await call(bench, "run_output", number=2)

    async def test_the_background_is_bounded(self, bench: Workbench) -> None:
        for _ in range(command_runs.MOST_BACKGROUND):
            await call(bench, "run", command="exec sleep 600", background=True)
        with pytest.raises(FilesError, match="8 commands run"):
            await call(bench, "run", command="true", background=True)

    async def test_ended_ones_are_forgotten_in_time(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(command_runs, "_MOST_ENDED", 2)
        for number in range(1, 5):
            await call(bench, "run", command="true", background=True)
            await bench.runs.find(number).wait()
        await call(bench, "run", command="true", background=True)
        with pytest.raises(FilesError, match="no command 1"):
            bench.runs.find(1)

    async def test_a_command_that_does_not_start_is_said(self, bench: Workbench) -> None:
        with pytest.raises(FilesError, match="did not start"):
            await call(bench, "run", command="a\0b")

    def test_a_bounded_output_keeps_begin_and_end(self) -> None:
        output = BoundedOutput()
        for number in range(10_000):
            output.add(b"%09d\n" % number)
        assert output.text.startswith("000000000\n")
        assert output.text.endswith("000009999\n")
        assert f"[{100_000 - HEAD - TAIL:,} bytes left out]" in output.text


def _is_running(file: Path) -> bool:
    status = Path("/proc") / file.read_text().strip() / "stat"
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


class TestConfinement:
    def test_without_bubblewrap_it_is_said(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shutil.which", lambda _: None)
        found = find_sandbox(root)
        assert found.text == "not confined, because bubblewrap is not installed"
        assert found.wrap(["x"]) == ["x"]

    @pytest.mark.parametrize(
        ("body", "text"), [("exit 0", "confined by bubblewrap: only"), ("echo no >&2; exit 1", "no")]
    )
    def test_with_bubblewrap_it_is_tried(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, text: str
    ) -> None:
        program = tmp_path / "bwrap"
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        monkeypatch.setattr("shutil.which", lambda _: str(program))
        assert text in find_sandbox(root).text
        program.chmod(0o644)
        assert "fails here" in find_sandbox(root).text

    def test_the_line_hides_data_shows_the_folder_and_closes_the_network(self, root: Path, tmp_path: Path) -> None:
        confined = Sandbox(root, "bwrap", "", (tmp_path, tmp_path / "missing"), (root / ".git",))
        line = confined.wrap(["ls"])
        assert line[-2:] == ["--", "ls"]
        assert line.index(str(tmp_path)) < line.index(str(root)) < line.index(str(root / ".git"))
        assert str(tmp_path / "missing") not in line
        assert "--unshare-net" in line
        assert "--unshare-net" not in Sandbox(root, "bwrap", network=True).wrap([])

    @pytest.mark.parametrize("name", [".config/zoea", ".zoea", "a/b"])
    async def test_folders_of_zoea_below_the_folder_are_closed(self, root: Path, name: str) -> None:
        own = root / name
        own.mkdir(parents=True)
        (own / "keys").write_text("secret\n")
        (root / "alias").symlink_to(own)
        git(root, "init", "--quiet")
        bench = Workbench(SafeFolder(root, (own, root / "missing")), Sandbox(root, text="not confined"))
        try:
            for path in (f"{name}/keys", "alias/keys", f"{own}/keys", f"{name}/new/file"):
                with pytest.raises(FilesError, match="Zoea's own"):
                    await bench.call("read_file", {"path": path})
                with pytest.raises(FilesError, match="Zoea's own"):
                    await bench.call("write_file", {"path": path, "content": "x"})
            for tool, arguments in (("list_files", {}), ("search_files", {"expression": "secret"}), ("diff", {})):
                text = str(await bench.call(tool, arguments))
                assert "keys" not in text
                assert "secret" not in text
            assert (own / "keys").read_text() == "secret\n"
        finally:
            await bench.close()

    @pytest.mark.parametrize(
        ("folder", "after"),
        [("/", ("/dev", "/proc", "/tmp", "{own}")), ("{root}", ("{own}",)), ("{own}/worktrees", ())],
    )
    def test_what_is_hidden_in_the_folder_is_hidden_after_it(
        self, root: Path, folder: str, after: tuple[str, ...]
    ) -> None:
        own = root / "own"
        (own / "worktrees").mkdir(parents=True)
        names = {"root": str(root), "own": str(own)}
        folder = folder.format(**names)
        line = Sandbox(Path(folder), "bwrap", "", (own,)).wrap(["ls"])
        bound = line.index("--bind")
        for name in ("/dev", "/proc", "/tmp", str(own)):
            place = next(at for at, part in enumerate(line) if part == name and line[at - 1] != "--chdir")
            assert (place > bound) is (name in {one.format(**names) for one in after})

    async def test_a_confined_command_changes_nothing_outside(self, root: Path, tmp_path: Path) -> None:
        """Where bubblewrap works; elsewhere the answer says that it does not."""
        data = tmp_path / "data"
        data.mkdir(exist_ok=True)
        (data / "credentials").write_text("secret")
        confined = find_sandbox(root, (data,))
        workbench = Workbench(SafeFolder(root), confined)
        try:
            text = await call(
                workbench, "run", command=f"touch inside; cat {data}/credentials; touch {root.parent}/new"
            )
        finally:
            await workbench.close()
        assert confined.text in text
        assert (root / "inside").exists()
        assert not confined.program or ("secret" not in text and not (root.parent / "new").exists())

    def test_the_environment_is_a_list_of_names(self) -> None:
        assert set(build_environment({"HOME": "/h", "TOKEN": "x", "GIT_DIR": "y"})) == {
            "HOME", "LANG", "TERM", "PAGER", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "PYTHONDONTWRITEBYTECODE",
        }  # fmt: skip


class TestDiff:
    async def test_all_changes_since_the_base_are_shown_and_nothing_is_written(self, tmp_path: Path) -> None:
        repository = make_repository(tmp_path / "repository")
        trees = Worktrees(tmp_path / "data")
        record = trees.make("alpha", repository)
        folder = trees.owned.path("alpha")
        commit(folder, a__txt="one\n2\nthree\n")
        (folder / "new.txt").write_text("new\n")
        (folder / "x.bin").write_bytes(b"\0")
        objects, before = snapshot(repository / ".git"), state(folder)
        bench = open_workbench(folder, record=record)
        text = await call(bench, "diff")
        assert text.startswith("+2 -1, 3 files\ndiff --git a/a.txt b/a.txt")
        assert "+new" in text
        assert state(folder) == before
        assert snapshot(repository / ".git").keys() == objects.keys()
        await bench.close()

    async def test_in_a_checkout_it_is_compared_with_head(self, root: Path, bench: Workbench) -> None:
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "-m", "all")
        assert await call(bench, "diff") == "[no changes]"

    async def test_in_a_repository_without_a_commit_all_is_new(self, tmp_path: Path) -> None:
        folder = tmp_path / "empty"
        folder.mkdir()
        git(folder, "init", "--quiet")
        (folder / "x").write_text("x\n")
        bench = open_workbench(folder)
        assert (await call(bench, "diff")).startswith("+1 -0, 1 file\n")
        await bench.close()

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("filter.x.clean", "touch {mark}; cat"), ("filter.x.process", "touch {mark}; false"),
            ("core.fsmonitor", "touch {mark}"), ("diff.external", "touch {mark}"),
            ("diff.x.textconv", "touch {mark}; cat"), ("diff.x.command", "touch {mark}"),
            ("core.hooksPath", "{hooks}"), ("core.alternateRefsCommand", "touch {mark}"),
            ("include.path", "{hooks}/config"), ("core.worktree", "{hooks}"), ("core.excludesFile", "{hooks}/ignored"),
        ],
    )  # fmt: skip
    async def test_no_key_that_a_command_writes_into_the_configuration_counts(
        self, root: Path, bench: Workbench, tmp_path: Path, key: str, value: str
    ) -> None:
        """A confined command can write there, and the tool is not confined."""
        mark, hooks = tmp_path / "mark", tmp_path / "hooks"
        hooks.mkdir()
        (hooks / "config").write_text(f'[filter "x"]\n\tclean = touch {mark}\n')
        (hooks / "ignored").write_text("*.py\n")
        (hooks / "post-index-change").write_text(f"#!/bin/sh\ntouch {mark}\n")
        (hooks / "post-index-change").chmod(0o755)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "-m", "all")
        (root / ".gitattributes").write_text("* filter=x diff=x\n")
        (root / "a.py").write_text("changed\n")
        (root / "new.py").write_text("new\n")
        git(root, "config", key, value.format(mark=mark, hooks=hooks))
        text = await call(bench, "diff")
        assert text.startswith("+3 -3, 3 files\n")
        assert "+changed" in text
        assert not mark.exists()

    async def test_a_folder_that_looks_like_a_bare_repository_names_no_programs(self, tmp_path: Path) -> None:
        folder, mark = tmp_path / "plain", tmp_path / "mark"
        git(make_repository(tmp_path / "other"), "clone", "--quiet", "--bare", ".", str(folder))
        (folder / ".gitattributes").write_text("* filter=x\n")
        for key, value in (("core.bare", "false"), ("core.worktree", str(folder)), ("filter.x.clean", f"touch {mark}")):
            git(folder, "config", key, value)
        bench = open_workbench(folder)
        assert ".gitattributes" in await call(bench, "diff")
        await bench.close()
        assert not mark.exists()

    @pytest.mark.parametrize(("key", "value"), [("core.autocrlf", "true"), ("core.fileMode", "false")])
    async def test_keys_that_say_how_files_are_compared_count(
        self, root: Path, bench: Workbench, key: str, value: str
    ) -> None:
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "-m", "all")
        git(root, "config", key, value)
        (root / "a.py").write_bytes(b"one\r\ntwo\r\nthree\r\n" if key == "core.autocrlf" else b"one\ntwo\nthree\n")
        (root / "a.py").chmod(0o644 if key == "core.autocrlf" else 0o755)
        assert await call(bench, "diff") == "[no changes]"

    async def test_below_the_top_changes_of_the_folder_are_shown(self, root: Path, tmp_path: Path) -> None:
        git(root, "update-index", "--split-index")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "-m", "all")
        (root / ".git" / "info" / "exclude").write_text("*.tmp\n")
        for name in ("src/c.py", "src/x.tmp", "a.py"):
            (root / name).write_text("changed\n")
        bench = open_workbench(root / "src")
        assert (await call(bench, "diff")).startswith("+1 -1, 1 file\ndiff --git a/src/c.py b/src/c.py")
        await bench.close()

    async def test_outside_a_repository_it_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "plain").mkdir()
        bench = open_workbench(tmp_path / "plain")
        with pytest.raises(FilesError, match="not a git repository"):
            await call(bench, "diff")
        await bench.close()


class TestTools:
    def test_those_that_read_say_so_and_the_others_ask(self) -> None:
        hints = {tool.name: tool.annotations for tool in list_tools()}
        reading = {name for name, hint in hints.items() if hint is not None and hint.read_only_hint}
        asking = {name for name, hint in hints.items() if hint is not None and hint.destructive_hint}
        assert reading == {"read_file", "list_files", "search_files", "run_output", "diff"}
        assert asking == {"write_file", "edit_file", "run"}
        assert [name for name, (text, _, schema) in TOOLS.items() if takes_command(name, text, schema)][:1] == ["run"]

    @walk_cases(
        ("name", "arguments", "problem"),
        [
            ("rm", {}, "there is no tool 'rm'"),
            ("read_file", {}, "path is missing"),
            ("read_file", {"path": 3}, "path must be of the type string"),
            ("read_file", {"path": "a", "start": 0}, "start must be from 1 to 10000000"),
            ("read_file", {"path": "a", "start": True}, "start must be of the type integer"),
            ("run_output", {"number": 0}, "number must be from 1 to any number"),
            ("read_file", {"path": "a", "x": 1}, "'x' is not known"),
            ("edit_file", {"path": "a", "edits": []}, "edits is empty"),
            ("edit_file", {"path": "a", "edits": [{"old": "x"}]}, "new is missing"),
            ("edit_file", {"path": "a", "edits": ["x"]}, "edits[0] must be of the type object"),
            ("run", {"command": "x", "timeout": 9, "background": True}, ""),
        ],
    )
    def test_arguments_are_checked(self, name: str, arguments: dict[str, Any], problem: str) -> None:
        assert find_problem(name, arguments).startswith(problem)
        assert bool(find_problem(name, arguments)) == bool(problem)

    async def test_a_tool_that_is_not_there_is_refused(self, bench: Workbench) -> None:
        with pytest.raises(FilesError, match="no tool"):
            await call(bench, "rm")
        with pytest.raises(FilesError, match="no tool"):
            await bench.call("rm", {})


async def test_what_was_read_is_remembered_for_a_bounded_number_of_files(
    bench: Workbench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoea.files.workbench._MOST_SEEN", 1)
    await call(bench, "read_file", path="a.py")
    await call(bench, "read_file", path="b.txt")
    with pytest.raises(FilesError, match="was not read"):
        await call(bench, "write_file", path="a.py", content="x")


def test_the_process_has_no_open_descriptor_of_a_closed_folder(root: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # names only
    opened = SafeFolder(root)
    for path in ("a.py", "src/c.py", "missing", "link.py", "src", ".git/config", "src/deep/d.py/x"):
        try:
            opened.read(path, 100)
        except FilesError:
            continue
    opened.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208  # names only
