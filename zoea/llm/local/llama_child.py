"""The process that holds one local model. Imports nothing of Zoea.

It is a separate process because the binding holds the interpreter's lock while it loads a model (0.6 s for 98 MB, many
seconds for gigabytes), prints to the terminal, and aborts the process on internal errors.

It reads one line of JSON (see `LlamaServer`), answers one line with the address or the error, and ends when its
standard input closes: a swarm that is killed takes its models with it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO


def main() -> None:
    """Serve until standard input ends."""
    answers = own_output()
    wanted = json.loads(sys.stdin.readline() or "{}")
    try:
        server = serve(wanted)
    except RuntimeError as error:
        _say(answers, {"error": str(error)})
        raise SystemExit(1) from error
    _say(answers, {"address": server.listening_address, **({"gpu": True} if has_gpu() else {})})
    sys.stdin.read()
    os._exit(0)  # an unfinished answer has no reader any more, and waiting for it would take its whole length


READ_TOKENS = 256
"""Tokens of a prompt that are read between two reports of progress: a few seconds where reading is slow."""


def has_gpu() -> bool:
    """Return whether llama.cpp computes on more than the processor."""
    import xllamacpp

    return any("GPU" in str(device["type"]) for device in xllamacpp.get_device_info())


def serve(wanted: dict[str, Any]) -> Any:
    """Load the model and listen on a loopback port that the system chooses. Raises RuntimeError."""
    import xllamacpp  # reads OMP_WAIT_POLICY as it loads, so the parent sets that before

    params = xllamacpp.CommonParams()
    params.model.path = wanted["model"]
    params.model_alias = {wanted["alias"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [wanted["key"]]
    params.cors_origins = "null"
    params.n_ctx = wanted["context"]
    params.n_parallel = wanted["parallel"]
    params.cpuparams.n_threads = wanted["threads"]
    params.cpuparams_batch.n_threads = wanted["threads"]
    params.n_threads_http = wanted["parallel"] + 2
    params.use_jinja = True
    params.n_batch = READ_TOKENS
    params.warmup = False
    params.ui = False
    params.endpoint_slots = False
    return xllamacpp.Server(params)


def own_output() -> TextIO:
    """Return standard output for the one answer; all other output goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _say(answers: TextIO, what: dict[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
