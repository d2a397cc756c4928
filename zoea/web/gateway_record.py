"""Records an agent's request as a plan, for the inspector."""

from __future__ import annotations

from msgspec.structs import replace

from zoea.context import Budget, Decision, PackStatus, Plan, Priority, Reason, Truncation, Variant, encode
from zoea.llm.messages.wire_bodies import WireBody, guess_asker
from zoea.model.enums import Role
from zoea.model.ports import ToolSession
from zoea.model.request import Answer, RequestMessage
from zoea.swarm.persistence import turn_ops
from zoea.swarm.resolved_template import MysisProfile


async def conceal_messages(session: ToolSession, messages: tuple[RequestMessage, ...]) -> tuple[RequestMessage, ...]:
    """Return the messages with marks for known secrets, as they may be stored."""
    texts = [part for one in messages for part in (one.content, one.reasoning, *(c.arguments for c in one.calls))]
    whole = "\0".join(texts)
    masked = (await session.conceal_partial(Answer(whole))).text
    if masked == whole:
        return messages
    parts = iter(masked.split("\0"))
    return tuple(
        [
            replace(
                one,
                content=next(parts),
                reasoning=next(parts),
                calls=tuple([replace(call, arguments=next(parts)) for call in one.calls]),
            )
            for one in messages
        ]
    )


def record(
    body: WireBody, messages: tuple[RequestMessage, ...], profile: MysisProfile, calibration: float, turn_limit: int
) -> tuple[Plan, bytes]:
    """Return the request as a plan, for the inspector, and its stored form."""
    system = [one for one in messages if one.role is Role.SYSTEM]
    rest = [one for one in messages if one.role is not Role.SYSTEM]
    sizes = {"system": sum(len(one.content) for one in system), "conversation": sum(len(one.content) for one in rest)}
    sizes["tools"] = body.tool_chars
    total = int(body.tokens * calibration)
    share = total / max(1, sum(sizes.values()))
    decisions = [
        Decision(
            id=name,
            section=name,
            priority=Priority.REQUIRED,
            status=PackStatus.INCLUDED,
            variant=Variant.FULL,
            reason=Reason.REQUIRED,
            chars=chars,
            tokens=round(chars * share),
            wanted_tokens=round(chars * share),
        )
        for name, chars in sizes.items()
        if chars
    ]
    note = f"Its agent asked for {guess_asker(body)}"
    note += f", of the model {body.model}; it went to {profile.model}." if body.model != profile.model else "."
    plan = Plan(
        decisions=tuple(decisions),
        budget=Budget.of(profile.window, total),
        truncation=Truncation(applied=False, before_chars=0, after_chars=0),
        messages=messages,
        notes=(note,),
    )
    return plan, turn_ops.plan_text({**encode(plan), "turn_limit": turn_limit})
