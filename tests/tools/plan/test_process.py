"""One recorder process: what lies in it, what it leaves behind, and a plan forged in full."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.plan import process
from astra_chat.tools.plan.audit import audit
from astra_chat.tools.plan.model import KernelNode
from astra_chat.tools.plan.process import (
    Died,
    Recorder,
    Recording,
    ensure_recorder,
    ensure_stub,
    stub_source,
)
from astra_chat.tools.plan.report import Report
from astra_chat.tools.plan.stand_ins import Buffers
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.launcher import call_values
from astra_chat.tools.types import Case
from astra_vgpu.ground.cubin import read_cubin
from astra_vgpu.ground.errors import AstraError, MissingDependency
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import find_compiler, find_toolkit

OUT, INPUT = 0x2000_0000_0000, 0x3000_0000_0000
CALL = Recording(
    index=0,
    words=(OUT, INPUT, 3, 24, 1, 0x5550),
    reserved=(("out", OUT, 144), ("input", INPUT, 288)),
    stream=0x5550,
    pattern=0x1AA,
)


def recorder(built: Build, entry: str) -> Recorder:
    task = find_task("silu_and_mul").model_copy(update={"entry": entry})
    cubin = read_cubin((built.folder / "kernel.cubin").read_bytes())
    return Recorder(task, built.library, cubin, spec("h200"))


def run(built: Build, entry: str, *calls: Recording) -> Report | Died:
    found = recorder(built, entry)
    variables = {name: 0x1000_0000_0000 + (i << 20) for i, name in enumerate(found.cubin.variables)}
    return found.run(variables, calls, Stop())


@pytest.mark.second_tier
def test_there_is_neither_python_nor_a_driver_in_the_process(
    built: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a launcher hangs: maps, arguments and environment of the process that runs it."""
    monkeypatch.setattr(process, "RECORD_TIMEOUT_S", 600.0)
    stop, ended, seen = Stop(), threading.Event(), {}

    def look() -> None:
        while "maps" not in seen and not ended.wait(0.01):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    maps = (folder / "maps").read_text()
                    if Path(os.fsdecode(words[0])).name == "recorder" and "kernel.so" in maps:
                        seen.update(maps=maps, words=words[1:-1])
                        seen["environment"] = (folder / "environ").read_bytes()
                except OSError:
                    continue
        stop.set()

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        with pytest.raises(Cancelled):
            recorder(built, "hangs").run({"table": 0x1000_0000_0000}, [CALL], stop)
    finally:
        ended.set()
        watcher.join()
    maps = str(seen["maps"])
    assert "libvcudart.so" in maps and "kernel.so" in maps
    assert not re.search(r"python|libcuda\.so|libcudart\.so|libtorch", maps)
    assert seen["words"] == [b"request", b"report", b"printed"]
    assert seen["environment"] == b""


def test_a_report_of_one_call(built: Build) -> None:
    report = run(built, "simple", CALL)
    assert isinstance(report, Report)
    (node,) = report.calls[0].nodes
    assert node.kind == "kernel" and node.grid == (3, 1, 1)
    assert node.parameters == b"".join(n.to_bytes(8, "little") for n in (OUT, INPUT))[:16] + bytes(
        [24, 0, 0, 0]
    )


def test_a_crash_names_the_call_that_ran(built: Build) -> None:
    again = Recording(7, CALL.words, CALL.reserved, CALL.stream, CALL.pattern)
    died = run(built, "aborts", again, CALL)
    assert isinstance(died, Died) and died.index == 7 and not died.refused


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ("forged_kernel", "the cubin has no kernel _Z5ghostPf"),
        ("forged_block", "no GPU of this kind can run it"),
        ("forged_shared", "no GPU of this kind can run it"),
        ("forged_parameters", "1 parameter bytes"),
    ],
)
def test_a_plan_forged_in_full_is_caught_by_the_audit(built: Build, entry: str, what: str) -> None:
    """There are as many calls as the launcher writes lines for: the report itself is in order."""
    calls = [Recording(i, CALL.words, CALL.reserved, CALL.stream, CALL.pattern) for i in range(64)]
    report = run(built, entry, *calls)
    assert isinstance(report, Report)
    (node,) = report.calls[0].nodes
    forged = KernelNode.model_validate(node.model_dump(exclude={"maps"}))
    cubin = read_cubin((built.folder / "kernel.cubin").read_bytes())
    assert what in audit((forged,), cubin, Buffers((), ()), spec("h200"))


