"""The commented `config.toml` that `zoea config init` writes: every key at its default, ready to be changed."""

from __future__ import annotations

from pydantic import BaseModel

from zoea.settings.describe import kind
from zoea.settings.explain import TABLES, fields_at
from zoea.settings.schema import Settings
from zoea.settings.show import toml

_HEAD = """\
# Zoea's settings, all at their defaults. Remove the "#" before a key to change it.
# A project's zoea.toml, ZOEA_SECTION__KEY in the environment and the command line go over this file.
# `zoea config check` says what is wrong, `zoea config show --origin` what holds and why.
"""

_EXAMPLES = """\
# Sources of models, by a name of your own. Keys are never written here, only where they are.
#[provider.local]
#type = "openai"
#base_url = "http://127.0.0.1:8080/v1"
#model = "default"

#[provider.claude]
#type = "anthropic"
#api_key = "file:claude"        # stored with `zoea credentials set claude`

# MCP servers whose tools the myses use.
#[upstream.git]
#command = "mcp-server-git"
#args = ["--repository", "."]

#[upstream.shared-world]
#url = "http://127.0.0.1:8090/mcp"
#session = "per-mysis"
#inject = { session_id = "account" }
"""


def sample() -> str:
    """The text of the file."""
    parts = [_HEAD]
    for name, field in Settings.model_fields.items():
        if name in TABLES:
            continue
        section = fields_at(Settings, (name,))
        if section is None:
            parts.append(f"# {field.description}\n#{name} = {toml(field.default)}\n")
        else:
            parts.append(_section(name, section))
    return "\n".join([*parts, _EXAMPLES])


def _section(name: str, section: type[BaseModel]) -> str:
    lines = [f"# {(section.__doc__ or '').strip()}", f"[{name}]"]
    for key, field in section.model_fields.items():
        default = "none" if field.default is None else field.default
        lines += [f"# {field.description} ({kind(field)})", f"#{key} = {toml(default) or '{}'}"]
    return "\n".join(lines) + "\n"
