"""Settings of commits: when they are made, kept and inherited."""

from __future__ import annotations

from zoea.settings.fields import MOST_TOKENS, Number, Section, Whole, setting


class ChainSettings(Section):
    """Commits of what myses know; see the guide on contexts."""

    capture: str = setting(
        "answer",
        "Commit",
        "When a mysis commits what it knows: answer (after each answer and at the end of a turn), tool_results (also "
        "after each result), every:N (after each Nth answer), significant (at the end of a turn and when it broadcasts "
        "or publishes), explicit (when told to) or off.",
        pattern=r"^(answer|tool_results|significant|explicit|off|every:[1-9][0-9]{0,3})$",
    )
    mirror: str = setting(
        "",
        "Mirror",
        "A folder, such as on another disk, that gets a copy of all texts of commits and brings back those that are "
        "missing or damaged; it has to exist. Empty for none; in a template it has no effect.",
        pattern=r"^(|[/~].*)$",
    )
    ephemeral_days: Number = setting(
        0,
        "Days of texts",
        "Let go of the texts of a commit after so many days; 0 keeps them as long as it.",
        ge=0,
        le=36_500,
    )
    summarise_idle: bool = setting(
        False,
        "Summaries at rest",
        "While no mysis works, models write summaries of commits that lack one, paid from budget.background.",
    )


class InheritedSettings(Section):
    """What a mysis that was made from a commit is shown of it."""

    max_tokens: Whole = setting(
        0,
        "Most tokens",
        "Tokens of its newest messages that stand as they were; 0 is 40 % of a request.",
        ge=0,
        le=MOST_TOKENS,
    )
    keep: Whole = setting(
        1,
        "Turns",
        "In how many of its first turns they stand as they were where not all have room, later their summary; 0 is in "
        "every turn. Where all have room they always stand.",
        ge=0,
        le=1_000_000,
    )
