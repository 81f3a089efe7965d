"""The generated binding: linked to a kernel, called on the virtual GPU, refused as text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from astra_chat.session.export import link_module
from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.build.tvm_ffi_binding import binding_source, ensure_binding
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import Arg, Scalar, Task, find_task, load_task
from astra_chat.tools.virtual_gpu.adapter import ensure_runtime
from astra_vgpu.ground.cache import cache_folder
from astra_vgpu.ground.toolkit import find_toolkit
from tests.contracts.planted import contract
from tests.sources import IMPORT_PATH
from tests.tools.task.contracts import write_contract

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What tests/tools/call_binding.py saw of silu_and_mul's baseline as a module."""
    folder = tmp_path_factory.mktemp("binding")
    return seen("call_binding.py", find_task("silu_and_mul"), folder)


@pytest.fixture(scope="module")
def scattered(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What tests/tools/call_scatter_binding.py saw of every word of schema 2."""
    folder = tmp_path_factory.mktemp("binding")
    return seen("call_scatter_binding.py", contract("scatter"), folder)


def seen(script: str, task: Task, folder: Path) -> Any:
    """What a script saw of a task's baseline as a module."""
    toolkit = find_toolkit()
    built = build(task, task.baseline, virtual_device("h200"))
    assert isinstance(built, Build)
    fake = ensure_runtime(toolkit.cxx, toolkit.include_dir, cache_folder("virtual-gpu"))
    module = folder / f"{task.entry}.so"
    objects = [built.object, ensure_binding(task, toolkit)]
    link_module(objects, module, toolkit, [f"-L{fake}", "-lvcudart"])
    resources = {r.kernel: (r.registers, r.static_shared_bytes) for r in built.resources}
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tests" / "tools" / script),
            str(module),
            str(built.ptx),
            json.dumps(resources),
        ],
        cwd=ROOT,
        env={"PYTHONPATH": IMPORT_PATH, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_the_module_computes_what_the_kernel_computes(called: Any) -> None:
    assert all(error < 5e-3 for error in called["errors"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cpu", "ValueError: out must be a CUDA tensor"),
        ("other device", "ValueError: input is on cuda:1, the first argument on cuda:0"),
        ("dimensions", "ValueError: input must have 2 dimensions, got shape [1360]"),
        ("strided", "ValueError: input must be contiguous"),
        ("dtype", "TypeError: dtype must be one of: float16, bfloat16, float32"),
        ("two dtypes", "TypeError: input must have the dtype of the other tensors"),
        ("width", "ValueError: input: axis 1 must be 2*d = 272, got shape [5, 270]"),
        ("tokens", "ValueError: input: axis 0 must be tokens = 5, got shape [4, 272]"),
        ("domain", "ValueError: d = 12 is outside 8 to 65536 in steps of 8 for this dtype"),
        ("misaligned", "ValueError: input must start on a 16-byte boundary"),
        ("misaligned by offset", "ValueError: out must start on a 16-byte boundary"),
    ],
)
def test_a_wrong_tensor_is_refused_in_words(called: Any, name: str, words: str) -> None:
    assert called["said"][name] == words


def test_a_module_of_schema_2_computes_what_the_kernel_computes(scattered: Any) -> None:
    assert len(scattered["errors"]) == 4 and all(error < 5e-3 for error in scattered["errors"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("odd stride", "ValueError: key: stride 41 along axis 0 must be a multiple of 4 bytes"),
        ("overlap", "ValueError: key must not overlap itself along axis 0"),
        ("last axis", "ValueError: key must have stride 1 along axis 2, got 2"),
        ("bias extent", "ValueError: bias: axis 0 must be heads = 2, got shape [3]"),
        ("bias dtype", "TypeError: bias has the wrong dtype: 32 bits are needed"),
        ("index dtype", "TypeError: dtype must be one of: int64, int32"),
        ("combination", "ValueError: one of the combinations of dtypes: does not hold"),
        (
            "scratch extent",
            "ValueError: scratch: axis 0 must be ceil_div(tokens, 64) * 256 = 256, got shape [128]",
        ),
        ("scratch dtype", "TypeError: scratch has the wrong dtype: 8 bits are needed"),
        ("relation", "ValueError: rot_dim <= head_size: does not hold"),
    ],
)
def test_a_wrong_tensor_of_schema_2_is_refused_in_words(
    scattered: Any, name: str, words: str
) -> None:
    assert scattered["said"][name] == words


def changed(**fields: Any) -> Task:
    return find_task("silu_and_mul").model_copy(update=fields)


def test_a_dim_is_solved_from_whatever_axis_gives_it() -> None:
    args = (
        Arg(name="out", dtype="T", shape=("tokens*d",), access="write"),
        Arg(name="input", dtype="T", shape=("3*tokens",), access="read"),
    )
    source = binding_source(changed(args=args))
    tokens, d = source.index("int64_t dim_tokens ="), source.index("int64_t dim_d =")
    assert tokens < d
    assert 'divided(input, 0, int64_t{3}, "input", "3*tokens")' in source
    assert 'divided(out, 0, dim_tokens, "out", "tokens*d")' in source


def test_a_dim_that_no_shape_gives_is_a_parameter() -> None:
    args = (Arg(name="out", dtype="T", shape=("tokens*d",), access="write"),)
    source = binding_source(changed(args=args))
    assert "void call(TensorView out, int64_t dim_tokens) {" in source
    assert 'const int64_t dim_d = divided(out, 0, dim_tokens, "out", "tokens*d")' in source


def test_every_word_of_schema_2_compiles(tmp_path: Path) -> None:
    task = load_task(write_contract(tmp_path / "task"))
    source = binding_source(task)
    assert ensure_binding(task, find_toolkit()).is_file()
    assert "Optional<TensorView> given_bias, TensorView scratch, int64_t dim_rot_dim" in source
    assert "bool causal" in source
    assert "key_stride_0, key_stride_1, causal, code_T, code_I" in source
    assert 'require_relation(dim_rot_dim <= dim_head_size, "rot_dim <= head_size");' in source
    assert 'require_dtype(scratch, kDLUInt, 8, "scratch");' in source


def test_scalars_and_float_tensors_compile() -> None:
    args = (
        Arg(name="out", dtype="T", shape=("tokens", "d"), access="readwrite"),
        Arg(name="scale", dtype="float32", shape=("d",), access="read"),
    )
    scalars = (
        Scalar(name="eps", type="float", value=1e-6),
        Scalar(name="group", type="int64_t", value=128),
    )
    task = changed(args=args, scalars=scalars)
    assert ensure_binding(task, find_toolkit()).is_file()
    assert "call(TensorView out, TensorView scale, double eps, int64_t group)" in binding_source(
        task
    )


def test_the_binding_is_compiled_once() -> None:
    task, toolkit = find_task("silu_and_mul"), find_toolkit()
    first = ensure_binding(task, toolkit)
    born = first.stat().st_mtime_ns
    assert ensure_binding(task, toolkit) == first
    assert first.stat().st_mtime_ns == born


def test_strided_arguments_pass_their_row_stride(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path))
    args = tuple(
        a.model_copy(update={"strides": ("free", "1")}) for a in find_task("silu_and_mul").args
    )
    task = changed(args=args)
    source = binding_source(task)
    assert 'const int64_t input_stride = row_stride(input, "input", 1);' in source
    assert "dim_d, out_stride, input_stride, code_T" in source
    assert ensure_binding(task, find_toolkit()).is_file()
