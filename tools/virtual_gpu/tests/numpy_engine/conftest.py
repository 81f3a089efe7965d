"""A bench for the engine: kernels from nvcc or written as PTX, launched without a CUDA runtime."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from astra_vgpu import numpy_engine
from astra_vgpu.ground.toolkit import Toolkit
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.ptx.parser import Module, parse
from astra_vgpu.types import Dim3, Launch, LaunchReport

Array = NDArray[Any]
DATA = Path(__file__).parent / "data"


def at_256(array: Array) -> Array:
    """A copy at an address that is a multiple of 256, as cudaMalloc gives."""
    room = np.zeros(array.nbytes + 256, np.uint8)
    start = -room.ctypes.data % 256
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.fixture(scope="session")
def aligned() -> Callable[[Array], Array]:
    return at_256


@dataclass
class Bench:
    """One PTX module and ways to launch its kernels."""

    module: Module

    def name(self, kernel: str) -> str:
        """The one mangled name that contains `kernel`."""
        (name,) = (n for n in self.module.kernels if kernel in n)
        return name

    def launch(
        self,
        kernel: str,
        grid: int | Dim3,
        block: int | Dim3,
        *arguments: Any,
        shared: int = 0,
        cooperative: bool = False,
        programmatic: bool = False,
        memory: Memory | None = None,
        **options: Any,
    ) -> LaunchReport:
        """Arrays become pointers to themselves; integers of NumPy and Python floats go by value.
        cooperative, programmatic: as such a launch."""
        name = self.name(kernel)
        memory = memory or Memory()
        variables: dict[str, Array] = {}
        for variable in self.module.globals.values():
            initial = variable.initial or bytes(variable.size)
            variables[variable.name] = at_256(np.frombuffer(initial, np.uint8))
            memory.add(variables[variable.name], variable.name)
        for number, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray) and memory.find(argument.ctypes.data) is None:
                memory.add(argument, f"argument {number}")
        meeting = at_256(np.zeros(2, np.uint32))
        if cooperative:
            memory.add(meeting, "the grid's barrier")
        place = int(meeting.ctypes.data) if cooperative else 0
        params = bytearray(self.module.kernels[name].param_bytes)
        for param, argument in zip(self.module.kernels[name].params, arguments, strict=True):
            packed = _packed(argument, param.size)
            params[param.offset : param.offset + param.size] = packed
        return numpy_engine.run(
            numpy_engine.translate(self.module, name, cooperative=cooperative),
            Launch(name, _extent(grid), _extent(block), shared, bytes(params), place, programmatic),
            memory,
            module_globals={n: int(v.ctypes.data) for n, v in variables.items()},
            **options,
        )


def _extent(value: int | Dim3) -> Dim3:
    return value if isinstance(value, Dim3) else Dim3(value)


def _packed(argument: Any, size: int) -> bytes:
    if isinstance(argument, np.ndarray):
        return struct.pack("<Q", argument.ctypes.data)
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, float):
        return struct.pack("<f" if size == 4 else "<d", argument)
    return int(argument).to_bytes(size, "little", signed=argument < 0)


class Compiler:
    """Kernel files of data/ to PTX; each file and set of flags once."""

    def __init__(self, toolkit: Toolkit, folder: Path) -> None:
        self._toolkit, self._folder = toolkit, folder
        self._benches: dict[tuple[str, ...], Bench] = {}

    def __call__(self, file: str, *flags: str) -> Bench:
        key = (file, *flags)
        if key not in self._benches:
            ptx = self._folder / f"{len(self._benches)}.ptx"
            command = [
                str(self._toolkit.nvcc),
                "-gencode",
                "arch=compute_90,code=compute_90",
                "-std=c++17",
                "-O3",
                "-lineinfo",
                "-ptx",
                *flags,
                "-o",
                str(ptx),
                str(DATA / file),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            self._benches[key] = Bench(parse(ptx.read_text()))
        return self._benches[key]


@pytest.fixture(scope="session")
def compiled(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(toolkit, tmp_path_factory.mktemp("ptx"))


_PLAIN = {8: "u8", 16: "b16", 32: "b32", 64: "b64"}


class Operate:
    """One PTX instruction on arrays: operate("add.rz.f32", np.float32, a, b)."""

    def __init__(self) -> None:
        self._benches: dict[tuple[str, ...], Bench] = {}

    def __call__(
        self, opcode: str, result: Any, *operands: Array, tail: str = "", body: str = ""
    ) -> Array:
        """`body` replaces the instruction: it reads %a0, %a1, ... and writes %out; `result` bool
        means a predicate."""
        widths = [8 * operand.dtype.itemsize for operand in operands]
        dtype = np.dtype(result)
        bench = self._bench(opcode, dtype, widths, tail, body)
        count = max(operand.size for operand in operands)
        full = [at_256(np.ascontiguousarray(np.broadcast_to(o, count))) for o in operands]
        out = at_256(np.zeros(count, np.uint32 if dtype == np.bool_ else dtype))
        bench.launch("kernel", -(-count // 128), 128, out, *full, np.uint32(count), counters=False)
        return out.astype(np.bool_) if dtype == np.bool_ else out

    def _bench(self, opcode: str, dtype: Any, widths: list[int], tail: str, body: str) -> Bench:
        key = (opcode, str(dtype), str(widths), tail, body)
        if key not in self._benches:
            self._benches[key] = Bench(parse(_one_instruction(opcode, dtype, widths, tail, body)))
        return self._benches[key]


def _one_instruction(opcode: str, dtype: Any, widths: list[int], tail: str, body: str) -> str:
    is_predicate = dtype == np.bool_
    width = 32 if is_predicate else 8 * dtype.itemsize
    names = [f"%a{number}" for number in range(len(widths))]
    target = "%p1" if is_predicate else "%out"
    instruction = body or f"{opcode} {', '.join([target, *names])}{tail};"
    params = ", ".join(f".param .u64 in{number}" for number in range(len(widths)))
    register = {8: "b16", 16: "b16", 32: "b32", 64: "b64"}
    lines = [
        ".version 9.0\n.target sm_90\n.address_size 64",
        f".visible .entry kernel(.param .u64 out, {params}, .param .u32 count)\n{{",
        ".reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;",
        f".reg .{register[width]} %out;",
        *(f".reg .{register[w]} {name};" for w, name in zip(widths, names, strict=True)),
        "mov.u32 %r0, %tid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %ctaid.x;",
        "mad.lo.u32 %r3, %r1, %r2, %r0; ld.param.u32 %r4, [count];",
        "setp.ge.u32 %p0, %r3, %r4; @%p0 ret;",
    ]
    for number, (each, name) in enumerate(zip(widths, names, strict=True)):
        lines.append(f"ld.param.u64 %rd0, [in{number}]; mul.wide.u32 %rd1, %r3, {each // 8};")
        lines.append(f"add.s64 %rd1, %rd0, %rd1; ld.global.{_PLAIN[each]} {name}, [%rd1];")
    lines.append(instruction)
    if is_predicate:
        lines.append("selp.u32 %out, 1, 0, %p1;")
    lines.append(f"ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r3, {width // 8};")
    lines.append(f"add.s64 %rd1, %rd0, %rd1; st.global.{_PLAIN[width]} [%rd1], %out;")
    lines.append("ret;\n}")
    return "\n".join(lines)


@pytest.fixture(scope="session")
def operate() -> Operate:
    return Operate()
