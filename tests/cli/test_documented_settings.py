"""`zoea config check` accepts what the pages on local models show, without a doubt.

Those are settings and templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Zoea
from zoea.settings.paths import places

GUIDE = Path(__file__).parents[2] / "documentation" / "guide"
_BLOCK = re.compile(r"```toml\n(.*?)```", re.DOTALL)


def read_blocks() -> Iterator[tuple[str, str]]:
    for page in ("local-models.md", "small-models.md"):
        for number, block in enumerate(_BLOCK.findall((GUIDE / page).read_text("utf-8")), 1):
            yield f"{page} {number}", block


@pytest.mark.parametrize("block", [one[1] for one in read_blocks()], ids=[one[0] for one in read_blocks()])
def test_a_documented_set_up_is_accepted(zoea: Zoea, block: str) -> None:
    where = places("").config
    folder, name = (where / "templates", "clerk.toml") if "# templates/" in block else (where, "config.toml")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(block, "utf-8")
    checked = zoea("config", "check")
    assert checked.code == 0
    assert checked.err + checked.out.partition("\n")[2] == ""


def test_a_server_of_another_machine_needs_the_name_of_a_model(zoea: Zoea) -> None:
    where = places("").config
    where.mkdir(parents=True, exist_ok=True)
    text = '[provider.far]\ntype = "openai"\nbase_url = "https://example.org/v1"\n'
    (where / "config.toml").write_text(text, "utf-8")
    assert "provider.far.model: no model is named" in zoea("config", "check").err
