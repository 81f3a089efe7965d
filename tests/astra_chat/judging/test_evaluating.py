"""One kernel in, one report out, on the virtual GPU: values, words, and what is bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat import BadInput, evaluate
from astra_chat.judging.evaluating import EvaluationReport
from astra_chat.tools.progress import Progress
from astra_chat.tools.report.results_text import judge_report
from astra_vgpu.ground.errors import AstraError
from tests.chat_samples import BROKEN, SCALAR, VECTOR, WRONG


@pytest.mark.second_tier
def test_a_faster_kernel_is_timed_and_profiled(task_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(VECTOR)
    seen: list[Progress] = []
    found = evaluate(
        task_folder,
        tmp_path / "k.cu",
        device="virtual",
        on_progress=seen.append,
        more_cases=['{ rows = 2, d = 8, dtype = "float32" }'],
    )
    assert (found.task, found.verdict, found.passed) == ("doubled", "accepted", True)
    assert found.report == judge_report(found.evaluation)
    assert "estimated" in found.report and "time_reachable" in found.report
    steps = [step.name for step in found.evaluation.steps]
    assert steps == ["guard", "build", "audit", "plan", "check", "time", "profile"]
    assert {"build", "check", "time", "profile"} <= {one.step for one in seen}
    (early,) = [place for place, one in enumerate(seen) if one.remark]
    assert "x the baseline's speed on" in seen[early].remark
    assert seen[early].remark.endswith("not checked yet")
    assert not any("compared" in one.text for one in seen[:early])
    check = found.evaluation.check
    assert check is not None and any(case.dims == {"rows": 2, "d": 8} for case in check.visible)
    document = json.loads(found.model_dump_json())
    assert document["schema"] == "astra-chat/evaluation-report/1"
    assert EvaluationReport.model_validate(document) == found


@pytest.mark.parametrize(
    ("source", "verdict", "said"),
    [
        (BROKEN, "build_failed", "inn"),
        (WRONG, "wrong", "elements"),
        (SCALAR.replace("doubled(", "tripled("), "refused", "launcher"),
        ("x" * 10_000_000, "refused", "the source is longer than 524288 bytes"),
    ],
    ids=["broken", "wrong", "refused", "huge"],
)
def test_a_failure_is_a_report(task_folder: Path, source: str, verdict: str, said: str) -> None:
    found = evaluate(task_folder, source, device="virtual")
    assert (found.verdict, found.passed) == (verdict, False)
    assert said in found.report and len(found.report) < 10_000


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"task": "no_such_task"}, "no task 'no_such_task'"),
        ({"kernel": Path("/no/such/file.cu")}, "cannot read /no/such/file.cu"),
        ({"cases": "some"}, "there are no cases named 'some': use demo or bench"),
        ({"baseline": "mine"}, "there is no baseline 'mine': use "),
        ({"engine": "steam"}, "there is no engine 'steam': use "),
        ({"device": "tpu"}, "tpu"),
        ({"seed": "xyz"}, "xyz"),
        ({"more_cases": ["{ rows = 0 }"]}, "case"),
    ],
)
def test_bad_input_is_one_line(task_folder: Path, changes: dict[str, str], said: str) -> None:
    words = {"task": task_folder, "kernel": VECTOR, "device": "virtual", **changes}
    with pytest.raises(AstraError, match=said) as caught:
        evaluate(**words)  # type: ignore[arg-type]
    assert isinstance(caught.value, BadInput) and len(str(caught.value).splitlines()) == 1
