"""Headless Chromium, driven over its DevTools protocol: the few commands that a test of a page needs."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.e2e.zoea_process import PATIENCE_S
from tests.waiting import until

CHROMIUM = shutil.which("/usr/lib/chromium/chromium-headless-shell") or shutil.which("chromium")
"""That without windows, a package of half the size. Its command waits for it and does not hand signals on."""

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-3d-apis",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--mute-audio",
    "--hide-scrollbars",
    "--window-size=1280,720",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
)


class Tab:
    """One tab. `requested` holds every address that it asked for, sockets too."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.requested: list[str] = []
        self.reported_defects: list[str] = []

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol; its result."""
        number = next(self._ids)
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        answer = await asyncio.wait_for(reply, PATIENCE_S)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def value(self, expression: str) -> Any:
        """What an expression of the page's is."""
        result = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def until(self, holds: Callable[[Any], Any], expression: str) -> Any:
        """Wait until an expression's value is as wanted; that value. A tab in the background draws nothing."""
        value = None

        async def look() -> Any:
            nonlocal value
            return holds(value := await self.value(expression))

        await self.ask("Page.bringToFront")
        try:
            await until(look, within=PATIENCE_S)
        except TimeoutError:
            raise AssertionError(f"never came true of {expression}; at last it was:\n{value}") from None
        return value

    async def press(self, key: str) -> None:
        """Press and release one letter."""
        code = {"key": key, "code": f"Key{key.upper()}", "windowsVirtualKeyCode": ord(key.upper())}
        await self.ask("Input.dispatchKeyEvent", type="keyDown", text=key, **code)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", **code)

    async def paste(self, text: str) -> None:
        """Paste a text into the terminal, as the browser does from its clipboard."""
        data = f"const data = new DataTransfer(); data.setData('text/plain', {json.dumps(text)});"
        event = "new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true})"
        await self.value(f"{{{data} document.querySelector('.xterm-helper-textarea').dispatchEvent({event})}}")

    async def listen(self) -> None:
        """Read until the tab is closed."""
        async for message in self._socket:
            said = message.json()
            if (reply := self._replies.pop(said.get("id", 0), None)) is not None:
                reply.set_result(said)
                continue
            match said["method"], said["params"]:
                case "Network.requestWillBeSent", parameters:
                    self.requested.append(parameters["request"]["url"])
                case "Network.webSocketCreated", parameters:
                    self.requested.append(parameters["url"])
                case "Log.entryAdded", parameters:
                    self.reported_defects.append(parameters["entry"]["text"])
                case "Runtime.exceptionThrown", parameters:
                    self.reported_defects.append(str(parameters["exceptionDetails"]))


class Browser:
    """A running Chromium."""

    def __init__(self, client: aiohttp.ClientSession, port: int) -> None:
        self._client = client
        self._address = f"http://127.0.0.1:{port}/json"

    @asynccontextmanager
    async def tab(self, address: str) -> AsyncIterator[Tab]:
        """A tab that opens `address`. It is closed at the end."""
        async with self._client.put(f"{self._address}/new?about:blank") as response:
            target = await response.json()
        async with self._client.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            tab = Tab(socket)
            listening = asyncio.create_task(tab.listen())
            for domain in ("Page", "Network", "Log", "Runtime"):
                await tab.ask(f"{domain}.enable")
            await tab.ask("Page.navigate", url=address)
            try:
                yield tab
            finally:
                async with self._client.get(f"{self._address}/close/{target['id']}"):
                    await asyncio.wait({listening}, timeout=PATIENCE_S)


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Browser]:
    """Chromium with a profile of its own in `folder`, while the block runs."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        *FLAGS,
        f"--user-data-dir={folder}",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        note = folder / "DevToolsActivePort"
        port = await until(lambda: note.exists() and int(note.read_text().split()[0]))
        async with aiohttp.ClientSession() as client:
            yield Browser(client, port)
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), PATIENCE_S)