CONSTRUCTORS = {
    "crashes": ("abort();", "killed by SIGABRT"),
    "writes": ('fopen("left", "w");', "system call openat"),
    "asks": (
        "void* p; extern int cudaMalloc(void**, unsigned long); cudaMalloc(&p, 8);",
        "cudaMalloc",
    ),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_what_runs_while_the_library_loads_is_watched_too(
    built: Build, tmp_path: Path, name: str
) -> None:
    body, what = CONSTRUCTORS[name]
    (tmp_path / "unit.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        f"__attribute__((constructor)) static void early(void) {{ {body} }}\n"
        "int simple(void) { return 0; }\n"
    )
    command = [str(find_compiler()), "-x", "c", "-shared", "-fPIC", "unit.c", "-o", "unit.so"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    loaded = replace(recorder(built, "simple"), library=tmp_path / "unit.so")
    died = loaded.run({"table": 0x1000_0000_0000}, [CALL], Stop())
    assert isinstance(died, Died) and died.index is None and what in died.message


def test_nothing_is_left_behind(
    built: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run(built, "simple", CALL)
    run(built, "aborts", CALL)
    assert list(tmp_path.iterdir()) == []


def test_a_recorder_that_fails_by_itself_is_our_mistake(built: Build) -> None:
    with pytest.raises(AstraError, match=r"the plan recorder failed.*a stand-in address is taken"):
        recorder(built, "simple").run({"table": 2**63}, [CALL], Stop())


def test_names_of_system_calls() -> None:
    assert process._call_name(57) == "fork" and process._call_name(257) == "openat"
    assert process._call_name(9999) == "number 9999"


TASK = find_task("fused_add_rmsnorm")
CASE = Case(dims={"tokens": 5, "h": 7}, dtype="float32", pad=3)


def test_a_stub_passes_every_value_on_as_the_contract_says() -> None:
    """A launcher of the contract, in Python, sees what ctypes would have passed."""
    stub = ctypes.CDLL(str(ensure_stub(TASK, find_toolkit())))
    values = call_values(TASK, CASE, [0x1000, 0x2000, 2**63 + 8], 0x7777)
    kinds = [type(value) for value in values]
    seen: list[object] = []
    launcher = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(lambda *got: seen.extend(got) or 42)
    words = [int.from_bytes(bytes(value), "little") for value in values]
    assert stub.astra_call(launcher, (ctypes.c_uint64 * len(words))(*words)) == 42
    assert seen == [value.value for value in values] and 7 in seen


@pytest.mark.second_tier
def test_programs_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path))
    toolkit = find_toolkit()
    recorder, stub = ensure_recorder(toolkit), ensure_stub(TASK, toolkit)
    dates = [path.stat().st_mtime_ns for path in (recorder, stub)]
    assert (ensure_recorder(toolkit), ensure_stub(TASK, toolkit)) == (recorder, stub)
    assert [path.stat().st_mtime_ns for path in (recorder, stub)] == dates
    other = find_task("silu_and_mul")
    assert stub_source(other) != stub_source(TASK) and ensure_stub(other, toolkit) != stub


def test_without_a_compiler_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path))
    toolkit = find_toolkit()
    with pytest.raises(MissingDependency, match="apt-get install"):
        ensure_recorder(replace(toolkit, cxx=tmp_path / "no-g++"))
    with pytest.raises(MissingDependency, match="cannot build the plan recorder"):
        ensure_recorder(replace(toolkit, include_dir=tmp_path))
