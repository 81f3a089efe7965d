"""Kernels of others: found where the user says, refused as text where they are not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.toolkit import find_toolkit
from lab.baselines.cute_kernels import IN_CUTE
from lab.baselines.foreign import (
    AT_RUN_TIME,
    HEADERS_TODAY,
    IN_LIBRARIES,
    LAUNCHERS,
    ONLY_TODAY,
    Places,
    extract,
    foreign_kernels,
)
from lab.baselines.triton_kernels import IN_TRITON


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Headers with nothing in them: what is read of them is their name and content."""
    (tmp_path / "include/flashinfer").mkdir(parents=True)
    for name in {name for names in HEADERS_TODAY.values() for name in names}:
        (tmp_path / "include/flashinfer" / name).write_text(name)
    for compiled in AT_RUN_TIME.values():
        for name in compiled.headers:
            header = tmp_path / "jit/csrc" / name
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text(name)
    (tmp_path / "cccl/cub").mkdir(parents=True)
    for name in IN_TRITON:
        (tmp_path / f"{name}.cu").write_text("// made\n")
    (tmp_path / "cute").mkdir()
    for name in IN_CUTE:
        (tmp_path / "cute" / f"{name}.cu").write_text("// made\n")
    include = tmp_path / "include"
    return Places(include, include, tmp_path / "jit", triton=tmp_path, cute=tmp_path / "cute")


def on_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("( ", "(")


@pytest.mark.parametrize("name", sorted({*IN_LIBRARIES, *HEADERS_TODAY, *AT_RUN_TIME, *IN_TRITON}))
def test_launchers_have_the_contracts_prototype(name: str, places: Places) -> None:
    task = find_task(name)
    head = on_one_line(prototype(task))
    found = list(foreign_kernels(task, places))
    assert bool(found) == (name in {*HEADERS_TODAY, *AT_RUN_TIME, *IN_TRITON})
    for one in found:
        assert head in on_one_line(one.source)
        assert all(f"-I{h}" in one.task.flags for h in one.headers)
    library = LAUNCHERS / f"{name}.library.cu"
    assert library.is_file() == (name in IN_LIBRARIES)
    assert name not in IN_LIBRARIES or head in on_one_line(library.read_text())


def test_what_is_compiled_at_run_time_keeps_its_own_flags(places: Places) -> None:
    silu = {f.name: f for f in foreign_kernels(find_task("silu_and_mul"), places)}
    assert set(silu) == {"headers-pdl", "headers", "jit-pdl", "jit"}
    assert "-DPROGRAMMATIC=1" in silu["jit-pdl"].task.flags
    assert "-std=c++20" in silu["jit"].task.flags and "-std=c++17" in silu["headers"].task.flags
    norm = {f.name: f for f in foreign_kernels(find_task("fused_add_rmsnorm"), places)}
    assert {"cute", "cute-pdl"} <= set(norm)
    strided = Case(dims={"tokens": 1, "h": 4096}, dtype="float16", pad=8)
    assert norm["headers"].takes(strided) and not norm["cute"].takes(strided)
    assert "--use_fast_math" not in norm["jit"].task.flags
    assert norm["jit"].takes(Case(dims={"tokens": 1, "h": 8192}, dtype="float16"))
    assert not norm["jit"].takes(Case(dims={"tokens": 1, "h": 8200}, dtype="float16"))


def test_headers_of_2025_and_of_today_are_told_apart(places: Places) -> None:
    kernels = list(foreign_kernels(find_task("silu_and_mul"), places))
    flags = {(k.tier, k.name): set(k.task.flags) for k in kernels if "headers" in k.name}
    assert {"-DFLASHINFER_TODAY=0", "-DPROGRAMMATIC=0"} <= flags["sglang", "headers"]
    assert {"-DFLASHINFER_TODAY=1", "-DPROGRAMMATIC=0"} <= flags["today", "headers"]
    assert {"-DFLASHINFER_TODAY=1", "-DPROGRAMMATIC=1"} <= flags["today", "headers-pdl"]
    assert len(flags) == 3 and all(k.headers[1].name == "cub" for k in kernels[:3])


def test_kernels_in_sequence_have_the_launchers_of_each(places: Places) -> None:
    (both,) = foreign_kernels(find_task("fused_add_rmsnorm_quant_fp8"), places)
    for name in ("fused_add_rmsnorm", "per_token_quant_fp8"):
        (one,) = (f for f in foreign_kernels(find_task(name), places) if f.name == "jit")
        assert one.source in both.source and one.content != both.content
    assert not both.precise


def test_a_place_without_what_it_should_hold_is_refused(tmp_path: Path) -> None:
    task = find_task("silu_and_mul")
    for places in (Places(flashinfer=tmp_path), Places(jit=tmp_path), Places(library=tmp_path)):
        with pytest.raises(BadInput, match="missing"):
            list(foreign_kernels(task, places))
    (tmp_path / "silu_and_mul.cubin").write_bytes(b"text")
    with pytest.raises(BadInput, match="not a cubin"):
        list(foreign_kernels(task, Places(library=tmp_path)))
    (tmp_path / "a.so").write_bytes(b"nothing")
    for names in (["silu_and_mul"], ["none"], []):
        with pytest.raises(BadInput, match="no kernel"):
            extract(tmp_path / "a.so", names, tmp_path / "out")


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the cubins of a library whose kernels have the names of two tasks'."""
    folder = tmp_path_factory.mktemp("library")
    names = (IN_LIBRARIES["topk_softmax"][-1], *IN_LIBRARIES["rotary_embedding"])
    kernels = (f'extern "C" __global__ void {name}() {{}}\n' for name in names)
    (folder / "a.cu").write_text("".join(kernels))
    command = [
        str(find_toolkit().nvcc),
        "-shared",
        "-Xcompiler=-fPIC",
        "-cudart=none",
        "--no-compress",
        "-arch=sm_90",
        "-o",
        str(folder / "a.so"),
        str(folder / "a.cu"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    paths = extract(folder / "a.so", [], folder / "out")
    assert [path.stem for path in paths] == ["topk_softmax", "rotary_embedding"]
    return folder / "out"


def test_a_library_of_2025_is_taken_for_what_it_takes(cubins: Path) -> None:
    task = find_task("topk_softmax")
    then, now = foreign_kernels(task, Places(library=cubins, library_today=cubins))
    assert (then.tier, now.tier) == ("sglang", "today")
    assert [case for case, _ in task.bench if then.takes(case) != now.takes(case)] == [
        case for case, _ in task.bench if not case.absent
    ]
    capped = task.bench[0][0].model_copy(update={"scalars": {"moe_softcapping": 30.0}})
    assert now.takes(capped) and not then.takes(capped)


def test_what_only_one_library_holds_is_of_its_tier(cubins: Path) -> None:
    places = Places(library=cubins, library_today=cubins)
    for name in ONLY_TODAY:
        (now,) = foreign_kernels(find_task(name), places)
        assert now.tier == "today" and not now.precise
    with pytest.raises(BadInput, match="extract writes it"):
        list(foreign_kernels(find_task("rope_and_kv_write"), places))
    assert not list(foreign_kernels(find_task("rope_and_kv_write"), Places(library_today=cubins)))
