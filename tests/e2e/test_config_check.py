"""`zoea config check` as a process: models, themes, templates and keys, each with file and nearest name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.zoea_process import zoea
from tests.fakes.openai_server import OpenAIServer

pytestmark = [pytest.mark.timeout(180), pytest.mark.usefixtures("own_runtime")]


def write(tmp_path: Path, name: str, text: str) -> Path:
    file = tmp_path / "config" / name
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.write_text(text)
    return file


async def check(*options: str) -> tuple[int, dict[str, Any]]:
    ran = await asyncio.to_thread(zoea, "config", "check", "--json", *options, timeout=60)
    found: dict[str, Any] = json.loads(ran.stdout)
    return ran.returncode, found


def provider(server: OpenAIServer, model: str) -> str:
    return f'[provider.local]\ntype = "openai"\nbase_url = "{server.base_url}"\nmodel = "{model}"\n'


async def test_a_model_that_the_server_does_not_list_is_refused_until_it_is_kept(tmp_path: Path) -> None:
    async with OpenAIServer() as server:
        write(tmp_path, "config.toml", provider(server, "reef-2"))
        template = write(tmp_path, "templates/digger.toml", 'model = "reef-3"\nprompt = "Dig."\n')
        code, found = await check()
        assert (code, found["problems"]) == (0, [])
        assert "has not listed its models yet" in found["notes"][0]

        code, found = await check("--online")
        assert code == 3
        own, templated = found["problems"]
        assert own["key"] == "provider.local.model"
        assert own["line"] == 4
        assert "lists no model 'reef-2'; the nearest is reef-1" in own["message"]
        assert (templated["file"], templated["line"]) == (str(template), 1)
        assert any("context window of reef-2 is not known: 8,192 tokens are assumed" in note for note in found["notes"])
        asked = len(server.received)

    code, found = await check()
    assert (code, len(found["problems"]), len(server.received)) == (3, 2, asked)
    assert (await check("--keep-models"))[0] == 0
    assert (await check())[0] == 0


async def test_broken_themes_keys_templates_and_credentials_are_found_together(tmp_path: Path) -> None:
    write(
        tmp_path,
        "config.toml",
        '[tui]\ntheme = "abys"\n[tui.keys]\n"swarm.hod" = "x"\n[swarm]\ndefault_template = "minr"\n',
    )
    theme = write(tmp_path, "themes/mine.toml", 'name = "mine"\n')
    write(tmp_path, "templates/digger.toml", 'provider = "olama"\n')
    write(tmp_path, "templates/broken.toml", "promt = 1\n")
    keys = tmp_path / "data" / "credentials.toml"
    keys.parent.mkdir(mode=0o700, exist_ok=True)
    keys.write_text("[credentials\n")
    keys.chmod(0o600)
    code, found = await check()
    assert code == 3
    nearest = {one["key"]: one["nearest"] for one in found["problems"]}
    assert nearest["tui.theme"] == "abyss"
    assert nearest['tui.keys."swarm.hod"'] == "swarm.hold"
    assert nearest["swarm.default_template"] == "miner"
    assert nearest["provider"] == "ollama"
    assert nearest["promt"] == "prompt"
    messages = " ".join(one["message"] for one in found["problems"])
    assert str(theme) in messages
    assert any(one["file"] == str(keys) for one in found["problems"])


async def test_good_settings_pass(tmp_path: Path) -> None:
    ran = await asyncio.to_thread(zoea, "config", "check")
    assert ran.returncode == 0, ran.stderr
    assert "No problems" in ran.stdout
