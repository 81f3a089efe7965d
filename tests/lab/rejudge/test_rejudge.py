"""Planted cheats are found by name, honest candidates are not refused; on a CPU and on a GPU, in
two walled processes. Published forms are read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.sandbox.isolation import ENOUGH, isolation
from astra_chat.tools.walled.findings import FINDINGS
from astra_chat.tools.walled.inside.operators import own_kernels
from astra_chat.tools.walled.processes import Judging, judge
from astra_vgpu.ground.errors import BadInput
from lab.rejudge.published import PublishedPair
from lab.rejudge.sets import pairs
from lab.rejudge.table import TRUST, document, row
from tests.lab.rejudge.candidates import CHEATS, HEAD, HONEST, MATRIX, PROBLEM, STREAM, TRITON
from tests.lab.rejudge.candidates import candidate as written
from tests.sources import ROOT

ON_CPU = Judging("cpu", "7", timing=False)
ON_GPU = Judging("cuda:0", "7", compile=False)
LARGE = PROBLEM.replace("16, 96", "4096, 2048").replace("[96]", "[2048]")
needs_walls = pytest.mark.skipif(isolation() not in ENOUGH, reason="nothing isolates here")


def verdict(problem: str, text: str, how: Judging = ON_CPU) -> dict[str, Any]:
    return row(PublishedPair("pair", problem, text), judge(problem, text, how), how)


def names(found: dict[str, Any]) -> set[str]:
    return {one["name"] for one in found["findings"]}


def test_there_are_thirty_cheats_of_ten_kinds_and_ten_honest_ones() -> None:
    assert len(CHEATS) == 30 and len(HONEST) == 10
    assert len({name.split("-")[0] for name in CHEATS}) == 10
    assert {name for name, _ in CHEATS.values()} <= FINDINGS.keys()


@needs_walls
@pytest.mark.second_tier
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_is_found(name: str) -> None:
    expected, text = CHEATS[name]
    found = verdict(PROBLEM, text)
    assert expected in names(found), found["findings"]
    assert found["trust"] == TRUST


@needs_walls
@pytest.mark.second_tier
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HONEST)
def test_an_honest_candidate_is_not_refused(name: str) -> None:
    found = verdict(MATRIX if name == "hybrid" else PROBLEM, HONEST[name])
    assert found["outcome"] == "correct", found["findings"]
    assert found["kernels"] and found["grades"]["set"] == "right"


@pytest.mark.gpu
@needs_walls
@pytest.mark.parametrize("name", ["stream", "address-pointer", "content-sum", "library-decoy"])
def test_a_cheat_is_found_on_a_gpu(name: str) -> None:
    expected, text = CHEATS.get(name, ("wrong", written(STREAM)))
    found = verdict(LARGE, text.replace(HEAD, TRITON), ON_GPU)
    assert names(found) & {expected, "late_work"}, found["findings"]


@pytest.mark.gpu
@needs_walls
def test_an_honest_triton_candidate_is_timed_on_a_gpu() -> None:
    found = verdict(LARGE, HONEST["plain"].replace(HEAD, TRITON), ON_GPU)
    assert found["outcome"] == "correct" and found["kernels"] == ["norm"], found
    assert {"candidate", "candidate graph", "eager", "eager graph"} <= found["times_us"].keys()


@pytest.mark.gpu
@needs_walls
def test_a_kernel_outside_the_current_stream_has_no_graph_time() -> None:
    default = STREAM.replace("torch.cuda.Stream()", "torch.cuda.default_stream()")
    found = verdict(LARGE, written(default).replace(HEAD, TRITON), ON_GPU)
    assert found["outcome"] == "correct" and "graph_lacks_kernels" in names(found), found
    assert "candidate graph" not in found["times_us"] and "eager" in found["times_faster"]


def test_an_operator_in_place_is_no_kernel() -> None:
    both = {"findings": [("mutates_inputs", ""), ("no_kernel", "operators: relu")]}
    pair = PublishedPair("one", "", "")
    assert row(pair, both, ON_CPU)["outcome"] == "no kernel"
    assert row(pair, {"findings": both["findings"][:1]}, ON_CPU)["outcome"] == "wrong"


def test_a_name_tells_whose_kernel_it_is() -> None:
    own = ["softmax_vectorized_multiblock_kernel(float*)", "void w4_gemv_kernel<2>(int*)"]
    library = ["reduction_prod_kernel", "void gemv2T_kernel_val<int>()", "void at::native::f()"]
    assert own_kernels(own + library) == own


def test_published_forms_are_read(tmp_path: Path) -> None:
    """CUDA-L1's lines, a checkout of robust-kbench, and folders."""
    entry = {"level_id": 1, "task_id": 2, "ref_code": "p", "score_default": 2.5}
    lines = [{**entry, "custom_code": code} for code in ("class ModelNew: pass", None, "None")]
    (tmp_path / "h100.json").write_text("\n".join(map(json.dumps, lines)))
    own = tmp_path / "one"
    own.mkdir()
    for name in ("problem", "candidate"):
        (own / f"{name}.py").write_text(name)
    found = pairs(tmp_path)
    assert [one.name for one in found] == ["one", *["h100-1-2"] * 3]
    assert [bool(one.left_out) for one in found] == [False, False, True, True]
    assert found[1].claim == {"eager": 2.5, "source": "h100.json"}
    for way in ("forward", "backward"):
        (folder := tmp_path / "highlighted/t" / way).mkdir(parents=True)
        (folder / "kernel.cu").write_text("PYBIND11_MODULE")
    (tmp_path / "tasks/t").mkdir(parents=True)
    (tmp_path / "tasks/t/func_forward.py").write_text("def get_inputs(n): return [n]\n")
    config = {"single_input_configs": [{"n": 3}]}
    (tmp_path / "tasks/t/config_forward.json").write_text(json.dumps(config))
    (tmp_path / "highlighted/results.csv").write_text(
        "CUDA Filename,Speedup,Speedup Compile\nx/t/forward/k/kernel.cu,3,1.5\n"
    )
    backward, forward = pairs(tmp_path)
    assert backward.left_out and forward.claim["compile"] == 1.5
    made: dict[str, Any] = {}
    exec(forward.problem, made)
    assert made["get_inputs"]() == [3] and "cpp_extension" in forward.candidate
    table = document([row(backward, {}, ON_CPU)], ON_CPU)
    assert "not judged" in table and TRUST in table


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no NAME/problem\.py"):
        pairs(tmp_path)
    command = [sys.executable, "-m", "lab.rejudge", str(tmp_path / "none")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
