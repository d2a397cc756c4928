"""Templates of the strategy `topics`: JSON and TOML, errors with their place, and advice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.case_tables import walk_cases
from tests.settings.test_commands import run
from tests.settings.test_topic_source import SEED
from zoea.model.errors import TemplateError
from zoea.settings.key_paths import Layer, SettingsInvalid
from zoea.settings.paths import places
from zoea.settings.schema import Settings
from zoea.settings.template import Template, effective_settings, parse_template
from zoea.settings.template_advice import advise_template, describe_advice
from zoea.settings.template_library import Level, Templates, import_template

EXAMPLE = f'{{\n  "contextStrategy": {{\n    "sources": {SEED},\n    "maxTokens": 100000\n  }}\n}}\n'
"""The example strategy of Zeroshot's documentation."""
SNAPSHOT: dict[str, Any] = {"topic": "STATE_SNAPSHOT", "priority": "required", "amount": 1}


def library(folder: Path, **files: str) -> Templates:
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(text, encoding="utf-8")
    return Templates([Level(Layer.USER, folder)])


def problems(folder: Path, **files: str) -> list[str]:
    return [str(one).removeprefix(f"{folder}/") for one in library(folder, **files).problems()]


def advice(produced: tuple[str, ...] = (), **keys: Any) -> list[str]:
    return [describe_advice(one) for one in advise_template(Template.model_validate({"name": "x", **keys}), produced)]


def test_a_strategy_written_for_zeroshot_is_a_template_as_it_stands(tmp_path: Path) -> None:
    template = library(tmp_path, seed_json=EXAMPLE).get("seed")
    assert template.context_strategy is not None
    assert [source.topic for source in template.context_strategy.sources] == [
        *("ISSUE_OPENED", "STATE_SNAPSHOT", "PLAN_READY", "VALIDATION_RESULT", "WORKER_PROGRESS")
    ]
    assert template.context_strategy.max_tokens == 100_000
    assert effective_settings(Settings(), template).context.strategy == "topics"
    assert parse_template(template.text) == template


def test_toml_expresses_the_same_strategy_and_both_extend_each_other(tmp_path: Path) -> None:
    table = "\n".join(
        "[[context_strategy.sources]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in source.items())
        for source in json.loads(SEED)
    )
    made = library(
        tmp_path,
        seed_json=EXAMPLE,
        same_toml=f'[context_strategy]\nmax_tokens = "100000"\n{table}',
        worker_toml='extends = "seed"\nrole = "worker"\nprompt = "Work."\n[context_strategy]\nmax_tokens = 9000\n',
        more_json='{"extends": "worker", "title": "More", "contextStrategy": {"sources": [{"topic": "X"}]}}',
    )
    assert made.problems() == []
    assert made.get("same").context_strategy == made.get("seed").context_strategy
    worker, more = made.get("worker").context_strategy, made.get("more")
    assert worker is not None
    assert (worker.max_tokens, len(worker.sources)) == (9000, 5)
    assert (more.role, more.prompt) == ("worker", "Work.")
    assert more.context_strategy is not None
    assert [source.topic for source in more.context_strategy.sources] == ["X"]


def test_a_time_in_since_survives_the_stored_text() -> None:
    given = {"name": "x", "context_strategy": {"sources": [{"topic": "X", "since": 1_767_323_045_001}]}}
    template = Template.model_validate(given)
    again = parse_template(template.text)
    assert again == template
    assert again.context_strategy is not None
    assert again.context_strategy.sources[0].since == 1_767_323_045_001_000


