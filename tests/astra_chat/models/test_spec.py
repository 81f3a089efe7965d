"""The words of --models."""

from __future__ import annotations

import pytest

from astra_chat.models.spec import ROLES, ModelSpec, at_address, parse
from astra_vgpu.ground.errors import BadInput


def test_one_model_plays_all_roles() -> None:
    assert parse("openai:o4-mini") == dict.fromkeys(ROLES, ModelSpec("openai", "o4-mini"))
    assert set(ROLES) == {"tester", "planner", "coder", "fixer", "profiler", "single", "selector"}


def test_a_role_may_have_its_own_model_and_options() -> None:
    found = parse("scripted,coder=openai:gpt-5,seed=1,coder.seed=2,planner.top_p=0.5")
    assert found["coder"] == ModelSpec("openai", "gpt-5", {"seed": "2"})
    assert found["planner"] == ModelSpec("scripted", "", {"seed": "1", "top_p": "0.5"})
    assert found["selector"] == ModelSpec("scripted", "", {"seed": "1"})


def test_models_may_have_colons_and_slashes() -> None:
    assert parse("openai:qwen2.5-coder:7b")["fixer"].argument == "qwen2.5-coder:7b"
    assert parse("openai:meta/llama")["fixer"].argument == "meta/llama"


def test_an_address_is_one_more_option() -> None:
    spec = at_address("openai:m", "http://host:80/v1")
    assert parse(spec)["tester"].options == {"base_url": "http://host:80/v1"}
    assert at_address("openai:m", None) == "openai:m"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("openai:a,b", "'b' is not of the form name=value"),
        ("openai:a,seed=", "'seed=' is not of the form"),
        ("openai:a,driver.seed=1", "there is no role 'driver'; the roles are tester"),
        (
            "openai:a,judge=openai:o3",
            "there is no role 'judge'; the roles are tester.*coder=openai:gpt-5",
        ),
        ("judge=openai:o3", "give the model for all roles first, before 'judge=openai:o3'"),
        ("openai:", "'openai:' names no model: for example openai:o4-mini"),
        ("openai:a,coder=openai:", "'openai:' names no model"),
    ],
)
def test_mistakes_are_named(spec: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse(spec)


def test_a_spec_says_what_it_is() -> None:
    assert str(parse("openai:m,seed=1")["coder"]) == "openai:m" and str(ModelSpec("a")) == "a"
