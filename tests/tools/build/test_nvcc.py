"""Builds for a real GPU's architecture (no GPU is needed to build): cache, errors, resources."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from astra_chat.tools.build import disassembly
from astra_chat.tools.build import nvcc as module
from astra_chat.tools.build.disassembly import machine_code_of
from astra_chat.tools.build.nvcc import (
    Build,
    build,
    build_all,
    nvcc_command,
    parse_ptxas,
    readable_log,
)
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.task.folder import find_task, load_task
from astra_chat.tools.types import BuildFailed, Device, TimedOut
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_toolkit
from tests.tools.compile_bomb import BOMB

TASK = find_task("silu_and_mul")
H200 = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
VIRTUAL = H200.model_copy(update={"kind": "virtual"})
KERNEL = """
#include <cstdint>
__global__ void fill(float* out, int64_t n) {
    __shared__ float tile[128];
    tile[threadIdx.x] = n;
    __syncthreads();
    out[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
}
extern "C" cudaError_t silu_and_mul(void* out, const void*, int64_t n, int64_t, int,
                                    cudaStream_t stream) {
    fill<<<n, 128, 0, stream>>>((float*)out, n);
    return cudaGetLastError();
}
"""
BROKEN = KERNEL.replace("tile[127 - threadIdx.x];", "tile[127 - threadIdx.q];")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path))
    return tmp_path


def test_good_and_broken_in_one_graph_and_then_from_the_cache(own_cache: Path) -> None:
    good, broken = build_all(TASK, [KERNEL, BROKEN], H200)
    assert isinstance(good, Build) and not good.cached
    assert good.library.is_file() and ".target sm_90" in good.ptx.read_text()
    (resources,) = good.resources
    assert resources.static_shared_bytes == 512 and resources.registers > 0
    assert isinstance(broken, BuildFailed)
    assert "line 7" in broken.log and "threadIdx.q" in broken.log
    again = build(TASK, KERNEL, H200)
    assert isinstance(again, Build) and again.cached and again.folder == good.folder
    leftovers = [p.name for p in (own_cache / "astra-chat" / "builds").iterdir()]
    assert leftovers == [good.folder.name]


SLOW = "".join(
    f"  x[{i}] = sin(x[{i + 3}]) * pow(x[{i + 1}], 1.37) + lgamma(x[{i + 7}]);\n"
    for i in range(9000)
)


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("limit", "value", "bad", "kinds"),
    [
        ("BUILD_TIMEOUT_S", 4.0, f"__global__ void slow(double* x) {{\n{SLOW}}}\n", "timed_out"),
        ("BUILD_TIMEOUT_S", 4.0, f"void slow(double* x) {{\n{SLOW}}}\n", "timed_out"),
        ("BUILD_MEMORY_BYTES", 2**30, BOMB, "timed_out or build_failed"),
    ],
    ids=["time", "host-time", "memory"],
)
def test_one_that_takes_too_much_takes_nothing_from_the_others(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, bad: str, kinds: str
) -> None:
    """Whatever else is compiled beside them, and on an overloaded machine."""
    monkeypatch.setattr(module, limit, value)
    good = [KERNEL + f"// {i}\n" for i in range(5)]
    late, *others = build_all(TASK, [KERNEL + bad, *good], H200)
    assert isinstance(late, BuildFailed | TimedOut) and late.kind in kinds
    assert all(isinstance(one, Build) for one in others)
    assert not [run for run in Path("/proc").glob("[0-9]*") if _works_in(run, own_cache)]


@pytest.mark.second_tier
@pytest.mark.usefixtures("own_cache")
def test_a_task_may_ask_for_another_limit() -> None:
    """A build says how much processor time it took."""
    hasty = TASK.model_copy(update={"build_timeout_s": 4.0})
    slow = f"{KERNEL}void slow(double* x) {{\n{SLOW}}}\n"
    assert build(hasty, slow, H200) == TimedOut(step="build", limit_s=4.0)
    built = build(TASK, KERNEL, H200)
    assert isinstance(built, Build) and built.cpu_s > 0


def _works_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink().is_relative_to(folder)
    except OSError:
        return False


@pytest.mark.parametrize("device", [VIRTUAL, H200])
def test_the_text_of_the_machine_code_is_kept(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    source = f"{KERNEL}// disassembled for {device.kind}"
    built = build(TASK, source, device)
    assert isinstance(built, Build) and not built.cached
    path = machine_code_of(built)
    assert path is not None
    text = path.read_text()
    assert f".text.{built.resources[0].kernel}:" in text and '/kernel.cu", line' in text
    assert machine_code_of(built) == path
    path.unlink()
    monkeypatch.setattr(disassembly, "find_tool", lambda _: Path("/bin/false"))
    assert machine_code_of(built) is None and not path.exists()


def test_a_build_needs_nvdisasm(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(name: str) -> Path:
        raise MissingDependency(name)

    monkeypatch.setattr(module, "find_tool", lacking)
    with pytest.raises(MissingDependency, match="nvdisasm"):
        build(TASK, KERNEL, VIRTUAL)


def test_another_architecture_is_another_build() -> None:
    other = build(TASK, KERNEL, H200.model_copy(update={"arch": "sm_80"}))
    assert isinstance(other, Build) and ".target sm_80" in other.ptx.read_text()


def test_a_cancelled_build_leaves_nothing(own_cache: Path) -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Cancelled):
        build(TASK, KERNEL + "// cancelled", H200, stop)
    assert list((own_cache / "astra-chat" / "builds").iterdir()) == []


def test_what_a_killed_graph_left_is_no_build(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that is still written when another candidate takes too much memory."""

    def half(command: Sequence[str], *, cwd: Path, **_: object) -> object:
        for entry in cwd.iterdir():
            if entry.is_dir():
                (entry / "kernel.so").write_text("half")
        raise StepMemory

    monkeypatch.setattr(module, "run_limited", half)
    found = build_all(TASK, [KERNEL + "// one", KERNEL + "// other"], H200)
    assert [one.kind for one in found if isinstance(one, TimedOut)] == ["timed_out"] * 2
    assert list((own_cache / "astra-chat" / "builds").iterdir()) == []


def test_a_lower_limit_of_the_machine_stays(own_cache: Path) -> None:
    """Login nodes set such limits: nvcc builds under them."""
    build_one = (
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (150, 150))\n"
        "from tests.tools.build.test_nvcc import H200, KERNEL, TASK, build\n"
        "print(type(build(TASK, KERNEL + '// limited', H200)).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", build_one],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.strip() == "Build"


