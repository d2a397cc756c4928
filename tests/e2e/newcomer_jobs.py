"""Do six jobs in the cockpit, over a real terminal and a model server.

Every key is counted. A job ends where the screen shows its result. Each key is pressed only once the screen names it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.e2e.counted_terminal import CountedTerminal
from tests.fakes.openai_server import Call, OpenAIServer, Say, Step
from tests.fakes.wire_server import Received

REPORT, ANSWER, OTHER = "I counted 42 units of ore.", "I am at the belt.", "I tried another way."
QUESTION, LONG, MORE, WAY = "Where are you?", "Tell all.", "And then?", "Try another way."
TASKS = "\n".join(f"{number}. Count belt {number}" for number in range(1, 6))
KEY = "sk-new"
CONFIG = """
[provider.local]
type = "openai"
base_url = "{url}"
model = "reef-1"
context_window = 32768
concurrency = 20
[nudge]
enabled = false
[swarm]
max_myses = 100
"""
DEAD = """
[upstream.dead]
command = {python}
args = ["-c", "raise SystemExit(7)"]
"""


def answer_jobs(request: Received) -> Step:
    """Report a task that counts, and answer anything else in a sentence."""
    messages = request.json["messages"]
    text = json.dumps(next(one for one in reversed(messages) if one["role"] in ("user", "tool"))["content"])
    if "Count" in text:
        return Say(calls=(Call("zoea_done", json.dumps({"summary": REPORT})),))
    return Say("ore " * 4_500 if LONG in text else OTHER if WAY in text else ANSWER, chunk=500)


def write_settings(folder: Path, server: OpenAIServer, job: str) -> None:
    """Write the settings with which a job begins."""
    folder.mkdir(exist_ok=True)
    dead = DEAD.format(python=json.dumps(sys.executable)) if job == "faults" else ""
    (folder / "config.toml").write_text(CONFIG.format(url=server.base_url) + dead)


def is_back(text: str) -> bool:
    """Whether the dashboard stands there without a dialog above it."""
    return "─ SWARM" in text and "NEW MYSIS" not in text


class NewcomerJobs(CountedTerminal):
    """Plays one job at a time.

    Args:
        server: Answers the myses; a job makes it refuse.
    """

    def __init__(self, server: OpenAIServer, size: tuple[int, int] = (120, 40)) -> None:
        super().__init__(size)
        self._server = server

    def play(self, job: str) -> None:
        """Open a cockpit, play a job by its name, and end the cockpit. Raises AssertionError."""
        try:
            JOBS[job](self)
        finally:
            self.close()

    def _create(self, task: str, count: int) -> None:
        """Create myses with the form. A line end in the task is one key more."""
        self.press("n", "n new")
        for number, line in enumerate(task.split("\n")):
            if number:
                self.press("\n", "^j line")
            self.type(line, "NEW MYSIS", "task")
        self.press("enter", "enter create")
        self.see(lambda text: is_back(text) and f"{count} mys" in text)

    def five_on_five_tasks(self) -> None:
        """Give five agents a task each, and read the report of each."""
        self.open("--myses", "1")
        with self.step("five agents on five tasks"):
            self._create(f"{TASKS} x5", 6)
            self.see("5 need you")
            self.press("w", "w goes to it")
            self.press("enter", "enter open")
            for left in range(4, 0, -1):
                self.press(".", "reports its task as done", REPORT, ". mark reviewed")
                self.see(f"{left} need" if left > 1 else "1 needs you")
                self.press("w", "w needs you")
            self.press(".", "reports its task as done", REPORT, ". mark reviewed")
            self.see("done · reviewed")

    def sixty_and_three(self) -> None:
        """Let sixty agents work, and tell three of the ten with a tag something."""
        self.open("--myses", "1")
        with self.step("sixty agents, three of ten told"):
            self._create("Wait for orders. x49", 50)
            self.press("n", "n new")
            self.type("Wait for orders. x10", "NEW MYSIS", "task")
            self.press("tab", "tab more")
            self.type("scout", "name", "empty: Zoea chooses one")
            self.press("enter", "enter create")
            self.see(lambda text: is_back(text) and "60 myses" in text)
            self.press("/", "/ filter")
            self.type("scout", "/ name, or tag:")
            self.press("enter", "enter keep it")
            for count in (1, 2, 3):
                self.press(" ", "scout-1")
                self.see(f"{count} marked")
            self.press("b", "b broadcast")
            self.type(QUESTION, "BROADCAST to 3")
            self.press("enter", "enter send")
            self.see("3 answered", ANSWER)

    def budget_hit_and_raised(self) -> None:
        """Set the budget of the day, let it be hit, and raise it."""
        self.open("--myses", "1")
        with self.step("a budget set, hit and raised"):
            self._change_budget("5000")
            self.press("m", "⬡ alpha", "m message")
            self.type(LONG, "MESSAGE to alpha")
            self.press("enter", "enter send")
            self.see("ore ore", "1 idle")
            self.press("m", "⬡ alpha", "m message")
            self.type(MORE, "MESSAGE to alpha")
            self.press("enter", "enter send")
            self.see("ON HOLD", "Swarm budget")
            self._change_budget("500000")
            self.press("x", "Swarm budget is now 500,000 tokens", "x resume all")
            self.see(ANSWER)

    def _change_budget(self, tokens: str) -> None:
        self.press("?", "alpha", "? help")
        self.type("budget", "Type to find keys and actions")
        self.press("enter", "Show how much of each budget", "enter do it")
        self.press("enter", "BUDGETS", "enter change limits")
        self.press("enter", "budget.swarm_per_day", "enter change")
        self.type(tokens, "enter save")
        self.press("enter", "enter save")
        self.press("escape", "written", "esc back")

    def faults(self) -> None:
        """Find a dead tool server and a refused key, and mend both. Then three agents go on."""
        self.open("--myses", "3")
        with self.step("a dead tool server and a refused key"):
            self._server.key = KEY
            self.press("u", "⬡ gamma", "no tools of dead", "tool server down", "u opens it")
            self.see("dead", "its process ended while it was opening")
            self.press(" ", "space on/off")
            self.press("escape", "dead  off", "esc back")
            self.press("b", "⬡ gamma", "b broadcast")
            self.type(QUESTION, "BROADCAST to all 3")
            self.press("enter", "enter send")
            self.press("E", "3 need you", "The provider refused the key", "E replaces its key")
            self.type_secret(KEY, "ENTER A KEY", "local is connected already")
            self.press("enter", "enter save")
            self.see(lambda text: text.count(ANSWER) >= 3)

    def fork_and_keep_one(self) -> None:
        """Fork an agent into three with another message, read the answers, and keep one."""
        self.open("--myses", "1")
        with self.step("fork into three and keep one"):
            self.press("m", "⬡ alpha", "m message")
            self.type(QUESTION, "MESSAGE to alpha")
            self.press("enter", "enter send")
            self.see(ANSWER)
            self.press("h", "h history")
            self.press("f", "COMMITS 1", "@alpha", "f fork")
            self.type(f"{WAY} x3", "FORK", "first message", "x3 makes three")
            self.press("enter", "for 3", "enter fork")
            self.press("escape", "alpha-4", "esc back")
            self.see(lambda text: text.count(OTHER) >= 3)
            self.press("down", "alpha-2")
            for name in ("alpha-2", "alpha-3"):
                self.press(" ", name)
            self.press("D", "2 marked")
            self.press("y", "Delete alpha-2, alpha-3?", "y  delete")
            self.see("2 myses", "alpha-4")

    def theme_key_and_export(self) -> None:
        """Choose a theme, change a key, and export a conversation."""
        self.open("--myses", "1")
        with self.step("a theme, a key, an export"):
            self.press(":", "⬡ alpha", ": cmd")
            self.type("theme tide", " :")
            self.press("enter", "theme tide")
            self.press("?", "? help")
            self.type("remap", "Type to find keys and actions")
            self.press("enter", "Change settings and themes", "enter do it")
            self.press("/", "SETTINGS", "? help")  # the footer of 80 columns has no room for it beside a question
            self.type("undo", "words of a setting")
            self.press("enter", "enter keep it")
            self.press("enter", "mysis.undo", "enter, then press a key")
            self.press("U", "press a key")
            self.press("escape", "written", "esc back")
            self.press("escape", "SETTINGS", "esc back")
            self.press("enter", "⬡ alpha", "enter open")
            self.press("e", "e export")
            self.press("enter", "EXPORT", "enter write")
            self.see(lambda text: ".md" in text and "EXPORT" not in text)


JOBS: Mapping[str, Callable[[NewcomerJobs], None]] = {
    "tasks": NewcomerJobs.five_on_five_tasks,
    "sixty": NewcomerJobs.sixty_and_three,
    "budget": NewcomerJobs.budget_hit_and_raised,
    "faults": NewcomerJobs.faults,
    "fork": NewcomerJobs.fork_and_keep_one,
    "look": NewcomerJobs.theme_key_and_export,
}
