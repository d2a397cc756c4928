"""The tools of Reef as any MCP client sees them: arguments, descriptions, annotations.

Arguments are pydantic models: they make the schemas that clients read and check
what clients send, so the two cannot differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoea.world.goods import CHAT_CHARS, GOODS, LOG_CHARS, LOG_ENTRIES, MINE_LIMIT, MODULES, NAME_CHARS, NOTICES
from zoea.world.refusal import Refused

Id = Annotated[str, Field(min_length=1, max_length=40)]
Session = Annotated[str, Field(min_length=1, max_length=100, description="The session_id that login gave.")]


class Open(BaseModel):
    """Arguments of a tool that needs no session."""

    model_config = ConfigDict(extra="forbid")


class Args(Open):
    """Arguments of every other tool; `extra="forbid"`, so that a typing error is told."""

    session_id: Session


class Register(Open):
    name: str = Field(
        min_length=1,
        max_length=NAME_CHARS,
        pattern=r"^[\w.][\w .\-]*$",
        description="The captain's name: letters, digits, space, '-', '_', '.'.",
    )


class Login(Open):
    account: str = Field(min_length=1, max_length=NAME_CHARS, description="The account that register gave.")
    password: str = Field(min_length=1, max_length=200, description="The password that register gave.")


class Help(Open):
    topic: str | None = Field(None, max_length=40, description="The name of a tool; all of them if left out.")


class InSystem(Args):
    system_id: Id | None = Field(None, description="Such as s7; the one you are in if left out.")


class Poi(Args):
    poi_id: Id = Field(description="A point of interest, such as p12.")


class System(Args):
    system_id: Id = Field(description="A system, such as s7.")


class Market(Args):
    station_id: Id | None = Field(None, description="A station in this system; the nearest if left out.")


class Notifications(Args):
    after_id: int = Field(0, ge=0, le=1 << 53, description="Only those with a higher id.")
    limit: int = Field(10, ge=1, le=NOTICES, description="At most so many, the newest.")


class Mine(Args):
    times: int = Field(1, ge=1, le=MINE_LIMIT, description="How many ticks to mine; ends early when the hold is full.")


class Sell(Args):
    item: Id | None = Field(None, description=f"One of {', '.join(GOODS)}; the whole cargo if left out.")
    quantity: int | None = Field(None, ge=1, le=10_000, description="Units of the item; all if left out.")


class Buy(Args):
    item: Id = Field(description=f"One of {', '.join(GOODS)}, or a module: {', '.join(MODULES)}.")
    quantity: int = Field(1, ge=1, le=10_000, description="Units; modules are bought one at a time.")


class Refuel(Args):
    quantity: int | None = Field(None, ge=1, le=10_000, description="Units; all that fits and can be paid if left out.")


class Chat(Args):
    text: str = Field(max_length=CHAT_CHARS, description="What to say.")
    to: Id | None = Field(None, description="A captain's name; everybody in this system if left out.")


class LogAdd(Args):
    entry: str = Field(max_length=LOG_CHARS, description="What must last: places, prices, plans.")


class LogList(Args):
    limit: int = Field(20, ge=1, le=LOG_ENTRIES, description="At most so many, the newest first.")
    before_id: int | None = Field(None, ge=1, le=1 << 53, description="Only entries older than this id.")


@dataclass(frozen=True, slots=True)
class Spec:
    """One tool. `reads` is its read-only annotation, `again` its idempotent one."""

    name: str
    what: str
    args: type[Open]
    reads: bool = False
    again: bool = False

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, without the titles that only cost tokens."""
        schema = self.args.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        for line in schema.get("properties", {}).values():
            line.pop("title", None)
        return schema


_SPECS = (
    Spec("register", "Make an account; gives account and password, once. Then log in.", Register),
    Spec("login", "Log in with account and password; gives the session_id that all other tools take.", Login),
    Spec("logout", "End the session.", Args, again=True),
    Spec("get_status", "You at a glance: place, credits, fuel, cargo, what is under way.", Args, reads=True),
    Spec("get_ship", "Your ship: hull, fuel, capacity, mining rate, modules.", Args, reads=True),
    Spec("get_cargo", "What is in the hold.", Args, reads=True),
    Spec("get_system", "A system's points and lanes, and the nearest systems from there.", InSystem, reads=True),
    Spec("get_poi", "One point: its ore if known to you, and the stations nearest to it.", Poi, reads=True),
    Spec("get_map", "The whole map: systems, lanes, points. Large; get_system is often enough.", Args, reads=True),
    Spec("get_nearby", "Who and what is around your ship.", Args, reads=True),
    Spec("get_market", "Prices at a station of this system, and its modules.", Market, reads=True),
    Spec("get_notifications", "What became of queued actions, and chat heard.", Notifications, reads=True),
    Spec("get_skills", "Your skills and their levels.", Args, reads=True),
    Spec("travel", "Fly to a point of this system. Takes ticks; see arrival_tick.", Poi),
    Spec("jump", "Fly to another system by the quickest lanes. Takes ticks; see arrival_tick.", System),
    Spec("dock", "Dock at the station of this place.", Args),
    Spec("undock", "Leave the dock.", Args),
    Spec("mine", "Mine the belt or gas cloud of this place: a unit or more each time.", Mine),
    Spec("sell", "Sell cargo at the station you are docked at. The price falls 2 % with each unit.", Sell),
    Spec("buy", "Buy goods or a module at the station you are docked at.", Buy),
    Spec("refuel", "Fill the tank when docked; in space it calls a free, slow tanker.", Refuel),
    Spec("repair", "Mend the hull when docked; in space a free, slow patch.", Args),
    Spec("scan", "Learn what every belt and cloud of this system holds; finds salvage in a derelict.", Args),
    Spec("chat", "Say something to a captain, or to all in this system.", Chat),
    Spec("captains_log_add", "Write down what must last. The log outlives your memory.", LogAdd),
    Spec("captains_log_list", "Read your log, newest first.", LogList, reads=True),
    Spec("help", "How to play, or what one tool does.", Help, reads=True),
)

SPECS: dict[str, Spec] = {spec.name: spec for spec in _SPECS}

HELP = (
    "You are a captain. Mine ore, sell it at a station, find better belts. "
    "A loop to begin with: undock, mine (times=3), dock, sell. "
    "An action finds the ship free and starts, or is queued (12 at most) and runs in order; what became of it is in "
    "get_notifications. arrival_tick says when it is done; wait until then. "
    "Ore differs in worth (iron 10 … iridium 40 credits) and is finite; scan in a system to see what its belts hold. "
    "Each unit sold lowers the price by 2 %, which recovers with time: spread out, and tell others what you find."
)


def check(tool: str, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the world takes them, without those left out.

    Raises Refused (`unknown_tool`, `bad_arguments`) with the field and what it must be.
    """
    spec = SPECS.get(tool)
    if spec is None:
        raise Refused("unknown_tool", f"There is no tool {tool[:40]!r}. help lists them.")
    try:
        return spec.args.model_validate(args).model_dump(exclude_none=True, exclude_unset=True)
    except ValidationError as error:
        said = []
        for line in error.errors(include_url=False, include_context=False, include_input=False)[:3]:
            said.append(f"{'.'.join(map(str, line['loc'])) or 'arguments'}: {line['msg']}")
        raise Refused("bad_arguments", f"{'; '.join(said)}. help with topic={tool} says what it takes.") from None
