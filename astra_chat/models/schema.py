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
    """The same for servers that take no schema."""
    return (
        "Answer with one JSON object and nothing else, neither words nor a Markdown fence round"
        f" it. It must fit this JSON schema:\n{json.dumps(strict_schema(reply))}"
    )


def _closed(node: Any, names: bool = False) -> Any:
    """`names`: the keys of this node are the names of fields or types, not words of the schema."""
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
