"""Which kernels of others can be built here, and the task with which each builds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from astra_chat.tools.build.tvm_ffi_binding import tvm_ffi_folder
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import BadInput
from lab.baselines.cute_kernels import IN_CUTE, has_contiguous_rows
from lab.baselines.fatbin import cubin_with, kernels_of
from lab.baselines.triton_kernels import IN_TRITON

LAUNCHERS = Path(__file__).parent / "launchers"
Tier = Literal["sglang", "today"]
IN_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "silu_and_mul": (
        "_ZN10flashinfer10activation18act_and_mul_kernelI6__halfXadL_Z4siluIfET_RKS4_EEEEvPS4_PS5_"
        "i",
    ),
    "fused_add_rmsnorm": (
        "_ZN10flashinfer4norm21FusedAddRMSNormKernelILj8E6__halfEEvPT0_S4_S4_jjjff",
    ),
    "merge_state_v2": ("_Z24merge_attn_states_kernelI6__halfLj128EEvPT_PfPKS1_PKfS5_S7_jjj",),
    "gelu_tanh_and_mul": (
        "_ZN10flashinfer10activation18act_and_mul_kernelI6__halfXadL_Z9gelu_tanhIfET_RKS4_EEEEvPS4_"
        "PS5_i",
    ),
    "rmsnorm": ("_ZN10flashinfer4norm13RMSNormKernelILj8E6__halfEEvPT0_S4_S4_jjjff",),
    "moe_sum_reduce": (
        "_Z40moe_sum_reduce_warp_per_token_vec_kernelILi8EEvPKN3c108BFloat16EPS1_llllllf",
    ),
    "per_token_quant_fp8": (
        "_Z38per_token_quant_fp8_small_batch_kernelI13__nv_bfloat1613__nv_fp8_e4m3Li16EEvPKT_PT0_"
        "Pfll",
    ),
    "per_token_group_quant_fp8": (
        "_Z33per_token_group_quant_8bit_kernelI13__nv_bfloat1613__nv_fp8_e4m3Lb1ELb0EfEvPKT_PvPT3_"
        "iiifffii",
    ),
    "topk_softmax": (
        "_Z7moeTopKILi256EEvPKfPKbPfPiiiiib",
        "_Z11moeTopKFastILi256EEvPfPKbS0_Piiiiib",
    ),
    "moe_align_block_size": (
        "_Z27moe_align_block_size_kernelIiEvPKT_PiS3_S3_iimS3_bi",
        "_Z27moe_align_block_size_kernelIiEvPKT_PiS3_S3_iimS3_bbii",
    ),
    "rope_and_kv_write": (
        "_ZN10flashinfer49BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernelILb1ELb0ELj128ELj8ELj16E"
        "13__nv_bfloat16lEEvPT4_S3_S3_S3_S3_S3_S3_PfPT5_jjjjmmmmmmmmmmmmmmS6_",
    ),
    "rotary_embedding": (
        "_Z23rotary_embedding_kernelIN3c108BFloat16ES1_Lb1EEvPKlPT_S5_PKT0_illliii",
    ),
}
"""Kernels by which the cubin of a task is found in SGLang's compiled library: that of 2025 or of
today holds one of them."""
NOT_CORRECT = ("per_token_quant_fp8", "rotary_embedding")
"""Tasks whose kernel in a library is wrong by the contract: in per_token_quant_fp8 of 2025 warps
share a word for their scales, and a row of zeros gets the code of 448; rotary_embedding rounds
products to the tensors' dtype."""
ONLY_TODAY = ("rotary_embedding",)
"""Tasks whose kernel the library of 2025 does not hold."""
NOT_CALLED_TODAY = ("per_token_quant_fp8",)
"""Tasks for which SGLang today calls its run-time kernel, while the kernels in its library have
other template arguments than our launcher of 2025 knows."""
HEADERS = {
    "silu_and_mul": ("activation.cuh",),
    "gelu_tanh_and_mul": ("activation.cuh",),
    "fused_add_rmsnorm": ("norm.cuh",),
    "rmsnorm": ("norm.cuh",),
}
"""Headers of FlashInfer in September 2025 (version 0.3.1), by task."""
HEADERS_TODAY = {**HEADERS, "qk_rmsnorm_rope": ("norm.cuh", "pos_enc.cuh")}
"""Headers of FlashInfer today (version 0.7.2), by task. What else it has differs from the
contracts: one scale for all tokens or one for 128 columns, logarithms to the base 2, other
caches."""
CCCL = ("cub", "libcudacxx/include", "thrust")
"""Folders of CCCL, where it lies beside FlashInfer's headers: they need a newer one than CUDA's."""
FAST = ("--use_fast_math",)


