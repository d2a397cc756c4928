"""Secrets in models' arguments: shown as `‹secret:N›`, put in when a call is sent.

A value belongs to the upstream that got it first, so that no other server can have it passed on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec.structs import replace

from zoea.model.errors import SettingsError, ToolError
from zoea.model.request import Answer, AnswerCall, Blob, ToolResult, ToolSpec
from zoea.tools.secret_arguments import (
    is_odd,
    makes_secrets,
    replace_in_text,
    replace_made_secrets,
    replace_named_results,
    replace_secrets,
)
from zoea.tools.secret_forms import SURE, compile_form, find_forms, replace_form

log = logging.getLogger(__name__)

_LONG = 4_000
"""Characters of arguments above which they are searched in a thread, because it would take over 2 ms."""
_UNREAD = 400_000_000
_MARK = re.compile(r"‹secret:(\d{1,9})›")


@dataclass(frozen=True, slots=True)
class KeptSecret:
    """A value, and the upstream it belongs to; empty if no upstream has had it."""

    upstream: str
    value: Any = field(repr=False)


class SecretKeeper(Protocol):
    """Stores secrets by number; `runtime` passes in the credentials store."""

    async def load_secrets(self) -> Mapping[int, KeptSecret]:
        """Load all secrets."""
        ...

    async def save_secrets(self, kept: Mapping[int, KeptSecret]) -> None:
        """Store secrets durably. Raises SettingsError or OSError."""
        ...


class StreamMask:
    """Masks secrets in the pieces of one text, and holds back what may begin one.

    Args:
        forms: The texts that hold each secret, by its number; may grow while the text comes.
    """

    def __init__(self, forms: Mapping[int, tuple[str, ...]]) -> None:
        self._forms = forms
        self._held = ""
        self._shown = ""
        """The last two characters before what is held, which may make it a part of a word."""

    def feed(self, piece: str) -> str:
        """Return what may be shown now."""
        if not self._forms:
            return piece
        text, shown = self._held + piece, [self._shown]
        while True:
            begins = self._find_begin(text)
            at, length, number = self._find_whole("".join(shown)[-2:], text)
            if not length or at >= begins:
                break
            shown += [text[:at], f"‹secret:{number}›"]
            text = text[at + length :]
        self._held = text[begins:]
        whole = "".join([*shown, text[:begins]])
        before, self._shown = len(self._shown), whole[-2:]
        return whole[before:]

    def _find_whole(self, before: str, text: str) -> tuple[int, int, int]:
        """Return place, length and number of the first secret, the longest at its place."""
        places = [
            (match.start() - len(before), -len(form), number)
            for number, forms in list(self._forms.items())
            for form in forms
            if form in text and (match := compile_form(form).search(before + text, len(before))) is not None
        ]
        at, length, number = min(places, default=(len(text), 0, 0))
        return at, -length, number

    def _find_begin(self, text: str) -> int:
        """Return where a secret may begin that the next piece continues, or the text's length."""
        all_forms = [form for forms in list(self._forms.values()) for form in forms]
        longest = max(map(len, all_forms), default=0)
        for start in range(max(0, len(text) - longest), len(text)):
            rest = text[start:]
            # What follows a short one says whether it stands by itself.
            if any(len(form) + (len(form) < SURE) > len(rest) and form.startswith(rest) for form in all_forms):
                return start
        return len(text)


class InMemorySecrets:
    """Keeps secrets until the process ends."""

    async def load_secrets(self) -> Mapping[int, KeptSecret]:
        return {}

    async def save_secrets(self, kept: Mapping[int, KeptSecret]) -> None:
        """Do nothing: the vault has them."""


