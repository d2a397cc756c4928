"""Build sentences of fragments, and find those of a text. Pure."""

from __future__ import annotations

import re

from zoea.text.lazy_pattern import compile_lazily

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Tibetan, Burmese, Khmer
    "\u1100-\u11ff\uac00-\ud7af"  # Korean, because particles join its words
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
"""Ranges of a character class: the scripts that have no spaces between words, or none where words end."""
_SENTENCE_END = compile_lazily(r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[。！？])[”’」』）]*|\n+")
_BEFORE_END = compile_lazily(r"(\S+)\.$")
_ABBREVIATIONS = frozenset(
    [
        "al",
        "apr",
        "aug",
        "av",
        "avda",
        "bd",
        "bzw",
        "ca",
        "cf",
        "co",
        "col",
        "corp",
        "d.h",
        "dec",
        "dept",
        "dez",
        "dipl",
        "dr",
        "dña",
        "ed",
        "eds",
        "e.g",
        "eg",
        "env",
        "etc",
        "evtl",
        "exkl",
        "feb",
        "fig",
        "fr",
        "frl",
        "geb",
        "gen",
        "ggf",
        "hon",
        "hr",
        "i.d.r",
        "i.e",
        "ie",
        "inc",
        "ing",
        "inkl",
        "jan",
        "jh",
        "jr",
        "jul",
        "jun",
        "lt",
        "ltd",
        "m.e",
        "mar",
        "max",
        "med",
        "min",
        "mlle",
        "mme",
        "mr",
        "mrs",
        "ms",
        "mär",
        "mx",
        "nov",
        "o.ä",
        "okt",
        "oct",
        "p.ej",
        "phil",
        "pp",
        "prof",
        "resp",
        "s.o",
        "s.u",
        "sec",
        "sep",
        "sept",
        "sgt",
        "sog",
        "sr",
        "sra",
        "srta",
        "st",
        "str",
        "tel",
        "tr",
        "u.a",
        "ud",
        "uds",
        "usw",
        "v.a",
        "verh",
        "vgl",
        "vol",
        "vs",
        "z.b",
        "zzgl",
    ]
)
_BEFORE_NUMBERS = frozenset(
    ["abs", "art", "bl", "ch", "kap", "n°", "no", "nr", "nrn", "num", "núm", "op", "p", "rev", "s", "v", "ver", "§"]
)
"""Abbreviations where a number follows, and words or sentences of their own where none does."""


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, each on one line, without empty ones.

    A dot ends none after an abbreviation, an ordinal (`3. Juni`), or one letter (`z. B.`).
    """
    sentences: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if match.start() == match.end() == start or (match[0][:1] != "\n" and not _is_end(text, start, match)):
            continue
        sentences.append(text[start : match.end()])
        start = match.end()
    sentences.append(text[start:])
    return [sentence for one in sentences if (sentence := " ".join(one.split()))]


def _is_end(text: str, start: int, match: re.Match[str]) -> bool:
    before = _BEFORE_END.search(text[max(start, match.start() - 24) : match.start()])
    if before is None or "\n" in match[0]:
        return True
    following = text[match.end() : match.end() + 1]
    word = before[1].lstrip("(\"'„“‚‘«[").casefold()
    if word in _BEFORE_NUMBERS:
        return not following.isdigit()
    is_ordinal = len(word) <= 2 and word.isdecimal()
    return not (word in _ABBREVIATIONS or is_ordinal or (len(word) == 1 and word.isalpha()))


def begin_sentence(text: str, name: str = "") -> str:
    """Return the text with a capital first letter. A text that begins with `name` stays as it is."""
    if name and text.startswith(name):
        return text
    return text[:1].upper() + text[1:]


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: `1 request`, `2 requests`, `2 memories`, `2 myses`."""
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("sis"):
        return f"{noun[:-3]}ses"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("ch") else f"{noun}s"
