"""One attempt at a model, common to all providers that speak HTTP.

A request passes the admission gate, is sent, and its answer is streamed back. There are no retries here, except in
another form: a server that refuses an option is asked again without it, in at most `MAX_FORMS` forms.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Protocol, Self

from msgspec import Struct
from msgspec.structs import replace

from zoea.llm.messages.message_rules import encode
from zoea.llm.messages.request_forms import fit_tools
from zoea.llm.messages.text_calls import read_names, read_text_calls
from zoea.llm.messages.wire_bodies import Wire
from zoea.llm.model_table import preset_traits
from zoea.llm.model_traits import TraitBook, Traits, trait_in
from zoea.llm.provider_config import AUTOMATIC_CONCURRENCY, SLOW_READING, ProviderConfig, is_loopback
from zoea.llm.transport.admission_gate import AdmissionGate, AdmissionTicket
from zoea.llm.transport.cached_json import LOADING_AGAIN_US, LOADING_US, is_loading
from zoea.llm.transport.event_stream import FEED_BYTES
from zoea.llm.transport.http_client import HttpClient, HttpReply
from zoea.llm.transport.provider_errors import error_from_status, error_from_stream, provider_error, read_error_body
from zoea.model.enums import ErrorClass, ToolMode
from zoea.model.errors import ProviderError
from zoea.model.ports import Clock
from zoea.model.request import (
    Answer,
    BytesReceived,
    Delta,
    ModelRequest,
    ReadProgress,
    RequestHeld,
    RequestSent,
    StreamItem,
)
from zoea.model.values import Throttle
from zoea.settings.endpoints import ProviderType
from zoea.text.large_json import LARGE_CHARS

MAX_FORMS = 6
MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""Includes all framing; several times the longest answer of any model."""
MAX_EVENT_BYTES = 16 * 1024 * 1024
"""The longest event, as a whole answer that is not streamed."""
MAX_SILENCE_S = 600.0
"""How long keep-alive without content may last: such a server has lost the request."""
SLOWEST_READING = 20
"""Tokens of a prompt that a server of this machine is expected to read in a second, at least."""
FULL_SHARE = 0.6
"""The share of the window from which on a 400 without a word is taken for a refusal of the length."""
LONG_REQUEST = 4_000
"""Tokens from which on a request may be too long for a window that is not known."""
DOCUMENTS = ("application/json", "text/html")
"""Types of an answer in one piece. Servers give any other type to a stream too."""
_BYTES = BytesReceived()
_TOO_MUCH = (429, 503, 529)
HIDDEN_KEY = b"(the key)"
"""What stands for the key in a refusal that is handed on."""


class ForwardedRequest(Struct, frozen=True):
    """The request of another client, to be sent as it is.

    Attributes:
        path: Below the provider's base address.
        headers: Those that go with it beside the provider's own.
    """

    path: str
    content: bytes
    model: str
    estimated_tokens: int
    headers: Mapping[str, str]
    by_person: bool = False


class ForwardedHead(Struct, frozen=True):
    """The head of the answer to a forwarded request.

    Attributes:
        headers: By name in lower case.
        error: What the refusal means; None for an answer.
    """

    status: int
    headers: Mapping[str, str]
    error: ProviderError | None = None


ForwardedItem = RequestHeld | RequestSent | ForwardedHead | bytes


class StreamDecoder(Protocol):
    """Decodes the bytes of a body into progress and an answer."""

    @property
    def is_done(self) -> bool: ...

    @property
    def is_complete(self) -> bool: ...

    @property
    def words(self) -> str:
        """What came outside of an answer, as a server's error in plain text."""
        ...

    def feed(self, data: bytes) -> Delta | ReadProgress | None: ...

    def end(self) -> Delta | None: ...

    def feed_whole(self, body: bytes) -> None: ...

    def answer(self) -> Answer: ...


