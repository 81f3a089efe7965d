"""Plans and analyses that contradict the facts: sent back once, with a correction."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.fact_check import ask_to_check, contradiction
from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turns import Analysis, Pass, Plan, Turn
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import candidate_id
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import texts, turns_of
from tests.chat_samples import (
    SCALAR,
    VECTOR,
    WRONG_OUTCOME,
    analysis,
    baseline_turns,
    coded,
    evaluation,
    plan,
    timed,
)
from tests.recorded_files import examples


@pytest.fixture
def context(task: Task) -> ChatContext:
    return ChatContext(task, SCALAR, "sglang", "virtual")


def faster() -> list[Turn]:
    return [
        *baseline_turns(),
        Turn("planner", plan()),
        *coded(VECTOR),
        Turn("executor", evaluation(VECTOR, timed(1.9))),
    ]


def planned(**changed: str) -> Plan:
    return plan().model_copy(update=changed)


def test_what_holds_is_no_contradiction(context: ChatContext) -> None:
    assert contradiction(plan(), context, state_of(baseline_turns())) is None
    assert contradiction(analysis(), context, state_of(faster())) is None
    assert contradiction(Pass(words=""), context, state_of(baseline_turns())) is None


def test_blanks_in_an_anchor_do_not_count_and_it_may_have_several_lines(
    context: ChatContext,
) -> None:
    two = "  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;  i < total;\n\n"
    line = next(text for text in SCALAR.splitlines() if "2.0f * in[i]" in text)
    for anchor in (line, f"\t{line.strip()} ", line.replace(" = ", "  =  ")):
        assert contradiction(planned(anchor=anchor), context, state_of(baseline_turns())) is None
    said = contradiction(
        planned(anchor=f"{line}\n{two}no such text"), context, state_of(baseline_turns())
    )
    assert said is not None and said.count("is not in the source") == 1


def test_an_anchor_is_of_the_parent_not_of_the_baseline(context: ChatContext) -> None:
    """The best candidate has no such line any more; the nearest that it has is named."""
    said = contradiction(plan(), context, state_of(faster()))
    assert said is not None and "`out[i] = 2.0f * in[i];` is not in the source to change" in said
    assert contradiction(planned(anchor="float4 v = in[i];"), context, state_of(faster())) is None
    near = contradiction(planned(anchor="float4 v = in[j];"), context, state_of(faster()))
    number = VECTOR.splitlines().index("  float4 v = in[i];") + 1
    assert near is not None and near.endswith(f"line {number} is `float4 v = in[i];`")


def test_an_endless_anchor_is_cut_and_stays_in_one_line(context: ChatContext) -> None:
    said = contradiction(planned(anchor="x\u2028y " * 5000), context, state_of(baseline_turns()))
    assert said is not None and len(said) < 400 and "\u2028" not in said and "\n" not in said


def test_an_empty_anchor(context: ChatContext) -> None:
    said = contradiction(planned(anchor=" \n"), context, state_of(baseline_turns()))
    assert said == "the anchor is empty: copy a line from the source to change"


def test_a_metric_that_no_profile_has(context: ChatContext) -> None:
    said = contradiction(
        planned(metric="global_loads_request"), context, state_of(baseline_turns())
    )
    assert said is not None and "no profile has a metric 'global_loads_request'" in said
    assert "available: global_load_requests" in said
    assert said.endswith("the most similar name is global_load_requests")
    for known in ("barriers", "dram__bytes_read.sum"):
        assert contradiction(planned(metric=known), context, state_of(baseline_turns())) is None, (
            "it exists"
        )


def test_both_are_said_at_once(context: ChatContext) -> None:
    said = contradiction(planned(metric="speed", anchor="zzz"), context, state_of(baseline_turns()))
    assert said is not None and "anchor" in said and "'speed'" in said and "\n" not in said


def test_evidence_that_the_evaluation_does_not_have(context: ChatContext) -> None:
    wrong = analysis().model_copy(update={"evidence": ("dram__bytes_read.sum",)})
    said = contradiction(wrong, context, state_of(faster()))
    assert said is not None and "no metric 'dram__bytes_read.sum'" in said
    assert "available: global_load_requests" in said


def test_a_bottleneck_of_its_own(context: ChatContext) -> None:
    wrong = analysis().model_copy(update={"bottleneck": "memory"})
    said = contradiction(wrong, context, state_of(faster()))
    assert said is not None and "use one of dram, l2, issue" in said


def test_without_a_profile_no_evidence_is_a_contradiction(context: ChatContext) -> None:
    failed = [*faster()[:-1], Turn("executor", evaluation(VECTOR, WRONG_OUTCOME))]
    assert contradiction(analysis(), context, state_of(failed)) is None


def test_the_model_may_stand_by_it() -> None:
    said = ask_to_check("the anchor is empty")
    assert "the anchor is empty" in said and "unchanged if you are sure" in said


@pytest.mark.parametrize("path", examples(), ids=lambda path: path.stem)
def test_no_plan_of_a_shipped_run_is_a_contradiction(path: Path, context: ChatContext) -> None:
    transcript = read(path)
    turns, stored = turns_of(transcript.records), texts(transcript.records)
    baseline = stored[transcript.header.task.files["baseline.cu"]]
    own = ChatContext(context.task, baseline, "sglang", "cuda")
    found = 0
    for number, turn in enumerate(turns):
        payload = turn.payload
        if isinstance(payload, Analysis):
            # Recorded before scripts named only what a profile has.
            payload = payload.model_copy(update={"evidence": ()})
        if isinstance(payload, Plan | Analysis):
            assert contradiction(payload, own, state_of(turns[:number])) is None
            found += 1
    assert found >= 4


def test_a_case_has_to_be_a_timed_one(context: ChatContext) -> None:
    label = "rows=4 d=64 float32"
    assert contradiction(planned(case=label), context, state_of(baseline_turns())) is None
    said = contradiction(planned(case="9x9 float32"), context, state_of(baseline_turns()))
    assert said == f"'9x9 float32' is not a timed case: use one of {label}"


def test_a_parent_has_to_be_a_correct_candidate_and_its_lines_are_not_known(
    context: ChatContext,
) -> None:
    state = state_of(faster())
    named = planned(parent=candidate_id(SCALAR), anchor="")
    assert contradiction(named, context, state) is None
    said = contradiction(planned(parent="0" * 12), context, state)
    names = f"{candidate_id(SCALAR)}, {candidate_id(VECTOR)}"
    assert said == f"no correct candidate is named '{'0' * 12}': use one of {names}"
