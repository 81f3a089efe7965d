"""Options of live models: refused when unknown, keys from the environment alone."""

from __future__ import annotations

import pytest

from astra_chat.models.openai_options import OpenAIOptions, key_of, options_of
from astra_chat.models.providers import PROVIDERS
from astra_chat.models.spec import ModelSpec
from astra_vgpu.ground.errors import BadInput, MissingDependency


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OTHER_KEY"):
        monkeypatch.delenv(name, raising=False)


def options(**given: str) -> OpenAIOptions:
    return options_of("coder", ModelSpec("openai", "some-model", given))


def test_words_become_values() -> None:
    found = options(reasoning_effort="low", max_completion_tokens="100", temperature="0.5")
    assert found.model == "some-model" and found.base_url == PROVIDERS["openai"].base_url
    assert found.wire() == {
        "reasoning_effort": "low",
        "max_completion_tokens": 100,
        "temperature": 0.5,
    }
    assert options_of("coder", ModelSpec("openai")).model == "o4-mini"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"reasoning_efort": "high"},
            "coder: there is no option 'reasoning_efort'; did you mean",
        ),
        ({"max_completion_token": "9"}, "no option 'max_completion_token'"),
        ({"api_key": "secret"}, "no option 'api_key'"),
        ({"tries": "0"}, "tries: "),
        ({"api_version": "a b"}, "api_version: "),
        ({"reasoning_effort": "much"}, "reasoning_effort: "),
        ({"timeout_s": "soon"}, "timeout_s: "),
        ({"base_url": "localhost:8000"}, "base_url: must be http"),
        ({"base_url": "ftp://host/v1"}, "base_url: must be http"),
        ({"base_url": "http://me:pass@host/v1"}, "base_url: must not contain a user name"),
        ({"base_url": "http://host/v1?key=pass"}, "base_url: must not contain a user name"),
    ],
)
def test_what_is_off_is_named(given: dict[str, str], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        options(**given)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert "pass@" not in str(caught.value) and "secret" not in str(caught.value)


def test_openai_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDependency, match="set OPENAI_API_KEY"):
        key_of(options())
    monkeypatch.setenv("OPENAI_API_KEY", "  k1 \n")
    assert key_of(options()).get_secret_value() == "k1"


def test_another_server_may_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    here = options(base_url="http://127.0.0.1:1/v1/")
    assert here.base_url == "http://127.0.0.1:1/v1"
    assert key_of(here).get_secret_value() == "EMPTY"
    monkeypatch.setenv("OPENAI_API_KEY", "k1")
    assert key_of(here).get_secret_value() == "k1"


def test_a_short_key_is_warned_about_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("A_SHORT_KEY", "none")
    named = options(base_url="http://127.0.0.1:1/v1", key_env="A_SHORT_KEY")
    for _ in range(3):
        assert key_of(named).get_secret_value() == "none"
    assert caplog.text.count("the key in A_SHORT_KEY has fewer than 16 characters") == 1
    monkeypatch.setenv("A_LONG_KEY", "sixteen-letters!")
    key_of(options(base_url="http://127.0.0.1:1/v1", key_env="A_LONG_KEY"))
    assert "A_LONG_KEY" not in caplog.text


def test_a_named_key_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    named = options(base_url="http://127.0.0.1:1/v1", key_env="OTHER_KEY")
    with pytest.raises(MissingDependency, match="set OTHER_KEY"):
        key_of(named)
    monkeypatch.setenv("OTHER_KEY", "k2")
    assert key_of(named).get_secret_value() == "k2" and "k2" not in repr(key_of(named))


def test_the_usual_variable_names_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    assert options().base_url == "http://elsewhere/v1"
    assert options(base_url="http://here/v1").base_url == "http://here/v1"


def test_a_description_holds_what_shapes_answers_and_no_address() -> None:
    found = options(seed="7", base_url="http://host/v1", timeout_s="9")
    assert found.described == "openai:some-model,seed=7"
