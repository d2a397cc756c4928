"""Every error a person can see, in one tree.

Each carries a title (one line), what happened, and what to do about it; the TUI,
stderr and `--json` show the same three. Errors of other libraries are translated
into these at the edge where they enter. Exit codes are an API, and have a page
of the reference.

    ZoeaError                     exit 1
    ├── UsageError                exit 2   what was asked cannot be understood
    ├── SettingsError             exit 3   names file, key, line, the nearest valid key
    │   ├── TemplateError
    │   └── TrustError                     a project file wants what it may not have yet
    ├── StoreError                exit 4
    │   ├── StoreFull                      disk full or I/O error; the swarm goes on hold
    │   ├── StoreForeign                   not a Zoea database, or a newer one
    │   ├── StoreMissing                   no database there yet; only readers see it
    │   ├── StoreConflict                  a constraint of the schema refused a row
    │   └── StoreClosed
    ├── OwnerError                exit 5
    │   ├── NoRunningSwarm
    │   └── WorkspaceHeld
    ├── SwarmError                exit 6   a command the swarm refuses
    │   ├── MysisMissing
    │   ├── NameRefused
    │   ├── StateRefused                   stopped, errored, already running
    │   ├── SwarmFull
    │   ├── NoRecipients
    │   └── RateExceeded
    ├── ProviderError             exit 7   has an `ErrorClass`, maybe `retry_after`
    ├── ToolError                 exit 8
    │   └── UpstreamLost
    ├── PlanError                          the parts that must be there cannot fit
    └── WorldError                exit 9
"""

from __future__ import annotations

from typing import ClassVar

from zoea.model.enums import ErrorClass


class ZoeaError(Exception):
    """The root. `str(error)` is `title: what`; `hint` says what to do.

    Args:
        what: What happened, with names and numbers.
        hint: What the person can do about it; empty where there is nothing to say.
        title: One line for a row or a banner; the class's own by default.
    """

    title: str = "Zoea failed"
    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, hint: str = "", title: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        if title is not None:
            self.title = title

    def as_dict(self) -> dict[str, str]:
        """`{class, title, what, hint}`: what rows, the socket and `--json` carry."""
        return {"class": type(self).__name__, "title": self.title, "what": self.what, "hint": self.hint}


class UsageError(ZoeaError):
    title = "Cannot do that"
    exit_code = 2


class SettingsError(ZoeaError):
    title = "Settings are wrong"
    exit_code = 3


class TemplateError(SettingsError):
    title = "Template is wrong"


class TrustError(SettingsError):
    title = "Project file is not trusted"


class StoreError(ZoeaError):
    title = "The database failed"
    exit_code = 4


class StoreFull(StoreError):
    title = "The disk is full or failing"


class StoreForeign(StoreError):
    title = "Not a database this Zoea can open"


class StoreMissing(StoreError):
    title = "There is no database yet"


class StoreConflict(StoreError):
    title = "The database refused a row"


class StoreClosed(StoreError):
    title = "The database is closed"


class OwnerError(ZoeaError):
    title = "Workspace ownership"
    exit_code = 5


class NoRunningSwarm(OwnerError):
    title = "No running swarm"


class WorkspaceHeld(OwnerError):
    title = "Another Zoea holds this workspace"


class SwarmError(ZoeaError):
    title = "The swarm refused"
    exit_code = 6


class MysisMissing(SwarmError):
    title = "No such mysis"


class NameRefused(SwarmError):
    title = "Name refused"


class StateRefused(SwarmError):
    title = "Not in this state"


class SwarmFull(SwarmError):
    title = "The swarm is full"


class NoRecipients(SwarmError):
    title = "Nobody to receive it"


class RateExceeded(SwarmError):
    title = "Too many messages"


class ProviderError(ZoeaError):
    """A model call failed.

    Args:
        kind: What the failure means (see `ErrorClass`).
        retry_after: Seconds the provider asked to wait; None where it said nothing.
        status: HTTP status, where there was one.
        names_thinking: The refusal speaks of thinking blocks; one retry without them is due.
    """

    title = "The model's provider failed"
    exit_code = 7

    def __init__(
        self,
        what: str,
        *,
        kind: ErrorClass,
        hint: str = "",
        title: str | None = None,
        retry_after: float | None = None,
        status: int | None = None,
        names_thinking: bool = False,
    ) -> None:
        super().__init__(what, hint=hint, title=title)
        self.kind = kind
        self.retry_after = retry_after
        self.status = status
        self.names_thinking = names_thinking


class ToolError(ZoeaError):
    title = "A tool failed"
    exit_code = 8


class UpstreamLost(ToolError):
    """An upstream's session is gone.

    Args:
        was_sent: False where the call certainly never left this process.
    """

    title = "An upstream is lost"

    def __init__(self, what: str, *, hint: str = "", was_sent: bool = True) -> None:
        super().__init__(what, hint=hint)
        self.was_sent = was_sent


class PlanError(ZoeaError):
    title = "The request cannot fit"


class WorldError(ZoeaError):
    title = "The world failed"
    exit_code = 9
