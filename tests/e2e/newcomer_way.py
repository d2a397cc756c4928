"""The way of a newcomer: from an empty directory to a finished mysis that is sent on, over a real terminal.

Each key is pressed only once the screen names it, so that a step fails where the screen does not tell what to do next.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.terminal_screen import TerminalScreen
from tests.e2e.zoea_process import zoea
from tests.fakes.openai_server import Call, Say, Step
from tests.fakes.wire_server import Received

UPSTREAM = str(Path(__file__).parents[1] / "fakes" / "mcp_faulty.py")
MODELS = ("reef-1", "reef-mini", "reef-large")
MYSES = 10
TASK, REPORT = "Count the ore.", "I counted 42 units of ore."
QUESTION, ANSWER = "Where are you?", "I am at the belt."
ORDER, SOLD = "Drop the waste.", "The waste is gone."
MORE, CONTINUED = "Count it again.", "I count it again."


def answer_newcomer(request: Received) -> Step:
    """Answer as a model does that reports its task, calls a tool when told to, and else says where it is."""
    body = request.json
    tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    last = next(one for one in reversed(body["messages"]) if one["role"] in ("user", "tool"))
    text = json.dumps(last["content"])
    if last["role"] == "tool":
        return Say(SOLD)
    if ORDER in text:
        return Say(calls=(Call(next(name for name in tools if name.endswith("drop")), json.dumps({"text": "waste"})),))
    if MORE in text:
        return Say(CONTINUED)
    if TASK in text:
        return Say(calls=(Call("zoea_done", json.dumps({"summary": REPORT})),))
    return Say(ANSWER)


@dataclass
class WayStep:
    """One step: the keys and characters that it took, and its seconds."""

    title: str
    keys: int = 0
    characters: int = 0
    seconds: float = 0.0


class NewcomerWay:
    """Goes the way in a terminal, and measures each step.

    Args:
        url: Of the model server.
    """

    def __init__(self, url: str, size: tuple[int, int] = (120, 40)) -> None:
        self.steps: list[WayStep] = []
        self._url = url
        self._size = size
        self._glass: TerminalScreen | None = None

    @property
    def glass(self) -> TerminalScreen:
        assert self._glass is not None, "the cockpit is opened first"
        return self._glass

    def close(self) -> None:
        """End the cockpit of a way that failed."""
        if self._glass is not None:
            self._glass.close()

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        self.steps.append(WayStep(title))
        begun = time.monotonic()
        yield
        self.steps[-1].seconds = time.monotonic() - begun

    def _press(self, key: str, *told: str) -> None:
        """Press a key that the screen names in these words."""
        self.glass.until(*told)
        self.glass.press(key)
        self.steps[-1].keys += 1

    def _type(self, text: str, *told: str) -> None:
        """Type a text into the field that the screen describes in these words."""
        self.glass.until(*told)
        self.glass.press(text)
        self.steps[-1].characters += len(text)
        self.glass.until(text)

    def go(self) -> None:
        """Go the whole way; raises AssertionError where the screen does not tell the next step."""
        with self._step("add a tool server on the command line"):
            added = zoea("upstream", "add", "plant", "--", sys.executable, UPSTREAM)
            assert added.returncode == 0, added.stderr
        with self._step("open the cockpit"):
            self._glass = TerminalScreen("run", size=self._size, environ={"ZOEA_SWARM__DISCOVER": "false"})
            self.glass.until("There is no mysis yet", "connect a model")
        self._connect()
        self._create()
        self._broadcast()
        self._approve()
        self._send_on()
        self._quit()

    def _connect(self) -> None:
        with self._step("connect a model"):
            self._press("c", "c   connect a model")
            self._type("lab", "CONNECT A MODEL", "a name of your choice")
            self._press("tab", "tab next field")
            self._type(self._url, "address", "empty: https://api.openai.com/v1")
            self._press("tab", "tab next field")
            self._press("\x14", "^t tests and lists models")
            self._press("down", "It answers", *MODELS, "up and down pick one")
            self.glass.until(lambda text: text.count("reef-mini") == 3)
            self._press("enter", "enter connects it")
            self._press("tab", "window, as 32768", "tab next field")
            self._type("32768", "window, as 32768")
            self._press("enter", "enter connect")
            self.glass.until("lab is connected. Next: n creates a mysis")

    def _create(self) -> None:
        with self._step("give a mysis a task"):
            self._press("n", "n creates a mysis")
            self._type(TASK, "NEW MYSIS", "task", "What it has to do; empty: it waits")
            self._press("tab", "tab more")
            self._type("anna", "name", "empty: Zoea chooses one")
            self._press("enter", "enter create")
            self.glass.until("1 mysis", REPORT)
        with self._step(f"create {MYSES - 1} more"):
            for count in range(2, MYSES + 1):
                self._press("n", "n new")
                self._press("enter", "NEW MYSIS", "empty: it waits", "enter create")
                self._wait_for_dashboard(f"{count} myses")

    def _wait_for_dashboard(self, words: str) -> None:
        self.glass.until(lambda text: words in text and "NEW MYSIS" not in text)

    def _broadcast(self) -> None:
        with self._step("broadcast to three of ten"):
            self._press("b", "b broadcast")
            self._press("escape", f"BROADCAST to all {MYSES}", "space marks, b again")
            for count in (1, 2, 3):
                self._press(" ", "SWARM")
                self.glass.until(f"{count} marked", "space marks")
            self._press("b", "b broadcast")
            self._type(QUESTION, "BROADCAST to 3 (marked: anna")
            self._press("enter", "enter send")
            self.glass.until("→ 3", "3 answered", ANSWER)
            self._press("escape", "esc removes the marks")
            self.glass.until(lambda text: "marked" not in text)

    def _approve(self) -> None:
        with self._step("approve a tool call"):
            self._press("m", "m message")
            self._type(ORDER, "MESSAGE to")
            self._press("enter", "enter send")
            self._press("o", "NEEDS YOU", "asks to run", "o answer")
            self._press("y", "drop", "y allow once")
            self.glass.until(SOLD)
            self._press("escape", "allowed once", "nothing else waits: esc closes")

    def _send_on(self) -> None:
        with self._step("find the finished mysis and send it on"):
            self._press("w", "NEEDS YOU", "review its result", "w goes to it")
            self._press("m", "m send it a message")
            self._type(MORE, "MESSAGE to anna")
            self._press("enter", "enter send")
            self.glass.until(CONTINUED)  # then it rests as done again, for another review

    def _quit(self) -> None:
        with self._step("quit"):
            self._press("?", "? help")
            self._type("quit", "Type to find keys and actions")
            self._press("enter", "Quit; asks first", "enter do it")
            self._press("s", "end the swarm")
            code = self.glass.end()
            assert code == 0, f"the cockpit ended with {code}:\n{self.glass.text}"