def test_errors_name_file_line_key_value_and_the_nearest_name(tmp_path: Path) -> None:
    text = """{
  "contextStrategy": {
    "sources": [
      {"topic": "X",
       "priority": "requird"},
      {"topic": "Y",
       "since": "last_task",
       "amuont": 3}
    ],
    "maxTokens": -4
  }
}"""
    known = "cluster_start, last_task_end, last_agent_start, an ISO 8601 time or Unix milliseconds"
    assert problems(tmp_path, bad_json=text) == [
        "bad.json:5: context_strategy.sources.0.priority: input should be 'required', 'high', 'medium' or 'low', "
        "not 'requird'; did you mean required?",
        f"bad.json:7: context_strategy.sources.1.since: use one of {known}, not 'last_task'; "
        "did you mean last_task_end?",
        "bad.json:8: context_strategy.sources.1.amuont: unknown key; did you mean context_strategy.sources.1.amount?",
        "bad.json:10: context_strategy.max_tokens: expected a number of tokens, not -4; 0 or nothing means 100,000",
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a_toml", 'strategy = "topic"', "a.toml:1: strategy: input should be '', 'turns', 'window' or 'topics', "),
        (
            "a_toml",
            '[[context_strategy.sources]]\ntopic = "X"\n[[context_strategy.sources]]\ntopic = "Y"\nstrategy = "last"',
            "a.toml:5: context_strategy.sources.1.strategy: input should be 'latest', 'oldest' or 'all', not 'last'",
        ),
        ("a_toml", "[context_strategy]\nsource = []", "a.toml:2: context_strategy.source: unknown key; did you mean"),
        ("a_toml", '[[context_strategy.sources]]\ntopic = "a b"', "a.toml:2: context_strategy.sources.0.topic: 'a b'"),
        ("a_toml", '[output_schema]\ntype = "objekt"', "a.toml:1: output_schema: is not a JSON Schema: type: 'objekt'"),
        (
            "a_toml",
            '[output_schema]\n"$ref" = "https://example.org/x.json"',
            "a.toml:1: output_schema: refers to https://example.org/x.json; use references within the schema",
        ),
        ("a_json", '{"contextStrategy": {\n,}', "a.json:2: is not valid JSON: "),
        ("a_json", '{"role": "x", "role": "y"}', "a.json: holds the key 'role' twice"),
        ("a_json", "[]", "a.json:1: is not a JSON object"),
        (
            "a_json",
            '{"contextStrategy": {"maxTokens": 5, "max_tokens": 6}}',
            "a.json:1: context_strategy: max_tokens is given twice, also as maxTokens",
        ),
    ],
)
def test_a_template_that_is_wrong_says_where_and_why(tmp_path: Path, name: str, text: str, said: str) -> None:
    found = problems(tmp_path, **{name: text})
    assert len(found) == 1
    assert found[0].startswith(said)


def test_two_templates_of_one_name_are_an_error(tmp_path: Path) -> None:
    found = problems(tmp_path, a_toml="", a_json="{}")
    assert found == ["a.toml: has the same name as a.json; rename one"]


@walk_cases(
    ("keys", "said"),
    [
        ({"context_strategy": {"sources": [{**SNAPSHOT, "priority": None}]}}, "no priority is set; it is required"),
        (
            {"context_strategy": {"sources": [{"topic": "PLAN_REDY", "priority": "low"}]}},
            "context_strategy.sources.0: PLAN_REDY: no template publishes on it; did you mean PLAN_READY?",
        ),
        (
            {"context_strategy": {"sources": [{**SNAPSHOT, "amount": None, "strategy": "latest"}]}},
            "the selection latest has no amount",
        ),
        (
            {"strategy": "topics", "subscribes": ["PLAN_READY"]},
            "subscribes: PLAN_READY opens turns and is no source, so earlier messages on it are not shown",
        ),
        (
            {"role": "planner", "context_strategy": {"sources": []}},
            "context_strategy.sources: STATE_SNAPSHOT is no source; a planner needs it, with priority required",
        ),
        (
            {"role": "validator", "context_strategy": {"sources": [{**SNAPSHOT, "priority": "high"}]}},
            "STATE_SNAPSHOT is not required; a validator needs it in each request",
        ),
        (
            {"context_strategy": {"sources": [{**SNAPSHOT, "topic": "AGENT_OUTPUT"}]}},
            "AGENT_OUTPUT is raw output, which no request shows",
        ),
        ({"strategy": "topics", "output_schema": {"type": "object"}}, "outputs are checked and published nowhere"),
        ({"strategy": "topics", "role": "validater"}, "role: validater is a role of your own; did you mean validator?"),
        ({"output_schema": {"type": "object"}}, 'output_schema: has no effect without strategy = "topics"'),
        (
            {"strategy": "topics", "publishes": "X", "send": "none", "output_schema": {"type": "object"}},
            "send: none lets it publish nothing",
        ),
    ],
)
def test_a_valid_template_that_lacks_something_is_advised(keys: dict[str, Any], said: str) -> None:
    assert [text for text in advice(("PLAN_READY",), **keys) if said in text]


