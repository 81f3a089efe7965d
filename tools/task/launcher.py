"""The C side of a task's contract: the launcher's prototype, and the call that fits it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.task_file import FIRST_VARIABLE
from astra_chat.tools.types import DTYPE_CODES, Case


def parameters(task: Task) -> list[tuple[str, str]]:
    """C type and name of each parameter of the launcher: tensors, dims, free strides, scalars,
    dtype codes, stream."""
    return [
        *(("const void*" if arg.constant else "void*", arg.name) for arg in task.args),
        *(("int64_t", name) for name in task.dims),
        *(("int64_t", name) for arg in task.args for name in arg.stride_names),
        *((scalar.type, scalar.name) for scalar in task.scalars),
        *(("int", dtype_parameter(variable)) for variable in task.variables),
        ("cudaStream_t", "stream"),
    ]


def dtype_parameter(variable: str) -> str:
    """The parameter that holds the dtype code of a type variable."""
    return "dtype" if variable == FIRST_VARIABLE else f"{variable.lower()}_dtype"


def prototype(task: Task) -> str:
    """The exported launcher, as C."""
    declared = ", ".join(f"{kind} {name}" for kind, name in parameters(task))
    return f'extern "C" cudaError_t {task.entry}({declared})'


CValue = ctypes.c_void_p | ctypes.c_int64 | ctypes.c_int | ctypes.c_float | ctypes.c_bool


def call_values(
    task: Task, case: Case, addresses: Sequence[int], stream: int
) -> tuple[CValue, ...]:
    """Arguments of one launcher call for ctypes; `addresses` in the order of task.args. Those of
    absent arguments are null."""
    places = zip(task.args, addresses, strict=True)
    variables = [case.types.get(variable, case.dtype) for variable in task.variables]
    return (
        *(ctypes.c_void_p(address if arg.present(case) else 0) for arg, address in places),
        *(ctypes.c_int64(case.dims[name]) for name in task.dims),
        *(ctypes.c_int64(stride) for arg in task.args for stride in arg.free_strides_of(case)),
        *(_scalar(scalar.type, scalar.value_in(case)) for scalar in task.scalars),
        *(ctypes.c_int(DTYPE_CODES[dtype]) for dtype in variables),
        ctypes.c_void_p(stream),
    )


def _scalar(kind: str, value: float) -> CValue:
    if kind == "float":
        return ctypes.c_float(value)
    return ctypes.c_bool(bool(value)) if kind == "bool" else ctypes.c_int64(int(value))
