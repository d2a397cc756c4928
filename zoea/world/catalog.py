"""Tools of Reef for MCP clients: arguments, descriptions, annotations.

Arguments are pydantic models, which give the schemas and check the calls, so that the two cannot differ.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoea.world.goods import CHAT_CHARS, GOODS, LOG_CHARS, LOG_ENTRIES, MINE_LIMIT, MODULES, NAME_CHARS, NOTICES
from zoea.world.refusal import ReefRefusal

Id = Annotated[str, Field(min_length=1, max_length=40)]
Session = Annotated[str, Field(min_length=1, max_length=100, description="The session_id that login gave.")]


class NoSessionArgs(BaseModel):
    """Arguments of a tool that needs no session."""

    model_config = ConfigDict(extra="forbid")


class SessionArgs(NoSessionArgs):
    """Arguments of all other tools; unknown ones are refused, so that typing errors show."""

    session_id: Session


class RegisterArgs(NoSessionArgs):
    name: str = Field(
        min_length=1,
        max_length=NAME_CHARS,
        pattern=r"^[\w.][\w .\-]*$",
        description="The captain's name: letters, digits, space, '-', '_', '.'.",
    )


class LoginArgs(NoSessionArgs):
    account: str = Field(min_length=1, max_length=NAME_CHARS, description="The account that register gave.")
    password: str = Field(min_length=1, max_length=200, description="The password that register gave.")


class HelpArgs(NoSessionArgs):
    topic: str | None = Field(None, max_length=40, description="The name of a tool; all of them if left out.")


class SystemArgs(SessionArgs):
    system_id: Id | None = Field(None, description="Such as s7; the one you are in if left out.")


class PoiArgs(SessionArgs):
    poi_id: Id = Field(description="A point of interest, such as p12.")


class JumpArgs(SessionArgs):
    system_id: Id = Field(description="A system, such as s7.")


class MarketArgs(SessionArgs):
    station_id: Id | None = Field(None, description="A station in this system; the nearest if left out.")


class NotificationsArgs(SessionArgs):
    after_id: int = Field(0, ge=0, le=1 << 53, description="Only those with a higher id.")
    limit: int = Field(10, ge=1, le=NOTICES, description="At most so many, the newest.")


class MineArgs(SessionArgs):
    times: int = Field(1, ge=1, le=MINE_LIMIT, description="How many ticks to mine; ends early when the hold is full.")


class SellArgs(SessionArgs):
    item: Id | None = Field(None, description=f"One of {', '.join(GOODS)}; the whole cargo if left out.")
    quantity: int | None = Field(None, ge=1, le=10_000, description="Units of the item; all if left out.")


class BuyArgs(SessionArgs):
    item: Id = Field(description=f"One of {', '.join(GOODS)}, or a module: {', '.join(MODULES)}.")
    quantity: int = Field(1, ge=1, le=10_000, description="Units; modules are bought one at a time.")


class RefuelArgs(SessionArgs):
    quantity: int | None = Field(None, ge=1, le=10_000, description="Units; all that fits and can be paid if left out.")


class ChatArgs(SessionArgs):
    text: str = Field(max_length=CHAT_CHARS, description="What to say.")
    to: Id | None = Field(None, description="A captain's name; everybody in this system if left out.")


class LogAddArgs(SessionArgs):
    entry: str = Field(max_length=LOG_CHARS, description="What must last: places, prices, plans.")


class LogListArgs(SessionArgs):
    limit: int = Field(20, ge=1, le=LOG_ENTRIES, description="At most so many, the newest first.")
    before_id: int | None = Field(None, ge=1, le=1 << 53, description="Only entries older than this id.")


class ReefTool(Struct, frozen=True):
    """Define one tool.

    Args:
        what: Description.
        reads: Value of the read-only annotation.
        again: Value of the idempotent annotation, which reading tools have too.
    """

    name: str
    what: str
    args: type[NoSessionArgs]
    reads: bool = False
    again: bool = False

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments, without titles, which only cost tokens."""
        schema = self.args.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        for line in schema.get("properties", {}).values():
            line.pop("title", None)
        return schema


