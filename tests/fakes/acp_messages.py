"""Strategies for all messages that a model of the Agent Client Protocol's SDK allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

_TEXT = st.text(max_size=20)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=5,
)


def values_of(node: Any, definitions: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Return a strategy for the JSON values of a schema."""
    if not isinstance(node, dict) or not node or depth > 12:
        return ANY
    if "$ref" in node:
        return st.deferred(lambda: values_of(definitions[node["$ref"].rpartition("/")[2]], definitions, depth + 1))
    for key in ("anyOf", "oneOf"):
        if key in node:
            return st.one_of([values_of(one, definitions, depth + 1) for one in node[key]])
    if "allOf" in node:
        return values_of(node["allOf"][0], definitions, depth + 1)
    if "const" in node:
        return st.just(node["const"])
    if "enum" in node:
        return st.sampled_from(node["enum"])
    match node.get("type"):
        case "string":
            return _TEXT
        case "integer":
            return st.integers(node.get("minimum", -(2**63)), node.get("maximum", 2**63))
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array":
            return st.lists(values_of(node.get("items"), definitions, depth + 1), max_size=3)
        case "object" if "properties" in node:
            fields = {name: values_of(one, definitions, depth + 1) for name, one in node["properties"].items()}
            required = set(node.get("required", ()))
            return st.fixed_dictionaries(
                {name: one for name, one in fields.items() if name in required},
                optional={name: one for name, one in fields.items() if name not in required},
            )
        case _:
            return ANY


def messages(model: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for the messages of a model of the SDK."""
    whole = model.model_json_schema(by_alias=True)
    return values_of(whole, whole.get("$defs", {}))