@walk_cases(
    ("topic", "meant"),
    [
        ("PLAN_REDY", "PLAN_READY"),
        ("PLAN_RAEDY", "PLAN_READY"),
        ("plan_ready", "PLAN_READY"),
        ("VALIDATION_RESULTS", "VALIDATION_RESULT"),
        # Right names of Zeroshot's own templates, which share a word with another topic.
        ("QUICK_VALIDATION_PASSED", ""),
        ("CLUSTER_OPERATIONS_VALIDATION_FAILED", ""),
        ("VALIDATION_FAILED", ""),
        ("IMPLEMENTATION_READY", ""),
    ],
)
def test_only_a_mistyped_topic_is_told_another(topic: str, meant: str) -> None:
    produced = ("PLAN_READY", "VALIDATION_RESULT", "CLUSTER_OPERATIONS")
    read = advice(produced, context_strategy={"sources": [{**SNAPSHOT, "topic": topic}]})
    woken = advice(produced, strategy="topics", subscribes=[topic])
    for texts in (read, woken):
        offered = [text.split("did you mean ")[1] for text in texts if "did you mean" in text]
        assert offered == ([f"{meant}?"] if meant else [])


def test_a_complete_template_has_no_advice() -> None:
    keys = {"role": "worker", "subscribes": ["PLAN_READY"], "publishes": "WORKER_PROGRESS"}
    assert advice(("PLAN_READY", "VALIDATION_RESULT"), **keys, **json.loads(EXAMPLE)) == []
    assert advice(()) == []


def test_the_check_prints_advice_with_file_and_line_and_passes() -> None:
    folder = places(configured=False).templates
    folder.mkdir(parents=True)
    (folder / "worker.json").write_text(EXAMPLE.replace('"priority": "required", "strategy"', '"strategy"', 1))
    done = run("config", "check")
    assert f"{folder / 'worker.json'}:4: context_strategy.sources.0: ISSUE_OPENED: no priority is set" in done.output
    assert "VALIDATION_RESULT: no template publishes on it" in done.output
    (folder / "worker.json").write_text('{"contextStrategy": {"sources": [{}]}}')
    with pytest.raises(SettingsInvalid, match=r"worker\.json:1: context_strategy\.sources\.0\.topic: is missing"):
        run("config", "check")


def test_the_shipped_pipeline_passes_the_check_without_advice() -> None:
    folder = places(configured=False).templates
    folder.mkdir(parents=True)
    for file in (Path(__file__).parents[2] / "documentation" / "examples" / "pipeline").glob("*.toml"):
        shutil.copy(file, folder)
    done = run("config", "check")
    assert "no template publishes on it" not in done.output
    (folder / "validator.toml").write_text((folder / "validator.toml").read_text().replace("zoea_publish", "a tool"))
    assert "REWORK_NEEDED: no template publishes on it" in run("config", "check").output


def test_import_takes_a_strategy_of_a_zeroshot_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "zeroshot.json"
    file.write_text(EXAMPLE)
    folder = places(configured=False).templates
    assert f"Wrote {folder / 'zeroshot.json'}" in run("config", "import", str(file)).output
    assert (folder / "zeroshot.json").read_text() == EXAMPLE
    with pytest.raises(TemplateError, match="exists already"):
        run("config", "import", str(file))


