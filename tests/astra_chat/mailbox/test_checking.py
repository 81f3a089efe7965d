"""An answer is held against schema and the run's facts before it is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.agents.turns import Edit, Edits, KernelReply, Pass, PlannerReply
from astra_chat.mailbox.checking import answer
from astra_chat.mailbox.files import MAX_BYTES
from astra_chat.mailbox.questions import Question, ask
from astra_chat.tools.task.folder import Task
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.mailbox_samples import go_on, meta, open_question, run, scripted, states
from tests.chat_samples import VECTOR, plan

FACTS = "checked against the schema and the run's facts"


@pytest.fixture
def box(tmp_path: Path) -> Path:
    return tmp_path / "box"


def asked(task: Task, box: Path, role: str) -> Question:
    """The first question to a role, after the script's answers to those before."""
    result = run(task, box, box.parent / "out")
    while (question := open_question(box)).meta.role != role:
        answer(question, scripted(task, question))
        result = go_on(task, result.transcript, box)
    return question


def refusal(question: Question, reply: str, words: str | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        answer(question, reply, words=words)
    assert question.state == "open" and len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_a_tester_may_ask_for_legal_cases_only(task: Task, box: Path) -> None:
    question = asked(task, box, "tester")
    assert "it does not match the schema" in refusal(question, '{"reply": {"kind": "tests"}}')
    assert "it does not match the schema" in refusal(question, "[" * 100_000)
    assert "kind should be 'tests' or 'pass'" in refusal(
        question, PlannerReply(reply=plan()).model_dump_json()
    )
    case = {
        "dims": [{"name": "rows", "value": 7}, {"name": "d", "value": 13}],
        "dtype": "float32",
        "values": "normal",
        "why": "",
    }
    suite = {"reply": {"kind": "tests", "words": "", "cases": [case]}}
    assert "the answer cannot be used: case 1" in refusal(question, json.dumps(suite))
    assert "does not ask the tester for a kernel" in refusal(question, VECTOR, words="Four.")
    assert "longer than" in refusal(question, " " * (MAX_BYTES + 1))
    assert answer(question, TESTED, answered_by="Ada") == FACTS
    assert len(list(question.folder.glob("refused-*.json"))) == 4


TESTED = json.dumps({"reply": {"kind": "pass", "words": "no further case"}})


def test_a_plan_names_a_line_and_a_metric(task: Task, box: Path) -> None:
    question = asked(task, box, "planner")
    odd = plan().model_copy(update={"anchor": "no such line", "metric": "speed"})
    reply = PlannerReply(reply=odd).model_dump_json()
    said = refusal(question, reply)
    assert "contradicts the facts: the anchor `no such line` is not in the source" in said
    assert "to submit it anyway, add --as-is" in said
    assert answer(question, reply, as_is=True) == FACTS
    with pytest.raises(BadInput, match="already has an answer"):
        answer(question, reply)


def test_a_kernel_is_checked_like_a_reply(task: Task, box: Path) -> None:
    question = asked(task, box, "coder")
    assert "the source is empty" in refusal(question, " \n", words="Nothing.")
    assert "NUL" in refusal(question, "a\0b", words="Hidden.")
    edits = KernelReply(reply=Edits(words="", edits=(Edit(find="nowhere", replace=""),)))
    assert "occurs 0 times" in refusal(question, edits.model_dump_json())
    assert answer(question, VECTOR, words="Four at a time.") == FACTS
    result = go_on(task, Path(question.meta.transcript), box)
    assert result.summary.rounds[0].attempts[0].ratio == 1.9


def test_a_choice_is_one_of_those_who_may_act(task: Task, box: Path) -> None:
    question = asked(task, box, "selector")
    assert "'coder' may not act at this point" in refusal(question, '{"choose": "coder"}')
    assert answer(question, '{"choose": "planner"}') == FACTS


def test_without_the_transcript_the_schema_alone_is_checked(tmp_path: Path) -> None:
    question = ask(tmp_path, meta("run-1-planner-r1a1-0", role="planner", kernel=False), "", {})
    odd = PlannerReply(reply=plan().model_copy(update={"anchor": "no such line"}))
    assert "does not match the schema" in refusal(question, "{}")
    assert "so the run will check" in answer(question, odd.model_dump_json())
    other = ask(tmp_path, meta("run-2-selector-r1a1-0", run="run-2", role="selector"), "", {})
    assert "so the run will check" in answer(other, '{"choose": "planner"}')


def test_facts_of_another_turn_are_none(task: Task, box: Path) -> None:
    """The run has gone on without this question, say because it was branched."""
    question = asked(task, box, "planner")
    late = meta(
        "late",
        run=question.meta.run,
        role="planner",
        round=7,
        kernel=False,
        transcript=question.meta.transcript,
    )
    passed = PlannerReply(reply=Pass(words="no plan")).model_dump_json()
    assert "so the run will check" in answer(ask(box, late, "", {}), passed)
    assert states(box).count("closed") == 2
