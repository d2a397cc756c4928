"""The way of a newcomer: from an empty directory to a finished mysis that is sent on, over a real terminal.

Each key is pressed only once the screen names it, so that a step fails where the screen does not tell what to do next.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.e2e.counted_terminal import CountedTerminal
from tests.e2e.zoea_process import zoea
from tests.fakes.openai_server import Call, Say, Step
from tests.fakes.wire_server import Received

UPSTREAM = str(Path(__file__).parents[1] / "fakes" / "mcp_faulty.py")
MODELS = ("reef-1", "reef-mini", "reef-large")
MYSES = 5
TASK, REPORT = "Count the ore.", "I counted 42 units of ore."
QUESTION, ANSWER = "Where are you?", "I am at the belt."
ORDER, SOLD = "Drop the waste.", "The waste is gone."
MORE, CONTINUED = "Count it again.", "I count it again."


def answer_newcomer(request: Received) -> Step:
    """Report the task, call a tool when told to, or else say where it is."""
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


class NewcomerWay(CountedTerminal):
    """Goes the way in a terminal, and measures each step.

    Args:
        url: Of the model server.
    """

    def __init__(self, url: str, size: tuple[int, int] = (120, 40)) -> None:
        super().__init__(size)
        self._url = url

    def go(self) -> None:
        """Go the whole way; raises AssertionError where the screen does not tell the next step."""
        with self.step("add a tool server on the command line"):
            added = zoea("upstream", "add", "plant", "--", sys.executable, UPSTREAM)
            assert added.returncode == 0, added.stderr
        with self.step("open the cockpit"):
            self.open()
            self.glass.until("There is no mysis yet", "connect a model")
        self._connect()
        self._create()
        self._broadcast()
        self._approve()
        self._send_on()
        self._quit()

    def _connect(self) -> None:
        with self.step("connect a model"):
            self.press("c", "c   connect a model")
            self.type("lab", "CONNECT A MODEL", "a name of your choice")
            self.press("tab", "tab next field")
            self.type(self._url, "address", "empty: https://api.openai.com/v1")
            self.press("tab", "tab next field")
            self.press("\x14", "^t tests and lists models")
            self.press("down", "It answers", *MODELS, "up and down pick one")
            self.glass.until(lambda text: text.count("reef-mini") == 3)
            self.press("enter", "enter connects it")
            self.press("tab", "window, as 32768", "tab next field")
            self.type("32768", "window, as 32768")
            self.press("enter", "enter connect")
            self.glass.until("lab is connected. Next: n creates a mysis")

    def _create(self) -> None:
        with self.step("give a mysis a task"):
            self.press("n", "n creates a mysis")
            self.type(TASK, "NEW MYSIS", "task", "What it has to do; empty: it waits")
            self.press("tab", "tab more")
            self.type("anna", "name", "empty: Zoea chooses one")
            self.press("enter", "enter create")
            self.glass.until("1 mysis", REPORT)
        with self.step(f"create {MYSES - 1} more"):
            for count in range(2, MYSES + 1):
                self.press("n", "n new")
                self.press("enter", "NEW MYSIS", "empty: it waits", "enter create")
                self._wait_for_dashboard(f"{count} myses")

    def _wait_for_dashboard(self, words: str) -> None:
        self.glass.until(lambda text: words in text and "NEW MYSIS" not in text)

    def _broadcast(self) -> None:
        with self.step("broadcast to three of them"):
            self.press("b", "b broadcast")
            self.press("escape", f"BROADCAST to all {MYSES}", "space marks, b again")
            for count in (1, 2, 3):
                self.press(" ", "b broadcast")
                self.glass.until(f"{count} marked", "space marks")
            self.press("b", "b broadcast")
            self.type(QUESTION, "BROADCAST to 3 (marked: anna")
            self.press("enter", "enter send")
            self.glass.until("→ 3", "3 answered", ANSWER)
            self.press("escape", "esc removes the marks")
            self.glass.until(lambda text: "marked" not in text)

    def _approve(self) -> None:
        with self.step("approve a tool call"):
            self.press("m", "m message")
            self.type(ORDER, "MESSAGE to")
            self.press("enter", "enter send")
            self.press("o", "NEEDS YOU", "asks to run", "o answer")
            self.press("y", "drop", "y allow once")
            self.glass.until(SOLD)
            self.press("escape", "allowed once", "nothing else waits: esc closes")

    def _send_on(self) -> None:
        with self.step("find the finished mysis and send it on"):
            self.press("w", "NEEDS YOU", "review its result", "w goes to it")
            self.press("m", "m message")
            self.type(MORE, "MESSAGE to anna")
            self.press("enter", "enter send")
            self.glass.until(CONTINUED)  # then it rests as done again, for another review

    def _quit(self) -> None:
        with self.step("quit"):
            self.press("?", "? help")
            self.type("quit", "Type to find keys and actions")
            self.press("enter", "Quit; asks first", "enter do it")
            self.press("s", "end the swarm")
            code = self.glass.end()
            assert code == 0, f"the cockpit ended with {code}:\n{self.glass.text}"
