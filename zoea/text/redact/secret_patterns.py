"""Redact keys, tokens and passwords, by their issuer's prefix or their name."""

from __future__ import annotations

import re
from collections.abc import Callable

from zoea.text.control_characters import drop_hidden
from zoea.text.lazy_pattern import compile_lazily
from zoea.text.stepped_search import replace_in_steps

_PEM = compile_lazily(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?>(?:[^-]|-(?!----)){0,20000})(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"
)
# Three parts (signed) or five (encrypted), replaced as a whole.
_JWT = compile_lazily(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}+\.[A-Za-z0-9_-]{2,}+(?:\.[A-Za-z0-9_-]*+){1,3}")
# The issuers' own shapes. `sk-` needs a digit, a capital or a long run: `sk-learn-contrib` is not a key.
_ISSUED = compile_lazily(
    r"""(?<![A-Za-z0-9])(?:
    sk-(?=[a-z_-]{0,80}[0-9A-Z]|[a-z]{20})[A-Za-z0-9_-]{12,}+
  | [sr]k_(?:live|test)_[A-Za-z0-9]{10,}+
  | (?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}(?![0-9A-Za-z])
  | gh[pousr]_[A-Za-z0-9]{30,}+ | github_pat_[A-Za-z0-9_]{22,}+ | glpat-[A-Za-z0-9_-]{20,}+
  | xox[abeoprs]-[A-Za-z0-9-]{10,}+ | AIza[0-9A-Za-z_-]{35} | ya29\.[0-9A-Za-z_-]{20,}+
  | (?:hf|gsk|npm|r8)_[A-Za-z0-9]{20,}+ | (?:xai|pplx|pypi|tvly)-[A-Za-z0-9_-]{20,}+
  | SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}+
  | (?:do[opr]_v1|tgp_v1|shp(?:at|ca|pa|ss)|lin_api|figd|ntn)_[A-Za-z0-9_-]{20,}+
  | hv[bs]\.[A-Za-z0-9_-]{20,}+ | AGE-SECRET-KEY-1[0-9A-Z]{40,}+ | PMAK-[0-9a-f]{20,}+
    )""",
    re.VERBOSE,
)
_AUTHORIZATION = compile_lazily(
    r"(?i)(\bauthorization\\{0,4}[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\{0,4}[\"']?(?:bearer|basic|token)[ \t]{1,8})"
    r"[A-Za-z0-9._~+/=-]{1,4096}+"
)
_COOKIES = re.compile(
    r"(?i)(?:\b(?:set-?)?cookies?\\{0,4}[\"']?[ \t]{0,8}[:=]|(?<![\w-])--cookie[ \t=]"
    r"|\bcurl\b[^\n|;&]{0,300}?\s-b)[ \t]{0,8}\\{0,4}[\"']?"
    r"(?=[\w.!#$%&*+^`|~-]{1,100}=)(?>(?:[^\s\"'\\]|(?<=;)[ \t]|(?<==)\\{0,4}\"[^\s\"\\;]){1,8192})"
)
_COOKIE = re.compile(r"(?P<name>[\w.!#$%&*+^`|~-]{1,100})(?P<is>=\\{0,4}\"?)(?P<value>[^\s;\"\\]{6,4096}+)")
_COOKIE_TERMS = frozenset({"path", "domain", "expires", "max-age", "samesite", "secure", "httponly", "priority"})
# A token has a digit or is long, so that `bearer authentication` in prose stays.
_BEARER = compile_lazily(r"(?i)(\bbearer[ \t]{1,8})(?=[a-z._~+/=-]{0,200}[0-9]|\S{24})[A-Za-z0-9._~+/=-]{8,4096}+")
_ADDRESS = compile_lazily(r"(?<=://)([^\s/:@\"'<>]{0,100}:)(?!\[REDACTED_)[^\s/@\"'<>]{1,200}(?=@)")