class HttpProvider:
    """The common part of the providers that speak HTTP.

    Subclasses define the request's form (`_body`), the decoder of its answer (`_decoder`), its address (`path`,
    `stream_type`), what must be known before (`_prepare`), and the forms of a body that refusals name (`_forms`).

    Attributes:
        traits: What the models of this provider turned out to refuse or demand.
        secrets: What no error, log or other program may show.
    """

    kind: str = ""
    path = ""
    address_tail = ""
    """The part of an address that the settings may name and that `path` holds."""
    stream_type = "text/event-stream"
    has_schema_mode = True
    """Whether tools can be sent as a schema for the answer."""
    wires: ClassVar[Mapping[Wire, str]] = {}
    """The paths at which its servers take requests of other clients, by the wire that these speak."""

    @classmethod
    def open(cls, name: str, config: ProviderConfig, clock: Clock, gate: AdmissionGate | None = None) -> Self:
        """Make the provider with an HTTP client and a gate of its own. Opens no connection."""
        base = (config.base_url or ProviderType(cls.kind).address).rstrip("/").removesuffix(cls.address_tail)
        places = config.concurrency or AUTOMATIC_CONCURRENCY
        gate = gate or AdmissionGate(clock, concurrency=places, rate=config.rate, name=config.label or name)
        headers = cls.own_headers(config) | dict(config.headers)
        return cls(name, config, gate, HttpClient(base, name=name, headers=headers, timeouts=config.timeouts), clock)

    @classmethod
    def own_headers(cls, config: ProviderConfig) -> dict[str, str]:
        """Return Zoea's own headers of every request; those of the settings go over them."""
        return {"authorization": f"Bearer {config.api_key}"} if config.api_key else {}

    def __init__(self, name: str, config: ProviderConfig, gate: AdmissionGate, http: HttpClient, clock: Clock) -> None:
        self.name = name
        self.label = config.label or name
        self.metered = config.metered
        self._config = config
        self._gate = gate
        self._http = http
        self._clock = clock
        self.max_silence_s = max(MAX_SILENCE_S, config.timeouts.first)
        self.secrets = (*filter(None, (config.api_key,)), *config.hidden)
        self.traits = TraitBook(self.secrets)
        self._is_near = is_loopback(http.base_url)
        self._places: int | None = None
        """The places of the gate before the server read slowly; None while it does not."""

    def _model(self, request: ModelRequest) -> str:
        return request.model or self._config.model

    async def _prepare(self, request: ModelRequest) -> None:
        """Fetch what the request's form depends on. Never fails: the request itself will."""

    def _body(self, request: ModelRequest, without_thinking: bool) -> dict[str, Any]:
        """Build the body. `without_thinking` leaves out thinking."""
        raise NotImplementedError

    def _form(self, request: ModelRequest, without_thinking: bool) -> bytes:
        return encode(self._body(request, without_thinking))

    def _decoder(self, request: ModelRequest) -> StreamDecoder:
        raise NotImplementedError

    def _forms(self, request: ModelRequest, without_thinking: bool) -> frozenset[str]:
        """Return what the body holds of the forms that refusals name."""
        return frozenset()

    def _traits(self, model: str) -> Traits:
        return preset_traits(model) | self.traits.of(model)

    def _learn(self, request: ModelRequest, without_thinking: bool, status: int, said: str) -> bool:
        """Return True if the refusal taught a trait by which the request gets another form."""
        model, before = self._model(request), self._form(request, without_thinking)
        names = [tool.name for tool in fit_tools(request.tools, self._traits(model))]
        trait = trait_in(status, said, self._forms(request, without_thinking), self._traits(model), names)
        while trait is not None:
            self.traits.learn(model, trait, said)
            if self._form(request, without_thinking) != before:
                return True
            following = trait_in(status, said, self._forms(request, without_thinking), self._traits(model), names)
            self.traits.unlearn(model, trait)
            if following == trait:
                return False
            trait = following
        return False

    def _refused_thinking(self, request: ModelRequest, text: str) -> None:
        """Note a 400 that names thinking; the request is sent again without it."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamItem, None]:
        """See `Provider.stream`. Closing it closes the connection."""
        ticket = self._gate.enter_queue(self._model(request), by_person=request.by_person)
        reply: HttpReply | None = None
        try:
            has_waited = False
            while not ticket.is_admitted:
                has_waited = True
                yield ticket.hold()
                await ticket.wait_for_change()
            first_s = self._first_token_s(request.estimated_tokens)
            if has_waited or first_s is not None:
                yield RequestSent(first_s)
            await self._prepare(request)
            self.traits.remember(self._model(request), dict(request.traits))
            loads_until, has_spoken = self._clock.uptime() + LOADING_US, False
            for left in reversed(range(MAX_FORMS)):
                while (reply := await self._open_loaded(request, ticket, first_s, loads_until)) is None:
                    yield RequestHeld(f"{self.name} loads its model", loads=True)
                    await self._clock.sleep(LOADING_AGAIN_US)
                    yield RequestSent(first_s)
                try:
                    async with aclosing(self._read(request, reply)) as items:
                        async for item in items:
                            has_spoken = has_spoken or isinstance(item, Delta)
                            yield item
                    return
                except ProviderError as error:
                    # Some servers answer 200, and refuse the form of the request in the stream.
                    if has_spoken or not left or not self._learn(request, False, error.status or 400, error.said):
                        raise
                    await reply.close()
        finally:
            if reply is not None:
                await reply.close()
            ticket.leave()

    async def _read(self, request: ModelRequest, reply: HttpReply) -> AsyncGenerator[StreamItem, None]:
        """Give what the body brings, and the answer at its end. Raises ProviderError."""
        decoder = self._decoder(request)
        if reply.content_type in DOCUMENTS and reply.content_type != self.stream_type:
            body = await reply.read_all(MAX_EVENT_BYTES, within=self.max_silence_s)
            size = len(body)
            if size > LARGE_CHARS:
                await asyncio.to_thread(decoder.feed_whole, body)
            else:
                decoder.feed_whole(body)
        else:
            limits, events = _AnswerLimits(self.name, self.max_silence_s), EventFeeder(self.name, decoder)
            while (data := await self._next(reply, decoder)) is not None:
                delta = await events.feed(data)
                limits.count(len(data), has_progress=delta is not None)
                if isinstance(delta, Delta):
                    reply.expect_steady(self._config.timeouts.between)
                yield delta or _BYTES
                if decoder.is_done:
                    await reply.drain()
                    break
            size = limits.size
        if (delta := decoder.end()) is not None:
            yield delta
        check_complete(decoder, self.name, self.secrets)
        answer = await asyncio.to_thread(decoder.answer) if size > LARGE_CHARS else decoder.answer()
        yield self._complete(request, answer)

    def _first_token_s(self, estimated_tokens: int) -> float | None:
        """Return the seconds until the first token of a long prompt on a local server."""
        if not self._is_near or estimated_tokens < SLOWEST_READING:
            return None
        return self._config.timeouts.first + estimated_tokens / SLOWEST_READING

    def _fills_window(self, request: ModelRequest) -> bool:
        """Return whether a request takes most of the window. Where that is unknown, a long one does."""
        window = request.context_window or self._config.context_window
        if window is None:
            return request.estimated_tokens >= LONG_REQUEST
        return request.estimated_tokens + request.max_output_tokens >= window * FULL_SHARE

    def _complete(self, request: ModelRequest, answer: Answer) -> Answer:
        """Return the answer; with `tool_mode` auto, calls that it holds as text become calls."""
        if self._config.concurrency is None and self._is_near and answer.reading_rate is not None:
            self._heed_reading_rate(answer.reading_rate)
        answer = replace(answer, traits=self.traits.take_news(self._model(request)))
        schemas = {tool.name: tool.input_schema for tool in request.tools}
        tools = {*schemas, *request.other_tools}
        answer = read_names(answer, tools)
        if self._config.tool_mode is not ToolMode.AUTO:
            return answer
        read = read_text_calls(answer, tools, schemas)
        return replace(read, needs_schema=True) if read.are_calls_text and self.has_schema_mode else read

    def _heed_reading_rate(self, rate: float) -> None:
        """Send one request at a time to a slow server, so that each waits less."""
        if rate < SLOW_READING:
            self._places = self._places or self._gate.concurrency
            self._gate.set_concurrency(1)
        elif self._places is not None:
            self._gate.set_concurrency(self._places)
            self._places = None

    async def _next(self, reply: HttpReply, decoder: StreamDecoder) -> bytes | None:
        try:
            return await reply.read()
        except ProviderError:
            if decoder.is_complete:  # the answer is complete; only the end of the stream is missing
                return None
            raise

    async def _open_loaded(
        self, request: ModelRequest, ticket: AdmissionTicket, first_s: float | None, loads_until: int
    ) -> HttpReply | None:
        """Send the request; return None while the server loads its model."""
        try:
            return await self._open(request, ticket, first_s)
        except ProviderError as error:
            if not is_loading(error) or self._clock.uptime() >= loads_until:
                raise
            return None

    async def _open(self, request: ModelRequest, ticket: AdmissionTicket, first_s: float | None) -> HttpReply:
        without_thinking = False
        for _ in range(MAX_FORMS):
            reply = await self._http.open("POST", self.path, self._form(request, without_thinking), first_s)
            if reply.status < 300:
                ticket.note_answer()
                return reply
            try:
                body = await reply.read_all()
            finally:
                await reply.close()
            error = self._read_error(reply, body, fills_window=self._fills_window(request))
            if self._learn(request, without_thinking, reply.status, error.said):
                continue
            if without_thinking or not error.names_thinking:
                break
            self._refused_thinking(request, error.what)
            without_thinking = True
        if reply.status in _TOO_MUCH and error.kind is ErrorClass.TRANSIENT and not is_loading(error):
            ticket.note_refusal(error.retry_after)
        raise error

    def _read_error(self, reply: HttpReply, body: bytes, *, fills_window: bool = False) -> ProviderError:
        return error_from_status(
            reply.status,
            reply.headers,
            body,
            now_us=self._clock.now(),
            provider=self.name,
            secrets=self.secrets,
            fills_window=fills_window,
        )

    async def forward(self, request: ForwardedRequest) -> AsyncGenerator[ForwardedItem, None]:
        """Send a request through the gate as it is; yield its answer's head and bytes.

        What a refusal or an answer holds of the key is hidden. Closing it closes the connection.
        Raises ProviderError where no answer comes, or where it breaks off.
        """
        ticket = self._gate.enter_queue(request.model, by_person=request.by_person)
        reply: HttpReply | None = None
        key = _KeyFilter(*(secret.encode() for secret in self.secrets))
        try:
            while not ticket.is_admitted:
                yield ticket.hold()
                await ticket.wait_for_change()
            first_s = self._first_token_s(request.estimated_tokens)
            yield RequestSent(first_s)
            reply = await self._http.open("POST", request.path, request.content, first_s, request.headers)
            if reply.status >= 300:
                body = await reply.read_all()
                error = self._read_error(reply, body)
                if reply.status in _TOO_MUCH and error.kind is ErrorClass.TRANSIENT:
                    ticket.note_refusal(error.retry_after)
                yield ForwardedHead(reply.status, reply.list_headers(), error)
                yield key.hide(body) + key.end()
                return
            ticket.note_answer()
            yield ForwardedHead(reply.status, reply.list_headers())
            limits = _AnswerLimits(self.name, self.max_silence_s)
            while (data := await reply.read()) is not None:
                limits.count(len(data), has_progress=not data.startswith(b":"))
                reply.expect_steady(self._config.timeouts.between)
                yield key.hide(data)
            if rest := key.end():
                yield rest
        finally:
            if reply is not None:
                await reply.close()
            ticket.leave()

    def throttles(self) -> tuple[Throttle, ...]:
        """Return the rate limits that keep requests back now."""
        return self._gate.list_throttles()

    async def close(self) -> None:
        await self._http.close()


class _KeyFilter:
    """Hides keys in bytes that come in pieces. A possible beginning of one waits for the next piece."""

    def __init__(self, *keys: bytes) -> None:
        self._keys = keys
        self._rest = b""

    def hide(self, data: bytes) -> bytes:
        data = self._rest + data
        for key in self._keys:
            data = data.replace(key, HIDDEN_KEY)
        begins = (size for key in self._keys for size in range(len(key) - 1, 0, -1) if data.endswith(key[:size]))
        held = max(begins, default=0)
        self._rest = data[len(data) - held :]
        return data[: len(data) - held]

    def end(self) -> bytes:
        return self._rest


class EventFeeder:
    """Feeds a decoder in pieces, between which the event loop goes on.

    Where an event of over `LARGE_CHARS` bytes may end it is fed in a thread.
    """

    __slots__ = ("_decoder", "_fed", "_name", "_pending")

    def __init__(self, name: str, decoder: StreamDecoder) -> None:
        self._name = name
        self._decoder = decoder
        self._pending = 0
        self._fed = 0

    async def feed(self, data: bytes) -> Delta | ReadProgress | None:
        """Decode data that came from the network. Raises ProviderError above `MAX_EVENT_BYTES` without a new line."""
        newline = data.rfind(b"\n")
        size = self._pending + len(data)
        self._pending = size if newline < 0 else len(data) - newline - 1
        if self._pending > MAX_EVENT_BYTES:
            raise _endless(f"{self._name} sent over {MAX_EVENT_BYTES // 2**20} MiB in one event of its answer")
        if size > LARGE_CHARS and newline >= 0:
            return await asyncio.to_thread(self._decoder.feed, data)
        heard: Delta | ReadProgress | None = None
        for start in range(0, len(data), FEED_BYTES):
            piece = data[start : start + FEED_BYTES]
            heard = _join(heard, self._decoder.feed(piece))
            self._fed += len(piece)
            if self._fed >= FEED_BYTES:
                self._fed = 0
                await asyncio.sleep(0)  # many small reads may be waiting too
        return heard


def check_complete(decoder: StreamDecoder, name: str, secrets: tuple[str, ...]) -> None:
    """Raise ProviderError with the words that came instead, if the answer has not ended."""
    if decoder.is_complete:
        return
    if decoder.words:
        raise error_from_stream({"error": read_error_body(decoder.words.encode()).text}, provider=name, secrets=secrets)
    what = f"{name} ended its answer in the middle"
    raise provider_error(ErrorClass.TRANSIENT, what, title="The connection to the provider broke")


def _join(first: Delta | ReadProgress | None, second: Delta | ReadProgress | None) -> Delta | ReadProgress | None:
    """Return both as one; what the model said counts more than its progress."""
    if isinstance(first, Delta) and isinstance(second, Delta):
        return Delta(first.text + second.text, first.reasoning + second.reasoning, first.call + second.call)
    return first if isinstance(first, Delta) or second is None else second


def _endless(what: str) -> ProviderError:
    title, hint = "The provider's answer has no end", "Check the provider and its model; a lower output limit may help."
    return provider_error(ErrorClass.BAD_REQUEST, what, title=title, hint=hint)


class _AnswerLimits:
    """Limits an answer: total bytes, and seconds without any progress."""

    __slots__ = ("_name", "_progress_at", "_silence", "size")

    def __init__(self, name: str, silence: float) -> None:
        self._name = name
        self._silence = silence
        self.size = 0
        self._progress_at = asyncio.get_running_loop().time()

    def count(self, received: int, *, has_progress: bool) -> None:
        """Count received bytes. Raises ProviderError above a limit."""
        self.size += received
        if self.size > MAX_ANSWER_BYTES:
            size = MAX_ANSWER_BYTES // 2**20
            raise _endless(f"{self._name} sent more than {size} MiB for one answer, and did not end")
        now = asyncio.get_running_loop().time()
        if has_progress:
            self._progress_at = now
        elif now - self._progress_at > self._silence:
            raise provider_error(
                ErrorClass.TRANSIENT,
                f"{self._name} sent keep-alive for {self._silence:g} s, but no content",
                title="The provider fell silent",
            )