@dataclass(frozen=True)
class AtRunTime:
    """What SGLang compiles at run time for a task (version 0.5.23)."""

    headers: tuple[str, ...]
    """Headers by their paths below csrc."""
    flags: tuple[str, ...] = ()
    """Flags of nvcc besides those that it always gives."""
    longest_row: int = 2**62
    """Largest dim h that the kernel takes."""
    served: Callable[[Case], bool] = lambda _: True
    """Whether SGLang takes a case."""
    of: tuple[str, ...] = ()
    """Tasks whose kernels it runs in sequence: their launchers stand before its own."""
    precise: bool = True
    """Whether it is correct by the contract; else it is timed, and its results are not held against
    the oracle."""


MOST_GEMV_COLUMNS = 65536


def _one_row(case: Case) -> bool:
    """Whether a call of gemv_bf16 is one that SGLang gives its own kernel on a Hopper GPU."""
    m, n, k = (case.dims[name] for name in ("m", "n", "k"))
    few = n < 12288 or 32768 <= n <= MOST_GEMV_COLUMNS
    return m == 1 and few and n % 8 == 0 and k % 512 == 0


def _plain_cache(case: Case) -> bool:
    """Whether a call of qk_norm_rope_kv_append is one that SGLang gives its two kernels: a cache of
    16 bits, indices of 64."""
    return case.types["C"] == "bfloat16" and case.types["I"] == "int64"


AT_RUN_TIME = {
    "gemv_bf16": AtRunTime(("gemm/hopper_bf16_gemv.cuh",), served=_one_row),
    "silu_and_mul": AtRunTime(("elementwise/activation.cuh",), FAST),
    "gelu_tanh_and_mul": AtRunTime(("elementwise/activation.cuh",), FAST),
    "fused_add_rmsnorm": AtRunTime(("elementwise/fused_add_rmsnorm.cuh",), longest_row=8192),
    "rmsnorm": AtRunTime(("elementwise/rmsnorm.cuh",)),
    # A row of zeros gets the code of 448.
    "per_token_quant_fp8": AtRunTime(("gemm/per_token_quant_fp8.cuh",), FAST, precise=False),
    "per_token_group_quant_fp8": AtRunTime(("gemm/per_token_group_quant.cuh",), FAST),
    # The activation is rounded before the product, too.
    "silu_and_mul_group_quant_fp8": AtRunTime(
        ("gemm/per_token_group_quant.cuh",), FAST, precise=False
    ),
    "topk_softmax": AtRunTime(("moe/moe_topk_softmax.cuh",), FAST),
    "moe_align_block_size": AtRunTime(("moe/moe_align_kernel.cu",)),
    # Products are rounded to the tensors' dtype.
    "rotary_embedding": AtRunTime(("elementwise/pos_enc.cuh",), precise=False),
    "qk_rmsnorm_rope": AtRunTime(("elementwise/qknorm.cuh", "elementwise/rope.cuh")),
    "rope_and_kv_write": AtRunTime(("elementwise/rope.cuh",)),
    "qk_norm_rope_kv_append": AtRunTime(
        ("elementwise/qknorm.cuh", "elementwise/rope.cuh"),
        served=_plain_cache,
        of=("qk_rmsnorm_rope",),
    ),
    # As of both; the sum is rounded before it is normed; and see the launcher. The flags are those
    # of the second kernel: upstream builds the first without fast maths.
    "fused_add_rmsnorm_quant_fp8": AtRunTime(
        ("elementwise/fused_add_rmsnorm.cuh", "gemm/per_token_quant_fp8.cuh"),
        FAST,
        longest_row=8192,
        of=("fused_add_rmsnorm", "per_token_quant_fp8"),
        precise=False,
    ),
}


@dataclass(frozen=True)
class Places:
    """Where the user keeps what is not ours; None: not to be measured."""

    flashinfer: Path | None = None
    """The folder `include` of FlashInfer in 2025."""
    flashinfer_today: Path | None = None
    jit: Path | None = None
    """The folder kernels/jit of the package sglang."""
    library: Path | None = None
    """Cubins of SGLang's compiled library of 2025, as `extract` writes them."""
    library_today: Path | None = None
    triton: Path | None = None
    """Source of Triton kernels, as `translate` writes it."""
    cute: Path | None = None
    """Source of FlashInfer's kernels in CuTe DSL, as `cute` writes it."""