_SPECS = (
    ReefTool("register", "Make an account; gives account and password, once. Then log in.", RegisterArgs),
    ReefTool("login", "Log in with account and password; gives the session_id that all other tools take.", LoginArgs),
    ReefTool("logout", "End the session.", SessionArgs, again=True),
    ReefTool("get_status", "You at a glance: place, credits, fuel, cargo, what is under way.", SessionArgs, reads=True),
    ReefTool("get_ship", "Your ship: hull, fuel, capacity, mining rate, modules.", SessionArgs, reads=True),
    ReefTool("get_cargo", "What is in the hold.", SessionArgs, reads=True),
    ReefTool("get_system", "A system's points and lanes, and the nearest systems from there.", SystemArgs, reads=True),
    ReefTool("get_poi", "One point: its ore if known to you, and the stations nearest to it.", PoiArgs, reads=True),
    ReefTool(
        "get_map", "The whole map: systems, lanes, points. Large; get_system is often enough.", SessionArgs, reads=True
    ),
    ReefTool("get_nearby", "Who and what is around your ship.", SessionArgs, reads=True),
    ReefTool("get_market", "Prices at a station of this system, and its modules.", MarketArgs, reads=True),
    ReefTool("get_notifications", "What became of queued actions, and chat heard.", NotificationsArgs, reads=True),
    ReefTool("get_skills", "Your skills and their levels.", SessionArgs, reads=True),
    ReefTool("travel", "Fly to a point of this system. Takes ticks; see arrival_tick.", PoiArgs),
    ReefTool("jump", "Fly to another system by the quickest lanes. Takes ticks; see arrival_tick.", JumpArgs),
    ReefTool("dock", "Dock at the station of this place.", SessionArgs),
    ReefTool("undock", "Leave the dock.", SessionArgs),
    ReefTool("mine", "Mine the belt or gas cloud of this place: a unit or more each time.", MineArgs),
    ReefTool("sell", "Sell cargo at the station you are docked at. The price falls 2 % with each unit.", SellArgs),
    ReefTool("buy", "Buy goods or a module at the station you are docked at.", BuyArgs),
    ReefTool("refuel", "Fill the tank when docked; in space it calls a free, slow tanker.", RefuelArgs),
    ReefTool("repair", "Mend the hull when docked; in space a free, slow patch.", SessionArgs),
    ReefTool("scan", "Learn what every belt and cloud of this system holds; finds salvage in a derelict.", SessionArgs),
    ReefTool("chat", "Say something to a captain, or to all in this system.", ChatArgs),
    ReefTool("captains_log_add", "Write down what must last. The log outlives your memory.", LogAddArgs),
    ReefTool("captains_log_list", "Read your log, newest first.", LogListArgs, reads=True),
    ReefTool("help", "How to play, or what one tool does.", HelpArgs, reads=True),
)

REEF_TOOLS: dict[str, ReefTool] = {spec.name: spec for spec in _SPECS}

HELP = (
    "You are a captain. Mine ore, sell it at a station, find better belts. "
    "A loop to begin with: undock, mine (times=3), dock, sell. "
    "An action finds the ship free and starts, or is queued (12 at most) and runs in order; what became of it is in "
    "get_notifications. arrival_tick says when it is done; wait until then. "
    "Ore differs in worth (iron 10 … iridium 40 credits) and is finite; scan in a system to see what its belts hold. "
    "Each unit sold lowers the price by 2 %, which recovers with time: spread out, and tell others what you find."
)


def validate_arguments(tool: str, args: dict[str, Any]) -> dict[str, Any]:
    """Check the arguments of a call and return those that were given.

    Raises ReefRefusal (`unknown_tool`, `bad_arguments`) with the field and the expected value.
    """
    spec = REEF_TOOLS.get(tool)
    if spec is None:
        raise ReefRefusal("unknown_tool", f"There is no tool {tool[:40]!r}. help lists them.")
    try:
        return spec.args.model_validate(args).model_dump(exclude_none=True, exclude_unset=True)
    except ValidationError as error:
        problems = []
        for line in error.errors(include_url=False, include_context=False, include_input=False)[:3]:
            problems.append(f"{'.'.join(map(str, line['loc'])) or 'arguments'}: {line['msg']}")
        raise ReefRefusal(
            "bad_arguments", f"{'; '.join(problems)}. help with topic={tool} says what it takes."
        ) from None
