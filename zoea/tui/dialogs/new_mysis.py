"""The form for new myses: the task, and folded options with defaults."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable
from pathlib import Path

from textual import events, getters
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, OptionList, TextArea
from textual.widgets.option_list import Option

from zoea.model.errors import UsageError
from zoea.model.values import MysisView
from zoea.runtime.first_request_estimate import describe_price
from zoea.runtime.mysis_options import MysisOptions, read_options
from zoea.runtime.run_options import StartOptions
from zoea.settings.paths import absolute_path
from zoea.text import estimate
from zoea.text.control_characters import one_line, reveal
from zoea.text.sentences import count_of
from zoea.text.task_parts import MOST, TaskParts
from zoea.tui.commands import swarm_commands
from zoea.tui.dialogs.modal import FormDialog, form_row
from zoea.tui.state.cockpit import Cockpit
from zoea.tui.state.deferred_work import DeferredWork
from zoea.tui.state.drafts import LAST_CHOICES, NEW_MYSIS, message_key
from zoea.tui.state.worktree_access import find_named, find_repository
from zoea.tui.swarm_list.mysis_row import AUTOPILOT
from zoea.tui.text_layout import Piece
from zoea.tui.widgets.clickable_text import TextBlock
from zoea.tui.widgets.inline_choice import InlineChoice
from zoea.tui.widgets.model_field import ModelField
from zoea.tui.widgets.task_text import FolderInput, TaskText, find_files, find_folders

_YES, _NO = "yes", "no"
_START = [(_YES, "now; without a task or message it waits"), (_NO, "later: it stays idle until you start it")]
_TREE = [(_YES, "one each, if git; your checkout stays as it is"), (_NO, "none: the folder itself")]
_REMEMBERED = ("template", "provider", "model", "tags", "on", "worktree")
CODER = "coder"
_FILES_SHOWN = 5


class FoldLine(TextBlock, can_focus=True):
    """The line that stands for the folded fields. It opens where the focus or a click reaches it."""

    class Opened(Message):
        """Sent when the fields are to be shown."""

    def on_focus(self) -> None:
        self.post_message(self.Opened())

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Opened())


class NewMysisDialog(FormDialog[None]):
    """Task, and folded: name, template, provider, model, tags, folder, start, and a broadcast before the task.

    Args:
        given: Its template, provider and model are chosen first, before those of the last time.
        on: The folder that is chosen first; in a git repository for a worktree of it.
    """

    TITLE = "NEW MYSIS"
    VERB = "create"
    HINTS = "^j line · ^o editor · tab more"
    FIRST = "#task"

    def __init__(self, given: StartOptions = StartOptions(), on: str = "") -> None:
        super().__init__()
        self._given, self._on = given, on
        self._repository: Path | None = None
        self._choices: MysisOptions | None = None
        self._identity = secrets.token_hex(8)
        self._count = 0

    @classmethod
    def open_over(cls, cockpit: Cockpit) -> NewMysisDialog:
        return cls(cockpit.new_myses)

    def fields(self) -> Iterable[tuple[str, Widget] | Widget]:
        task = TaskText(
            id="task",
            placeholder="What it has to do; empty: it waits. @ inserts a file's name, x3 at the end makes three",
            compact=True,
            soft_wrap=True,
        )
        task.cursor_blink = self.cockpit.animation_level != "none"
        templates = OptionList(id="template", markup=False, compact=True)
        rest = (
            ("name", Input(id="name", placeholder="empty: Zoea chooses one", compact=True)),
            ("provider", InlineChoice([("", "from the template")], id="provider")),
            ("model", ModelField(id="model", placeholder="empty: the model of the provider")),
            ("tags", Input(id="tags", placeholder="words separated by spaces", compact=True)),
            ("works on", FolderInput(id="on", placeholder="a folder with files; empty: none", compact=True)),
            ("worktree", InlineChoice(_TREE, id="worktree")),
            ("start", InlineChoice(_START, id="start")),
            ("also send", InlineChoice([("", "no broadcast")], id="broadcast")),
        )
        rows = [form_row(*field) for field in rest]
        rows.insert(1, form_row("template", templates, classes="field -list"))
        more = Vertical(*rows, id="more")
        more.display = False
        return ("task", task), TextBlock(id="files"), TextBlock(id="effect"), FoldLine(id="fold"), more

    def on_mount(self) -> None:
        self._writing.put(self.cockpit.drafts.of(NEW_MYSIS))

    _writing = getters.query_one("#task", TaskText)

    # What is folded.

    def on_fold_line_opened(self) -> None:
        self.unfold()

    def unfold(self) -> None:
        """Show all fields, and go to the first of them."""
        self.query_one("#fold").display = False
        self.query_one("#more").display = True
        self.query_one("#name").focus()
        self._draw()

    def _draw(self) -> None:
        """Say what enter makes and costs, and what the folded fields hold."""
        found, task = self._choices, TaskParts.read(self._writing.full_text)
        template, provider = self._template, self.query_one("#provider", InlineChoice).value
        lines: list[list[Piece]] = [
            [(_describe(task), "waiting" if task.is_above_most else "strong" if task.count > 1 else "quiet")]
        ]
        if found is not None:
            broadcast = found.broadcast.text if found.broadcast and self._broadcast else ""
            texts = max(task.tasks, key=len), broadcast
            tokens = found.prompt_tokens.get(template, 0) + sum(estimate.tokens(text) for text in texts if text)
            price = found.price_of(template, provider, self.typed("model"))
            cost = describe_price(None if price is None else price.cost(tokens * task.count, 0))
            if (room := self._room) is not None and room < task.count:
                most = f"at most {found.most_myses} (setting swarm.max_myses)"
                lines.append([(f"only {room} of them fit: the swarm holds {most}", "waiting")])
            total = f", {tokens * task.count:,} in all" if task.count > 1 else ""
            if on := self.typed("on"):
                lines.append([(f"{self._describe_folder(task.count)} {one_line(on)}", "quiet")])
                if (provider or found.usual_provider) == AUTOPILOT:
                    lines.append([("the autopilot only plays the sandbox: work on files needs a model", "waiting")])
            lines.append([(f"first request ~{tokens:,} tokens{total}, {cost}, plus tools", "quiet")])
            if self.query_one("#more").display:  # the list of templates cuts it
                told = next((one.title for one in found.templates if one.name == template), "")
                lines += [[(f"{one_line(template)}: {one_line(told)}", "quiet")]] if told else []
            by = provider or found.describe_provider(template)
            parts = (
                f"on {Path(on).name or on}" if on else "",
                template,
                by,
                self.typed("model"),
                self.typed("tags"),
                "with a broadcast" if broadcast else "",
            )
            held = " · ".join(one_line(one) for one in parts if one)
            self.query_one("#fold", FoldLine).put([[(f"▸ {held}", "quiet")]])
        self.query_one("#effect", TextBlock).put(lines)

    @property
    def holds_keys(self) -> bool:
        """Hold keys after enter too, because they are for what comes after the form."""
        return super().holds_keys or self._is_busy

    @property
    def _room(self) -> int | None:
        """How many more myses fit into the swarm; None until it is read."""
        found = self._choices
        return None if found is None else max(0, found.most_myses - len(self.cockpit.feed.myses))

    @property
    def _template(self) -> str:
        chosen = self.query_one("#template", OptionList).highlighted_option
        return (chosen.id or "") if chosen is not None else ""

    @property
    def _has_worktree(self) -> bool:
        """Whether each mysis gets a worktree; several of them never share a checkout."""
        count = TaskParts.read(self._writing.full_text).count
        return self._repository is not None and (count > 1 or self.query_one("#worktree", InlineChoice).value == _YES)

    def _describe_folder(self, count: int) -> str:
        if not self._has_worktree:
            return f"without a worktree, {'they change' if count > 1 else 'it changes'} the files of"
        return f"a worktree{' each' if count > 1 else ''}, on the branch zoea/NAME, of"

    @property
    def _broadcast(self) -> int:
        return int(self.query_one("#broadcast", InlineChoice).value or 0)

    # Choices.

    def _offer_models(self) -> None:
        """Offer the models of the chosen provider. A template may name another one, so it is not checked then."""
        self.query_one(ModelField).offer_of(self.query_one("#provider", InlineChoice).value)

    def _remembered(self) -> dict[str, str]:
        """Return the choices of the last time, with those of the command line over them."""
        try:
            kept = json.loads(self.cockpit.drafts.of(LAST_CHOICES) or "{}")
        except (ValueError, RecursionError):
            kept = {}
        last = {name: str(kept.get(name, "")) for name in _REMEMBERED} if isinstance(kept, dict) else {}
        if self._given.provider:
            last["model"] = ""
        if self._on:
            last |= {"on": self._on, "worktree": _YES, "template": CODER}
        given = {name: getattr(self._given, name) for name in ("template", "provider", "model")}
        return last | {name: value for name, value in given.items() if value}

    async def fill(self) -> None:
        places, now = self.cockpit.places, self.cockpit.now()
        last = self._remembered()
        found = await self.read(lambda database: read_options(places, database, now, last.get("template", "")))
        if found is None:
            return
        self._choices = found
        templates = self.query_one("#template", OptionList)
        templates.clear_options()
        templates.add_options([Option(_template(one.name, one.title, found), id=one.name) for one in found.templates])
        names = [one.name for one in found.templates]
        wanted = last.get("template", "")
        templates.highlighted = names.index(wanted) if wanted in names else 0 if names else None
        self.query_one("#on", Input).value = one_line(last.get("on", ""))
        self.query_one("#worktree", InlineChoice).choose(last.get("worktree", _YES))
        self._offer_providers()
        provider = self.query_one("#provider", InlineChoice)
        provider.choose(last.get("provider", ""))
        is_there = provider.value == last.get("provider", "")
        self.query_one(ModelField).value = last.get("model", "") if is_there else ""
        self.query_one("#tags", Input).value = one_line(last.get("tags", ""))
        if (latest := found.broadcast) is not None:
            tokens = estimate.tokens(latest.text)
            offered = [("", "no broadcast"), (str(latest.id), f"first {latest.describe(now)} (~{tokens:,} tokens)")]
            self.query_one("#broadcast", InlineChoice).offer(offered)
        self.query_one(ModelField).read_providers(self.cockpit, self._offer_models)
        self._draw()

    def _offer_providers(self) -> None:
        """Offer the providers; the first one is that of the chosen template."""
        found = self._choices
        if found is None:
            return
        usual = reveal(found.describe_provider(self._template))
        given = self._given.provider
        offered = [(one.name, one.title if one.name else usual) for one in found.providers]
        if given and all(name != given for name, _ in offered):
            offered.append((given, one_line(given)))
        self.query_one("#provider", InlineChoice).offer(offered)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._offer_providers()
        self._draw()

    def on_inline_choice_changed(self, event: InlineChoice.Changed) -> None:
        if event.choice.id == "provider" and self._choices is not None:
            self.query_one(ModelField).input.placeholder = self._model_hint(event.choice.value)
            self._offer_models()
        self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "on" and self._choices is not None:
            self.run_worker(DeferredWork(self._look_at_folder), group="folder", exclusive=True, exit_on_error=False)
        self._draw()

    async def _look_at_folder(self) -> None:
        """List the folders that match the typed path, and choose the template for files."""
        field, typed = self.query_one("#on", FolderInput), self.typed("on")
        self._repository = await asyncio.to_thread(find_repository, str(absolute_path(typed))) if typed else None
        field.folders = await asyncio.to_thread(find_folders, typed) if field.has_focus else ()
        self._show_paths("  ", field.folders)
        if typed and self._choices is not None and self._template == self._choices.default_template:
            templates = self.query_one("#template", OptionList)
            names = [one.name for one in self._choices.templates]
            templates.highlighted = names.index(CODER) if CODER in names else templates.highlighted
        self._draw()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        self.cockpit.drafts.keep(NEW_MYSIS, self._writing.full_text)
        self._draw()

    def on_text_area_selection_changed(self, event: TextArea.SelectionChanged) -> None:
        self.run_worker(DeferredWork(self._find_files), group="files", exclusive=True, exit_on_error=False)

    async def _find_files(self) -> None:
        """List the files that match the typed path. In a repository, folders are searched too."""
        typed, base = self._writing.typed_file, str(absolute_path(self.typed("on")))
        found = () if typed is None else await asyncio.to_thread(find_files, typed, base)
        if typed and not found:
            found = await find_named(base, typed)
        self._writing.files = found
        self._show_paths("  @", found)

    def _show_paths(self, mark: str, found: tuple[str, ...]) -> None:
        lines: list[list[Piece]] = [
            [(mark, "quiet"), (one_line(path), "strong" if not at else "")]
            for at, path in enumerate(found[:_FILES_SHOWN])
        ]
        if lines:
            lines[0].append(("   tab completes", "quiet"))
        files = self.query_one("#files", TextBlock)
        files.display = bool(lines)
        files.put(lines)

    def _model_hint(self, provider: str) -> str:
        """Return what an empty model means with a provider."""
        assert self._choices is not None
        if (provider or self._choices.usual_provider) == AUTOPILOT:
            return "none: the autopilot needs no model"
        own = self._choices.models.get(provider, "")
        return f"empty: {reveal(own)}" if own else "empty: the model of the provider"

    async def carry_out(self) -> None:
        if doubt := self.query_one(ModelField).check(may_be_empty=True):
            raise UsageError(doubt, title="Model")
        typed, made = self._writing.full_text, list[MysisView]()
        task = TaskParts.read(typed)
        name, tags = self.typed("name"), self.typed("tags").replace(",", " ").split()
        chosen = {
            "template": self._template,
            "provider": self.query_one("#provider", InlineChoice).value,
            "model": self.typed("model"),
        }
        folder = str(absolute_path(on)) if (on := self.typed("on")) else ""
        wanted = self.query_one("#worktree", InlineChoice).value
        start, broadcast = self.query_one("#start", InlineChoice).value == _YES, self._broadcast
        # From here on the dialog may be closed, and its fields be gone.
        self._repository = await asyncio.to_thread(find_repository, folder) if folder else None
        worktree = self._repository is not None and (task.count > 1 or wanted == _YES)
        has_room = self._room is None or self._room >= task.count
        try:
            for number, text in enumerate(task.tasks, 1):
                # A try that got no answer may have made it: the next one gets the same.
                parts = (str(self._count + number), name, text, folder, *chosen.values())
                view = await self.cockpit.api.create(
                    f"{name}-{number}" if name and task.count > 1 else name,
                    template=chosen["template"],
                    provider=chosen["provider"],
                    model=chosen["model"],
                    tags=tuple(dict.fromkeys(tags)),
                    start=start,
                    broadcast=broadcast,
                    task=text,
                    idempotency_key=message_key(self._identity, *parts),
                    on=folder,
                    worktree=worktree,
                )
                made.append(view)
                if number == 1:
                    rest = {"tags": " ".join(tags), "on": folder, "worktree": wanted}
                    self.cockpit.drafts.keep(LAST_CHOICES, json.dumps({**chosen, **rest}))
                if number == 1 and task.count > 1 and has_room:
                    # The next keys are for what comes after: the others need no form.
                    self._keep_rest("", typed)
                    self.cockpit.notify(f"1 of {task.count} is created; the others follow", markup=False)
                    self.close()
        finally:
            # Those made before one was refused stay, and the text is for the others.
            if made:
                self._note_made(made, task, typed)
        self.close()

    def _keep_rest(self, rest: str, typed: str) -> None:
        """Keep the unsent text for the next form, unless that has a text."""
        if self.is_open or self.cockpit.drafts.of(NEW_MYSIS) in ("", typed):
            self.cockpit.drafts.keep(NEW_MYSIS, rest)

    def _note_made(self, made: list[MysisView], task: TaskParts, typed: str) -> None:
        self._count += len(made)
        cockpit = self.cockpit
        swarm_commands.let_remove(cockpit, made)
        is_one = len(made) == 1
        names = ", ".join(one_line(one.name) for one in made)
        cockpit.notify(
            f"{names} {'is' if is_one else 'are'} created; z removes {'it' if is_one else 'them'}", markup=False
        )
        rest = task.after(len(made)) if len(made) < task.count else ""
        cockpit.drafts.note(task.text)
        self._keep_rest(rest, typed)
        if self.is_open and rest:
            self._writing.put(rest)


def _describe(task: TaskParts) -> str:
    """Return how many myses are made, and what each gets."""
    parts = len(task.parts)
    if task.is_divided:
        return f"{task.count} myses, a numbered part each"
    if task.is_above_most:
        return f"1 mysis: the number at the end is text, x{MOST} is the most"
    if task.count == 1:
        return f"1 mysis gets all {parts} parts; x{parts} at the end makes {parts}" if parts else "1 mysis"
    same = f"{count_of(task.count, 'mysis')} {'with the same task' if task.text else 'without a task'}"
    return f"{same}: the text has {parts} numbered parts" if parts else same


def _template(name: str, title: str, found: MysisOptions) -> Content:
    tokens = found.prompt_tokens.get(name)
    size = "" if tokens is None else f"~{tokens:,} tokens"
    return Content.assemble((f"{reveal(name):<12} ", "bold"), (f"{size:<12} {reveal(title)}", "$text-quiet"))
