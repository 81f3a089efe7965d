"""A data set of flashinfer-bench: what its own types accept where it is installed."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from astra_chat.analysis.recorded_run import load_transcript
from astra_chat.export.filters import Filter
from astra_chat.export.flashinfer_bench import data_set, definition, require_sayable, source
from astra_chat.tools.build.tvm_ffi_binding import FLAGS, compile_cpp, tvm_ffi_folder
from astra_chat.tools.task.folder import find_task
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.toolkit import find_toolkit
from tests.recorded_files import EXAMPLES, VIRTUAL

FILES = (EXAMPLES / "h200/fused_add_rmsnorm.jsonl", VIRTUAL)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return data_set([load_transcript(path) for path in FILES], Filter(), "Apache-2.0")


def test_what_is_changed_in_place_is_an_output_of_its_own() -> None:
    found = definition(find_task("fused_add_rmsnorm"), "bfloat16")
    assert list(found["inputs"]) == ["input", "residual", "weight", "eps"]
    assert list(found["outputs"]) == ["input_out", "residual_out"]
    assert found["inputs"]["eps"] == {"shape": None, "dtype": "float32"}
    run = next(
        node
        for node in ast.parse(found["reference"]).body
        if isinstance(node, ast.FunctionDef) and node.name == "run"
    )
    assert [argument.arg for argument in run.args.args] == list(found["inputs"])


def test_an_extent_that_is_no_dim_is_an_axis_and_a_constraint() -> None:
    found = definition(find_task("silu_and_mul"), "float16")
    assert found["inputs"]["input"]["shape"] == ["tokens", "extent_2_d"]
    assert found["constraints"] == ["extent_2_d == 2*d"]


def test_only_measured_cases_are_traces(files: dict[str, bytes]) -> None:
    traces = {name: files[name].decode().splitlines() for name in files if name.startswith("tr")}
    assert all("fused_add_rmsnorm" in name for name in traces)
    lines = [json.loads(line) for some in traces.values() for line in some]
    states = [line["evaluation"]["status"] for line in lines]
    assert states.count("PASSED") == 7 * 15
    assert {"COMPILE_ERROR", "INCORRECT_NUMERICAL"} < set(states)
    solutions = {json.loads(files[n])["name"] for n in files if n.startswith("solutions/")}
    assert {line["solution"] for line in lines} <= solutions


@pytest.mark.second_tier
def test_its_own_types_load_it(files: dict[str, bytes], tmp_path: Path) -> None:
    data = pytest.importorskip("flashinfer_bench.data")
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    loaded = data.TraceSet.from_path(str(tmp_path))
    assert len(loaded.definitions) == 6 and len(loaded.solutions["silu_and_mul_float16"]) == 8
    assert sum(map(len, loaded.traces.values())) > 100


def test_what_cannot_be_said_is_refused() -> None:
    task = find_task("silu_and_mul")
    out, given = task.args
    wild = task.model_copy(update={"args": (out, given.model_copy(update={"access": "workspace"}))})
    with pytest.raises(BadInput, match="cannot express that input is a workspace"):
        require_sayable(wild)


@pytest.mark.second_tier
@pytest.mark.parametrize("name", ["silu_and_mul", "fused_add_rmsnorm", "merge_state_v2"])
def test_the_binding_compiles(name: str, tmp_path: Path) -> None:
    toolkit = find_toolkit()
    (tmp_path / "binding.cpp").write_text(source(find_task(name)))
    folders = [f"-I{toolkit.include_dir}", f"-I{tvm_ffi_folder('include')}"]
    command = [str(toolkit.cxx), *FLAGS, *folders, "-c", "binding.cpp", "-o", "binding.o"]
    compile_cpp(command, tmp_path)
    assert (tmp_path / "binding.o").stat().st_size > 10_000
