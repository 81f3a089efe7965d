"""Reply types as JSON schemas that strict model servers take."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

DROPPED = ("default", "title")
"""Strict servers refuse defaults; titles only cost tokens."""


def strict_schema(reply: type[BaseModel]) -> dict[str, Any]:
    """The schema with every object closed and every field required."""
    schema = _closed(reply.model_json_schema())
    assert isinstance(schema, dict)
    return schema


def response_format(reply: type[BaseModel]) -> dict[str, Any]:
    """The `response_format` of a request for this type, sent as it is.

    The SDK's own way of parsing replies loses the text and the usage of malformed ones.
    """
    form = {"name": reply.__name__, "strict": True, "schema": strict_schema(reply)}
    return {"type": "json_schema", "json_schema": form}


def in_words(reply: type[BaseModel]) -> str:
    """Returns a reply's schema as text for a prompt, for servers that take no schema."""
    return (
        "Answer with one JSON object and nothing else, without text or a Markdown fence"
        f" around it. It must fit this JSON schema:\n{json.dumps(strict_schema(reply))}"
    )


def forms(schema: dict[str, Any]) -> list[str]:
    """The replies that fit a strict schema, a line each, with the values of enums."""
    named = schema.get("$defs", {})
    if "reply" not in schema["properties"]:
        return [json.dumps(_sketch(schema, named))]
    kinds = schema["properties"]["reply"]["anyOf"]
    return [json.dumps({"reply": _sketch(kind, named)}) for kind in kinds]


def _sketch(node: dict[str, Any], named: dict[str, Any]) -> Any:
    """A value of this part of a schema, with words in the place of what is to be filled in."""
    if "$ref" in node:
        return _sketch(named[node["$ref"].rpartition("/")[2]], named)
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return " | ".join(map(str, node["enum"]))
    if "properties" in node:
        return {name: _sketch(child, named) for name, child in node["properties"].items()}
    if node.get("type") == "array":
        return [_sketch(node["items"], named), "..."]
    return f"({node.get('type', 'value')})"


def _closed(node: Any, names: bool = False) -> Any:
    """Returns a part of a schema with its objects closed. `names`: the keys of this node are the
    names of fields or types, not words of the schema."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _closed(child) for name, child in node.items()}
    closed = {
        word: _closed(child, names=word in ("properties", "$defs"))
        for word, child in node.items()
        if word not in DROPPED
    }
    if "properties" in closed:
        closed |= {"required": list(closed["properties"]), "additionalProperties": False}
    return closed
