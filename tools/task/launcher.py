"""The C side of a task's contract: the launcher's prototype, and the call that fits it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import DTYPE_CODES, Case


def parameters(task: Task) -> list[tuple[str, str]]:
    """C type and name of each parameter of the launcher: tensors, dims, row strides, scalars,
    dtype code, stream."""
    return [
        *(("void*" if arg.written else "const void*", arg.name) for arg in task.args),
        *(("int64_t", name) for name in task.dims),
        *(("int64_t", f"{arg.name}_stride") for arg in task.args if arg.strided),
        *((scalar.type, scalar.name) for scalar in task.scalars),
        ("int", "dtype"),
        ("cudaStream_t", "stream"),
    ]


def prototype(task: Task) -> str:
    """The exported launcher, as C."""
    declared = ", ".join(f"{kind} {name}" for kind, name in parameters(task))
    return f'extern "C" cudaError_t {task.entry}({declared})'


def call_values(
    task: Task, case: Case, addresses: Sequence[int], stream: int
) -> tuple[ctypes.c_void_p | ctypes.c_int64 | ctypes.c_int | ctypes.c_float, ...]:
    """Arguments of one launcher call for ctypes; `addresses` in the order of task.args."""
    scalars = [
        ctypes.c_float(value) if scalar.type == "float" else ctypes.c_int64(int(value))
        for scalar in task.scalars
        for value in [scalar.value_in(case)]
    ]
    return (
        *(ctypes.c_void_p(address) for address in addresses),
        *(ctypes.c_int64(case.dims[name]) for name in task.dims),
        *(ctypes.c_int64(arg.stride_of(case)) for arg in task.args if arg.strided),
        *scalars,
        ctypes.c_int(DTYPE_CODES[case.dtype]),
        ctypes.c_void_p(stream),
    )
