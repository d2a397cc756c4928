"""Answers of a real llama.cpp server, for the fakes of both its APIs. It was b11549 with Qwen2.5-Coder 0.5B."""

from __future__ import annotations

import json
from typing import Any

LISTED: dict[str, Any] = {
    "id": "qwen-0.5b.gguf",
    "aliases": ["qwen-0.5b.gguf"],
    "tags": [],
    "object": "model",
    "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
    "created": 1795388701,
    "owned_by": "llamacpp",
    "meta": {"vocab_type": 2, "n_vocab": 151936, "n_ctx": 4096, "n_ctx_train": 32768, "n_embd": 896},
}
PROPS: dict[str, Any] = {
    "default_generation_settings": {"n_ctx": 4096},
    "total_slots": 2,
    "model_alias": "qwen-0.5b.gguf",
    "endpoint_slots": True,
    "chat_template_caps": {
        "supports_object_arguments": True,
        "supports_parallel_tool_calls": True,
        "supports_system_role": True,
        "supports_tool_calls": True,
        "supports_tools": True,
    },
    "build_info": "b0-unknown",
    "is_sleeping": False,
}


def progress_chunk(processed: int, total: int) -> bytes:
    """Return the event that tells how much of the prompt is read."""
    told = {
        "choices": [{"finish_reason": None, "index": 0, "delta": {"role": "assistant", "content": None}}],
        "created": 1795388703,
        "id": "chatcmpl-ZoLb",
        "model": "qwen-0.5b.gguf",
        "object": "chat.completion.chunk",
        "prompt_progress": {"total": total, "cache": 0, "processed": processed, "time_ms": 36103},
    }
    return f"data: {json.dumps(told)}\n\n".encode()