FOREIGN = (
    r"passwort|kennwort|mot[ _-]?de[ _-]?passe|contraseñas?|senha|parola|wachtwoord|has[łl]o|şifre|пароль"
    r"|密码|密碼|口令|密钥|パスワード|暗証番号|비밀번호"
)
"""The names of passwords in other languages."""
_VALUE = (
    r"(?:(?P<quote>\\{0,4}[\"'])(?!(?P=quote))(?!\[REDACTED_)(?P<quoted>(?:[^\\\r\n]|\\.){1,512}?)(?P=quote)"
    r"|\\{0,4}[\"']?(?!\[REDACTED_)(?P<bare>[^\s\"'\\,;&<>()\[\]{}]{1,4096}+))"
)
_GIVEN = compile_lazily(
    rf"(?i)(?<!‹)(?=[paswetkomchşп密口パ暗비])(?:(?P<password>pass(?:word|wd|[_-]?phrase|code|key)s?"
    rf"(?:[_-]?(?:confirm(?:ation)?|again|repeat)|_?\d{{1,2}})?|pwd"
    rf"|(?<![a-z])(?:pw|pin_?code|t?otp_seed|mnemonic)|psk|{FOREIGN})|(?P<secret>secrets?)"
    r"|(?P<key>(?:api|access|secret|private|auth|encryption|signing)[_-]?keys?)|(?P<token>tokens?))"
    r"(?P<between>\\{0,4}[\"']?[ \t]{0,8}(?::=|=>|[:=])[ \t]{0,8}(?:[|>][+-]?(?:\r?\n|\\{1,4}n)[ ]{1,16})?)" + _VALUE
)
_FLAG = compile_lazily(
    r"(?i)(?P<between>(?<![\w-])--(?=[a-z])(?:(?P<password>[a-z-]{0,20}pass(?:word|wd|phrase)|pw)|(?P<secret>[a-z-]{0,20}secret)"
    r"|(?P<key>[a-z-]{0,20}api-?key)|(?P<token>[a-z-]{0,20}token))[ \t]{1,8})" + _VALUE
)
_WORDS = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|pin|api[ _-]?key|(?:access |auth )?token"
    r"|passwort|kennwort|geheimnis|losung|mot de passe|contraseña|senha|parola|wachtwoord|пароль)"
)
# A value in prose is quoted, follows `my`, or has a digit, a sign or a capital inside: `the password is wrong` stays.
_PROSE = compile_lazily(
    r"(?i)(?P<whose>\b(?:my|our|your|mein|unser|dein|ihr|mi|mon|il mio|minha) )?"
    rf"\b(?P<word>{_WORDS})(?: \w{{1,20}}){{0,4}}?"
    r" (?:is|was|lautet|ist|war|est|es|é|wordt|to|auf):? {1,3}"
    r"(?:(?P<quote>[\"'`“„«])(?P<quoted>[^\"'`”“»\r\n]{1,200})[\"'`”“»]"
    r"|(?P<bare>(?!\[REDACTED_)[^\s\"'`,;<>()\[\]{}]{3,200}))"
)
_PROSE_WITHOUT_SPACES = compile_lazily(
    r"(?P<between>(?:密码|密碼|口令|パスワード|暗証番号|비밀번호)[^\x00-\x7f]{0,6}?"
    r"(?:是|为|為|は|:|：|는|은) ?[\"'“「]?)"
    r"(?P<bare>[\x21-\x2b\x2d-\x3a\x3c-\x7e]{4,200})"
)
_LIKE_A_SECRET = compile_lazily(r"\d|[^\W_]_|[!#$%&*+=?@^~/\\]\w|[a-z][A-Z]")
_NUMBER = compile_lazily(r"[\d.,:%/]+")
_PREDICATE = compile_lazily(
    r"(?i)(?:wrong|right|correct|incorrect|valid|invalid|expired|required|missing|empty|weak|strong|too|not|the|an?|in|on|at"
    r"|as|set|be|been|being|stored|kept|unknown|known|secret|safe|secure|lost|same|now|also|still|hidden|old|new|changed"
    r"|long|short|needed|never|always|only|protected|encrypted|hashed|already|going|what|that|this|here|there|ready"
    r"|falsch|richtig|korrekt|ungültig|gültig|abgelaufen|nicht|zu|leer|im|bekannt|unbekannt|sicher|unsicher|noch|schon"
    r"|das|der|die|ein|eine|nötig|gespeichert|geheim|verloren|alt|neu|incorrecta|correcta|incorrect|errada)"
)
# Code and prose about secrets: a type, a constant, a variable, a placeholder.
_NO_SECRET = compile_lazily(
    r"(?i)(?:none|null|nil|true|false|undefined|str|string|bytes|int|bool|any|optional|required|secretstr|self|auto"
    r"|\*+|\.{3,}|…|\$\{?[A-Za-z_][A-Za-z0-9_]*\}?|%[A-Za-z_]+%|(?:os|process|self|settings|config|args)\.\S*|-.*)"
)
_SURE_LENGTH = 6
_PARTS = (
    *("key", "pass", "token", "secret", "pin", "pw", "otp_seed", "mnemonic", "psk", "kennwort", "geheimnis", "losung"),
    *("senha", "parola", "wachtwoord", "haslo"),
)
_FOREIGN = (
    "contraseña",
    "hasło",
    "şifre",
    "пароль",
    "密码",
    "密碼",
    "口令",
    "密钥",
    "パスワード",
    "暗証番号",
    "비밀번호",
)
"""What each name of a secret has a part of, folded: those in ASCII, and the others."""


Put = Callable[[str, str], str]
"""Returns what stands for a value, of the kind that a label names."""


