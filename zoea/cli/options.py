"""Options and words that several commands share."""

from __future__ import annotations

from zoea.process.command_line import argument, arguments, flag

MYSIS = argument("NAME", "Name of a mysis (upper and lower case are the same), or #ID.", is_name=True)
MYSES = arguments("NAME", "Names of myses (upper and lower case are the same), or #ID.", is_name=True)
YES = flag("-y, --yes", "Do not ask.")
ALLOW_FRESH = flag("--allow-fresh", "Start without the conversation if it cannot be read.")
KEEP_MODEL = flag("--keep-model", "Accept a model that its server does not list, from now on.")
