"""The JSON Schema of a transcript's line, from the types: `python -m lab.transcript_schema` prints
what transcripts/schema.json holds."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from astra_chat.transcript.events import KINDS, VERSION, Record

NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class LineSchemaGenerator(GenerateJsonSchema):
    """Numbers that are not finite are texts. No field has a title, which would repeat its name."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        number = super().float_schema(schema)
        return {"anyOf": [number, {"enum": list(NOT_FINITE)}]}


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of one line of the present version, as it is written."""
    found = Record.model_json_schema(schema_generator=LineSchemaGenerator, mode="serialization")
    found["$defs"]["Unknown"]["properties"]["kind"]["not"] = {"enum": sorted(KINDS)}
    head = {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": f"A line of an Astra transcript, version {VERSION}",
    }
    return {**found, **head}


def text() -> str:
    """Returns it as text, a definition a line: whole files travel to GPU machines."""
    found = schema()
    defs = found.pop("$defs")
    lines = [f"{json.dumps(name)}:{_compact(defs[name])}" for name in sorted(defs)]
    head = _compact(found).removesuffix("}")
    return f'{head},"$defs":{{\n' + ",\n".join(lines) + "\n}}"


def _compact(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


if __name__ == "__main__":
    print(text())