def test_a_strategy_that_is_wrong_or_missing_is_not_imported(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    (tmp_path / "bad.json").write_text('{"contextStrategy": 1}')
    with pytest.raises(TemplateError, match=r"bad\.json:1: context_strategy"):
        import_template(tmp_path / "bad.json", folder)
    with pytest.raises(TemplateError, match="cannot be read"):
        import_template(tmp_path / "none.json", folder)
    assert not folder.exists()


def test_one_right_topic_is_not_offered_for_another() -> None:
    sources = [{"topic": name, "priority": "high", "amount": 1} for name in ("VALIDATION_RESULT", "VALIDATION_RESLT")]
    found = advice(("VALIDATION_RESULTS", "VALIDATION_RESLTS"), context_strategy={"sources": sources})
    told = [line for line in found if "no template publishes on it" in line]
    assert [line.partition("publishes on it")[2] for line in told] == ["", "; did you mean VALIDATION_RESLTS?"]


WORKER_AGENT: dict[str, Any] = {
    "id": "worker",
    "role": "implementation",
    "model": "{{worker_model}}",
    "outputFormat": "stream-json",
    "prompt": {"initial": "You build what PLAN_READY says, in {{domain}}.", "subsequent": "Fix it."},
    "contextStrategy": {
        "sources": [{"topic": "PLAN_READY", "limit": 1}],
        "format": "chronological",
        "maxTokens": "{{max_tokens}}",
    },
    "triggers": [
        {"topic": "PLAN_READY", "action": "execute_task"},
        {"topic": "VALIDATION_RESULT", "logic": {"engine": "javascript", "script": "return true"}},
        {"topic": "DONE", "action": "stop_cluster"},
    ],
    "hooks": {"onComplete": {"action": "publish_message", "config": {"topic": "IMPLEMENTATION_READY"}}},
    "maxIterations": 5,
}
VALIDATOR_AGENT: dict[str, Any] = {
    "id": "validator",
    "role": "validator",
    "prompt": {"system": "You check the work."},
    "jsonSchema": {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]},
    "contextStrategy": {"sources": [{"topic": "STATE_SNAPSHOT", "priority": "required", "amount": 1}]},
    "hooks": {"onComplete": {"config": {"topic": "VALIDATION_RESULT"}}},
}


def test_a_whole_agent_of_zeroshot_becomes_a_template(tmp_path: Path) -> None:
    file, folder = tmp_path / "anything.json", tmp_path / "templates"
    file.write_text(json.dumps(WORKER_AGENT))
    [made] = import_template(file, folder)
    assert made.file == folder / "worker.json"
    template = Templates([Level(Layer.USER, folder)]).get("worker")
    assert (template.role, template.chosen_strategy) == ("worker", "topics")
    assert template.prompt == "You build what PLAN_READY says, in {{domain}}."
    assert template.subscribes == ("PLAN_READY", "VALIDATION_RESULT")
    assert template.publishes == "IMPLEMENTATION_READY"
    assert template.context_strategy is not None
    assert [source.topic for source in template.context_strategy.sources] == ["PLAN_READY"]
    said = "; ".join(made.notes)
    words = ("subsequent", "maxTokens is a placeholder", "condition of the trigger VALIDATION_RESULT", "stop_cluster")
    for word in (*words, "maxIterations, model, outputFormat", "placeholders"):
        assert word in said


def test_each_agent_of_a_cluster_becomes_a_template_and_a_bad_one_leaves_none(tmp_path: Path) -> None:
    file, folder = tmp_path / "cluster.json", tmp_path / "templates"
    file.write_text(json.dumps({"name": "Full", "agents": [WORKER_AGENT, {**VALIDATOR_AGENT, "contextStrategy": 1}]}))
    with pytest.raises(TemplateError, match="validator: context_strategy"):
        import_template(file, folder)
    assert not folder.exists()
    file.write_text(json.dumps({"name": "Full", "agents": [WORKER_AGENT, VALIDATOR_AGENT]}))
    assert [made.file.name for made in import_template(file, folder)] == ["worker.json", "validator.json"]
    checked = Templates([Level(Layer.USER, folder)]).get("validator")
    assert checked.output_schema == VALIDATOR_AGENT["jsonSchema"]
    with pytest.raises(TemplateError, match="exists already"):
        import_template(file, folder)


@pytest.mark.parametrize("tree", [VALIDATOR_AGENT, {"contextStrategy": VALIDATOR_AGENT["contextStrategy"]}])
def test_a_template_that_nothing_wakes_is_imported_with_a_word(tmp_path: Path, tree: dict[str, Any]) -> None:
    file = tmp_path / "validator.json"
    file.write_text(json.dumps(tree))
    shown = run("config", "import", str(file)).output
    assert "validator: it subscribes to nothing, so no message on a topic wakes it; set `subscribes`" in shown
