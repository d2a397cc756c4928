"""Secrets in a text that comes in pieces are marks, wherever a piece ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.model.request import Answer, AnswerCall
from zoea.tools.secret_vault import InMemorySecrets, SecretVault, StreamMask

SECRETS = {1: ("hunter2-secret",), 2: ("hunter2",), 3: ("aXaYaX",)}


@walk_cases("size", range(1, 40))
def test_a_secret_is_a_mark_however_the_pieces_are_cut(size: int) -> None:
    text = "It is hunter2-secret, and hunter2, and aXaYaXaYaX; hunters know hunter3."
    mask = StreamMask(SECRETS)
    shown = "".join(mask.feed(text[start : start + size]) for start in range(0, len(text), size))
    assert shown == "It is ‹secret:1›, and ‹secret:2›, and ‹secret:3›aYaX; hunters know hunter3."


@walk_cases("size", range(1, 12))
def test_a_short_secret_is_a_mark_where_it_stands_by_itself(size: int) -> None:
    text = "p9!x, up9!x p9!xy p9!x p9! (p9!x)\\np9!x end."
    mask = StreamMask({1: ("p9!x",)})
    shown = "".join(mask.feed(text[start : start + size]) for start in range(0, len(text), size))
    assert shown == "‹secret:1›, up9!x p9!xy ‹secret:1› p9! (‹secret:1›)\\n‹secret:1› end."


def test_what_may_be_the_beginning_of_a_secret_waits_for_the_next_piece() -> None:
    mask = StreamMask(SECRETS)
    assert mask.feed("It is hunt") == "It is "
    assert mask.feed("ing season") == "hunting season"


@given(st.lists(st.text("ab", max_size=9), max_size=12), st.lists(st.text("ab", min_size=6, max_size=7), max_size=3))
def test_no_piece_shows_a_secret_and_nothing_else_is_lost(pieces: list[str], secrets: list[str]) -> None:
    mask = StreamMask({number: (secret,) for number, secret in enumerate(secrets)})
    shown = "".join(map(mask.feed, pieces))
    between = shown.replace("›", "‹").split("‹")[::2]
    assert not any(secret in text for secret in secrets for text in between)
    restored = shown
    for number, secret in enumerate(secrets):
        restored = restored.replace(f"‹secret:{number}›", secret)
    assert "".join(pieces).startswith(restored)
    held = "".join(pieces)[len(restored) :]
    assert not held or any(secret.startswith(held) for secret in secrets)


async def test_a_secret_that_becomes_known_while_a_text_comes_is_masked_from_then_on() -> None:
    vault = SecretVault(InMemorySecrets())
    feed = await vault.stream_mask()
    assert feed("it is hunter2 ") == "it is hunter2 "
    call = AnswerCall("unlock", '{"password": "hunter2"}')
    await vault.conceal_answer(Answer(calls=(call,)), [(call, None, {})])
    assert feed("or hunter2.") == "or ‹secret:1›."
