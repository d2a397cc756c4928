"""Errors of connections: from what httpx and aiohttp raise to a `ProviderError` for people."""

from __future__ import annotations

import socket

import aiohttp
import httpx

from zoea.llm.transport.bounded_protocol import BoundExceeded
from zoea.llm.transport.provider_errors import provider_error, shorten
from zoea.model.enums import ErrorClass
from zoea.model.errors import ProviderError

FAILURES = (httpx.HTTPError, aiohttp.ClientError, RuntimeError, ValueError)
"""All that sending and reading raise.

aiohttp raises RuntimeError for a connection that was closed on this side, and ValueError for headers that contradict
each other; `httpx.DecodingError` is raised for a body whose compression is not what its header says.
"""


BROKEN = "The connection to the provider broke"


def silence_error(name: str, seconds: float, *, has_begun: bool) -> ProviderError:
    """Build the error of an answer that does not come, or stops for `seconds`."""
    what = f"{name} sent nothing for {seconds:g} s in mid-answer" if has_begun else f"{name} sent nothing in time"
    return provider_error(ErrorClass.TRANSIENT, what, title="The provider fell silent")


def protocol_error(name: str) -> ProviderError:
    """Build the error of a server that answers with a switch to another protocol."""
    what = f"the connection to {name} broke: the server wants to speak another protocol"
    return provider_error(ErrorClass.TRANSIENT, what, title=BROKEN)


def connection_error(error: Exception, name: str) -> ProviderError:
    """Build the error of a connection that failed, broke, or did not carry HTTP."""
    kind, title, hint, said = ErrorClass.BAD_REQUEST, BROKEN, "", shorten(str(error) or type(error).__name__)
    match error:
        case aiohttp.ServerTimeoutError():
            kind, title = ErrorClass.TRANSIENT, "The provider cannot be reached"
            what = f"{name} could not be reached in time"
        case aiohttp.InvalidURL():
            title, what = "The provider's address is wrong", f"the address of {name} cannot be used: {said}"
            hint = "Correct the provider's base_url in the settings."
        case httpx.DecodingError():
            title, what = "The provider sent no answer", f"the answer of {name} cannot be decompressed: {said}"
            hint = "Check the provider's base_url, and what stands between it and Zoea."
        case aiohttp.ClientConnectorCertificateError():
            title = "The provider's certificate is not trusted"
            what = f"the certificate of {name} is not trusted: {said}"
            hint = "Install the authority's certificate on this system, or correct the provider's base_url."
        case aiohttp.ClientConnectorError():
            kind, title = ErrorClass.TRANSIENT, "The provider cannot be reached"
            what = f"{name} could not be reached: {_unreachable_reason(error.os_error)}"
            hint = "Check that it runs and that its address (base_url) is right."
        case _:
            kind, what = ErrorClass.TRANSIENT, f"the connection to {name} broke: {_break_reason(error, said)}"
    return provider_error(kind, what, title=title, hint=hint or None)


def _break_reason(error: Exception, said: str) -> str:
    match error:
        case aiohttp.ClientResponseError():
            return f"the server's answer is not HTTP: {shorten(error.message)}"
        case BoundExceeded():
            return f"the server sent {said}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            return "the server closed the connection before its answer was whole"
    return said


def _unreachable_reason(error: OSError) -> str:
    """Return the two usual reasons in words, and the system's own words for others."""
    match error:
        case ConnectionRefusedError():
            return "nothing listens at its address"
        case socket.gaierror():
            return "the host in its address is not known"
    return shorten(str(error) or type(error).__name__)
