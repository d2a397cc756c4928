"""The cockpit in a real browser: drawing, keys, and the page's requests."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.chromium import CHROMIUM, chromium
from tests.e2e.serve_process import gone, served
from tests.e2e.zoea_process import PATIENCE_S

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
    pytest.mark.usefixtures("own_runtime"),
]

# Without WebGL the terminal is drawn as text, which the test can read.
SCREEN = """[...document.querySelectorAll(".xterm-rows > div")].map((row) => row.innerText).join("\\n")"""
FONTS = "[...document.fonts].map((font) => font.status).join()"
NOTICE = """document.querySelector(".-closed")?.innerText ?? ''"""


def _is_open(shown: str) -> bool:
    """Return whether the page shows the whole swarm: its rows come before its header, and keys count after both."""
    return all(part in shown for part in ("alpha", "beta", "⬡ Z O E A ⬢", "attached"))


async def test_two_tabs_command_one_swarm_and_request_only_its_server(tmp_path: Path) -> None:
    async with (
        served("--myses", "2", "--provider", "scripted") as zoea,
        chromium(tmp_path / "profile") as browser,
        browser.tab(zoea.address) as one,
    ):
        await one.until(_is_open, SCREEN)
        assert await one.value(FONTS) == "loaded,loaded"

        first = zoea.cockpits()
        async with browser.tab(zoea.address) as other:
            await other.until(_is_open, SCREEN)
            await one.paste("x\x1b[201~X\rm\x1b[200~")  # marks in it end no paste, so that the rest presses no key
            await one.until(lambda shown: "Nothing here takes a pasted text" in shown, SCREEN)
            await other.press("x")
            await one.until(lambda shown: "ON HOLD" in shown, SCREEN)
            assert "press X again" not in await one.value(SCREEN)
            assert "MESSAGE" not in await one.value(SCREEN)
            await one.press("x")
            await other.until(lambda shown: "ON HOLD" not in shown, SCREEN)
            second = zoea.cockpits() - first
            await other.press("q")
            await other.until(lambda shown: "leave it running" in shown, SCREEN)
            await other.press("l")
            await other.until(lambda shown: "Open it again" in shown, NOTICE)
            await gone(second)
            asked = one.requested + other.requested
            assert {urlsplit(address).netloc for address in asked} == {urlsplit(zoea.address).netloc}
            assert {urlsplit(address).scheme for address in asked} == {"http", "ws"}
            assert not one.reported_defects

        assert zoea.cockpits() == first
        zoea.process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(zoea.process.wait, PATIENCE_S) == 0
        assert not zoea.cockpits()
        await gone(first)
