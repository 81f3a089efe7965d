"""Schemas as strict servers want them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from astra_chat.agents.turns import REPLY_TYPES, NextSpeaker, PlannerReply
from astra_chat.models.schema import forms, in_words, response_format, strict_schema

REPLIES = [*dict.fromkeys(REPLY_TYPES.values()), NextSpeaker]


def objects(node: Any) -> list[dict[str, Any]]:
    """Every object's schema in a schema."""
    if isinstance(node, list):
        return [found for item in node for found in objects(item)]
    if not isinstance(node, dict):
        return []
    own = [node] if node.get("type") == "object" else []
    return own + [found for child in node.values() for found in objects(child)]


@pytest.mark.parametrize("reply", REPLIES)
def test_every_object_is_closed_and_every_field_required(reply: type[BaseModel]) -> None:
    schema = strict_schema(reply)
    assert objects(schema)
    for one in objects(schema):
        assert one["additionalProperties"] is False
        assert one["required"] == list(one["properties"])
    text = json.dumps(schema)
    assert '"default"' not in text and "prefixItems" not in text


def test_a_field_called_title_stays() -> None:
    plan = strict_schema(REPLY_TYPES["planner"])["$defs"]["Plan"]
    assert plan["properties"]["title"] == {"type": "string"}
    assert plan["properties"]["kind"]["const"] == "plan"


def test_the_form_of_a_request() -> None:
    form = response_format(NextSpeaker)
    assert form["json_schema"]["name"] == "NextSpeaker" and form["json_schema"]["strict"] is True
    assert json.dumps(strict_schema(NextSpeaker)) in in_words(NextSpeaker)


def test_the_forms_of_a_reply_show_its_outer_object_and_enums() -> None:
    plan, passed = forms(strict_schema(PlannerReply))
    assert plan.startswith('{"reply": {"kind": "plan", "title": "(string)", ')
    assert '"moves": "up | down | stays | unsaid"' in plan
    assert passed == '{"reply": {"kind": "pass", "words": "(string)"}}'
    assert forms(strict_schema(NextSpeaker)) == ['{"choose": "planner | tester"}']


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply.__name__)
def test_every_reply_has_forms_that_are_json(reply: type[BaseModel]) -> None:
    for form in forms(strict_schema(reply)):
        assert json.loads(form).keys() <= {"reply", "choose"}