@dataclass(frozen=True)
class Foreign:
    """Somebody else's kernel with a launcher of ours."""

    tier: Tier
    name: str
    what: str
    source: str
    task: Task
    """The task with the flags and folders that the kernel builds with."""
    headers: tuple[Path, ...] = ()
    cubin: Path | None = None
    """Where its kernels are, if its source holds a launcher only."""
    content: str = ""
    """First 12 hex digits of the sha256 of what the user brought."""
    longest_row: int = 2**62
    """Largest dim h that the kernel takes."""
    served: Callable[[Case], bool] = lambda _: True
    """Whether upstream takes a case."""
    precise: bool = True
    """Whether it is correct by the contract; else it is timed, and its results are not held against
    the oracle."""

    def takes(self, case: Case) -> bool:
        """Whether the kernel takes this case."""
        return case.dims.get("h", 0) <= self.longest_row and self.served(case)


def foreign_kernels(task: Task, places: Places) -> Iterator[Foreign]:
    """What these places hold for a task. Raises BadInput where one is not what it should be."""
    if places.library and task.name in IN_LIBRARIES and task.name not in ONLY_TODAY:
        yield _library(task, "sglang", places.library)
    if places.flashinfer and task.name in HEADERS:
        yield _headers(task, places.flashinfer)
    if places.flashinfer_today and task.name in HEADERS_TODAY:
        yield from _headers_today(task, places.flashinfer_today)
    if places.jit and task.name in AT_RUN_TIME:
        yield from _jit(task, places.jit)
    if places.triton and task.name in IN_TRITON:
        yield from _triton(task, places.triton)
    if places.cute and task.name in IN_CUTE:
        yield from _cute(task, places.cute)
    held = places.library_today and (places.library_today / f"{task.name}.cubin").is_file()
    if places.library_today and held and task.name not in NOT_CALLED_TODAY:
        yield _library(task, "today", places.library_today)


