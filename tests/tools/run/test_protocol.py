"""Requests and reports of runner processes: parsed once, and refused where they are not ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import KernelNode, LaunchPlan
from astra_chat.tools.run.protocol import (
    BadReport,
    Block,
    CallRequest,
    CaseReport,
    CountedLaunch,
    CudaRequest,
    ProfiledRequest,
    Started,
    UnsafeCall,
    VirtualRequest,
    WarmReplay,
    parsed,
)
from astra_chat.tools.types import Case
from astra_chat.tools.virtual_gpu.adapter import Counters
from tests.time_samples import READING, raw_times

CASE = Case(dims={"n": 4}, dtype="float32")
NODE = KernelNode(kernel="k", grid=(1, 1, 1), block=(1, 1, 1), parameters=b"\x00\xff\x80")
PLAN = LaunchPlan(case=CASE, nodes=(NODE,))
BLOCK = Block(
    candidate_first=True,
    baseline=(1.5, 2.5),
    candidate=(4.0, 5.0),
    control=(2.0, 2.0),
    spent_s=0.5,
    clock=READING,
)
CALL = CallRequest(case=CASE, inputs=Path("/in"), after=Path("/out"), turn=3, seed=Seed("a"))


def test_a_request_comes_through_the_pipe_as_it_was() -> None:
    call = CALL.model_copy(update={"plan": PLAN})
    request = VirtualRequest(
        task=Path("/task"),
        ptx=Path("/kernel.ptx"),
        spec="h200",
        engine="auto",
        counters=True,
        compiled={"k": Path("/k.so")},
        resources={"k": (32, 0)},
        seed=Seed("b"),
        calls=(call,),
        descending=False,
    )
    sent = json.dumps(request.model_dump(mode="json"))
    assert VirtualRequest.model_validate_json(sent) == request
    with pytest.raises(ValidationError):
        VirtualRequest.model_validate_json(sent.replace('"counters"', '"counted"'))


def test_a_call_without_a_plan_launches_nothing() -> None:
    with pytest.raises(ValueError, match="no launch plan"):
        _ = CALL.launches
    assert CALL.model_copy(update={"plan": PLAN}).launches == PLAN


def test_a_report_comes_through_the_pipe_as_it_was() -> None:
    counters = Counters(global_load_requests=4)
    counters.warp_instructions["int"] = 7
    report = CaseReport(
        index=2,
        status=700,
        unsafe=UnsafeCall(what="a race", where="kernel.cu:3"),
        launches=(CountedLaunch(kernel="k", scale=2.0, counters=counters),),
    )
    fields = report.numbered(2)
    assert parsed(json.loads(json.dumps({"kind": "case", **fields}))) == report
    assert parsed({"kind": "start", "index": 2}) == Started(index=2)


def test_a_request_of_one_child_is_extended_for_another() -> None:
    request = CudaRequest(
        task=Path("/task"),
        mode="profile",
        index=1,
        cubin=Path("/k.cubin"),
        seed=Seed("b"),
        calls=(CALL,),
    )
    profiled = request.extended(ProfiledRequest, marker="m", times=(3,))
    sent = json.dumps(profiled.model_dump(mode="json"))
    assert ProfiledRequest.model_validate_json(sent) == profiled
    assert profiled.calls == request.calls and profiled.times == (3,)
    with pytest.raises(ValidationError):
        CudaRequest.model_validate_json(sent)


def test_a_real_gpu_s_times_are_kept_as_they_came() -> None:
    times = raw_times(
        (BLOCK,),
        warm=(WarmReplay(baseline_us=2.0, candidate_us=1.5),),
        baseline_event_us=(7.0, 7.5),
    )
    sent = json.dumps({"kind": "case", **CaseReport(times=times).numbered(4)})
    report = parsed(json.loads(sent))
    assert isinstance(report, CaseReport) and (report.index, report.measured) == (4, times)
    assert (times.blocks[0].baseline_us, times.blocks[0].candidate_us) == (2.0, 4.5)
    with pytest.raises(ValueError, match="no times"):
        _ = CaseReport().measured


@pytest.mark.parametrize(
    "fields",
    [
        {"index": "first"},
        {"index": -1},
        {"index": 0, "status": "well"},
        {"index": 0, "guard_bytes": -4096},
        {"index": 0, "copies": 0},
        {"index": 0, "unsafe": {"what": "a race"}},
        {"index": 0, "unsupported": 1},
        {"index": 0, "times": {"blocks": []}},
        {"index": 0, "host_us": float("nan")},
        {"index": 0, "blocks": []},
    ],
)
def test_a_report_that_no_runner_writes_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(BadReport):
        parsed({"kind": "case", **fields})


def test_an_estimate_that_was_not_made_is_an_error_of_ours() -> None:
    with pytest.raises(ValueError, match="no estimate"):
        _ = CaseReport().estimated
