"""best/: a module that loads without toolkit or Astra, and says how."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.session.export import export_best, leave_source
from astra_chat.tools.sandbox.isolation import ENOUGH, isolation
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import candidate_id
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_tool, find_toolkit

MADE = {
    *("silu_and_mul.so", "README.md", "load_example.py", "reference.py", "torch_op.py"),
    *("best.cu", "best.built.cu"),
}
CALL_ON_THE_HOST = """
import sys, numpy, tvm_ffi
function = tvm_ffi.load_module(sys.argv[1]).silu_and_mul
array = lambda *shape: tvm_ffi.from_dlpack(numpy.zeros(shape, numpy.float16))
try:
    function(array(2, 8), array(2, 16))
except ValueError as error:
    print(error)
"""


def test_best_cu_is_whole_and_goes_when_no_candidate_is_best(tmp_path: Path) -> None:
    path = tmp_path / "best.cu"
    leave_source("first", tmp_path, ())
    leave_source("second", tmp_path, ())
    assert path.read_text() == "second"
    assert {one.name for one in tmp_path.iterdir()} == {"best.cu", "best.built.cu"}
    leave_source(None, tmp_path, {candidate_id("first")})
    assert path.exists(), "not one of ours"
    leave_source(None, tmp_path, {candidate_id("second")})
    leave_source(None, tmp_path, {candidate_id("second")})
    assert not path.exists()


def test_the_folder_is_complete(best: Path) -> None:
    assert {p.name for p in best.iterdir()} == MADE


@pytest.mark.second_tier
def test_the_module_loads_in_a_bare_process(best: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALL_ON_THE_HOST, str(best / "silu_and_mul.so")],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "out must be a CUDA tensor", done.stderr


def test_it_needs_no_cuda_library_and_no_path_of_this_machine(best: Path) -> None:
    said = subprocess.run(
        ["readelf", "-d", str(best / "silu_and_mul.so")], capture_output=True, text=True, check=True
    ).stdout
    assert "libtvm_ffi.so" in said
    assert "cudart" not in said
    assert "RPATH" not in said
    assert "RUNPATH" not in said


def test_it_holds_machine_code_and_ptx(best: Path) -> None:
    try:
        cuobjdump = find_tool("cuobjdump")
    except MissingDependency as lack:
        pytest.skip(str(lack))
    command = [str(cuobjdump), "--list-elf", "--list-ptx", str(best / "silu_and_mul.so")]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "sm_90.cubin" in listed
    assert "sm_90.ptx" in listed


def test_the_words_name_candidate_arguments_and_module(best: Path) -> None:
    words = (best / "README.md").read_text()
    assert candidate_id(find_task("silu_and_mul").baseline) in words
    assert "module.silu_and_mul(out, input)" in words
    assert "| input | dtype | [tokens, 2*d] | read |" in words
    example = (best / "load_example.py").read_text()
    ast.parse(example)
    assert "module.silu_and_mul(tensors['out'], tensors['input'])" in example


@pytest.mark.second_tier
def test_the_source_compiles_as_its_readme_says(best: Path, tmp_path: Path) -> None:
    """The declaration in a C++ file of the user's, the command on best.cu, and both linked."""
    words = (best / "README.md").read_text()
    assert "one folder up" not in words and "dtype: 0 float32, 1 float16, 2 bfloat16." in words
    assert "- tokens: 1 to " in words and "| read | 16 |" in words
    (declared,) = re.findall(r"^```cpp\n(.*?)^```$", words, re.DOTALL | re.MULTILINE)
    (command,) = re.findall(r"^    nvcc (.*)$", words, re.MULTILINE)
    toolkit = find_toolkit()
    calls = "int main() { return silu_and_mul(0, 0, 1, 1, 99, 0) == cudaErrorInvalidValue; }\n"
    (tmp_path / "main.cpp").write_text(declared + calls)
    (tmp_path / "best.cu").write_text((best / "best.cu").read_text())
    include = f"-I{toolkit.include_dir}"
    nvcc = [str(toolkit.nvcc), f"-ccbin={toolkit.cxx}", include, *command.split()]
    libraries = [f"-L{toolkit.lib_dir}", "-lcudart_static", "-ldl", "-lrt", "-lpthread"]
    cxx = [str(toolkit.cxx), include, "main.cpp", "best.o", *libraries]
    for step in (nvcc, cxx):
        subprocess.run(step, cwd=tmp_path, check=True, timeout=300)


def test_without_a_reference_file_there_is_no_example(tmp_path: Path) -> None:
    """The oracle is a function of PyTorch, whose module stays with the user."""
    kept = find_task("silu_and_mul")
    elsewhere = tmp_path / "task"
    elsewhere.mkdir()
    task = kept.model_copy(update={"folder": elsewhere})
    export_best(task, kept.baseline, tmp_path / "best", arch="sm_90")
    made = {path.name for path in (tmp_path / "best").iterdir()}
    assert made == MADE - {"load_example.py", "reference.py"}
    assert "load_example" not in (tmp_path / "best" / "README.md").read_text()


def test_a_source_that_does_not_compile_is_said_in_words(tmp_path: Path) -> None:
    task = find_task("silu_and_mul")
    with pytest.raises(MissingDependency, match="cannot build the tvm-ffi module"):
        export_best(task, "not C++", tmp_path / "best", arch="sm_90")


@pytest.mark.gpu
def test_the_example_runs_on_a_gpu(best: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(best / "load_example.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "tensor(" in done.stdout


def test_the_compiler_reads_nothing_of_the_users(task: Task, tmp_path: Path) -> None:
    """A transcript that is resumed brings source and flags, which no guard has seen here."""
    if isolation() not in ENOUGH:
        pytest.skip("this machine isolates nothing")
    (tmp_path / "secret.h").write_text("#error the secret\n")
    with pytest.raises(MissingDependency) as caught:
        source = f'#include "{tmp_path}/secret.h"\n'
        export_best(task, source, tmp_path / "best", arch="sm_90")
    assert "the secret" not in str(caught.value)


def test_a_half_written_source_is_no_way_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".best.cu.part").symlink_to(tmp_path / "elsewhere")
    leave_source("// kernel\n", tmp_path, set())
    assert (tmp_path / "best.cu").read_text() == "// kernel\n"
    assert not (tmp_path / "elsewhere").exists() and not (tmp_path / "best.cu").is_symlink()
