"""Change the user's price file, keeping all other text and comments."""

from __future__ import annotations

import os
from pathlib import Path

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import InlineTable

from zoea.llm.prices import ModelPrice, parse_prices, read_price_file
from zoea.settings.document import parse_document
from zoea.settings.key_paths import Layer, Origin
from zoea.settings.private_file import lock_file, write_private
from zoea.settings.small_file import read_small_text

_HEAD = "# Prices of models in dollars per million tokens; they win over those that Zoea knows (`zoea prices`).\n"


def set_price(file: Path, price: ModelPrice) -> None:
    """Set the entry of a model. Raises SettingsError if the file cannot be read or written."""
    file = Path(os.path.realpath(file))
    with lock_file(file):
        document = _read(file)
        if "model" not in document:
            document["model"] = tomlkit.table(is_super_table=True)
        # A table written on one line takes only entries on its line.
        is_inline = isinstance(document["model"], InlineTable)
        entry = tomlkit.inline_table() if is_inline else tomlkit.table()
        entry.update({"input": price.input, "cached": price.cached, "output": price.output})
        if price.source:
            entry["source"] = price.source
        entry["as_of"] = price.as_of
        document["model"][price.name] = entry
        _write(file, document)


def remove_price(file: Path, model: str) -> bool:
    """Remove the entry of a model; False if there is none. Raises SettingsError."""
    if not file.exists():
        return False
    file = Path(os.path.realpath(file))
    with lock_file(file):
        document = _read(file)
        entries = document.get("model", {})
        if model not in entries:
            return False
        del entries[model]
        _write(file, document)
    return True


def _read(file: Path) -> TOMLDocument:
    """Return the document. Raises SettingsError if it is no valid price file."""
    if not file.exists():  # or a link to nothing, which is replaced
        return tomlkit.parse(_HEAD)
    read_price_file(file)
    return tomlkit.parse(read_small_text(file))


def _write(file: Path, document: TOMLDocument) -> None:
    """Write the document, unless it could not be read again. Raises SettingsError."""
    text = tomlkit.dumps(document)
    parse_prices(file, parse_document(text.encode(), Origin(Layer.USER, str(file))))
    write_private(file, text)
