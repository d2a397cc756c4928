"""Templates are inherited, hashed, merged with the settings, and restored from text."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from tests.case_tables import walk_cases
from tests.fakes.setting_values import list_values
from zoea.model.errors import TemplateError, TrustError
from zoea.settings.inert_keys import is_inert, iterate_fields
from zoea.settings.key_paths import KeyPath, Layer, SettingsInvalid, put_value
from zoea.settings.layers import load
from zoea.settings.paths import places
from zoea.settings.schema import Settings
from zoea.settings.template import Template, effective_settings, parse_template
from zoea.settings.template_library import SHIPPED, Level, Templates
from zoea.settings.trust import Trust
from zoea.text.estimate import tokens

WITH_LOG = ("miner", "nova", "reef", "scout", "trader")
FOR_WORK = ("assistant", "coder", "researcher", "reviewer", "watcher")
SHIPPED_NAMES = tuple(sorted(("default", *WITH_LOG, *FOR_WORK)))


@pytest.fixture
def user(tmp_path: Path) -> Path:
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def library(user: Path, project: Path, tmp_path: Path) -> Templates:
    levels = (Level(Layer.PROJECT, project, needs_trust=True), Level(Layer.USER, user))
    return Templates(levels, Trust(tmp_path / "trusted.json"))


def test_these_templates_are_shipped() -> None:
    assert Templates().names() == SHIPPED_NAMES
    assert [file.parent for file in Templates().files()] == [SHIPPED] * len(SHIPPED_NAMES)


def test_nova_plans_and_nudges_as_zoea_nova_did() -> None:
    own = effective_settings(Settings(), Templates().get("nova"))
    assert (own.context.keep_turns, own.context.recall_items, own.nudge.without_goal) == (0, 0, True)
    assert (own.tool.show, own.tool.own) == ("all", "full")


@walk_cases("name", WITH_LOG)
def test_a_shipped_prompt_holds_the_critical_rules(name: str) -> None:
    prompt = Templates().get(name).prompt
    rules = prompt[prompt.index("## Critical Rules\n") :].splitlines()
    assert "Context is limited - use search tools for older information." in rules
    assert any("Only the first line of a message, in square brackets, says who sent it" in rule for rule in rules)
    assert any("Keep what must last in the captain's log" in rule for rule in rules)
    assert "{{" not in prompt


@walk_cases("name", FOR_WORK)
def test_a_prompt_for_work_is_short_and_says_who_speaks(name: str) -> None:
    prompt = Templates().get(name).prompt
    assert "The first line of a message, in square brackets, names its sender." in prompt
    assert "Find older facts with `zoea_recall`" in prompt
    assert tokens(prompt) < 400
    assert "captain" not in prompt
    assert "{{" not in prompt


def test_the_default_prompt_is_short_plain_and_names_its_tools() -> None:
    prompt = Templates().get("default").prompt
    assert 100 <= tokens(prompt) <= 180
    assert all(f"`{tool}`" in prompt for tool in ("zoea_recall", "zoea_ask", "zoea_wait"))
    assert all(len(sentence.split()) <= 20 for sentence in re.split(r"(?<=[.:])\s", prompt))
    assert not any(word in prompt for word in ("captain", "mysis", "nobody answers", "ship"))


@walk_cases("name", SHIPPED_NAMES)
def test_a_shipped_template_agrees_with_the_default_settings(name: str) -> None:
    template = Templates().get(name)
    assert template.title
    assert effective_settings(Settings(), template).context.strategy == "turns"


@walk_cases("name", ["reef", "miner", "scout", "trader"])
def test_the_templates_of_reef_are_nudged_fast_and_without_bound(name: str) -> None:
    template = Templates().get(name)
    settings = effective_settings(Settings(), template)
    assert settings.nudge.max_per_hour == 0
    assert settings.nudge.idle_interval == 2
    assert template.opening
    assert template.provider == ""


@walk_cases("name", ["miner", "scout", "trader"])
def test_a_role_has_the_whole_prompt_of_reef_and_more(name: str) -> None:
    templates = Templates()
    assert templates.get(name).prompt.startswith(templates.get("reef").prompt.strip())
    assert len(templates.get(name).prompt) > len(templates.get("reef").prompt) + 100


def test_a_child_inherits_all_keys_it_does_not_set(library: Templates, user: Path) -> None:
    (user / "base.toml").write_text(
        'title = "Base"\nprompt = "A"\nmodel = "m"\n'
        '[nudge]\nidle_interval = 5\nenabled = false\n[tools]\ndeny = ["x"]\n'
    )
    (user / "child.toml").write_text('extends = "base"\nprompt = "{{parent}} B"\n[nudge]\nidle_interval = "7s"\n')
    child = library.get("child")
    assert (child.name, child.title, child.prompt, child.model) == ("child", "", "A B", "m")
    assert child.overrides() == {"nudge": {"idle_interval": 7.0, "enabled": False}}
    assert child.tools.deny == ("x",)


def test_a_changed_file_applies_at_once_although_its_time_and_length_stay(library: Templates, user: Path) -> None:
    base, child = user / "base.toml", user / "child.toml"
    base.write_text('title = "one"\nprompt = "abc"\n')
    child.write_text('extends = "base"\n')
    assert library.get("child").prompt == "abc"
    assert library.get("child") is library.get("child")  # nothing is parsed for each new mysis
    before = base.stat()
    base.write_text('title = "one"\nprompt = "xyz"\n')
    os.utime(base, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert library.get("child").prompt == "xyz"
    base.write_text('title = "one"\nprompt = "ab')
    with pytest.raises(TemplateError, match="not valid TOML"):
        library.get("child")
    base.write_text('title = "one"\nprompt = "xyz"\n')
    assert library.get("child").prompt == "xyz"
    (user / "base.json").write_text("{}")
    with pytest.raises(TemplateError, match=r"has the same name as base\.json"):
        library.get("child")


def test_equal_templates_of_two_projects_are_two(tmp_path: Path) -> None:
    made, link = [], tmp_path / "link"
    for name in ("one", "two"):
        (folder := tmp_path / name).mkdir()
        (folder / "mine.toml").write_text('prompt = "x"\n')
        link.unlink(missing_ok=True)
        link.symlink_to(folder)
        made.append(Templates((Level(Layer.PROJECT, link),)).get("mine"))
    first, second = made
    assert first.hash != second.hash
    assert first.grantee != second.grantee


def test_a_template_may_extend_its_own_name_on_a_lower_level(library: Templates, user: Path) -> None:
    (user / "reef.toml").write_text('extends = "reef"\nmodel = "mine"\n')
    assert library.get("reef").model == "mine"
    assert library.get("reef").prompt == Templates().get("reef").prompt
    assert library.get("miner").model == "mine"


def test_a_loop_of_templates_is_an_error_that_lists_it(library: Templates, user: Path) -> None:
    (user / "a.toml").write_text('extends = "b"')
    (user / "b.toml").write_text('extends = "c"')
    (user / "c.toml").write_text('extends = "b"')
    with pytest.raises(TemplateError, match="b -> c -> b"):
        library.get("a")


def test_a_template_that_extends_itself_and_nothing_below_is_an_error(library: Templates, user: Path) -> None:
    (user / "own.toml").write_text('extends = "own"')
    (user / "same.json").write_text('{"extends": "same"}')
    for name, file in (("own", "own.toml"), ("same", "same.json")):
        with pytest.raises(TemplateError) as found:
            library.get(name)
        assert found.value.what == (
            f"{user / file} extends '{name}', its own name, but there is no template '{name}' below it"
        )
        assert found.value.hint == "Name another template, or remove `extends`."


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(TemplateError, match="did you mean miner") as refused:
        Templates().get("minor")
    assert refused.value.title == "No such template"


@walk_cases("name", ["../secret", "/etc/passwd", "", "a/b", "x\0"])
def test_a_name_never_reaches_outside_the_directories(name: str) -> None:
    with pytest.raises(TemplateError):
        Templates().get(name)


@pytest.mark.parametrize(
    ("text", "line", "key", "nearest"),
    [
        ('promt = "x"', 1, "promt", "prompt"),
        ("\n[nudge]\nidle = 3", 3, "nudge.idle", "nudge.idle_interval"),
        ("extends = 3", 1, "extends", ""),
        ('name = "other"', 1, "name", ""),
        ('\nrun = "always"', 2, "run", ""),
        ("[swarm]\nmax_myses = 3", 1, "swarm", ""),
        ("x = [", 1, "", ""),
        ('[tools]\nallows = ["x"]', 2, "tools.allows", "tools.allow"),
    ],
)
def test_errors_name_file_line_key_and_the_nearest(
    library: Templates, user: Path, text: str, line: int, key: str, nearest: str
) -> None:
    (user / "bad.toml").write_text(text)
    with pytest.raises(SettingsInvalid) as caught:
        library.get("bad")
    assert isinstance(caught.value, TemplateError)
    (problem,) = caught.value.problems
    assert problem.origin.file == str(user / "bad.toml")
    assert (problem.origin.line, problem.key, problem.nearest) == (line, key, nearest)


def test_the_check_finds_every_broken_template_once(library: Templates, user: Path) -> None:
    (user / "base.toml").write_text("x = 1")
    (user / "child.toml").write_text('extends = "base"')
    (user / "loop.toml").write_text('extends = "gone"')
    assert [(one.key, Path(one.origin.file).stem) for one in library.problems()] == [
        ("x", "base"),
        ("template loop", "loop"),
    ]


def test_the_text_of_a_template_gives_the_same_template_back(library: Templates, user: Path) -> None:
    (user / "full.toml").write_text(
        'extends = "reef"\nopening = "é \\n"\nsituation = ["time"]\nupstreams = ["a"]\n'
        '[budget]\nmysis = "none"\nswarm_per_day = 5\n[loop]\nexempt = "a,b"\n[tools]\nask = ["*"]\n'
    )
    template = library.get("full")
    again = parse_template(template.text)
    assert again == template
    assert again.hash == template.hash
    assert again.overrides() == template.overrides()
    assert again.uses_upstream("a")
    assert not again.uses_upstream("b")


@given(
    st.builds(
        Template,
        name=st.just("x"),
        prompt=st.text(),
        opening=st.text(st.characters(exclude_categories=["Cs"])),
        run=st.sampled_from(["forever", "once"]),
    )
)
def test_identity_is_the_text(template: Template) -> None:
    again = parse_template(template.text)
    assert again.text == template.text
    assert again.hash == template.hash
    assert len(template.hash) == 32
    assert template.id == f"x@{template.hash.hex()[:8]}"


def test_a_template_without_tools_of_commits_keeps_the_hash_it_always_had() -> None:
    text = parse_template('{"zoea_template": 1, "tools": {"deny": ["git_*"]}}').text
    assert json.loads(text)["tools"].keys() == {"allow", "deny", "ask", "ask_destructive"}
    assert '"contexts":"use"' in parse_template('{"zoea_template": 1, "tools": {"contexts": "use"}}').text


def test_the_hash_depends_on_values_and_not_on_notation(library: Templates, user: Path) -> None:
    (user / "a.toml").write_text("name = 'a'\n[nudge]\nidle_interval = '2m'\n")
    one = library.get("a")
    (user / "a.toml").write_text("# comment\nnudge.idle_interval = 120\n")
    assert library.get("a").hash == one.hash
    (user / "a.toml").write_text("nudge.idle_interval = 121\n")
    assert library.get("a").hash != one.hash


def test_unknown_keys_of_a_newer_template_text_are_ignored() -> None:
    plain = json.loads(Templates().get("miner").text)
    plain["hologram"] = True
    plain["nudge"]["colour"] = "red"
    assert parse_template(json.dumps(plain)) == Templates().get("miner")


@walk_cases("text", ["", "{}", "[]", "3", '{"zoea_template": 1, "run": "x"}', "[" * 9000])
def test_text_that_is_not_a_template_is_refused(text: str) -> None:
    with pytest.raises(TemplateError):
        parse_template(text)


def test_a_template_s_sections_override_the_settings() -> None:
    settings = Settings.model_validate({"nudge": {"idle_interval": 9, "wait_interval": 8}, "turn": {"timeout": 7}})
    template = Template.model_validate({"name": "x", "nudge": {"idle_interval": 1}, "strategy": "turns"})
    found = effective_settings(settings, template)
    assert (found.nudge.idle_interval, found.nudge.wait_interval, found.turn.timeout) == (1, 8, 7)


@walk_cases(
    ("settings", "template", "holds"),
    [
        ({}, {}, 500_000),
        ({}, {"background": 30_000}, 30_000),
        ({"background": 10_000}, {"background": 30_000}, 10_000),
        ({"background": 30_000}, {"background": 10_000}, 10_000),
        ({"background": "none"}, {"background": 10_000}, 10_000),
        ({"background": 10_000}, {"background": "none"}, 10_000),
        ({"background": 10_000}, {}, 10_000),
        ({}, {"background": "none"}, None),
    ],
)
def test_the_lower_budget_of_settings_and_template_applies(
    settings: dict[str, Any], template: dict[str, Any], holds: int | None
) -> None:
    merged = effective_settings(
        Settings.model_validate({"budget": settings}), Template.model_validate({"name": "x", "budget": template})
    )
    assert merged.budget.background == holds


def test_enforcement_of_the_template_overrides_the_settings() -> None:
    template = Template.model_validate({"name": "x", "budget": {"enforcement": "hard"}})
    assert (
        effective_settings(Settings.model_validate({"budget": {"enforcement": "soft"}}), template).budget.enforcement
        == "hard"
    )


def test_a_template_that_conflicts_with_the_settings_is_an_error() -> None:
    template = Template.model_validate({"name": "x", "budget": {"token_budget_per_task": 10_000}})
    with pytest.raises(TemplateError, match=r"budget\.token_budget_per_task"):
        effective_settings(Settings(), template)


def test_a_project_s_template_of_texts_alone_needs_no_trust(library: Templates, project: Path) -> None:
    text = 'extends = "assistant"\ntitle = "Mine"\nprompt = "x"\nopening = "Begin."\nrole = "worker"\n'
    (project / "mine.toml").write_text(text)
    assert library.get("mine").prompt == "x"
    assert library.untrusted() == ()


FIELDS = [(path, field) for path, field in iterate_fields(Template) if path[0] != "context_strategy"]


@walk_cases(("path", "field"), FIELDS, ids=[".".join(path) for path, _ in FIELDS])
def test_each_key_of_a_project_s_template_needs_trust_unless_it_is_inert(
    library: Templates, project: Path, tmp_path: Path, path: KeyPath, field: FieldInfo
) -> None:
    tree: dict[str, Any] = {}
    put_value(tree, path, "loose" if path == ("name",) else list_values(path, field)[-1])
    file = project / "loose.toml"
    file.write_text(tomlkit.dumps(tree))
    if is_inert(field):
        assert path[0] in ("name", "title", "prompt", "opening", "role")
        assert library.get("loose").name == "loose"
        return
    with pytest.raises(TrustError) as caught:
        library.get("loose")
    assert str(file) in caught.value.hint
    assert library.untrusted() == (f"template loose: {'.'.join(path)}",)
    assert library.problems() == []
    Trust(tmp_path / "trusted.json").add(file, file.read_bytes())
    assert library.get("loose").name == "loose"
    assert library.untrusted() == ()


def test_an_untrusted_template_takes_the_place_of_no_other(
    library: Templates, user: Path, project: Path, tmp_path: Path
) -> None:
    (user / "mine.toml").write_text('prompt = "mine"\n[tools]\ndeny = ["*"]\n')
    (user / "child.toml").write_text('extends = "mine"\n')
    before = {name: library.get(name) for name in library.names()}
    files = {name: project / f"{name}.toml" for name in before}
    for file in files.values():
        file.write_text('prompt = "theirs"\n')
    assert {name: library.get(name) for name in library.names()} == before
    assert library.file("mine") == user / "mine.toml"
    assert library.untrusted() == tuple(
        f"template {name}: takes the place of another {name}, prompt" for name in sorted(files)
    )
    record = Trust(tmp_path / "trusted.json")
    record.add(files["mine"], files["mine"].read_bytes())
    assert [library.get(name).prompt for name in ("mine", "child")] == ["theirs", "theirs"]
    assert library.get("coder") == before["coder"]


WITH_RIGHTS = "[tools]\nask_commands = false\n"


@pytest.mark.parametrize(
    ("mine", "theirs", "trusted", "used", "held"),
    [
        ({"loose": WITH_RIGHTS}, {"helper": 'extends = "loose"'}, "", "helper", "extends loose, which sets"),
        ({"coder": WITH_RIGHTS}, {"helper": 'extends = "coder"'}, "", "helper", "extends coder, which sets"),
        ({"assistant": WITH_RIGHTS}, {"helper": 'extends = "coder"'}, "", "helper", "extends assistant, which sets"),
        (
            {"loose": WITH_RIGHTS, "mine": 'extends = "loose"'},
            {"base": 'extends = "mine"', "helper": 'extends = "base"'},
            "",
            "helper",
            "extends loose, which sets",
        ),
        ({"mine": f'extends = "helper"\n{WITH_RIGHTS}'}, {"helper": ""}, "", "mine", "is extended by mine, which sets"),
        ({}, {"work": WITH_RIGHTS, "helper": 'extends = "work"'}, "work", "helper", "extends work, which sets"),
        (
            {},
            {"work": f'extends = "helper"\n{WITH_RIGHTS}', "helper": ""},
            "work",
            "work",
            "is extended by work, which sets",
        ),
        ({"texts": 'prompt = "x"'}, {"base": 'extends = "texts"', "helper": 'extends = "base"'}, "", "helper", ""),
        ({"loose": WITH_RIGHTS}, {"helper": 'extends = "coder"'}, "", "helper", ""),
    ],
)
def test_an_untrusted_template_meets_no_rights_but_those_of_shipped_ones(
    library: Templates,
    user: Path,
    project: Path,
    tmp_path: Path,
    mine: dict[str, str],
    theirs: dict[str, str],
    trusted: str,
    used: str,
    held: str,
) -> None:
    for folder, texts in ((user, mine), (project, theirs)):
        for name, text in texts.items():
            (folder / f"{name}.toml").write_text(text)
    record = Trust(tmp_path / "trusted.json")
    if trusted:
        record.add(project / f"{trusted}.toml", theirs[trusted].encode())
    if not held:
        assert library.get(used).name == used
        assert library.untrusted() == ()
        return
    with pytest.raises(TrustError, match=f"{held} tools.ask_commands"):
        library.get(used)
    assert f"template helper: {held} tools.ask_commands" in library.untrusted()
    assert library.find_mixture(project / "helper.toml") == f"{held} tools.ask_commands"
    for name, text in theirs.items():
        record.add(project / f"{name}.toml", text.encode())
    assert not library.get(used).tools.ask_commands
    assert library.untrusted() == ()


def test_chains_of_many_templates_are_followed_soon(library: Templates, user: Path, project: Path) -> None:
    (user / "loose.toml").write_text(WITH_RIGHTS)
    for number in range(500):
        parent = f"a{number + 1:03}" if number < 499 else "loose"
        (project / f"a{number:03}.toml").write_text(f'extends = "{parent}"\n')
    before = time.process_time()
    assert len(library.untrusted()) == 16
    assert time.process_time() - before < 4


def test_a_broken_template_of_a_project_takes_the_place_of_no_other(library: Templates, project: Path) -> None:
    (project / "default.toml").write_text("prompt = [")
    assert library.get("default").title == "Works with any tools"


def test_prompts_that_multiply_each_other_are_refused_before_they_are_made(library: Templates, user: Path) -> None:
    (user / "a0.toml").write_text(f'prompt = "{"x" * 1000}"\n')
    for number in range(1, 12):
        (user / f"a{number}.toml").write_text(f'extends = "a{number - 1}"\nprompt = "{"{{parent}}" * 50}"\n')
    for name in ("a2", "a11"):
        with pytest.raises(TemplateError, match=r"a2\.toml:2: prompt: has more than 400,000 characters"):
            library.get(name)
    assert len(library.get("a1").prompt) == 50_000


def test_few_templates_extend_each_other(library: Templates, user: Path) -> None:
    for number in range(2000):
        (user / f"a{number}.toml").write_text(f'extends = "a{number + 1}"\n')
    with pytest.raises(TemplateError, match="more than 16 templates extend each other"):
        library.get("a0")


def test_of_many_templates_of_a_project_the_first_are_read_and_the_person_is_told(
    library: Templates, project: Path
) -> None:
    for number in range(501):
        (project / f"a{number:03}.toml").write_text('prompt = "x"\n')
    assert "a499" in library.names()
    assert "a500" not in library.names()
    assert library.ignored() == (f"{project} has 501 templates: those after 500 have no effect",)


def test_a_project_may_have_templates_and_no_file() -> None:
    folder = Path(".zoea/templates")
    folder.mkdir(parents=True)
    (folder / "here.toml").write_text('prompt = "x"')
    Path("deep").mkdir()
    assert "here" in load(places(), project_dir=Path("deep")).templates.names()


def test_a_template_with_a_value_in_place_of_a_table_is_refused(library: Templates, user: Path) -> None:
    (user / "base.toml").write_text("[budget]\nbackground = 5\n")
    (user / "child.toml").write_text('extends = "base"\nname = "child"\ntools = 3\n')
    with pytest.raises(TemplateError, match="expected a table"):
        library.get("child")


def test_load_finds_the_project_s_templates_beside_its_file() -> None:
    Path("zoea.toml").touch()
    folder = Path(".zoea/templates")
    folder.mkdir(parents=True)
    (folder / "here.toml").write_text('prompt = "x"')
    (folder / "loose.toml").write_text('search = "swarm"')
    loaded = load(places())
    assert "here" in loaded.templates.names()
    assert loaded.templates.file("here") == Path.cwd() / folder / "here.toml"
    assert loaded.untrusted == ("template loose: search",)


def test_a_folder_or_pipe_is_a_broken_template_and_an_editor_s_lock_is_none(library: Templates, user: Path) -> None:
    os.mkfifo(user / "pipe.toml")
    (user / "folder.toml").mkdir()
    (user / "gone.json").symlink_to("nowhere")
    (user / ".#miner.toml").symlink_to("somebody@host.123")
    assert sorted(Path(one.origin.file).name for one in library.problems()) == ["folder.toml", "gone.json", "pipe.toml"]
