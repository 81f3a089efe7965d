"""Replies that strict model servers can be held to, and that come back as they went."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, ValidationError

from astra_chat.agents.turns import (
    MODEL_ROLES,
    REPLY_TYPES,
    Kernel,
    KernelReply,
    Pass,
    PlannerReply,
    ScalarChoice,
    Source,
    TesterReply,
    reply_type,
)
from astra_chat.models.schema import forms, strict_schema
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Case, candidate_id
from tests.chat_samples import plan, suite


@pytest.mark.parametrize("role", MODEL_ROLES)
def test_schemas_keep_to_what_strict_servers_take(role: str) -> None:
    schema = json.dumps(REPLY_TYPES[role].model_json_schema())  # type: ignore[index]
    assert '"type": "object"' in schema
    for unsupported in ("prefixItems", "oneOf", '"additionalProperties": {'):
        assert unsupported not in schema


@pytest.mark.parametrize(
    "reply",
    [
        TesterReply(reply=suite((7, 12))),
        PlannerReply(reply=plan()),
        KernelReply(reply=Source(words="w", source="s")),
        KernelReply(reply=Pass(words="nothing")),
    ],
    ids=lambda reply: type(reply.reply).__name__,
)
def test_replies_come_back(reply: BaseModel) -> None:
    assert type(reply).model_validate_json(reply.model_dump_json()) == reply


def test_a_role_cannot_answer_with_anothers_payload() -> None:
    with pytest.raises(ValidationError):
        PlannerReply.model_validate_json(
            KernelReply(reply=Source(words="", source="")).model_dump_json()
        )


def test_a_predicted_ratio_is_positive() -> None:
    with pytest.raises(ValidationError):
        plan(predicted_ratio=0)


def test_a_test_case_is_a_case() -> None:
    assert suite((7, 12)).cases[0].case() == Case(dims={"rows": 7, "d": 12}, dtype="float32")


def test_a_test_case_may_say_what_scalars_are_and_how_far_rows_lie_apart() -> None:
    rotary = find_task("rotary_embedding")
    (form, _) = forms(strict_schema(reply_type("tester", rotary)))
    assert '"scalars": [{"name": "is_neox", "value": ' in form and '"pad": ' in form
    plain = suite((7, 12)).cases[0]
    said = plain.model_copy(update={"scalars": (ScalarChoice(name="is_neox", value=0),), "pad": 8})
    assert said.case().scalars == {"is_neox": 0.0} and said.case().pad == 8
    assert plain.model_dump().keys() == {"dims", "dtype", "values", "why"}


def test_a_kernel_is_named_by_its_source() -> None:
    assert Kernel(words="", source="x").candidate == candidate_id("x")


def test_a_testers_schema_names_what_the_task_has(task: Task) -> None:
    plain = strict_schema(reply_type("tester", task))
    (form, _) = forms(plain)
    assert '"dims": [{"name": "rows | d", ' in form and '"dtype": "float32", ' in form
    assert '"types"' not in json.dumps(plain) and "TypeChoice" not in json.dumps(plain)
    more = task.model_copy(update={"types": ({"T": "float16", "Q": "int8"},)})
    assert '"types"' in json.dumps(strict_schema(reply_type("tester", more)))
    assert '"scalars"' not in json.dumps(plain) and '"pad"' not in json.dumps(plain)
    assert reply_type("coder", task) is REPLY_TYPES["coder"]
    said = TesterReply(reply=suite((7, 12))).model_dump_json()
    assert reply_type("tester", task).model_validate_json(said).reply == suite((7, 12))
