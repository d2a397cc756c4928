"""Layers override each other, and errors name their place."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoea.model.errors import SettingsError
from zoea.settings import problems
from zoea.settings.key_paths import (
    Layer,
    LayerValues,
    SettingsInvalid,
    find_nearest,
    get_value,
    iterate_leaves,
    merge_trees,
)
from zoea.settings.layers import LoadedSettings, check_settings, load, read_environment
from zoea.settings.paths import places
from zoea.settings.trust import Trust
from zoea.swarm.rules import WaitRules

USER, PROJECT = "user", "project"


def loaded(
    user: str = "", project: str = "", env: dict[str, str] | None = None, overrides: dict[str, Any] | None = None
) -> LoadedSettings:
    where = places(configured=False)
    where.make_config()
    where.config_file.write_text(user)
    file = Path("zoea.toml")
    file.write_text(project)
    Trust(where.trusted).add(file, file.read_bytes())
    return load(where, env=env or {}, overrides=overrides)


def errors(
    user: str = "", project: str = "", env: dict[str, str] | None = None, overrides: dict[str, Any] | None = None
) -> list[str]:
    with pytest.raises(SettingsInvalid) as caught:
        loaded(user, project, env, overrides)
    return [f"{Path(one.origin.file).name}:{one.origin.line} {one.key} {one.nearest}" for one in caught.value.problems]


def test_each_layer_overrides_the_lower_ones() -> None:
    user, project = "[swarm]\nmax_myses = 2", "[swarm]\nmax_myses = 3"
    env, line = {"ZOEA_SWARM__MAX_MYSES": "4"}, {"swarm.max_myses": 5}
    found = [
        loaded(),
        loaded(user),
        loaded(user, project),
        loaded(user, project, env),
        loaded(user, project, env, line),
    ]
    assert [one.settings.swarm.max_myses for one in found] == [16, 2, 3, 4, 5]
    assert [one.origins["swarm.max_myses"].layer for one in found] == list(Layer)[:5]


def test_an_origin_has_file_and_line() -> None:
    found = loaded('# hi\n[nudge]\nidle_interval = "5s"\n').origins
    assert Path(found["nudge.idle_interval"].file).name == "config.toml"
    assert found["nudge.idle_interval"].line == 3
    assert found["nudge.enabled"].layer is Layer.DEFAULT


def test_the_nearest_project_file_upward_is_used(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "zoea.toml").write_text("[world]\nseed = 2")
    (tmp_path / "a" / "zoea.toml").write_text("[world]\nseed = 3")
    found = load(places(configured=False), project_dir=inner, env={})
    assert found.settings.world.seed == 3
    assert found.project == tmp_path / "a" / "zoea.toml"


def test_all_errors_of_all_files_have_line_and_nearest_key() -> None:
    user = "[nudge]\nidle_intervall = 3\nenabled = 7\n\n[swarms]\nx = 1\n"
    project = "[swarm]\nmax_myses = 5000\n[turn]\nidle_interval = 3\n"
    assert errors(user, project) == [
        "config.toml:2 nudge.idle_intervall nudge.idle_interval",
        "config.toml:3 nudge.enabled ",
        "config.toml:5 swarms swarm",
        "zoea.toml:2 swarm.max_myses ",
        "zoea.toml:4 turn.idle_interval nudge.idle_interval",
    ]


def test_an_overridden_error_is_reported() -> None:
    assert errors("[swarm]\nmax_myses = 0", "[swarm]\nmax_myses = 3") == ["config.toml:2 swarm.max_myses "]


def test_a_syntax_error_has_its_line() -> None:
    assert errors("[swarm]\nmax_myses 3\n") == ["config.toml:2  "]


def test_the_message_names_file_line_key_and_suggestion() -> None:
    with pytest.raises(SettingsError, match=r"config\.toml:2: swarm\.max_myse: unknown key; did you mean swarm\.max"):
        loaded("[swarm]\nmax_myse = 3")


def test_a_problem_is_plain_data_for_machines() -> None:
    with pytest.raises(SettingsInvalid) as caught:
        loaded("[swarm]\nmax_myse = 3")
    (problem,) = caught.value.problems
    assert problem.as_dict() == {
        "key": "swarm.max_myse",
        "message": "unknown key",
        "layer": "user",
        "file": str(places(configured=False).config_file),
        "line": 2,
        "nearest": "swarm.max_myses",
    }


def test_a_key_with_special_characters_is_quoted_and_harmless() -> None:
    with pytest.raises(SettingsInvalid) as caught:
        loaded('[swarm]\n"a b\\u001b[31m" = 3\n[nudge]\nx.y.z = 3\n')
    assert [one.key for one in caught.value.problems] == ['swarm."a b\\u001b[31m"', "nudge.x"]


def test_a_value_that_may_be_a_secret_is_never_repeated() -> None:
    with pytest.raises(SettingsInvalid) as caught:
        loaded("[provider.a]\ntype = 'sk-secret-1'\nconcurrency = 0\nthinking = 'sk-secret-2'\n")
    assert "sk-secret" not in str(caught.value)
    assert "greater than or equal to 1, not 0" in str(caught.value)
    assert " or " in str(caught.value)


def test_tables_and_values_in_each_other_s_place_are_errors() -> None:
    assert errors("swarm = 3\n[workspace]\nx = 1\n") == ["config.toml:1 swarm ", "config.toml:2 workspace "]


def test_a_missing_key_is_named_with_its_table() -> None:
    assert errors("\n[provider.local]\nmodel = 'x'\n") == ["config.toml:2 provider.local.type "]


def test_a_provider_may_be_spread_over_layers() -> None:
    found = loaded("[provider.a]\ntype = 'ollama'", "[provider.a]\nmodel = 'm'", {"ZOEA_PROVIDER__A__CONCURRENCY": "2"})
    one = found.settings.provider["a"]
    assert (one.type, one.model, one.concurrency) == ("ollama", "m", 2)


def test_a_conflict_names_the_line_to_change() -> None:
    assert errors("[budget]\ntoken_budget_per_task = 40000\n") == ["config.toml:2 budget.token_budget_per_task "]
    both = errors("[budget]\ntoken_budget_per_agent = 100000", env={"TOKEN_BUDGET_PER_TASK": "90000"})
    assert both == ["TOKEN_BUDGET_PER_TASK:0 budget.token_budget_per_task "]


def test_a_conflict_with_a_default_names_the_set_key() -> None:
    assert errors("[budget]\ntoken_budget_per_agent = 200_000\ntoken_budget_per_task = 199_999\n") == [
        "config.toml:3 budget.token_budget_per_task "
    ]


def test_an_origin_names_the_command_line_option() -> None:
    assert errors(overrides={"swarm.max_mysis": 3}) == ["--set swarm.max_mysis:0 swarm.max_mysis swarm.max_myses"]


def test_environment_variables_are_matched_to_known_names_without_case() -> None:
    found = loaded(
        "[provider.My-Box]\ntype = 'ollama'",
        env={"ZOEA_PROVIDER__MY_BOX__MODEL": "m", "ZOEA_LOOP__EXEMPT": "a,b", "ZOEA_SWARM__RESTART": "always"},
    ).settings
    assert found.provider["My-Box"].model == "m"
    assert found.loop.exempt == ("a", "b")
    assert found.swarm.restart == "always"


def test_empty_and_foreign_variables_are_ignored() -> None:
    env = {"ZOEA_SWARM__MAX_MYSES": "", "ZOEA_DATA_DIR": "/x", "ZOEA_SOAK": "1", "PATH": "/bin", "SWARM__X": "1"}
    assert read_environment(env, {}) == []


def test_an_invalid_variable_is_named() -> None:
    assert errors(env={"ZOEA_SWARM__MAX_MYSE": "3"}) == ["ZOEA_SWARM__MAX_MYSE:0 swarm.max_myse swarm.max_myses"]


@given(st.lists(st.none() | st.integers(1000, 200_000) | st.just("unset"), min_size=5, max_size=5))
def test_the_lowest_set_bound_of_a_budget_applies(bounds: list[int | str | None]) -> None:
    def line(value: int | str | None) -> str:
        return (
            ""
            if value == "unset"
            else f"[budget]\nbackground = {chr(34) + 'none' + chr(34) if value is None else value}"
        )

    user, project, variable, given_, _ = bounds
    env = {} if variable == "unset" else {"ZOEA_BUDGET__BACKGROUND": "none" if variable is None else str(variable)}
    overrides = {} if given_ == "unset" else {"budget.background": "none" if given_ is None else given_}
    found = loaded(line(user), line(project), env, overrides).settings.budget
    said = [value for value in (user, project, variable, given_) if value != "unset"]
    numbers = [value for value in said if isinstance(value, int)]
    expected = 500_000 if not said else min(numbers) if numbers else None
    assert found.background == expected


def test_bare_budget_variables_count_and_are_named_as_origin() -> None:
    found = loaded(
        "[budget]\ntoken_budget_per_agent = 40000",
        env={"TOKEN_BUDGET_PER_AGENT": "30000", "ZOEA_TOKEN_BUDGET_PER_AGENT": "35000"},
    )
    assert found.settings.budget.token_budget_per_agent == 30_000
    assert found.origins["budget.token_budget_per_agent"].file == "TOKEN_BUDGET_PER_AGENT"


def test_a_budget_may_be_raised_above_its_default() -> None:
    assert loaded('[budget]\nswarm_per_day = "none"').settings.budget.swarm_per_day is None
    assert loaded("[budget]\ntoken_budget_per_agent = 75000").settings.budget.token_budget_per_agent == 75_000


def test_a_budget_above_its_maximum_is_an_error() -> None:
    assert errors("[budget]\ntoken_budget_per_task = 200001") == ["config.toml:2 budget.token_budget_per_task "]


def test_a_given_workspace_overrides_the_settings() -> None:
    where = places(configured=False)
    where.make_config()
    where.config_file.write_text('workspace = "mine"')
    assert load(where).places.data.name == "mine"
    assert load(places("other")).places.data.name == "other"


def test_the_check_lists_settings_and_templates_together() -> None:
    where = places(configured=False)
    where.make_config()
    where.config_file.write_text("[swarm]\nmax_myses = 0")
    where.templates.mkdir()
    (where.templates / "bad.toml").write_text("promt = 'x'")
    assert [(one.key, one.origin.line, one.nearest) for one in check_settings(where)] == [
        ("swarm.max_myses", 2, ""),
        ("promt", 1, "prompt"),
    ]


_names = st.sampled_from(["a", "b", "c"])
_trees = st.recursive(
    st.dictionaries(_names, st.integers(0, 3), max_size=3), lambda inner: st.dictionaries(_names, inner, max_size=3)
)


@given(_trees, _trees, _trees)
def test_merging_is_associative_and_the_highest_layer_wins(
    one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    both = merge_trees(merge_trees(one, two), three)
    for path, value in iterate_leaves(three):
        assert get_value(both, path) == value
    if _same_shape(one, two, three):
        assert both == merge_trees(one, merge_trees(two, three))


def _same_shape(*trees: dict[str, Any]) -> bool:
    """Return whether no key is a table in one tree and a value in another."""
    kinds: dict[tuple[str, ...], set[bool]] = {}

    def walk(tree: dict[str, Any], above: tuple[str, ...]) -> None:
        for key, value in tree.items():
            kinds.setdefault((*above, key), set()).add(isinstance(value, dict))
            if isinstance(value, dict):
                walk(value, (*above, key))

    for tree in trees:
        walk(tree, ())
    return all(len(kind) == 1 for kind in kinds.values())


def test_a_source_never_shows_its_values() -> None:
    assert "sk-x" not in repr(LayerValues(Layer.USER, {"a": "sk-x"}))


def test_an_upstream_may_name_its_ticks_differently() -> None:
    found = loaded(
        '[upstream.board]\nurl = "http://127.0.0.1:1/"\n[upstream.board.wait]\ntick_fields = ["turn_number"]\n'
    )
    rules = WaitRules.of(found.settings)
    assert rules.names_of("board").tick_fields == ("turn_number",)
    assert rules.names_of("board").until_fields == rules.wait.until_fields
    assert rules.names_of("other").tick_fields == ("current_tick", "tick")


def test_many_unknown_keys_are_counted_and_few_are_compared_with_the_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0

    def count(wrong: str, known: Iterable[str]) -> str:
        nonlocal compared
        compared += 1
        return find_nearest(wrong, known)

    monkeypatch.setattr(problems, "find_nearest", count)
    places("").make_config()
    places("").config_file.write_text("".join(f"key{number} = 1\n" for number in range(5_000)))
    with pytest.raises(SettingsInvalid) as caught:
        load(places(""), project_dir=tmp_path)
    assert len(caught.value.problems) == 5_000
    assert "5,000 problems" in caught.value.what
    assert "and 4,950 more" in caught.value.what
    assert compared <= 3 * problems.MOST_NEAREST
