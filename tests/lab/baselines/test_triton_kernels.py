"""SGLang's Triton kernels as CUDA source; Triton itself is needed to make one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from astra_chat.tools.task.folder import find_task
from astra_chat.tools.triton.compile import Compiled
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import BadInput, MissingDependency
from lab.baselines import triton_kernels
from lab.baselines.foreign import LAUNCHERS, Places, foreign_kernels
from lab.baselines.triton_kernels import IN_TRITON, ROUTERS, TritonKernel, translate

PTX = (
    ".visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .u32 k_param_1\n)\n{\n"
    "\tld.param.b64 %rd1, [k_param_0];\n\tmov.b32 %r1, global_smem;\n\tret;\n}\n"
)
KERNEL = TritonKernel(
    "a.py",
    "_k",
    {"x": "*bf16", "one": "constexpr", "n": "i32"},
    {"one": 1},
    {"_8": {"NP": 8}, "_16": {"NP": 16}},
    warps=4,
    divisible=("x",),
    served=lambda _: True,
)


def test_each_variant_becomes_a_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def compiled(source: str, name: str, variants: object) -> list[Compiled]:
        asked.append((source, name, variants))
        return [Compiled(PTX, 32), Compiled(PTX, 64)]

    monkeypatch.setattr(triton_kernels, "compiled", compiled)
    monkeypatch.setattr(triton_kernels, "IN_TRITON", {"task": KERNEL})
    (tmp_path / "a.py").write_text("def _k(): pass")
    (path,) = translate(tmp_path, tmp_path / "out")
    text = path.read_text()
    for suffix, shared in (("_8", 32), ("_16", 64)):
        assert f"__launch_bounds__(128) triton_k{suffix}(void* x, int n) {{" in text
        assert f"global_smem[{shared}];" in text
    ((source, name, variants),) = asked
    assert (source, name) == ("def _k(): pass", "_k")
    assert [list(v.signature) for v in variants] == [["x", "one", "n", "NP"]] * 2  # type: ignore[attr-defined]
    assert [v.constants["NP"] for v in variants] == [8, 16]  # type: ignore[attr-defined]


@pytest.mark.skipif(find_spec("triton") is not None, reason="Triton is installed")
def test_without_triton_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="missing"):
        translate(tmp_path, tmp_path / "out")
    for kernel in IN_TRITON.values():
        (tmp_path / kernel.file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / kernel.file).write_text("")
    with pytest.raises(MissingDependency, match="Triton is not installed"):
        translate(tmp_path, tmp_path / "out")


def test_they_are_taken_where_sglang_takes_them(tmp_path: Path) -> None:
    served = {}
    for name, kernel in IN_TRITON.items():
        (tmp_path / f"{name}.cu").write_text("// made\n")
        task = find_task(name)
        with_pdl, plain = foreign_kernels(task, Places(triton=tmp_path))
        assert (with_pdl.name, plain.name) == ("triton-pdl", "triton")
        launcher = (LAUNCHERS / f"{name}.triton.cu").read_text()
        assert all(f"triton{kernel.name}{suffix}" in launcher for suffix in kernel.variants)
        served[name] = [plain.takes(case) for case, _ in task.bench]
    assert served["moe_sum_reduce"] == [True] * 6 + [False] * 7
    bench = find_task("moe_align_block_size").bench
    few = [case for case, _ in bench if case.dims["tokens"] * case.dims["topk"] <= 64]
    assert sum(served["moe_align_block_size"]) == len(few) - 1
    few_experts = Case(dims={"tokens": 1, "topk": 1, "experts": 8}, dtype="int32")
    assert not IN_TRITON["moe_align_block_size"].served(few_experts)
    assert served["topk_softmax"] == [True] * 16
    capped = (
        find_task("topk_softmax")
        .bench[0][0]
        .model_copy(update={"scalars": {"moe_softcapping": 30.0}})
    )
    assert not IN_TRITON["topk_softmax"].served(capped)


def test_a_router_is_compiled_as_its_host_code_asks() -> None:
    """Rows a block, warps and types by moe_fused_gate of SGLang 0.5.23."""
    kernel = IN_TRITON["topk_softmax"]
    few, bias = ROUTERS["_bf16_8_2"], ROUTERS["_fp32_256_8_bias"]
    assert (few.constants["BLOCK_M"], few.constants["BLOCK_N"]) == (4, 8)
    assert ROUTERS["_bf16_128_8"].constants["BLOCK_M"] == 2
    assert ROUTERS["_fp32_160_6_plain"].constants["BLOCK_N"] == 256
    assert "stride_sm" not in few.divisible and "stride_sm" in bias.divisible
    variant = triton_kernels._variant(kernel, bias.name, {**kernel.constants, **bias.constants})
    assert variant.signature["bias_ptr"] == "*fp32" and "stride_bias" not in variant.given
    plain = triton_kernels._variant(kernel, few.name, {**kernel.constants, **few.constants})
    assert plain.signature["bias_ptr"] == "*bf16" and "stride_bias" in plain.given
    # What the kernel is not given, its launcher does not pass.
    assert len(variant.given) == len(plain.given) - 1
