"""The screen that tests read holds what pyte's own holds."""

from __future__ import annotations

import pyte

from tests.case_tables import walk_cases
from tests.e2e.text_screen import TextScreen

PIECES = {
    "colours": "\x1b[31mred\x1b[0m and \x1b[38;2;1;2;3;48:5:7mtrue\x1b[m plain",
    "other sequences that end in m or hold numbers": "\x1b[>4;1mab\x1b[2;3Hcd\x1b[?25l\x1b[1;5rend",
    "a line that wraps": "0123456789" * 5 + "\x1b[1mwrapped",
    "the last column": "\x1b[3;20Hx\x1b[32myz",
    "wide, combining and invisible characters": "日本 e\u0301\u0301 \u200bnever\r\n\x1b[35m日本語は" + "長い" * 12,
    "lines drawn with the other set of characters": "\x1b(0lqk\x1b(B lqk \x0elqk\x0f",
    "characters that are inserted": "abc\r\x1b[4h\x1b[34mxy\x1b[4lz",
    "a screen that scrolls and is erased": "\r\n".join("abcdefgh") + "\x1b[2;2H\x1b[41m\x1b[K\x1b[1Jnew",
}


@walk_cases("size", [1, 2, 3, 7, 1000])
@walk_cases("text", PIECES.values(), ids=PIECES)
def test_the_text_is_that_of_pyte_however_the_bytes_are_cut(text: str, size: int) -> None:
    ours, screen = TextScreen(20, 6), pyte.Screen(20, 6)
    stream, data = pyte.ByteStream(screen), text.encode()
    for begin in range(0, len(data), size):
        ours.feed(data[begin : begin + size])
        stream.feed(data[begin : begin + size])
    assert ours.text == "\n".join(
        "".join(screen.buffer[line][column].data for column in range(20)).rstrip() for line in range(6)
    )
