"""Settings of the first paint, each described once, also for the schema.

Nothing here imports pydantic, because the first paint comes before it.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Self

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$"


class Early(NamedTuple):
    """How a setting of the first paint is shown and checked; `is_inert` as in `fields.setting`."""

    title: str
    description: str
    section: str = "tui"
    is_inert: bool = True
    limits: Mapping[str, Any] = {}


class EarlySettings(NamedTuple):
    """The keys that the first paint reads, with their defaults."""

    theme: Annotated[
        str,
        Early("Theme", "A shipped theme, or a file in themes/ beside config.toml.", limits={"pattern": NAME_PATTERN}),
    ] = "nova"
    reduced_motion: Annotated[bool, Early("Reduced motion", "Turn off blinking and animation.")] = False
    bell: Annotated[bool, Early("Bell", "Ring when a mysis needs you while another screen is open.")] = True
    show_reasoning: Annotated[
        bool, Early("Show reasoning", "Show the reasoning of answers open in conversations; enter still folds it.")
    ] = False
    keys: Annotated[
        Mapping[str, str], Early("Keys", 'Keys by action, over the defaults: "swarm.hold" = "f5".', is_inert=False)
    ] = {}
    ask_above: Annotated[
        int,
        Early(
            "Ask if there are more than",
            "Myses above which the cockpit asks once before a broadcast or a command; 0 never asks.",
            section="broadcast",
            is_inert=False,
            limits={"ge": 0, "le": 2000},
        ),
    ] = 20

    @classmethod
    def of(cls, settings: object) -> Self:
        """Return the keys with the values of validated `Settings`."""
        return cls(**{name: getattr(getattr(settings, section), name) for name, section in SECTIONS.items()})


EARLY = EarlySettings()
EARLY_TYPES = {name: (kind.__origin__, kind.__metadata__[0]) for name, kind in EarlySettings.__annotations__.items()}
SECTIONS = {name: early.section for name, (_, early) in EARLY_TYPES.items()}
NEED_TRUST = tuple(name for name, (_, early) in EARLY_TYPES.items() if not early.is_inert)
"""Those that take effect from a project's file only once it is trusted."""
