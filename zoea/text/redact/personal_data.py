"""Redacts addresses and numbers that identify a person, after checks of each."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

from zoea.text.lazy_pattern import compile_lazily
from zoea.text.sentences import UNSPACED

# With `re.ASCII` a number also begins and ends beside a character of a script without spaces.
_LETTER = rf"(?:(?![{UNSPACED}])\w)"
_LOCAL = rf"(?:(?![{UNSPACED}])[\w.%+-])"
_EMAIL = compile_lazily(
    rf"(?:(?<!{_LOCAL})(?>{_LOCAL}{{1,64}})|(?<![{UNSPACED}])[{UNSPACED}]{{1,64}}+)@"
    r"(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}"
    rf"(?:[^\W\d_{UNSPACED}]{{2,24}}(?!{_LETTER}|[@-])|[^\W\d_]{{2,24}}(?![\w@-]))"
)

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
# Four numbers are a version after `v`, `==`, `version `, `版本` or `Name/`.
_IPV4 = compile_lazily(
    r"(?<![\w.])(?<!==)(?<![A-Za-z]/)(?<![Vv]ersion )(?<![Rr]elease )(?<!版本)(?<!版本号)(?<!バージョン)(?<!버전)"
    rf"{_OCTET}(?:\.{_OCTET}){{3}}(?![\w]|\.\d|-[A-Za-z])",
    re.ASCII,
)
# Eight groups, or a `::` after a first group of four: `12:30:45`, `std::fs` and `[::2]` do not match.
_IPV6 = compile_lazily(
    r"(?<![\w:.])(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}"
    r"|(?=[A-Fa-f]{0,3}[0-9])[0-9A-Fa-f]{4}:[0-9A-Fa-f:]{1,34}+)(?![\w:])",
    re.ASCII,
)

_CARD = compile_lazily(
    r"(?<![\w.])(?<!\d-)(?:"
    r"(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6[0245]\d\d|35\d\d)([ -])\d{4}\1\d{4}\1\d{4}"
    r"|3[47]\d\d([ -])\d{6}\2\d{5}|3[0689]\d\d([ -])\d{6}\3\d{4}"
    r"|(?:4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|6[0245]\d{14,17}|35\d{14}|3[47]\d{13}|3[0689]\d{12})"
    r")(?!\w|\.\d|-\d)",
    re.ASCII,
)

_NATIONAL_ID = compile_lazily(
    r"(?<![\w-])(?:"
    r"(?!000|666|9\d\d)\d{3}-(?!00)\d\d-(?!0000)\d{4}"  # United States, social security
    r"|[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D]"  # United Kingdom, national insurance
    r"|[A-Z]{6}\d\d[A-EHLMPRST]\d\d[A-Z]\d{3}[A-Z]"  # Italy, codice fiscale
    r"|(?P<spain>[0-9XYZ]\d{7}[A-HJ-NP-TV-Z])"
    r"|(?P<china>[1-9]\d{5}(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[0-9X])"
    r")(?![\w-])",
    re.ASCII,
)

_IBAN = compile_lazily(
    r"(?<![\w-])[A-Z]{2}\d\d(?:( ?)[A-Z0-9]{4}(?:\1[A-Z0-9]{4}){1,6}(?:\1[A-Z0-9]{1,3})?)(?![\w-])", re.ASCII
)
_IBAN_LENGTHS = range(15, 35)
_PHONE = compile_lazily(
    r"(?<![\w+.-])(?:"
    r"\+1[ .-]?\(?\d{3}\)?[ .-]?\d{3}[ .-]?\d{4}|\+\d(?:[ .()/-]{0,2}\d){7,14}"  # international
    r"|(?:1[ .-])?\([2-9]\d\d\) ?\d{3}[ .-]\d{4}|(?:1-)?[2-9]\d\d-\d{3}-\d{4}|(?:1\.)?[2-9]\d\d\.\d{3}\.\d{4}"
    r"|0[1-9]\d{1,3}[ /-]\d{3,4}(?:[ -]?\d{3,5})"  # national, with its trunk zero
    r")(?![\w]|[.-]\d)",
    re.ASCII,
)
_LABELLED_PHONE = compile_lazily(
    r"(?i)(\b(?:tel|telephone|phone|mobile|cell|fax|whatsapp)(?: ?(?:no|number))?\b[.:= \t\"']{1,4}"
    r"|(?:电话|電話|手机|手機|携帯|전화)(?:番号|号码|號碼|번호|号)?(?:是|为|：|:|は|는)? ?)"
    r"(\+?\(?\d[\d ()./-]{5,22}\d)(?!\w)",
    re.ASCII,
)
_PHONE_DIGITS = range(8, 16)
_SHORT_PHONE_DIGITS = range(7, 16)
_SPANISH_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_CHINESE_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_CHINESE_CHECKS = "10X98765432"


def redact(text: str) -> str:
    """Replace e-mail addresses, IBANs, cards, national ids, IP addresses and phone numbers by labels."""
    if "@" in text:
        text = _EMAIL.sub("[REDACTED_EMAIL]", text)
    text = _IBAN.sub(_iban, text)
    text = _NATIONAL_ID.sub(_national_id, text)
    text = _CARD.sub(_card, text)
    if ":" in text:
        text = _IPV6.sub(_ipv6, text)
    text = _IPV4.sub("[REDACTED_IP]", text)
    text = _LABELLED_PHONE.sub(_labelled_phone, text)
    return _PHONE.sub(_phone, text)


def luhn(digits: str) -> bool:
    """Return whether the last digit is a valid check digit (ISO/IEC 7812-1)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        if place % 2:
            value = value * 2 - 9 if value > 4 else value * 2
        total += value
    return total % 10 == 0


def _digits(text: str) -> str:
    return "".join(character for character in text if character.isdecimal())


def _card(match: re.Match[str]) -> str:
    return "[REDACTED_CARD]" if luhn(_digits(match.group())) else match.group()


def _iban(match: re.Match[str]) -> str:
    """Redact an account number if its check digits are valid (ISO 13616)."""
    plain = match.group().replace(" ", "")
    number = int("".join(str(int(character, 36)) for character in plain[4:] + plain[:4]))
    return "[REDACTED_IBAN]" if len(plain) in _IBAN_LENGTHS and number % 97 == 1 else match.group()


def _ipv6(match: re.Match[str]) -> str:
    try:
        IPv6Address(match.group())
    except AddressValueError:
        return match.group()
    return "[REDACTED_IP]"


def _national_id(match: re.Match[str]) -> str:
    whole = match.group()
    if match["spain"]:
        number = int(whole[:-1].translate(str.maketrans("XYZ", "012")))
        sure = _SPANISH_LETTERS[number % 23] == whole[-1]
    elif match["china"]:
        total = sum(int(digit) * weight for digit, weight in zip(whole, _CHINESE_WEIGHTS, strict=False))
        sure = _CHINESE_CHECKS[total % 11] == whole[-1]
    else:
        sure = True
    return "[REDACTED_NATIONAL_ID]" if sure else whole


def _phone(match: re.Match[str]) -> str:
    return "[REDACTED_PHONE]" if len(_digits(match.group())) in _PHONE_DIGITS else match.group()


def _labelled_phone(match: re.Match[str]) -> str:
    sure = len(_digits(match[2])) in _SHORT_PHONE_DIGITS
    return f"{match[1]}[REDACTED_PHONE]" if sure else match.group()
