"""Tell which tools take a command line, and which commands a grant may cover. Pure.

A grant covers one simple command: the same program with the same arguments. A line that a shell could read as more than
that is allowed once and never granted.
"""

from __future__ import annotations

import json
import re
import shlex
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from zoea.text.control_characters import drop_hidden
from zoea.text.json_text import parse_object
from zoea.text.lazy_pattern import compile_lazily


def _read_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOST_CHARS = 2_000
_WORD = compile_lazily(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_RUNS = _read_words(
    "applescript bash cli cmd cmdline command commandline commands console csh eval evaluate exec execcommand execute"
    " interpreter ipython ksh osascript popen powershell pwsh repl run runcommand script scripts sh shell shellexec"
    " spawn ssh subprocess sudo tcsh terminal tmux wsl zsh"
    " ausfuhren ausfuehren calistir ejecuta ejecutar esegui eseguire executar executer fuhre jalankan kor kommando"
    " konsole spustit suorita uitvoeren uruchom utfor wykonaj"
)
"""Words of a name that say that a tool runs what it is told."""
_LINES = _read_words(
    "argv bash cmd cmdline cmds command commandline commands executable powershell pwsh script scripts sh shell"
    " subcommand befehl befehle befehlszeile comando comandos comandi commande commandes kommando kommandozeile"
    " komento komut lenh opdracht parancs perintah polecenie prikaz"
)
"""Words of an argument's name that say that it holds a command line."""
_CODES = _read_words("code expression input program snippet source src statement text")
"""Words of an argument's name that say so where the tool's name says that it runs something or is a language."""
_PROGRAMS = _read_words(
    "ansible awk aws az bun cargo cmake cron crontab curl deno docker dotnet ffmpeg gcc gcloud"
    " git gradle java javac kubectl make maven mongosh mvn mysql nix npm npx os pip pipx pnpm podman poetry psql"
    " rsync rustc sed sqlite sqlite3 systemctl tar terraform uv uvx vim wget xargs yarn"
)
"""Programs that run what they are told, or what a package or a file says."""
_USES = _read_words(
    "3 apply build call ci cli client compile compose deploy install launch playbook process publish start system"
    " target targets test tests tool up"
)
"""Words that a tool's name may hold besides a program's."""
_TYPES_KEYS = tuple(
    map(_read_words, ("send keys", "sendkeys", "keystrokes", "stdin", "pty", "tty", "jupyter", "ipynb"))
)
"""Words of a name that say together that a tool writes into a program that runs."""
_CELLS, _SOURCES = _read_words("cell cells kernel notebook"), _read_words("code source src")
"""Words of a tool's name, and of an argument's, that say together that it runs code."""
_ELSEWHERE = compile_lazily(
    "команд|выполн|запуст|скрипт|консол|терминал|εντολ|εκτελ|命令|指令|执行|執行|运行|運行|終端|终端|脚本|腳本"
    "|コマント|実行|スクリフト|シェル|ターミナル|명령|실행|스크립트|셸|쉘|터미널|تنفيذ|أمر|امر|פקודה|कमांड|आदेश",
    re.IGNORECASE,
)
"""Words for a command, a script, a terminal and to run one in other writings, as `_fold` gives them."""
_RUNS_ELSEWHERE = compile_lazily(
    r"\b(?:(?:aus)?(?:ge)?fuhr(?:en?|t)\b"
    r"|execut(?:a|er|ez|ent|e (?:une?|des?|la|les?|d[ao]s?|u[mn]a?)\b)"
    r"|ejecut|esegu|voert?\b|uit(?:ge)?voer|wykon|uruchami|spou?st|calistir"
    r"|(?:men)?jalankan|kjor|utfor|suorit|futtat|thuc thi|chay)|выполн|запус|εκτελ|执行|執行|运行|運行|実行|실행|تنفيذ",
    re.IGNORECASE,
)
_COMMANDS_ELSEWHERE = compile_lazily(
    r"\b(?:befehl|kommando|commandes?\b|comand[oi]s?\b|polecen|prikaz|komut|perintah|opdracht|komento|parancs|lenh"
    r"|[ck]od(?:e|igo|ice)?\b|s[ck]ript)|команд|скрипт|консол|терминал|код(?![^\W\d_])|εντολ|命令|指令|終端|终端|脚本|腳本|代码|代碼"
    r"|コマント|スクリフト|シェル|ターミナル|コート|명령|스크립트|셸|쉘|터미널|코드|أمر|امر",
    re.IGNORECASE,
)
"""Words to run something and for a command: a sentence in another language holds both, as `_fold` gives it."""
_SHELLS = compile_lazily(
    r"(?:\S{0,200}[/\\])?(?P<shell>(?:ba|da|fi|k|z|tc|c)?sh|cmd|powershell|pwsh)(?:\.exe)?(?P<how>\s.*)?"
    r"|(?:\S{0,200}[/\\])?(?:node|perl|php|python|ruby)[\d.]* -\w*[cer].{0,200}",
    re.IGNORECASE | re.DOTALL,
)
"""Values of a choice that run what another argument holds: `sh -c`."""
_SYNTAX = _read_words("filetype format highlight highlighter lang language mime syntax type")
"""Words of a choice's name in which `bash` is how a text is written."""
_LOOKALIKES = str.maketrans("авеікмнорстухѕһјӏԁԛԝ", "abeikmhopctyxshjldqw")
"""Cyrillic letters that look like Latin ones."""
_MIXED = compile_lazily(r"[a-z][\u0370-\u058f\u13a0-\u13ff]|[\u0370-\u058f\u13a0-\u13ff][a-z]", re.IGNORECASE)
"""Latin letters beside those of Greek, Cyrillic, Armenian or Cherokee in one word, which no language writes."""
_LANGUAGES = _read_words("javascript js lua node perl php py python ruby")
"""Names of tools or arguments that say so alone or with a word of `_CODES`."""
_ARGUMENTS = frozenset({"args", "arguments"})
"""Arguments that say so where they are a text or a list: a program's own."""
_SAYS_SO = compile_lazily(
    r"\b(?:command[ -]lines?"
    r"|(?:bash|cmd|powershell|shell|terminal) (?:code|commands?|input|lines?|scripts?|snippets?|to (?:run|execute)))\b"
    r"|\b(?:any|arbitrary|host|os|shell|system|terminal)"
    r" (?:code|commands?|executables?|process(?:es)?|programs?|scripts?)\b"
    r"|\b(?:execut\w*|evaluat\w*|runs?) (?:[\w-]+ ){0,3}(?:code|commands?|scripts?|snippets?)\b"
    r"|\b(?:code|commands?|process(?:es)?|programs?|scripts?)"
    r" on (?:a|the|this|your) (?:computer|host|machine|server|system)\b"
    r"|befehlszeile|kommandozeile|ligne de commande|linea de comandos|linha de comando|riga di comando"
    r"|(?:commande|comando) shell|командн.. строк|命令行|命令列|コマントライン|명령줄|명령행"
    r"|shell[ -]?(?:befehl|kommando|命令|コマント|명령)",
    re.IGNORECASE,
)
_KEYS = frozenset({"argv", "bashcommand", "cmd", "cmdline", "command", "commandline", "script", "shellcommand"})
"""Arguments with the command line of a call, without case and signs."""
_MANNERS = _read_words(
    "background is_background run_in_background timeout timeout_ms yield_time_ms max_output_tokens tty login"
)
"""Numbers and switches that change nothing of what a command may do. Others may open its sandbox."""
_PLAIN = compile_lazily(r"[\w \t'\"@%+=:,./-]*")
"""Characters that neither a shell of Unix nor one of Windows reads as more than an argument."""
_ASSIGNMENT = compile_lazily(r"\w+\+?=")
_VARIABLE = compile_lazily(r"%\w+(:[^%]*)?%")
_WRAPPERS = _read_words(
    "ash at bash batch builtin busybox bwrap call case chroot chrt cmd command coproc csh dash do doas docker"
    " else entr env eval exec expect fakeroot find firejail fish flock for function gdb if ionice kubectl ksh"
    " ltrace nice nohup npx nsenter numactl parallel pkexec podman powershell proot pwsh repeat runuser script"
    " select setarch setpriv setsid sh socat source ssh start stdbuf strace su sudo systemd-run taskset tcsh then"
    " time timeout tmux toybox trap unbuffer unshare until uvx watch while wsl xargs zsh . ! [[ {"
)
"""Programs that run another one, which their arguments name, and words of a shell."""
_INTERPRETERS = _read_words("node perl php python ruby")
"""Programs that run a text, unless their first argument is a file or a module."""


def takes_command(name: str, description: str, schema: Mapping[str, Any]) -> bool:
    """Return whether a tool takes a command line, a script or code. Name, description and arguments tell."""
    words = _split_words(name)
    runs = bool(words & _RUNS or (words and words <= _LANGUAGES) or _ELSEWHERE.search(_fold(name)) or _is_mixed(name))
    runs = runs or bool(words & _PROGRAMS and words <= _PROGRAMS | _USES) or any(keys <= words for keys in _TYPES_KEYS)
    codes = _CODES if runs or words & _LANGUAGES else _SOURCES if words & _CELLS else frozenset()
    arguments = list(_iterate_arguments(schema))
    arguments += [(title, kind) for _, kind in arguments if isinstance(title := kind.get("title"), str)]
    texts = [argument for argument, kind in arguments if _may_be_text(kind)]
    if any(_split_words(argument) & (_LINES | codes) or _names_language(argument) for argument in texts):
        return True
    if any(_ELSEWHERE.search(_fold(argument)) or _is_mixed(argument) for argument in texts):
        return True
    if texts and any(_chooses_shell(argument, kind) for argument, kind in arguments):
        return True
    if any(argument in _ARGUMENTS and _may_be_text(kind, ("string", "array")) for argument, kind in arguments):
        return True
    names = (description, *(str(kind.get("description", "")) for _, kind in arguments))
    return bool(texts or not arguments) and (runs or any(map(_says_so, names)))


def names_command(argument: str) -> bool:
    """Return whether an argument of this name holds the command line of a call."""
    return re.sub(r"[^a-z]", "", argument.lower()) in _KEYS


def find_grant_scope(arguments: str) -> str:
    """Return the simple command and further arguments of a call, or an empty text.

    Another name of the command's argument, or a list in it, is part of the scope: a server may treat it differently.
    """
    values = parse_object(arguments)
    if values is None:
        return ""
    keys = [key for key in values if names_command(key)]
    if len(keys) != 1:
        return ""
    line = values.pop(keys[0])
    command = parse_simple_command(line)
    if not command:
        return ""
    if keys[0] != "command" or isinstance(line, list):
        values[keys[0]] = "the words of the command" if isinstance(line, list) else "the command"
    line = shlex.join(command)
    more = json.dumps(values, ensure_ascii=True, sort_keys=True) if values else ""
    scope = f"{line} with {more}" if more else line
    return scope if len(scope) <= MOST_CHARS else ""


def covers_call(arguments: str, commands: Sequence[str], paths: Sequence[str], *, takes_command: bool) -> bool:
    """Return whether patterns of a template cover a call: its command, else the file that it writes.

    Args:
        commands: Patterns such as `pytest *`.
        paths: Globs of relative paths, in which a star stands for any characters.
    """
    values = parse_object(arguments)
    if values is None:
        return False
    if takes_command:
        line = values.pop("command", None)
        has_more = not all(isinstance(value, bool | int) for value in values.values())
        has_more = has_more or not values.keys() <= _MANNERS
        return not has_more and any(matches_command(pattern, line) for pattern in commands)
    path = values.get("path")
    if not isinstance(path, str) or not path.isprintable() or path.startswith("/") or ".." in path.split("/"):
        return False
    return any(fnmatchcase(path.removeprefix("./"), glob) for glob in paths)


def matches_command(pattern: str, line: Any) -> bool:
    """Return whether a line is one simple command that fits a pattern like `pytest *`.

    Each word of the pattern is a glob for one word, a star at its end stands for all further ones; the program is
    named exactly. A glob with a folder fits no path that leads out of it by `..`.
    """
    try:
        program, *globs = shlex.split(pattern)
    except ValueError:
        return False
    words = parse_simple_command(line)
    if not words or words[0] != program:
        return False
    has_rest = globs[-1:] == ["*"]
    globs = globs[: len(globs) - has_rest]
    rest = words[1:]
    if len(rest) < len(globs) or (len(rest) > len(globs) and not has_rest):
        return False
    return all(
        fnmatchcase(word, glob) and (word == glob or "/" not in glob or ".." not in re.split("[/=]", word))
        for word, glob in zip(rest, globs, strict=False)
    )


def parse_simple_command(line: Any) -> tuple[str, ...]:
    """Return program and arguments of a command that runs one program only. Empty where it may run more."""
    words = line if isinstance(line, list) else [line]
    if not all(isinstance(word, str) and word.isascii() and _PLAIN.fullmatch(word) for word in words):
        return ()
    if any(_VARIABLE.search(word) for word in words):
        return ()
    try:
        found = tuple(line if isinstance(line, list) else shlex.split(line))
    except ValueError:  # a quote without its end
        return ()
    if not found or not found[0] or _ASSIGNMENT.match(found[0]) or found[0].startswith("-"):
        return ()
    program = re.sub(r"(?:\.exe|[0-9.]+)$", "", found[0].rpartition("/")[2].lower()) or found[0]
    if program in _INTERPRETERS and (len(found) < 2 or (found[1].startswith("-") and found[1] != "-m")):
        return ()
    return () if program in _WRAPPERS else found


def _split_words(name: str) -> set[str]:
    return {word.lower().translate(_LOOKALIKES) for word in _WORD.findall(_fold(name))}


def _is_mixed(name: str) -> bool:
    return not name.isascii() and _MIXED.search(_fold(name)) is not None


def _says_so(text: str) -> bool:
    """Return whether a description says that a tool runs commands or code."""
    text = _fold(text)
    if _SAYS_SO.search(text) or (_RUNS_ELSEWHERE.search(text) and _COMMANDS_ELSEWHERE.search(text)):
        return True
    return not text.isascii() and _SAYS_SO.search(text.lower().translate(_LOOKALIKES)) is not None


def _chooses_shell(argument: str, kind: Mapping[str, Any]) -> bool:
    """Return whether a choice holds a shell, or a language run from an argument."""
    values = kind.get("enum")
    options = [
        match
        for value in (*(values if isinstance(values, list) else ()), kind.get("const"))
        if isinstance(value, str) and (match := _SHELLS.fullmatch(value.strip()))
    ]
    return any(match["how"] or not match["shell"] for match in options) or bool(
        options and not _split_words(argument) & _SYNTAX
    )


def _fold(text: str) -> str:
    """Return a text without accents and hidden characters, in plain forms of its characters."""
    if text.isascii():
        return text
    whole = unicodedata.normalize("NFKD", drop_hidden(text))
    return unicodedata.normalize("NFC", "".join(sign for sign in whole if not unicodedata.combining(sign)))


def _names_language(argument: str) -> bool:
    words = _split_words(argument)
    return bool(words & _LANGUAGES) and words <= _LANGUAGES | _CODES


def _may_be_text(kind: Mapping[str, Any], texts: Sequence[str] = ("string", "array", "object")) -> bool:
    """Return whether an argument may hold any text. A choice, a number or a switch does not."""
    if "enum" in kind or "const" in kind:
        return False
    types = kind.get("type")
    named = {types} if isinstance(types, str) else {*types} if isinstance(types, list) else set()
    return not named or bool(named.intersection(texts))


def _iterate_arguments(schema: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each argument of a schema, also inner ones, with its schema."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            properties = node.get("properties")
            if isinstance(properties, Mapping):
                for name, kind in properties.items():
                    if kind is not False:  # the schema `true` takes anything, `false` nothing
                        yield str(name), kind if isinstance(kind, Mapping) else {}
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