def redact(text: str) -> str:
    """Replace keys, tokens and passwords by labels."""

    def put(kind: str, _: str) -> str:
        return f"[REDACTED_{kind}]"

    redacted = _redact(text, put)
    if (shown := drop_hidden(text)) == text or (without := _redact(shown, put)) == shown:
        return redacted
    return without  # a hidden character stood in a name or a value


def _redact(text: str, put: Put) -> str:
    return replace_told(replace_secrets(text, put), put)


def replace_secrets(text: str, put: Put) -> str:
    """Replace keys and tokens by their form, and passwords by their name: not those that prose tells."""
    if "PRIVATE KEY-----" in text:
        text = replace_in_steps(_PEM, lambda match: put("PRIVATE_KEY", match[0]), text)
    if "eyJ" in text:
        text = replace_in_steps(_JWT, lambda match: put("TOKEN", match[0]), text)
    text = replace_in_steps(_ISSUED, lambda match: put("API_KEY", match[0]), text)
    for pattern, mark in ((_AUTHORIZATION, "authorization"), (_BEARER, "bearer")):
        if mark in _fold(text):
            text = replace_in_steps(pattern, lambda match: match[1] + put("TOKEN", match[0][len(match[1]) :]), text)
    if "ookie" in text or "OOKIE" in text or "curl" in text:
        text = replace_in_steps(_COOKIES, lambda match: _COOKIE.sub(lambda one: _cookie(one, put), match[0]), text)
    if "://" in text:
        text = replace_in_steps(_ADDRESS, lambda match: match[1] + put("PASSWORD", match[0][len(match[1]) :]), text)
    if (":" in text or "=" in text) and _names_secret(text):
        text = replace_in_steps(_GIVEN, lambda match: _given(match, put), text)
    if "--" in text:
        text = replace_in_steps(_FLAG, lambda match: _given(match, put), text)
    return text


def replace_told(text: str, put: Put) -> str:
    """Replace the values that sentences tell."""
    if not _names_secret(text):
        return text
    text = replace_in_steps(_PROSE, lambda match: _given_in_prose(match, put), text)
    return replace_in_steps(
        _PROSE_WITHOUT_SPACES, lambda match: match["between"] + put("PASSWORD", match["bare"]), text
    )


def _names_secret(text: str) -> bool:
    """Return whether a text may name a secret. Most do not, and need no pattern without case, which are slow."""
    folded = _fold(text)
    return any(part in folded for part in _PARTS) or (not text.isascii() and any(part in folded for part in _FOREIGN))


def _fold(text: str) -> str:
    """Fold all letters that a pattern without case treats as equal. That of `İ` is two characters otherwise."""
    return text.lower() if text.isascii() else text.replace("İ", "i").replace("ı", "i").casefold()


def is_about_secrets(value: str) -> bool:
    """Return whether a value is a word about secrets (`required`) or a placeholder (`***`)."""
    return bool(_NO_SECRET.fullmatch(value) or _PREDICATE.fullmatch(value))


def _given_in_prose(match: re.Match[str], put: Put) -> str:
    """Redact a value that a sentence says, without the point that ends the sentence."""
    whole, quoted = match.group(), match["quoted"]
    value = quoted or match["bare"].rstrip(".!?:")
    is_password = match["word"].casefold().startswith(("pass", "pwd", "pin", "kenn", "contra", "mot"))
    sure = quoted or match["whose"] or _LIKE_A_SECRET.search(value)
    if not sure or is_about_secrets(value):
        return whole
    if _NUMBER.fullmatch(value) and not (is_password and value.isdecimal()):
        return whole
    start = match.start("quoted" if quoted else "bare") - match.start()
    label = "PASSWORD" if is_password else "SECRET"
    return f"{whole[:start]}{put(label, value)}{whole[start + len(value) :]}"


def _cookie(match: re.Match[str], put: Put) -> str:
    if match["name"].casefold() in _COOKIE_TERMS or match["value"].startswith(("[REDACTED_", "‹")):
        return match[0]
    return f"{match['name']}{match['is']}{put('TOKEN', match['value'])}"


def _given(match: re.Match[str], put: Put) -> str:
    """Replace a value given to a secret's name, unless it cannot be a secret."""
    whole = match.group()
    value = match["quoted"] or match["bare"]
    kind = next(name for name in ("password", "secret", "key", "token") if match[name])
    if _NO_SECRET.fullmatch(value):
        return whole
    if kind != "password" and (len(value) < _SURE_LENGTH or value.isdecimal()):
        return whole
    label = "API_KEY" if kind == "key" else kind.upper()
    start = match.start("quoted" if match["quoted"] else "bare") - match.start()
    return f"{whole[:start]}{put(label, value)}{whole[start + len(value) :]}"
