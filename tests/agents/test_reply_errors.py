"""What is wrong with a reply is said so that a model can mend it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from astra_chat.agents.reply_errors import MAX_CASES, MAX_SOURCE, ask_again, malformed, objection
from astra_chat.agents.turns import (
    Extent,
    KernelReply,
    Pass,
    PlannerReply,
    ScalarChoice,
    Source,
    TestCase,
    TesterReply,
    TestSuite,
)
from astra_chat.tools.task.folder import Task, find_task, load_task
from tests.chat_samples import WIDE_TOML, plan, suite


def test_a_malformed_reply_names_the_field() -> None:
    with pytest.raises(ValidationError) as caught:
        PlannerReply.model_validate_json('{"reply": {"kind": "plan", "title": "t"}}')
    assert "reply.Plan.change: Field required" in malformed(caught.value)


def test_only_the_kind_that_was_meant_is_told_about() -> None:
    with pytest.raises(ValidationError) as caught:
        KernelReply.model_validate_json('{"reply": {"kind": "edits", "words": "w"}}')
    assert malformed(caught.value).endswith("the schema: reply.Edits.edits: Field required")
    with pytest.raises(ValidationError) as caught:
        KernelReply.model_validate_json('{"reply": {"kind": "plan"}}')
    said = "it does not match the schema: kind should be 'kernel' or 'edits' or 'pass'"
    assert malformed(caught.value) == said


def test_no_json_at_all() -> None:
    with pytest.raises(ValidationError) as caught:
        PlannerReply.model_validate_json("Sure! Here is my plan")
    assert "JSON" in ask_again(malformed(caught.value))


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        (suite((7, 13)), "case 1: d = 13"),
        (suite((7, 12), (0, 12)), "case 2: rows = 0"),
        (suite((7, 12), (4096, 4096)), "too many for a check"),
        (suite(*[(n + 1, 4) for n in range(MAX_CASES + 1)]), "too many"),
        (
            TestSuite(
                words="",
                cases=(
                    TestCase(
                        dims=(Extent(name="tokens", value=1),),
                        dtype="float32",
                        values="normal",
                        why="",
                    ),
                ),
            ),
            "['tokens']",
        ),
        (
            TestSuite(
                words="", cases=(suite((7, 12)).cases[0].model_copy(update={"dtype": "float16"}),)
            ),
            "float16",
        ),
    ],
)
def test_illegal_cases_go_back(task_folder: Path, tests: TestSuite, said: str) -> None:
    (task_folder / "task.toml").write_text(WIDE_TOML)
    reason = objection(TesterReply(reply=tests), load_task(task_folder))
    assert reason is not None and said in reason


@pytest.mark.parametrize(
    ("scalars", "pad", "said"),
    [
        ([("is_neox", 1), ("is_neox", 0)], 0, "a scalar has two values"),
        ([("is_neox", 2)], 0, "is_neox = 2 is outside its range"),
        ([("is_neox", 0.5)], 0, "is_neox = 0.5 is outside its range"),
        ([("eps", 1)], 0, "only these scalars may vary: ['is_neox']"),
        ([("is_neox", 0)], -1, "pad"),
        ([("is_neox", 0)], 2**40, "are too many for a check"),
        ([("is_neox", 0)], 8, ""),
    ],
)
def test_scalars_and_pads_are_legal(
    scalars: Sequence[tuple[str, float]], pad: int, said: str
) -> None:
    rotary = find_task("rotary_embedding")
    dims = tuple(Extent(name=n, value=v) for n, v in rotary.check[0].dims.items())
    case = TestCase(
        dims=dims,
        dtype=rotary.check[0].dtype,
        values="normal",
        why="",
        pad=pad,
        scalars=tuple(ScalarChoice(name=name, value=value) for name, value in scalars),
    )
    reason = objection(TesterReply(reply=TestSuite(words="", cases=(case,))), rotary)
    assert (reason or "").count("case 1") == bool(said) and said in (reason or "")


def test_a_doubled_dim_is_illegal(task: Task) -> None:
    case = TestCase(
        dims=(Extent(name="rows", value=1), Extent(name="d", value=4), Extent(name="d", value=8)),
        dtype="float32",
        values="normal",
        why="",
    )
    assert objection(TesterReply(reply=TestSuite(words="", cases=(case,))), task) is not None


@pytest.mark.parametrize(
    "reply",
    [
        TesterReply(reply=suite((7, 12))),
        PlannerReply(reply=plan()),
        KernelReply(reply=Source(words="", source="x")),
        KernelReply(reply=Pass(words="")),
    ],
    ids=["tests", "plan", "kernel", "pass"],
)
def test_usable_replies_pass(task: Task, reply: TesterReply | PlannerReply | KernelReply) -> None:
    assert objection(reply, task) is None


@pytest.mark.parametrize(
    ("source", "said"),
    [(" \n", "empty"), ("int x;\0", "NUL"), ("x" * (MAX_SOURCE + 1), "400,001 characters")],
)
def test_a_source_that_is_none_goes_back(task: Task, source: str, said: str) -> None:
    reason = objection(KernelReply(reply=Source(words="", source=source)), task)
    assert reason is not None and said in reason


@pytest.mark.parametrize("ratio", ["1e999", "1e-320", "0.001", "1000"])
def test_a_ratio_that_is_none_goes_back(task: Task, ratio: str) -> None:
    """JSON knows numbers that are infinite once they are read."""
    text = PlannerReply(reply=plan(predicted_ratio=7.5)).model_dump_json().replace("7.5", ratio)
    reason = objection(PlannerReply.model_validate_json(text), task)
    assert reason is not None and "from 0.01 to 100" in reason