def test_an_older_nvcc_is_asked_for_nothing_that_it_does_not_know() -> None:
    task, toolkit = find_task("silu_and_mul"), find_toolkit()
    device = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
    older, newer = (replace(toolkit, version=version) for version in ("12.3.107", "12.10.1"))
    assert not any("split-compile" in word for word in nvcc_command(task, device, older))
    assert "-split-compile=8" in nvcc_command(task, device, newer)


def test_spills_and_stack_are_read() -> None:
    log = (
        "ptxas info    : Compiling entry function '_Z1kv' for 'sm_90'\n"
        "ptxas info    : Function properties for _Z1kv\n"
        "    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem\n"
    )
    (found,) = parse_ptxas(log)
    assert (found.kernel, found.registers, found.static_shared_bytes) == ("_Z1kv", 40, 2048)
    assert (found.spill_bytes, found.stack_bytes) == (12, 16)


def test_a_source_cannot_speak_for_ptxas() -> None:
    """A deprecated function's message, which compilers print as it stands, claims 4 registers."""
    said = (
        "x\\nptxas info    : Compiling entry function 'fast' for 'sm_90'\\n    0 bytes stack frame,"
        " 0 bytes spill stores, 0 bytes spill loads\\nptxas info    : Used 4 registers"
    )
    forged = KERNEL.replace(
        "__global__", f'[[deprecated("{said}")]] __device__ int old() {{ return 128; }}\n__global__'
    ).replace("blockIdx.x * 128", "blockIdx.x * old()")
    honest, found = build_all(TASK, [KERNEL, forged], H200)
    assert isinstance(honest, Build) and isinstance(found, Build)
    assert found.resources == honest.resources
    quoted = f"kernel.cu(3): warning: {said}".replace("\\nptxas", " ptxas").replace("\\n", "\n")
    assert parse_ptxas(quoted) == (), "nor from within a line"


def test_a_log_is_cut_to_the_errors_with_their_lines() -> None:
    log = 'kernel.cu(2): error: identifier "y" is undefined\n' + "noise\n" * 500
    shown = readable_log(log, "int x;\n  int z = y;\n")
    assert shown.splitlines()[:2] == [
        'line 2: error: identifier "y" is undefined',
        "    int z = y;",
    ]
    assert len(shown.splitlines()) <= 40
    quoted = log.replace("noise\n", "    int z = y;\n            ^\n", 1)
    assert readable_log(quoted, "int x;\n  int z = y;\n").count("int z = y;") == 1


def test_a_very_long_line_is_cut() -> None:
    """A source of one line would otherwise stand in every prompt and on the terminal."""
    source = f"#error {'accepted ' * 50_000}"
    shown = readable_log(f"kernel.cu(1): error: {source}\n{source}\n", source)
    assert len(shown) < 2_000 and shown.startswith("line 1: error: #error accepted")


def test_a_tasks_headers_are_included_and_part_of_the_key(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    shutil.copytree(TASK.folder, folder)
    (folder / "rows.cuh").write_text("#define ROWS 128\n")
    task = load_task(folder).model_copy(update={"headers": ("rows.cuh",)})
    source = '#include "rows.cuh"\n' + KERNEL.replace("tile[128]", "tile[ROWS]")
    first = build(task, source, H200)
    assert isinstance(first, Build) and first.resources[0].static_shared_bytes == 512
    assert build(task, source, H200).cached  # type: ignore[union-attr]
    (folder / "rows.cuh").write_text("#define ROWS 256\n")
    second = build(task, source, H200)
    assert isinstance(second, Build) and second.resources[0].static_shared_bytes == 1024
    assert isinstance(build(TASK, source, H200), BuildFailed), "without it, it does not build"


def test_a_build_on_a_full_disk_is_not_the_kernel_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: real._replace(free=0))
    with pytest.raises(MissingDependency, match="no space left"):
        build(TASK, BROKEN, H200)


@pytest.mark.parametrize("arch", ["sm_100", "sm_120"])
def test_newer_architectures_build(arch: str) -> None:
    built = build(TASK, KERNEL, Device(kind="cuda", name="a Blackwell GPU", arch=arch, spec="h200"))
    assert isinstance(built, Build), built
    assert f".target {arch}" in built.ptx.read_text() and built.resources[0].registers > 0
