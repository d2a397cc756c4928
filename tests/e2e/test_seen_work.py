"""What myses did and ask is seen in the cockpit, over a real terminal.

One goes on with the same keys.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.terminal_screen import TerminalScreen, paste
from tests.e2e.test_files_of_myses import EDIT, SUM, say
from tests.e2e.test_tasks import configure
from tests.e2e.zoea_process import ask, find_owner, run_headless, zoea
from tests.fakes.openai_server import OpenAIServer, Say, Step
from tests.fakes.wire_server import Received
from tests.files.repositories import make_repository
from tests.waiting import until
from zoea.settings.paths import places

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_runtime")]

IS_SOAK = bool(os.environ.get("ZOEA_SOAK"))
SIZES = pytest.mark.parametrize(
    "size", [(60, 16), (80, 24), (120, 40)] if IS_SOAK else [(60, 16), (120, 40)], ids="{0[0]}x{0[1]}".format
)
"""The quick run shows the smallest and the largest size."""
OpenCockpit = Callable[..., TerminalScreen]


@pytest.fixture
def cockpit() -> Iterator[OpenCockpit]:
    """`zoea run` in a terminal, as often as a test wants; none is left running."""
    made: list[TerminalScreen] = []

    def opened(*arguments: str, size: tuple[int, int] = (120, 40)) -> TerminalScreen:
        made.append(TerminalScreen("run", *arguments, size=size, environ={"ZOEA_SWARM__DISCOVER": "false"}))
        return made[-1]

    yield opened
    for screen in reversed(made):
        screen.close()


def rows(screen: TerminalScreen, *names: str) -> list[str]:
    """Return the names of the rows of the list, in their order."""
    found = re.findall(rf"^. [ ▌].[ •]({'|'.join(names)}) +idle ", screen.text, re.MULTILINE)
    return [str(name) for name in found]


def write_a_file(request: Received) -> Step:
    """Write the file that the prompt names. Answer another prompt with as many words as it has."""
    last = next(one for one in reversed(request.json["messages"]) if one["role"] in ("user", "tool"))
    if last["role"] == "tool":
        return Say("Written.")
    name = str(last["content"]).rpartition(" ")[2]
    if name.endswith(".txt"):
        return say("write_file", 1, path=name, content="first\nsecond\n")
    return Say("ore " * len(str(last["content"]).split()))


def is_found(word: str, action: str, text: str) -> bool:
    return word in text and action in text and "Create a mysis" not in text


def count_tokens(text: str) -> str:
    """Return what a form says that its first request costs."""
    return "".join(re.findall(r"about ([\d,]+) tokens", text))


def read_all(folder: Path, pattern: str) -> str:
    return "".join(file.read_text() for file in folder.glob(pattern))


async def see(screen: TerminalScreen, holds: Callable[[str], object] | str, *more: str) -> None:
    await asyncio.to_thread(screen.until, holds, *more)


async def press(screen: TerminalScreen, *keys: str, shows: Callable[[str], object] | str) -> None:
    screen.press(*keys)
    await see(screen, shows)


async def command(*arguments: str) -> None:
    ran = await asyncio.to_thread(zoea, *arguments)
    assert ran.returncode == 0, ran.stderr


@SIZES
async def test_an_approval_shows_the_change_and_every_answer(
    size: tuple[int, int], cockpit: OpenCockpit, tmp_path: Path
) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    async with OpenAIServer(say("edit_file", 1, **EDIT), Say("Mended."), otherwise=lambda _: Say("Ready.")) as server:
        configure(tmp_path, server)
        screen = cockpit("--myses", "0", size=size)
        await see(screen, "There is no mysis yet")
        await command("new", "alpha", "--on", str(top), "--task", "Mend.")
        await see(screen, "1 needs you")
        screen.press("o")
        await see(screen, "- │ sum(numbers) + 1", "+ │ sum(numbers)")
        await see(screen, "once  s ", "until stopped  t ", "template  n deny", "d as JSON")
        screen.press("d")
        await see(screen, '"path": "sums.py"', "d as text")
        assert (top / "sums.py").read_text() == SUM
        await press(screen, "y", shows="allowed once")
        assert await until(lambda: (top / "sums.py").read_text() == SUM.replace(" + 1", ""))


async def test_all_that_waits_is_one_list_and_marked_calls_have_one_answer(
    cockpit: OpenCockpit, tmp_path: Path
) -> None:
    files = [tmp_path / name / f"{name}.txt" for name in ("alpha", "beta", "gamma")]
    async with OpenAIServer(otherwise=write_a_file) as server:
        configure(tmp_path, server)
        screen = cockpit("--myses", "0", size=(80, 24))
        await see(screen, "There is no mysis yet")
        for file in files:
            file.parent.mkdir()
            await command("new", file.stem, "--on", str(file.parent), "--idle")
            await command("send", file.stem, f"Write {file.name}")
        await see(screen, "3 need you")
        screen.press("o")
        await see(screen, "ask", "alpha", "beta", "gamma", "write_file", "y allow once")
        for count in (1, 2):
            await press(screen, " ", shows=f"answer {count} marked call")
            screen.press("down")
            await see(screen, f"{count + 1} of 3", "y allow once")
        await press(screen, "y", shows="1 needs you")
        assert await until(lambda: files[0].exists() and files[1].exists())
        await see(screen, "gamma", "y allow once")
        assert not files[2].exists()
        await press(screen, "n", shows="enter deny")
        screen.press("enter")
        assert await until(lambda: ask("SELECT count(*) FROM approval WHERE answer = 'denied'") == [(1,)])


async def test_rows_are_sorted_by_any_column_and_pinned_ones_stay_at_the_top(
    cockpit: OpenCockpit, tmp_path: Path
) -> None:
    names = ("zeta", "mid", "ace")
    async with OpenAIServer(otherwise=write_a_file) as server:
        configure(tmp_path, server)
        screen = cockpit("--myses", "0", size=(120, 40))
        await see(screen, "There is no mysis yet")
        for name in names:
            await command("new", name, "--idle")
        for name, words in (("zeta", 200), ("mid", 900), ("ace", 500)):
            await command("send", name, "go " * words, "--wait")
        await see(screen, lambda _: rows(screen, *names) == [*names])
        await press(screen, ">", shows="name▲")
        await see(screen, lambda _: rows(screen, *names) == ["ace", "mid", "zeta"])
        for heading in ("status▲", "time▼", "context▼", "tok/min▼", "tokens▼"):
            await press(screen, ">", shows=heading)
        await see(screen, lambda _: rows(screen, *names) == ["mid", "ace", "zeta"])
        screen.press("P")  # the cursor is where it was: on the oldest
        await see(screen, lambda _: rows(screen, *names) == ["zeta", "mid", "ace"])
        await press(screen, "<", shows="tok/min▼")
        await see(screen, lambda _: rows(screen, *names)[0] == "zeta")
        screen.press("P")
        for heading in ("context▼", "time▼", "status▲", "name▲"):
            await press(screen, "<", shows=heading)
        await see(screen, lambda _: rows(screen, *names) == ["ace", "mid", "zeta"])


async def test_turns_are_bars_as_long_as_they_took(cockpit: OpenCockpit, tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo", sums__py=SUM)
    async with OpenAIServer(otherwise=write_a_file) as server:
        configure(tmp_path, server)
        screen = cockpit("--myses", "0", size=(80, 24))
        await see(screen, "There is no mysis yet")
        await command("new", "alpha", "--on", str(top), "--idle")
        await command("send", "alpha", "Write a.txt")
        await see(screen, "1 needs you")
        await press(screen, "o", shows="y allow once")
        await press(screen, "y", shows="nothing else waits")
        screen.press("escape")
        await command("send", "alpha", "Where are you?", "--wait")
        await press(screen, "i", shows="PARTS")
        for _ in range(3):
            screen.press("tab")
        await see(screen, "TURNS, by how long they took", "█ model", "TURNS 2")
        await see(screen, lambda text: text.count("answered") >= 2)
        bars = [sum(line.count(sign) for sign in "█▒─") for line in screen.text.splitlines() if "answered" in line]
        assert max(bars) > 10 * min(filter(None, bars)), "the turn that asked took longer"


async def test_a_cockpit_that_only_reads_shows_the_swarm_and_commands_nothing(
    cockpit: OpenCockpit, tmp_path: Path
) -> None:
    async with OpenAIServer(otherwise=write_a_file) as server:
        configure(tmp_path, server)
        async with run_headless("--myses", "1", stdout=None, stderr=None) as owner:
            screen = cockpit("--read-only", size=(80, 24))
            await see(screen, "1 mysis", "alpha", "read-only")
            await command("send", "alpha", "one two three", "--wait")
            await see(screen, "ore ore ore")
            await press(screen, "s", shows="opened with --read-only")
            await press(screen, ":send alpha dig", shows=":send alpha dig")
            await press(screen, "enter", shows=lambda text: ":send" not in text)
            screen.press("q")
            assert await asyncio.to_thread(screen.end) == 0
            assert find_owner() == owner.pid
    assert ask("SELECT count(*) FROM message") == [(1,)]
    stored = cockpit("--read-only", size=(80, 24))
    await see(stored, "1 mysis", "alpha", "ore ore ore", "read-only")
    assert not find_owner()
    stored.press("q")
    assert await asyncio.to_thread(stored.end) == 0


async def test_a_template_and_tags_change_while_the_mysis_runs(cockpit: OpenCockpit, tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=write_a_file) as server:
        configure(tmp_path, server)
        screen = cockpit("--myses", "1", size=(80, 24))
        await see(screen, "1 mysis", "alpha")
        screen.press("c")
        await see(screen, "CONFIGURE", "template", "tags")
        for _ in range(3):
            screen.press("tab")
        await press(screen, "north", shows="north")
        screen.press("enter")
        assert await until(lambda: ask("SELECT tag FROM mysis_tag") == [("north",)])


async def test_a_template_and_a_model_change_from_the_next_turn_on(cockpit: OpenCockpit, tmp_path: Path) -> None:
    async with OpenAIServer(otherwise=write_a_file) as server:
        server.models = [{"id": name, "object": "model"} for name in ("reef-1", "reef-2")]
        configure(tmp_path, server)
        (tmp_path / "config" / "templates").mkdir()
        (tmp_path / "config" / "templates" / "zones.toml").write_text('prompt = "You count zones."\n')
        screen = cockpit("--myses", "1", size=(80, 24))
        await see(screen, "1 mysis", "alpha")
        await command("send", "alpha", "one two", "--wait")
        screen.press("c")
        await see(screen, "default (unchanged)", "local (unchanged)", "reef-2")
        screen.press("left")  # to the last template
        await see(screen, "‹ zones")
        screen.press("tab", "tab")
        await press(screen, "reef-2", shows="reef-2 ")
        await press(screen, "enter", shows="alpha is zones ")
        await command("send", "alpha", "three four", "--wait")
        first, *_, last = (request.json for request in server.chats)
        assert (first["model"], last["model"]) == ("reef-1", "reef-2")
        assert "You count zones." not in str(first["messages"])
        assert "You count zones." in str(last["messages"])


@pytest.mark.parametrize("size", [(80, 24), (120, 40)] if IS_SOAK else [(80, 24)], ids="{0[0]}x{0[1]}".format)
async def test_commits_are_compared_and_a_question_to_one_is_answered_in_the_history(
    size: tuple[int, int], cockpit: OpenCockpit, tmp_path: Path
) -> None:
    async with OpenAIServer(otherwise=write_a_file) as server:
        configure(tmp_path, server)
        screen = cockpit("--myses", "1", size=size)
        await see(screen, "1 mysis", "alpha")
        for task in ("dig here", "sell it all now"):
            await command("send", "alpha", task, "--wait")
        screen.press("h")
        await see(screen, "HISTORY OF alpha", "COMMITS 2", "c mark, compare")
        screen.press("c")
        await see(screen, "▌", "is marked: c on")
        screen.press("down", "c")
        await see(screen, "IN COMMON", "2 messages after it, 2 (*)", "sell it all now")
        screen.press("escape")
        await see(screen, "HISTORY OF alpha", "COMMITS 2")
        screen.press("a")
        await see(screen, "ASK", "First request: about")
        before = count_tokens(screen.text)
        screen.press("What do you know?")
        await see(screen, lambda text: "What do you know?" in text and count_tokens(text) not in ("", before))
        screen.press("enter")
        await see(screen, "ANSWER OF", "What do you know?", "ore ore ore ore")
        await press(screen, "escape", shows="HISTORY OF alpha")


async def test_top_spenders_are_bars_by_what_they_used(cockpit: OpenCockpit, tmp_path: Path) -> None:
    names = ("ace", "mid", "zeta")
    async with OpenAIServer(otherwise=write_a_file) as server:
        configure(tmp_path, server)
        screen = cockpit("--myses", "0", size=(80, 24))
        await see(screen, "There is no mysis yet")
        for name, words in zip(names, (20, 2_000, 600), strict=True):
            await command("new", name, "--idle")
            await command("send", name, "go " * words, "--wait")
        screen.press("C")
        await see(screen, "TOKENS PER MINUTE", "tab")
        await press(screen, "tab", shows="TOP SPENDERS · all their turns")
        await see(screen, lambda text: all(re.search(rf"{name} .* tokens", text) for name in names))
        bars = dict(re.findall(r"│ *(\w+) +(━*).* tokens", screen.text))
        assert list(bars) == ["mid", "zeta", "ace"], screen.text
        assert len(bars["mid"]) > len(bars["zeta"]) > len(bars["ace"]), screen.text


async def test_a_file_is_completed_in_the_task_and_a_paste_stays_whole(
    cockpit: OpenCockpit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(make_repository(tmp_path / "repo", shop__prices__py=SUM))
    async with OpenAIServer(otherwise=write_a_file) as server:
        configure(tmp_path, server)
        screen = cockpit("--myses", "1", size=(80, 24))
        await see(screen, "1 mysis", "alpha")
        screen.press("n")
        await see(screen, "NEW MYSIS", "What it has to do")
        await asyncio.to_thread(screen.write, paste("Mend the sum.\nqdy X\n"))
        await see(screen, "Mend the sum.", "qdy X")
        screen.press("@pric")
        await see(screen, "tab completes", "prices")
        await press(screen, "tab", shows=lambda text: "tab completes" not in text)
        await press(screen, "enter", shows="2 myses")
        [(task,)] = ask("SELECT content FROM message")
        assert re.fullmatch(r"Mend the sum\.\nqdy X\n@\S*prices\.py\s*", task), task


async def test_a_broken_theme_is_named_and_help_finds_keys_by_other_words(cockpit: OpenCockpit, tmp_path: Path) -> None:
    screen = cockpit("--myses", "1", "--provider", "scripted", size=(80, 24))
    await see(screen, "1 mysis", "alpha")
    folder = places("").config_file.parent / "themes"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.toml").write_text('extends = "nova"\n[colours]\nbackgrund = "#000000"\n')
    await press(screen, ":theme mine", shows=":theme mine")
    screen.press("enter")
    # A long path is broken within a name.
    await see(screen, lambda text: "mine.toml" in "".join(text.split()), "backgrund")
    await press(screen, "escape", shows=lambda text: ":theme" not in text)
    for word, action in (("kill", "stop"), ("undo", "undo"), ("remap", "settings"), ("copy", "copy")):
        await press(screen, "?", shows="Type to find keys and actions")
        await see(screen, "Create a mysis")
        await asyncio.to_thread(screen.write, paste(word))  # at once: no list of its first letters is drawn
        # The list of all keys, which begins with how to create one, is no longer shown.
        await see(screen, partial(is_found, word, action))
        screen.press("escape", "escape")  # the first one empties the search
        await see(screen, lambda text: "Type to find" not in text)


async def test_typing_replaces_a_suggested_model_and_enter_then_creates_a_mysis(
    cockpit: OpenCockpit, tmp_path: Path
) -> None:
    async with OpenAIServer(otherwise=write_a_file) as server:
        server.models = [{"id": name, "object": "model"} for name in ("reef-1", "reef-2")]
        screen = cockpit(size=(80, 24))
        await see(screen, "There is no mysis yet", "c   connect a model")
        await press(screen, "c", shows="CONNECT A MODEL")
        await press(screen, "lab", shows="lab")
        await press(screen, "tab", server.base_url, shows=server.base_url)
        await press(screen, "\x14", shows="It answers. Models: reef-1, reef-2")
        screen.press("reef-2", "tab", "32768")
        await see(screen, "32768")
        screen.press("enter")
        await see(screen, "lab is connected. Next: n creates a mysis")
        await press(screen, "enter", shows="NEW MYSIS")
        await press(screen, "one two", shows="one two")
        screen.press("enter")
        await see(screen, "ore ore")
        assert [request.json["model"] for request in server.chats] == ["reef-2"]


async def test_the_export_of_a_fork_says_whose_it_is_and_joined_emoji_keep_the_frame(
    cockpit: OpenCockpit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with OpenAIServer(otherwise=lambda _: Say("# Found\n\n- 👩‍🚀 and 👨‍👩‍👧‍👦")) as server:
        configure(tmp_path, server)
        screen = cockpit("--myses", "1", size=(80, 24))
        await see(screen, "1 mysis", "alpha")
        await command("send", "alpha", "Look 🏳️‍🌈 around", "--wait")
        await see(screen, lambda text: "Found" in text and text.count("Look") > 0)
        framed = [line.rstrip() for line in screen.text.splitlines() if line.startswith("│")]
        assert all(line.endswith("│") for line in framed), screen.text
        await press(screen, "h", shows="COMMITS 1")
        await press(screen, "f", shows="First request: about")
        before = count_tokens(screen.text)
        screen.press("Go on")
        await see(screen, lambda text: "Go on" in text and count_tokens(text) not in ("", before))
        await press(screen, "enter", shows="alpha-2: made from")
        await press(screen, "escape", shows="2 myses")
        screen.press("down", "enter")
        await see(screen, "CONVERSATION", "alpha-2")
        await press(screen, "e", shows="EXPORT")
        screen.press("enter")
        assert await until(lambda: "Go on" in read_all(tmp_path, "alpha-2-*.md"))
        written = read_all(tmp_path, "alpha-2-*.md")
        assert re.search(r"^default · reef-1 · made from ctx-\w+ of alpha$", written, re.MULTILINE), written
        assert "> # Found\n> \n> - 👩‍🚀 and 👨‍👩‍👧‍👦" in written
