"""Every error that a person can see, in one tree.

Each has a title, a description and a hint, which the TUI, stderr and `--json` show alike. Errors of
other libraries are converted at the edge where they enter. Exit codes are an API; see
`documentation/reference/exit-codes.md`.

    ZoeaError                     exit 1
    ├── UsageError                exit 2   the request cannot be understood
    │   └── RevisionError                  names no context commit, or several
    ├── SettingsError             exit 3   names file, key, line, the nearest valid key
    │   ├── TemplateError
    │   └── TrustError                     a project file needs trust
    ├── StoreError                exit 4
    │   ├── StoreFull                      disk full or I/O error; the swarm goes on hold
    │   │   └── StoreMoved                 the open database was removed or replaced
    │   ├── StoreForeign                   not a Zoea database, or a newer one
    │   ├── StoreMissing                   no database yet; raised for readers only
    │   ├── StoreConflict                  a constraint of the schema refused a row
    │   ├── StoreClosed
    │   ├── ContextFormatError             the bytes of a context are not in its format
    │   └── MissingBlob                    bytes that a context commit refers to are not there
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
    ├── WorldError                exit 9
    ├── FilesError                exit 13  work on files: worktrees, the workbench, merges
    │   ├── GitError
    │   ├── WorkHeld                       a folder holds work, or a mysis works in it
    │   └── MergeRefused
    └── AgentError                exit 14  an external agent cannot be started, or refused
        └── AgentLost                      its process ended, or sent what is no message
"""

from __future__ import annotations

from typing import ClassVar

from zoea.model.enums import ErrorClass

REFUSED_KEY = "The provider refused the key"
"""Title of the error that another key mends."""


class ZoeaError(Exception):
    """The root of all errors. `str(error)` is `what`.

    Args:
        what: The event, with names and numbers.
        hint: The remedy; may be empty.
        title: One line for a row or a banner; default: the class's own.
    """

    title: str = "Zoea failed"
    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, hint: str = "", title: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        if title is not None:
            self.title = title

    @property
    def text(self) -> str:
        """What happened and the remedy, as sentences of one text."""
        return f"{self.what.removesuffix('.')}. {self.hint}" if self.hint else self.what

    def as_dict(self) -> dict[str, str]:
        """Return `{class, title, what, hint}` for rows, the socket and `--json`."""
        return {"class": type(self).__name__, "title": self.title, "what": self.what, "hint": self.hint}


class UsageError(ZoeaError):
    title = "Cannot do that"
    exit_code = 2


class RevisionError(UsageError):
    title = "No such commit"


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
    """Nothing can be stored for now. `reason` is that of the hold until it can be."""

    title = "The disk is full or failing"
    reason: ClassVar[str] = "disk full or failing: nothing can be stored"


class StoreMoved(StoreFull):
    title = "The database was removed or replaced"
    reason: ClassVar[str] = "database removed or replaced: put it back"


class StoreForeign(StoreError):
    title = "Not a database this Zoea can open"


class StoreMissing(StoreError):
    title = "There is no database yet"


class StoreOutdated(StoreError):
    """The database is of an older release; a run brings it up to date."""


class StoreConflict(StoreError):
    title = "The database refused a row"


class StoreClosed(StoreError):
    title = "The database is closed"


class ContextFormatError(StoreError):
    title = "The context cannot be read"


class MissingBlob(StoreError):
    title = "A part of the context is missing"


class OwnerError(ZoeaError):
    title = "Zoea cannot run or connect"
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
    title = "No recipient"


class RateExceeded(SwarmError):
    title = "Too many messages"


class NotAnswered(ZoeaError):
    title = "Not answered"
    exit_code = 10


class AnswerHeld(NotAnswered):
    title = "The answer waits for you"
    exit_code = 11


class AnswerLate(NotAnswered):
    title = "No answer in time"
    exit_code = 12


class ProviderError(ZoeaError):
    """A model call failed.

    Args:
        kind: See `ErrorClass`.
        retry_after: Seconds the provider asked to wait, if it did.
        status: The HTTP status, if there was one.
        names_thinking: The refusal concerns thinking blocks; one retry without them follows.
        window: The tokens that a refusal for its length allows a request, if it names them.
        said: All sentences of a refusal, as the server wrote them; never shown, because they are not cleaned.
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
        window: int | None = None,
        said: str = "",
    ) -> None:
        super().__init__(what, hint=hint, title=title)
        self.kind = kind
        self.retry_after = retry_after
        self.status = status
        self.names_thinking = names_thinking
        self.window = window
        self.said = said


class ToolError(ZoeaError):
    title = "A tool failed"
    exit_code = 8


class UpstreamLost(ToolError):
    """The session of an upstream is lost.

    Args:
        was_sent: False if the call certainly never left this process.
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


class FilesError(ZoeaError):
    title = "The work on files failed"
    exit_code = 13


class GitError(FilesError):
    title = "Git failed"


class WorkHeld(FilesError):
    title = "There is work in it"


class MergeRefused(FilesError):
    title = "Not merged"


class AgentError(ZoeaError):
    title = "The external agent failed"
    exit_code = 14


class AgentLost(AgentError):
    title = "The external agent is gone"
