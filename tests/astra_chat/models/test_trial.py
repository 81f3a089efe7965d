"""One small question for each role."""

from __future__ import annotations

import asyncio

import pytest

from astra_chat.models.spec import ROLES
from astra_chat.models.trial import UNUSABLE, Trial, open_live, try_all
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.fake_openai import Asked, Reply, failed, said, serving


def answer(asked: Asked) -> Reply:
    """Says back what the question gives as an example; the model "odd" does not."""
    question = asked.messages[-1]
    example = question[question.index("{") : question.rindex("}") + 1]
    replies = {
        "m": said(example),
        "odd": said("{}"),
        "mute": said(""),
        "gone": failed(404, "no such model"),
    }
    return replies[asked.body["model"]]


def tried(spec: str) -> dict[str, Trial]:
    with serving(answer) as server:
        found = asyncio.run(try_all(open_live(spec, server.url)))
    team = [role for role in ROLES if role != "single"]
    assert len(server.asked) == len(team) and [trial.role for trial in found] == team
    return {trial.role: trial for trial in found}


def test_each_role_answers_in_its_own_form() -> None:
    found = tried("openai:m")
    assert all(trial.exit_code == 0 and "100 tokens in" in trial.words for trial in found.values())


def test_each_failure_has_its_own_words() -> None:
    found = tried("openai:m,tester=openai:odd,coder=openai:mute,fixer=openai:gone")
    assert found["planner"].exit_code == 0
    assert found["tester"].exit_code == UNUSABLE and "does not match" in found["tester"].words
    assert found["coder"].exit_code == UNUSABLE and "empty" in found["coder"].words
    assert (
        found["fixer"].exit_code == BadInput.exit_code and "no such model" in found["fixer"].words
    )


@pytest.mark.parametrize("spec", ["scripted", "replay:x", "openai:m,coder=scripted"])
def test_only_live_models_are_tried(spec: str) -> None:
    with pytest.raises(BadInput, match="only live models"):
        open_live(spec, None)
