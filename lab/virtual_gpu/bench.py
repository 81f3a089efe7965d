"""Benchmark of the virtual GPU itself: seconds of nvcc, translation, host compiler and launches."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import numpy as np

from astra_vgpu import c_engine, numpy_engine
from astra_vgpu.c_engine.build import ensure_runtime
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.gpu_specs import DEFAULT_GPU, spec
from astra_vgpu.ground.toolkit import find_toolkit
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.ptx.parser import Module, parse
from astra_vgpu.runtime.calls import device_array
from astra_vgpu.types import Dim3, Launch

Result = TypeVar("Result")
KERNELS = ("silu_scalar", "silu_vector", "rmsnorm")
SHAPES = ((16, 4096), (128, 11008), (1024, 4096))
THREADS = 512
REPEATS = 5


def bench() -> None:
    """Prints a table. Builds are from nothing: they are kept nowhere."""
    with tempfile.TemporaryDirectory(prefix="astra-bench-") as folder:
        kept = os.environ.get("ASTRA_CACHE")
        os.environ["ASTRA_CACHE"] = folder
        try:
            _bench(Path(folder))
        finally:
            os.environ.pop("ASTRA_CACHE")
            if kept is not None:
                os.environ["ASTRA_CACHE"] = kept


def _bench(folder: Path) -> None:
    seconds, module = _timed(lambda: _ptx(folder))
    cores = len(os.sched_getaffinity(0))
    print(f"nvcc -ptx and parser, {len(KERNELS)} kernels: {seconds:.2f} s; {cores} cores")
    seconds, _ = _timed(ensure_runtime)
    print(f"the C engine's own part, once a machine: {seconds:.2f} s\n")
    print(f"{'kernel':12} PTX  translate  compile  {'shape':14} numpy ms     C ms  counted  CPU ms")
    for kernel in KERNELS:
        translating, program = _timed(partial(c_engine.translate, module, kernel))
        compiling, _ = _timed(program.library)
        size = numpy_engine.count(program.reference)
        head = f"{kernel:12}{size:4}{1e3 * translating:8.0f} ms{compiling:7.2f} s"
        for rows, columns in SHAPES:
            times = _launches(program, rows, columns)
            cells = "".join(f"{1e3 * each:9.2f}" for each in times)
            print(f"{head:38}{f'[{rows}, {columns}]':14}{cells}")
            head = ""


def _launches(program: c_engine.Program, rows: int, columns: int) -> list[float]:
    """Best seconds of a launch: NumPy, C, C with counters, and of all cores together, which other
    work on the machine does not change much. Input is normal."""
    memory = Memory()
    source, out = device_array(4 * rows * columns), device_array(2 * rows * columns)
    values = np.random.default_rng(0).standard_normal(2 * rows * columns, np.float32)
    source.view(np.uint16)[:] = values.view(np.uint32) >> 16
    params = struct.pack("<QQi", memory.add(out, "out"), memory.add(source, "in"), columns)
    memory.track_writes(True)
    kernel = program.reference.kernel.name
    launch = Launch(kernel, Dim3(rows), Dim3(THREADS), 0, params)
    runs: list[Callable[[], object]] = [
        lambda: numpy_engine.run(program.reference, launch, memory, counters=False),
        lambda: c_engine.run(program, launch, memory, counters=False),
        lambda: c_engine.run(program, launch, memory),
    ]
    busy = min(_timed(runs[1], time.process_time)[0] for _ in range(REPEATS))
    return [*(min(_timed(run)[0] for _ in range(REPEATS)) for run in runs), busy]


def _timed(
    run: Callable[[], Result], clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Result]:
    start = clock()
    result = run()
    return clock() - start, result


def _ptx(folder: Path) -> Module:
    source = Path(str(files("lab.virtual_gpu") / "bench.cu"))
    ptx = folder / "bench.ptx"
    arch = spec(DEFAULT_GPU).arch.replace("sm_", "compute_")
    command = [str(find_toolkit().nvcc), f"-arch={arch}", "-std=c++17", "-O3", "-ptx"]
    done = subprocess.run(
        [*command, "-o", str(ptx), str(source)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise MissingDependency(f"nvcc cannot build the benchmark: {done.stderr[:400]}")
    return parse(ptx.read_text())
