"""Settings are read again while a swarm runs, over what was found when it opened."""

from __future__ import annotations

from zoea.runtime.connections import load_again
from zoea.settings.layers import load
from zoea.settings.paths import places

FOUND = {
    "provider.vllm.type": "openai",
    "provider.vllm.base_url": "http://127.0.0.1:8000/v1",
    "swarm.default_provider": "vllm",
}


def test_a_connected_model_becomes_the_default_over_a_server_that_was_found() -> None:
    where = places(configured=False)
    opened = load(where, overrides=FOUND)
    assert load_again(opened).settings.provider_name() == "vllm"
    where.config.mkdir(parents=True, exist_ok=True)
    where.config_file.write_text('[provider.lab]\ntype = "ollama"\n[swarm]\ndefault_provider = "lab"\n')
    again = load_again(opened).settings
    assert again.provider_name() == "lab"
    assert again.provider_named("vllm") is not None


def test_a_default_given_for_the_run_stays() -> None:
    where = places(configured=False)
    opened = load(where, overrides={"swarm.default_provider": "scripted"})
    where.config.mkdir(parents=True, exist_ok=True)
    where.config_file.write_text('[swarm]\ndefault_provider = "autopilot"\n')
    assert load_again(opened).settings.provider_name() == "scripted"