class SecretVault:
    """The secrets of a workspace."""

    def __init__(self, keeper: SecretKeeper) -> None:
        self._keeper = keeper
        self._kept: dict[int, KeptSecret] = {}
        self._unsaved: dict[int, KeptSecret] = {}
        self._texts: dict[int, tuple[str, ...]] = {}
        self._is_loaded = False
        self._is_failing = False
        self._lock = asyncio.Lock()
        self._numbering = threading.Lock()

    def __repr__(self) -> str:
        return f"<{len(self._kept)} secrets>"

    async def conceal_answer(self, answer: Answer, calls: Iterable[tuple[AnswerCall, ToolSpec | None, Any]]) -> Answer:
        """Return the answer with marks for secrets in arguments and known values anywhere.

        Args:
            calls: Each call of the answer with its tool, None if unknown, and the schema that its server listed.
        """
        await self._load()
        before, calls = dict(self._kept), tuple(calls)
        if sum(len(call.arguments) for call, _, _ in calls) > _LONG:
            concealed = await asyncio.to_thread(self._conceal_calls, calls)
        else:
            concealed = self._conceal_calls(calls)
        if self._kept != before or self._unsaved:
            await self._save()
        arguments = [self.mask_text(call.arguments) for call in concealed]
        text, reasoning = self.mask_text(answer.text), self.mask_text(answer.reasoning)
        was = [call.arguments for call in answer.calls]
        if (arguments, text, reasoning) == (was, answer.text, answer.reasoning):
            return answer
        masked = zip(concealed, arguments, strict=True)
        # The vendor's own blocks repeat what was masked.
        return replace(
            answer,
            calls=tuple(replace(call, arguments=shown) for call, shown in masked),
            text=text,
            reasoning=reasoning,
            native=None,
        )

    async def fill(self, upstream: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Put the values in for their marks.

        Raises:
            ToolError: A mark is unknown, or belongs to another upstream.
        """
        await self._load()
        filled = self._filled(upstream, arguments)
        if self._unsaved:
            await self._save()
        return dict(filled)

    async def mask_result(
        self, result: ToolResult, spec: ToolSpec | None = None, arguments: Mapping[str, Any] | None = None
    ) -> ToolResult:
        """Mask known values in a result; the same object if it holds none.

        Those that the server has just made, as a password of a registration, are kept first, and known from then on.
        What the call's own arguments hold was not made by it.
        """
        await self._load()
        content = result.content
        if spec is not None and spec.upstream:
            sent, upstream = json.dumps(arguments or {}, ensure_ascii=False), spec.upstream

            def put(value: Any) -> Any:
                is_sent = json.dumps(value, ensure_ascii=False).strip('"') in sent
                # An error says what is wrong with a value: `{"password": "too_short"}`.
                return value if is_sent or (result.is_error and not is_odd(str(value))) else self._mark(upstream, value)

            # The sentences of an error are about a secret; none of them tells one that was made.
            is_told = makes_secrets(spec.name) and not result.is_error
            replace_made = replace_made_secrets if is_told else replace_named_results
            if len(content) > _LONG:
                content = await asyncio.to_thread(replace_made, content, put)
            else:
                content = replace_made(content, put)
            await self._save()
        content = self.mask_text(content)
        blobs = tuple(self._mask_blob(blob) for blob in result.blobs)
        if content == result.content and blobs == result.blobs:
            return result
        return replace(result, content=content, blobs=blobs)

    async def conceal_partial(self, answer: Answer) -> Answer:
        """Return a broken-off answer with marks for known values and for the begin of one."""
        await self._load()
        return replace(answer, text=self._mask_broken(answer.text), reasoning=self._mask_broken(answer.reasoning))

    async def stream_mask(self) -> Callable[[str], str]:
        """Return a function that masks known values in pieces of one text as they come."""
        await self._load()
        return StreamMask(self._texts).feed

    def _mask_broken(self, text: str) -> str:
        text = self.mask_text(text)
        for number, forms in list(self._texts.items()):
            for form in forms:
                for length in range(min(len(form) - 1, len(text)), SURE - 1, -1):
                    if text.endswith(form[:length]):
                        return f"{text[:-length]}‹secret:{number}›"
        return text

    def mask_text(self, text: str) -> str:
        """Mask known values in a text, longest first."""
        places = [
            (form, f"‹secret:{number}›")
            for number, forms in list(self._texts.items())
            for form in forms
            if form in text
        ]
        for form, mark in sorted(places, key=lambda one: len(one[0]), reverse=True):
            text = replace_form(text, form, mark)
        return text

    def _conceal_calls(self, calls: Iterable[tuple[AnswerCall, ToolSpec | None, Any]]) -> list[AnswerCall]:
        return [self._conceal_call(call, spec, schema) for call, spec, schema in calls]

    def _conceal_call(self, call: AnswerCall, spec: ToolSpec | None, schema: Any) -> AnswerCall:
        upstream = spec.upstream if spec is not None else ""
        if spec is not None and not spec.upstream:
            return call  # Zoea's own tools take no secrets
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            return replace(call, arguments=replace_in_text(call.arguments, lambda value: self._mark(upstream, value)))
        if isinstance(arguments, dict):
            replaced = replace_secrets(arguments, schema or {}, lambda value: self._mark(upstream, value))
        else:  # some models write all arguments as one text
            replaced = replace_secrets({"": arguments}, {}, lambda value: self._mark(upstream, value))[""]
        if replaced == arguments:
            return call
        return replace(call, arguments=json.dumps(replaced, ensure_ascii=False))

    def _mark(self, upstream: str, value: Any) -> str:
        if isinstance(value, str) and _MARK.fullmatch(value):
            return value
        with self._numbering:  # calls with long arguments are concealed in threads
            for number, kept in self._kept.items():
                if kept.upstream in (upstream, "") and kept.value == value and type(kept.value) is type(value):
                    return f"‹secret:{number}›"
            # Without the kept ones any low number could be one of theirs.
            first = 0 if self._is_loaded else secrets.randbelow(_UNREAD) + _UNREAD
            number = max(self._kept, default=first) + 1
            self._kept[number] = self._unsaved[number] = KeptSecret(upstream, value)
            self._texts[number] = find_forms(value)
            return f"‹secret:{number}›"

    def _filled(self, upstream: str, value: Any) -> Any:
        match value:
            case dict():
                return {key: self._filled(upstream, one) for key, one in value.items()}
            case list():
                return [self._filled(upstream, one) for one in value]
            case str() if (whole := _MARK.fullmatch(value)) is not None:
                return self._value(upstream, whole)
            case str() if _MARK.search(value) is not None:
                return self._filled_text(upstream, value)
        return value

    def _filled_text(self, upstream: str, text: str) -> str:
        """Put the values in for the marks of a text, escaped where it is JSON."""
        if text.lstrip()[:1] in ("{", "["):
            try:
                return json.dumps(self._filled(upstream, json.loads(text)), ensure_ascii=False)
            except (ValueError, RecursionError):
                pass  # only the text looks like JSON
        return _MARK.sub(lambda mark: str(self._value(upstream, mark)), text)

    def _value(self, upstream: str, mark: re.Match[str]) -> Any:
        number = int(mark[1])
        kept = self._kept.get(number)
        if kept is None:
            raise ToolError(
                f"{mark[0]} stands for no value that Zoea keeps", hint="Give the value itself, or ask the commander."
            )
        if not kept.upstream:
            self._kept[number] = self._unsaved[number] = KeptSecret(upstream, kept.value)
        elif kept.upstream != upstream:
            raise ToolError(
                f"{mark[0]} was given to {kept.upstream} and is not passed on to {upstream}",
                hint="Give the value itself if this server is to have it.",
            )
        return kept.value

    def _mask_blob(self, blob: Blob) -> Blob:
        data = blob.data
        for number, forms in list(self._texts.items()):
            for form in forms:
                if len(form) >= SURE:  # a short one is in any picture by chance
                    data = data.replace(form.encode(), f"‹secret:{number}›".encode())
        note = self.mask_text(blob.note)
        return blob if data == blob.data and note == blob.note else replace(blob, data=data, note=note)

    async def _load(self) -> None:
        """Read the kept values. Without them the calls go on, and their marks stand for nothing."""
        if self._is_loaded:
            return
        async with self._lock:
            try:
                loaded = await self._keeper.load_secrets()
            except (SettingsError, OSError) as problem:
                if not self._is_failing:
                    log.warning("the secrets of earlier calls cannot be read: %s", problem)
                self._is_failing = True
                return
            with self._numbering:
                self._kept = {**loaded, **self._kept}
                self._texts.update({number: find_forms(kept.value) for number, kept in self._kept.items()})
                self._is_loaded = True

    async def _save(self) -> None:
        """Store new values before their marks are stored. A value that cannot be stored is kept until the end."""
        async with self._lock:
            waiting = dict(self._unsaved)
            if not waiting:
                return
            try:
                await self._keeper.save_secrets(waiting)
            except (SettingsError, OSError) as problem:
                log.warning("%d secrets of calls are kept only until Zoea ends: %s", len(waiting), problem)
                return
            for number, kept in waiting.items():
                if self._unsaved.get(number) == kept:
                    del self._unsaved[number]
