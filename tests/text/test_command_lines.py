"""Tools that take a command line are known by name and schema.

A grant covers a simple command and no other line.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.case_tables import walk_cases
from zoea.text.command_lines import (
    covers_call,
    find_grant_scope,
    matches_command,
    parse_simple_command,
    takes_command,
)

TEXT = {"type": "string"}


def schema(**arguments: Any) -> dict[str, Any]:
    return {"type": "object", "properties": arguments}


TAKES = [
    ("run", schema(command=TEXT)),
    ("do_it", schema(command=TEXT)),
    ("do_it", schema(cmd=TEXT)),
    ("do_it", schema(cmdline=TEXT)),
    ("do_it", schema(command_line=TEXT)),
    ("do_it", schema(commandLine={"type": ["string", "null"]})),
    ("do_it", schema(shell_command={"anyOf": [TEXT, {"type": "null"}]})),
    ("do_it", schema(script={})),
    ("do_it", schema(argv={"type": "array", "items": TEXT})),
    ("do_it", schema(steps={"type": "array", "items": schema(command=TEXT)})),
    ("do_it", {"$defs": {"step": schema(bash=TEXT)}, **schema(step={"$ref": "#/$defs/step"})}),
    ("shell", schema(text=TEXT)),
    ("bash", schema(input=TEXT)),
    ("RunTerminalCommand", schema(x=TEXT)),
    ("execute_python", schema(code=TEXT)),
    ("browser_evaluate", schema(function=TEXT)),
    ("run-tests", schema()),
    ("exec", {}),
    ("do_it", schema(command=True)),
    ("do_it", schema(cmds={"type": "array"})),
    ("do_it", schema(python_code=TEXT)),
    ("kubectl", schema(args=TEXT)),
    ("git", schema(arguments={"type": "array", "items": TEXT})),
    ("process_start", schema(program=TEXT, arguments={"type": "array"})),
    ("python", schema(anything=TEXT)),
    ("py", schema(src=TEXT)),
    ("python_code", schema(code=TEXT)),
    ("javascript_tool", schema(text=TEXT)),
    ("node", schema(code=TEXT)),
    ("SHELLEXEC", schema(x=TEXT)),
    ("runcommand", schema(x=TEXT)),
    ("ssh", schema(host=TEXT, line=TEXT)),
    ("tmux", schema(pane=TEXT, text=TEXT)),
    ("osascript", schema(x=TEXT)),
    ("\uff33\uff28\uff25\uff2c\uff2c", schema(x=TEXT)),
    ("do_it", schema(cmｄ=TEXT)),
    ("do_it", schema(text={"type": "string", "description": "The shell command to carry out."})),
    ("do_it", schema(text={"type": "string", "description": "The bash line that is carried out."})),
    ("do_it", schema(text={"type": "string", "title": "PowerShell"})),
    ("do_it", schema(text={"type": "object", "properties": {"x": {"type": "string", "title": "Command to run"}}})),
    *((name, schema(x=TEXT)) for name in ("psql", "make", "npm", "npm_install", "call_git", "kubectl", "os_system")),
    ("launch", schema(executable=TEXT, parameters={"type": "array"})),
    *((name, schema(x=TEXT)) for name in ("Ausf\u00fchren", "befehl_ausf\u00fchren", "ejecutar", "ex\u00e9cuter")),
    *(
        (name, schema(x=TEXT))
        for name in (
            "\u6267\u884c",
            "\u5b9f\u884c\u3059\u308b",
            "\uc2e4\ud589",
            "\u0432\u044b\u043f\u043e\u043b\u043d\u0438\u0442\u044c",
        )
    ),
    *(("do_it", schema(**{name: TEXT})) for name in ("befehl", "comando", "ligne_de_commande", "komut", "opdracht")),
    *(
        ("do_it", schema(**{name: TEXT}))
        for name in (
            "\u547d\u4ee4",
            "\u30b3\u30de\u30f3\u30c9",
            "\uba85\ub839",
            "\u043a\u043e\u043c\u0430\u043d\u0434\u0430",
        )
    ),
]
TAKES += [
    *((name, schema(keys=TEXT)) for name in ("send_keys", "SendKeys", "sendkeys")),
    *((name, schema(data=TEXT)) for name in ("write_stdin", "pty_write", "jupyter_put")),
    ("notebook_cell", schema(source=TEXT)),
    ("add_cell", schema(code=TEXT)),
    *((name, schema(x=TEXT)) for name in ("make_target", "npm_test", "cargo_build", "docker_compose_up")),
    ("do_it", schema(how={"enum": ["sh -c", "cat"]}, body=TEXT)),
    ("do_it", schema(how={"const": "/usr/bin/python3.11 -c"}, body=TEXT)),
    ("do_it", schema(how={"enum": ["bash", "zsh"]}, body=TEXT)),
    ("do_it", schema(language={"enum": ["python -c", "node -e"]}, body=TEXT)),
    ("\u0455hell", schema(x=TEXT)),  # Cyrillic letters, in these three
    ("\u0435\u0445\u0435\u0441", schema(x=TEXT)),
    ("do_it", schema(сmd=TEXT)),
    ("t\u03bfol", schema(x=TEXT)),  # a Greek letter
    ("sh\u200bell", schema(x=TEXT)),
    ("\u0412\u044b\u043f\u043e\u043b\u043d\u0438\u0442\u044c", schema(x=TEXT)),
]
TAKES_NOT = [
    ("read_file", schema(path=TEXT)),
    ("read_file", schema(path={"type": "string", "title": "Path", "description": "A shell of the sea."})),
    ("fly", schema(x={"enum": ["dock"], "title": "Command"})),
    ("get_system", schema(system_id=TEXT)),
    ("search_code", schema(query=TEXT)),
    ("set_country", schema(code=TEXT)),
    ("describe", schema(description=TEXT, manuscript=TEXT)),
    ("fly", schema(command={"enum": ["dock", "undock"]})),
    ("fly", schema(command={"const": "dock"})),
    ("list_recommended", schema(commanded_by={"type": "integer"})),
    ("truncate", schema(length={"type": "integer"})),
    ("list_runs", schema(script={"type": "boolean"})),
    ("read_file", schema(command=False)),
    ("工具", {"type": "object", "properties": {}}),  # a name without a Latin word
    ("call_tool", schema(name=TEXT, arguments={"type": "object"})),
    ("update_node", schema(node_id=TEXT, label=TEXT)),
    ("search_python_docs", schema(query=TEXT)),
    ("format", schema(python_version=TEXT)),
    ("write_note", schema(text=TEXT, source=TEXT)),
    *(
        (name, schema(x=TEXT))
        for name in ("git_status", "git_add", "make_offer", "go", "system", "call_tool", "aws_docs")
    ),
    *((name, schema(text=TEXT)) for name in ("send_message", "key_press", "read_notebook", "make_friend")),
    ("format", schema(language={"enum": ["bash", "python"]}, snippet=TEXT)),
    ("fly", schema(how={"enum": ["dock", "crash"]}, body=TEXT)),
    ("fly", schema(how={"enum": ["sh -c"]})),
    ("reisen", schema(ziel=TEXT)),
    ("\u043a\u0430\u0440\u0442\u0430", schema(где=TEXT)),
    ("\u79fb\u52d5", schema(x=TEXT)),
]


@walk_cases(("name", "arguments"), TAKES)
def test_a_tool_that_takes_a_command_line_is_known(name: str, arguments: dict[str, Any]) -> None:
    assert takes_command(name, "Does it.", arguments)


@walk_cases(("name", "arguments"), TAKES_NOT)
def test_other_tools_take_none(name: str, arguments: dict[str, Any]) -> None:
    assert not takes_command(name, "Does it.", arguments)


def test_a_description_that_says_so_counts() -> None:
    assert takes_command("do_it", "Runs any shell command on the machine.", schema(text=TEXT))
    assert takes_command("do_it", "Executes arbitrary code.", schema(text=TEXT))
    assert takes_command("do_it", "Runs a program on the host.", schema(text=TEXT))
    assert takes_command("do_it", "Ex\u00e9cute une ligne de commande.", schema(text=TEXT))
    assert takes_command("do_it", "Runs any \u0455hell command.", schema(text=TEXT))
    assert not takes_command("do_it", "Shows the shell of the turtle.", schema(text=TEXT))
    assert not takes_command("do_it", "Sells goods in any system.", schema(text=TEXT))


SAID = [
    "Executes Python code.",
    "Run the given script.",
    "Führt einen Befehl aus.",
    "Damit werden Befehle auf dem Rechner ausgeführt.",
    "Exécute une commande.",
    "Ejecuta un comando en el servidor.",
    "Executa código Python.",
    "Esegue uno script.",
    "Voert een opdracht uit.",
    "Wykonuje polecenie.",
    "Spouští příkaz.",
    "Komut çalıştırır.",
    "Menjalankan perintah.",
    "Thực thi lệnh.",
    "Выполняет команду.",
    "Запускает скрипт на сервере.",
    "Εκτελεί μια εντολή.",
    "在服务器上执行命令。",
    "コマンドを実行します。",
    "명령을 실행합니다.",
]
SAID_NOT = [
    "Führt durch die Ausstellung.",
    "Crée une commande pour un client.",
    "Ejecuta una búsqueda.",
    "Показывает команду игрока.",
    "Выполняет поиск.",
    "执行查询。",
    "検索を実行します。",
    "Executes a trade at the market, and returns its code.",
    "Lists what is executed, with the code of each script.",
    "Sends the order code to the captain.",
]


@walk_cases(("text", "says_so"), [*((text, True) for text in SAID), *((text, False) for text in SAID_NOT)])
def test_a_description_counts_in_any_of_many_languages(text: str, says_so: bool) -> None:
    assert takes_command("do_it", text, schema(text=TEXT)) is says_so
    assert takes_command("do_it", "", schema(text={**TEXT, "description": text})) is says_so


SIMPLE = {
    "pytest": ("pytest",),
    "pytest -q tests/test_x.py": ("pytest", "-q", "tests/test_x.py"),
    "  git   push origin main ": ("git", "push", "origin", "main"),
    "git commit -m 'a message'": ("git", "commit", "-m", "a message"),
    'git commit -m "a message"': ("git", "commit", "-m", "a message"),
    "make -j2 VERBOSE=1": ("make", "-j2", "VERBOSE=1"),
    "./gradlew test": ("./gradlew", "test"),
    "python3.11 -m pytest": ("python3.11", "-m", "pytest"),
    "python test.py -c x": ("python", "test.py", "-c", "x"),
    "date +%Y-%m-%d": ("date", "+%Y-%m-%d"),
}
HOSTILE = [
    "echo %PATH:a=b%", "repeat 3 rm x",
    "", "   ", "ls; rm -f x", "ls;rm", "ls && rm x", "ls&&rm x", "ls || rm x", "ls | sh", "ls|sh", "ls & rm x",
    "ls &", "ls > x", "ls >> x", "ls < x", "ls 2>&1", "ls &> x", "cat << END", "cat <<< x", "ls\nrm x", "ls\r\nrm x",
    "ls\rrm x", "ls\x0brm", "ls\x0crm x", "ls\x00rm x", "ls \u2028 rm x", "ls\u2029rm x", "ls\x85rm x", "ls\xa0rm",
    "ls \u202e x", "ls \x9d hidden \x9c", "echo $(rm x)", "echo `rm x`", "echo ${x}", "echo $x", "echo $((1))",
    'echo "$(rm x)"', 'echo "`rm x`"', "echo '$(rm x)'", "diff <(ls) x", "tee >(sh)", "(rm x)", "{ rm x; }", "! rm x",
    "[[ -f x ]] && rm", "if true; then rm x; fi", "for x in *; do rm x; done", "while true; do rm x; done",
    "f() { rm x; }", "rm *", "rm ?", "rm [ab]", "rm {a,b}", "rm ~/x", "ls \\; rm x", "ls \\\n rm x", "echo a # b",
    "echo !!", "echo !$", "^a^b", "ls 'a", 'ls "a', "LD_PRELOAD=/x.so ls", "A=1 B=2 ls", "A+=1 ls", "PATH=. ls",
    "-c ls", "sh -c ls", "bash -c 'rm x'", "/bin/sh -c ls", "../bin/bash x.sh", "dash -c ls", "zsh -c ls",
    "fish -c ls", "ksh x", "csh x", "busybox sh", "env ls", "env A=1 ls", "/usr/bin/env ls", "ENV ls", "xargs rm",
    "sudo rm x", "doas rm x", "su root", "nohup rm x", "timeout 5 rm x", "time rm x", "nice rm x", "ionice rm x",
    "setsid rm x", "stdbuf -o0 rm x", "watch rm x", "exec rm x", "eval rm x", "source x.sh", ". x.sh", "command rm x",
    "builtin cd", "chroot / rm x", "unshare rm x", "flock x rm x", "parallel rm x", "find -delete", "ssh host rm x",
    "docker run x", "podman run x", "kubectl exec x", "tmux new rm", "strace rm x", "python -c 'print(1)'",
    "python3 -cprint", "python", "python3.11 -", "perl -e 1", "ruby -e 1", "node -e 1", "php -r 1", "npx rm",
    "cmd /c dir", "cmd.exe /c dir", "C:/Windows/cmd.exe /c dir", "CMD.EXE /c dir", "powershell ls",
    "pwsh -Command ls", "wsl ls", "start x", "call x.bat", "echo %PATH%", "dir ^& del x", "trap rm EXIT",
    "coproc rm x", "script -c ls", "expect x", "socat x y", "at now", "systemd-run ls", "taskset 1 ls", "bwrap ls",
]  # fmt: skip


@walk_cases(("line", "words"), SIMPLE.items())
def test_a_simple_command_is_parsed(line: str, words: tuple[str, ...]) -> None:
    assert parse_simple_command(line) == words
    assert parse_simple_command(list(words)) == words


@walk_cases("line", HOSTILE)
def test_a_line_that_may_be_more_than_one_command_is_none(line: str) -> None:
    assert parse_simple_command(line) == ()
    assert find_grant_scope(json.dumps({"command": line})) == ""


@walk_cases("words", [[], [""], ["sh", "-c", "ls"], ["ls", "a\nb"], ["ls", "$(x)"], ["ls", 3], [["ls"]], 3])
def test_a_list_of_words_is_judged_like_a_line(words: Any) -> None:
    assert parse_simple_command(words) == ()


@given(st.text(st.sampled_from(list("ab '\"\\;&|<>(){}$`*?[]~#^!%\n\r\t\x00=-./"))))
def test_what_is_granted_has_no_sign_that_a_shell_acts_on(line: str) -> None:
    if parse_simple_command(line):
        assert not set(line) & set(";&|<>(){}$`*?[]~#^!\\\n\r\x00")


def test_the_scope_of_a_grant_is_the_command_with_all_other_arguments() -> None:
    one = find_grant_scope('{"command": "pytest  -q", "cwd": "/a", "timeout": 3}')
    assert one == 'pytest -q with {"cwd": "/a", "timeout": 3}'
    assert find_grant_scope('{"timeout": 3, "cwd": "/a", "command": "\'pytest\' -q"}') == one
    assert find_grant_scope('{"command": "pytest -q", "cwd": "/b", "timeout": 3}') != one
    assert find_grant_scope('{"command": "pytest -q"}') == "pytest -q"
    scopes = {find_grant_scope(json.dumps({key: "pytest -q"})) for key in ("command", "cmd", "script", "shellCommand")}
    scopes |= {find_grant_scope(json.dumps({key: ["pytest", "-q"]})) for key in ("command", "argv")}
    assert len(scopes) == 6
    assert find_grant_scope('{"cmd": "pytest"}') == 'pytest with {"cmd": "the command"}'


@walk_cases(
    "arguments",
    [
        "", "[]", "3", "{", "[" * 9000, "{}", '{"text": "ls"}', '{"command": "ls", "cmd": "rm x"}', '{"command": null}',
        '{"steps": [{"command": "ls"}]}', '{"command": {"line": "ls"}}', '{"code": "print(1)"}',
        json.dumps({"command": "ls " + "a" * 3000}),
    ],
)  # fmt: skip
def test_a_call_without_one_simple_command_has_no_scope(arguments: str) -> None:
    assert find_grant_scope(arguments) == ""


MATCHES = [
    ("pytest *", "pytest", True),
    ("pytest *", "pytest -q tests/test_x.py", True),
    ("pytest", "pytest -q", False),
    ("pytest -q", "pytest -q", True),
    ("pytest -q", "pytest", False),
    ("pytest tests/*", "pytest tests/test_x.py", True),
    ("pytest tests/*", "pytest /etc/x", False),
    ("pytest tests/*", "pytest tests/../../etc/x", False),
    ("pytest tests/*", "pytest tests/..", False),
    ("pytest tests/*", ["pytest", "tests/a/../../../x"], False),
    ("pytest tests/*", "pytest tests/a..b", True),
    ("pytest ../tests", "pytest ../tests", True),
    ("make --directory=build/*", "make --directory=build/../x", False),
    ("make *=build/*", "make O=../build/x", False),
    ("pytest *", "pytest ../x", True),
    ("pytest tests/* *", "pytest tests/a tests/b -x", True),
    ("pytest * -x", "pytest a -x", True),
    ("pytest * -x", "pytest a b", False),
    ("pytest *", "./pytest", False),
    ("pytest *", "/tmp/pytest", False),
    ("pytest *", "pytest-watch x", False),
    ("pytest *", "PYTEST x", False),
    ("pytest *", ["pytest", "-q"], True),
    ("git commit -m *", "git commit -m 'a message'", True),
    ("git status", "git push", False),
    ("*", "rm x", False),
    ("* *", "rm x", False),
    ("", "rm x", False),
    ("'", "rm x", False),
    ("pytest *", None, False),
    ("sh *", "sh -c ls", False),
    ("env *", "env rm x", False),
]


@walk_cases(("pattern", "line", "fits"), MATCHES)
def test_a_pattern_matches_the_words_of_a_simple_command(pattern: str, line: Any, fits: bool) -> None:
    assert matches_command(pattern, line) is fits


@walk_cases("line", HOSTILE)
def test_no_pattern_matches_a_line_that_may_be_more_than_one_command(line: str) -> None:
    for pattern in ("ls *", "echo *", "rm *", f"{line.split()[0]} *" if line.split() else "*"):
        assert not matches_command(pattern, line)
        assert not covers_call(json.dumps({"command": line}), (pattern,), ("*",), takes_command=True)


COVERS = [
    ('{"command": "pytest -q"}', True, True),
    ('{"command": "pytest -q", "timeout": 60, "background": true}', True, True),
    ('{"command": "pytest -q", "dangerouslyDisableSandbox": true}', True, False),
    ('{"command": "pytest -q", "with_escalated_permissions": true, "timeout_ms": 9}', True, False),
    ('{"command": "pytest -q", "user": 0}', True, False),
    ('{"command": "pytest -q", "cwd": "/"}', True, False),
    ('{"command": "pytest -q", "env": {"A": "b"}}', True, False),
    ('{"command": "pytest; rm x"}', True, False),
    ('{"cmd": "pytest"}', True, False),
    ('{"path": "src/a.py"}', True, False),
    ("[]", True, False),
    ("{", True, False),
    ('{"path": "src/a.py", "content": "x"}', False, True),
    ('{"path": "./src/deep/a.py"}', False, True),
    ('{"path": "src/../etc/a.py"}', False, False),
    ('{"path": "/src/a.py"}', False, False),
    ('{"path": "src/a.py\\n"}', False, False),
    ('{"path": "src/a.sh"}', False, False),
    ('{"path": ["src/a.py"]}', False, False),
    ('{"command": "pytest"}', False, False),
]


@walk_cases(("arguments", "is_command", "covers"), COVERS)
def test_a_call_is_covered_by_its_command_or_the_file_that_it_writes(
    arguments: str, is_command: bool, covers: bool
) -> None:
    assert covers_call(arguments, ("pytest *",), ("src/*.py",), takes_command=is_command) is covers