def extract(library: Path, names: Sequence[str], out: Path) -> list[Path]:
    """Write the cubin of each task; without names, of those that the library holds. Raises
    BadInput."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in names or IN_LIBRARIES:
        cubin = cubin_with(library, IN_LIBRARIES.get(name, ()))
        if cubin is None:
            if name in names:
                raise BadInput(f"{library} contains no kernel of {name}")
            continue
        path = out / f"{name}.cubin"
        path.write_bytes(cubin)
        paths.append(path)
    if not paths:
        raise BadInput(f"{library} contains no kernel of any task")
    return paths


def _without_bias(case: Case) -> bool:
    return "correction_bias" in case.absent and not case.scalars.get("moe_softcapping")


SERVED_IN_2025: Mapping[str, Callable[[Case], bool]] = {"topk_softmax": _without_bias}
"""What the library of 2025 takes of a task, where that is not all: topk_softmax had neither bias
nor soft capping."""


def _library(task: Task, tier: Tier, folder: Path) -> Foreign:
    path = folder / f"{task.name}.cubin"
    if not path.is_file():
        raise BadInput(f"{path} is missing: python -m lab.baselines extract writes it")
    cubin = path.read_bytes()
    if not set(IN_LIBRARIES[task.name]) & set(kernels_of(cubin)):
        raise BadInput(f"{path} contains no kernel of {task.name}")
    array = ",".join(map(str, cubin))
    source = f"alignas(64) static const unsigned char kCubin[] = {{{array}}};\n"
    for part in ("cubin.cu", f"{task.name}.library.cu"):
        source += (LAUNCHERS / part).read_text()
    what = "machine code out of SGLang's compiled library"
    some = SERVED_IN_2025.get(task.name) if tier == "sglang" else None
    return Foreign(
        tier,
        "library",
        what,
        source,
        task,
        cubin=path,
        content=_short(cubin),
        served=some or (lambda _: True),
        precise=task.name not in NOT_CORRECT,
    )


def _headers(task: Task, include: Path) -> Foreign:
    """Returns FlashInfer's kernels as SGLang's compiled library of 2025 launches them."""
    what = "FlashInfer's header, built here with the task's flags"
    flags = ("-DFLASHINFER_TODAY=0", "-DPROGRAMMATIC=0")
    return _of_headers(task, include, HEADERS[task.name], what, "sglang", flags)


def _headers_today(task: Task, include: Path) -> Iterator[Foreign]:
    what = "today's header of FlashInfer, built here with the task's flags"
    names, flags = HEADERS_TODAY[task.name], ("-DFLASHINFER_TODAY=1",)
    plain = _of_headers(task, include, names, what, "today", flags)
    yield from _both_launches(plain, "FlashInfer")


def _of_headers(
    task: Task, include: Path, names: tuple[str, ...], what: str, tier: Tier, more: tuple[str, ...]
) -> Foreign:
    content = b"".join(_read(include / "flashinfer" / name) for name in names)
    brought = (include.resolve().parent / "cccl" / each for each in CCCL)
    headers = (include.resolve(), *filter(Path.is_dir, brought), LAUNCHERS / "unused")
    places = (f"-I{folder}" for folder in headers)
    flags = ("-DFLASHINFER_ENABLE_F16", "-DFLASHINFER_ENABLE_BF16", *places)
    source = (LAUNCHERS / "programmatic.cu").read_text()
    source += (LAUNCHERS / f"{task.name}.headers.cu").read_text()
    return Foreign(
        tier,
        "headers",
        what,
        source,
        _with(task, (*task.flags, *flags, *more)),
        headers,
        content=_short(content),
    )


def _jit(task: Task, folder: Path) -> Iterator[Foreign]:
    compiled = AT_RUN_TIME[task.name]
    content = b"".join(_read(folder / "csrc" / header) for header in compiled.headers)
    places = (folder / "include", folder / "csrc", tvm_ffi_folder("include"))
    headers = tuple(place.resolve() for place in places)
    common = ("-O3", "-std=c++20", "--expt-relaxed-constexpr", "-DSGL_CUDA_ARCH=900")
    flags = (*common, *compiled.flags, *(f"-I{place}" for place in headers))
    parts = (*compiled.of, task.name)
    source = "".join((LAUNCHERS / f"{part}.jit.cu").read_text() for part in parts)
    what = "compiled at run time by SGLang, with its flags"
    plain = Foreign(
        "today",
        "jit",
        what,
        source,
        _with(task, flags),
        headers,
        content=_short(content),
        longest_row=compiled.longest_row,
        served=compiled.served,
        precise=compiled.precise,
    )
    if "kProgrammatic" not in source:
        yield plain
        return
    source = (LAUNCHERS / "programmatic.cu").read_text() + source
    yield from _both_launches(replace(plain, source=source), "SGLang")


def _triton(task: Task, folder: Path) -> Iterator[Foreign]:
    kernel, made = IN_TRITON[task.name], _read(folder / f"{task.name}.cu")
    source = (LAUNCHERS / "programmatic.cu").read_text() + made.decode()
    source += (LAUNCHERS / f"{task.name}.triton.cu").read_text()
    what = "a Triton kernel of SGLang, by Triton's machine code"
    plain = Foreign(
        "today",
        "triton",
        what,
        source,
        task,
        content=_short(made),
        served=kernel.served,
    )
    yield from _both_launches(plain, "SGLang")


def _cute(task: Task, folder: Path) -> Iterator[Foreign]:
    made = _read(folder / f"{task.name}.cu")
    parts = (LAUNCHERS / "cute.cu", LAUNCHERS / f"{task.name}.cute.cu")
    source = (LAUNCHERS / "programmatic.cu").read_text() + made.decode()
    source += "".join(part.read_text() for part in parts)
    what = "FlashInfer's kernel in CuTe DSL, by the DSL's PTX"
    plain = Foreign(
        "today", "cute", what, source, task, content=_short(made), served=has_contiguous_rows
    )
    yield from _both_launches(plain, "FlashInfer")


def _both_launches(plain: Foreign, whose: str) -> Iterator[Foreign]:
    def launched(value: int) -> Task:
        return _with(plain.task, (*plain.task.flags, f"-DPROGRAMMATIC={value}"))

    yield replace(
        plain,
        name=f"{plain.name}-pdl",
        task=launched(1),
        what=f"{plain.what}, launched programmatically as {whose} does",
    )
    yield replace(plain, task=launched(0), what=f"{plain.what}, launched plainly")


def _with(task: Task, flags: tuple[str, ...]) -> Task:
    return task.model_copy(update={"flags": flags})


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise BadInput(f"{path} is missing")
    return path.read_bytes()


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
