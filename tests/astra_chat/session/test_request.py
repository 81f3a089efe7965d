"""The user's words as values, or one line about the one that is off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astra_chat.session.request import Request, SessionOptions, request_for
from astra_chat.transcript.options import RunOptions
from astra_vgpu.ground.errors import BadInput


def request(folder: Path, **changes: Any) -> Request:
    options = {"task": str(folder), "device": "virtual", "rounds": 3, **changes}
    session = {
        name: options.pop(name) for name in [*options] if name in SessionOptions.model_fields
    }
    return request_for(RunOptions.given(**options), SessionOptions(**session))


def test_what_is_not_said_has_defaults(task_folder: Path) -> None:
    found = request_for(RunOptions(), SessionOptions(task=task_folder))
    assert (
        found.limits.rounds == 5
        and found.models.name == "scripted"
        and found.options.tier == "sglang"
    )
    with pytest.raises(BadInput, match="give a TASK"):
        request_for(RunOptions(), SessionOptions())


def test_words_become_values(task_folder: Path) -> None:
    found = request(task_folder, gpu="h100", cases="bench", out="here")
    assert found.task.name == "doubled" and found.limits.rounds == 3
    assert found.device.kind == "virtual" and found.device.spec == "h100"
    assert found.folder == Path("here")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rounds": 0}, "--rounds 0"),
        ({"tier": "today"}, "--baseline today: it must be sglang or paper"),
        ({"cases": "all"}, "--cases all: it must be demo or bench"),
        ({"strategy": "beam:99"}, "--strategy beam:99: 1 to 16 parents"),
        ({"budget": "tokens=x"}, "--budget: tokens"),
        ({"models": "a\nb"}, "--models a b"),
        ({"device": "tpu"}, "no device 'tpu'"),
        ({"models": "oracle"}, "no backend 'oracle'"),
        ({"task": "none"}, "no task 'none'"),
        ({"gpu": "v0"}, "v0"),
        ({"seed": "lucky"}, "'lucky' is not a seed"),
        ({"base_url": "http://127.0.0.1:1/v1"}, "--base-url: also name a model on that server"),
    ],
)
def test_what_is_off_is_named(task_folder: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        request(task_folder, **changes)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_the_root_of_what_is_drawn_is_given_or_fresh(
    task_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert request(task_folder, seed="7").entropy.root == "7".zfill(32)
    monkeypatch.delenv("ASTRA_SEED")
    assert request(task_folder).entropy.root != request(task_folder).entropy.root
