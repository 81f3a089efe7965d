"""A Triton kernel becomes a baseline: Triton's machine code in CUDA, judged like any other."""

from __future__ import annotations

import gzip
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from astra_chat.tools.descriptions import describe
from astra_chat.tools.judge import Judge
from astra_chat.tools.new import triton_baseline
from astra_chat.tools.new.create import new_task
from astra_chat.tools.new.triton_launch import dtypes_of, launch_of
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.triton.compile import Variant, compiled, jit_only
from astra_chat.tools.triton.ptx import entry_of
from astra_chat.tools.types import Correct, Wrong
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.tools.new.record_triton import KERNEL, LAUNCH, RECORDED, recorded

FORMULA = "x / torch.sqrt((x * x).mean(dim=1, keepdim=True) + eps)"


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task made of the kernel, and completed as a user would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(triton_baseline, "compiled", recorded)
    dtypes = dtypes_of(["x=float32", "y=float32"])
    folder, origin, _ = new_task("rows", [KERNEL], None, LAUNCH, dtypes)
    assert origin == "the Triton kernel row_norm"
    contract = (folder / "task.toml").read_text()
    contract = re.sub(r"\s*# COMPLETE[^\n]*", "", contract).replace("max = 16384", "max = 1024")
    (folder / "task.toml").write_text(re.sub(r"n_cols = 4096", "n_cols = 1000", contract))
    reference = (folder / "reference.py").read_text()
    (folder / "reference.py").write_text(reference.replace("...,", f"{FORMULA},"))
    return load_task(folder)


@pytest.mark.parametrize("device", ["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.second_tier
def test_it_is_judged(task: Task, device: str) -> None:
    """Correct on rows that are multiples of 16 and on those that are not; a wrong one is told."""
    with Judge(task, pick_device(device), trust=True) as judge:
        found = judge.check(task.baseline)
        assert isinstance(found.outcome, Correct), describe(found.outcome)
        planted = task.baseline.replace("sqrt.approx", "rsqrt.approx")
        assert planted != task.baseline
        assert isinstance(judge.check(planted).outcome, Wrong)
    names = {resources.kernel for resources in found.resources}
    told = ("float32_256", "float32_256_by_16", "float32_1024", "float32_1024_by_16")
    assert all(any(name in mangled for mangled in names) for name in told), names


def test_the_launcher_chooses_as_triton_does(task: Task) -> None:
    launcher = task.baseline[task.baseline.index('extern "C"') :]
    assert "if (dtype == 0 && n_cols <= 256) {" in launcher
    # n_rows changes nothing in Triton's code, so it need not be a multiple.
    assert "multiples = by_16(x) && by_16(y) && by_16(x_stride) && by_16(n_cols);" in launcher
    assert "//     row = tl.program_id(0)" in task.baseline, "the kernel stands above its code"


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_what_is_recorded_is_what_triton_makes() -> None:
    known = json.loads(gzip.decompress(RECORDED.read_bytes()))
    variant = Variant(**{**json.loads(next(iter(known))), "divisible": ()})
    (made,) = compiled(KERNEL.read_text(), "row_norm", [variant])
    assert entry_of(made.ptx, len(variant.given)).operands == ("l", "l", "r", "r", "r", "f")


@pytest.mark.skipif(find_spec("triton") is not None, reason="Triton is installed")
def test_without_triton_it_says_what_to_do() -> None:
    with pytest.raises(MissingDependency, match="pip install triton"):
        compiled(KERNEL.read_text(), "row_norm", [])


@pytest.mark.parametrize(
    ("grid", "constants", "words"),
    [
        ("n_rows", [], "row_norm needs --constant BLOCK=VALUE"),
        ("n_rows", ["BLOCK"], "write NAME=VALUE"),
        ("n_rows", ["BLOCK=256,512"], "write NAME=VALUE"),
        ("n_rows", ["BLOCK=x"], "write NAME=VALUE"),
        (
            "n_rows",
            ["BLOCK=256", "WIDE=1"],
            "--constant WIDE: the constants of row_norm are: BLOCK",
        ),
        ("n_rows", ["BLOCK=256,512>=n"], "n does not exist; use eps, n_cols, n_rows"),
        ("rows", ["BLOCK=256"], "--grid 'rows': rows does not exist"),
        ("n_rows / 2", ["BLOCK=256"], "--grid: .* does not give an integer"),
        ("1, 2, 3, 4", ["BLOCK=256"], "one to three expressions"),
        (None, ["BLOCK=256"], "--constant requires --grid"),
    ],
)
def test_bad_options(
    grid: str | None,
    constants: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=words):
        new_task("rows", [KERNEL], None, launch_of(grid, constants, 4, None))
    assert not (tmp_path / "rows").exists()


def test_other_bad_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.cu").write_text("__global__ void k() {}")
    with pytest.raises(BadInput, match="apply to a Triton kernel"):
        new_task("rows", [tmp_path / "kernel.cu"], None, LAUNCH)
    with pytest.raises(BadInput, match="--dtype z: the tensors are x, y"):
        new_task("rows", [KERNEL], None, LAUNCH, {"z": "int32"})
    with pytest.raises(BadInput, match="TENSOR=DTYPE"):
        dtypes_of(["x=double"])
    with pytest.raises(BadInput, match="--warps 3"):
        launch_of("n", [], 3, None)


def test_only_triton_s_part_of_a_file_is_executed() -> None:
    source = (
        "import os, torch\nimport triton\nfrom triton import language as tl\n"
        "WIDE = tl.constexpr(3)\nos.remove('x')\nLOGGED = open('log')\n"
        "@triton.autotune(configs=[], key=[])\n@triton.jit\ndef f(x):\n    pass\n"
        "def host():\n    f[(1,)](0)\n"
    )
    assert jit_only(source) == (
        "import triton\nfrom triton import language as tl\nWIDE = tl.constexpr(3)\n\n"
        "@triton.jit\ndef f(x):\n    pass\n"
    )


HEAD = ".visible .entry k(\n\t.param .u64 .ptr k_param_0,\n\t.param .u64 k_param_1\n)\n{\n"


@pytest.mark.parametrize(
    ("ptx", "words"),
    [
        ("", "no kernel"),
        (f".func f()\n{{\n}}\n{HEAD}\tret;\n}}\n", "calls a function"),
        (f".global .align 4 .b8 t[4] = {{1}};\n{HEAD}\tmov.b64 %rd1, t;\n}}\n", "the array t"),
        (HEAD.replace(".u64 .ptr", ".u16") + "\tret;\n}\n", "parameter 0 of k is .u16"),
        (f"{HEAD}\tld.param.b64 %rd1, [k_param_1];\n}}\n", "scratch memory"),
        (
            f"{HEAD}\tld.param.v2.b64 {{%rd1, %rd2}}, [k_param_0];\n}}\n",
            "with something other than scalar",
        ),
    ],
)
def test_ptx_that_an_asm_statement_cannot_hold(ptx: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        entry_of(ptx, 1)


def test_registers_have_names_of_their_own() -> None:
    """nvcc names an operand's register %r3, too."""
    body = "\t.reg .b32 %r<9>;\n\tld.param.b64 %rd1, [k_param_0];\n\tmov.u32 %r3, %ctaid.x;\n"
    branch = "$L__BB0_1:\n\t@%p1 bra $L__BB0_1;\n$L__tmp0:\n\t.loc 1 2 3 // here\n\tret;\n"
    assert entry_of(f"{HEAD}{body}{branch}}}\n", 1).body == (
        ".reg .b32 %%triton_r<9>;",
        "mov.b64 %%triton_rd1, %0;",
        "mov.u32 %%triton_r3, %%ctaid.x;",
        "L__BB0_1:",
        "@%%triton_p1 bra L__BB0_1;",
        "ret;",
    )


def test_numbers_of_32_bits_are_widened_where_the_register_has_64() -> None:
    head = HEAD.replace(".u64 .ptr", ".u32").replace(".u64", ".u32")
    loads = "\tld.param.s32 %rd1, [k_param_0];\n\tld.param.u32 %rd2, [k_param_1];\n"
    narrow = "\tld.param.s32 %r1, [k_param_0];\n"
    assert entry_of(f"{head}{loads}{narrow}}}\n", 2).body == (
        "cvt.s64.s32 %%triton_rd1, %0;",
        "cvt.u64.u32 %%triton_rd2, %1;",
        "mov.b32 %%triton_r1, %0;",
    )
