"""Run by build/test_tvm_ffi_binding.py: calls a silu_and_mul module on the virtual GPU. Its host
memory that looks like CUDA tensors serves call_scatter_binding.py, too.

Arguments: the module, its PTX, and as JSON the registers and shared memory of each kernel. Tensors
are host memory presented as CUDA tensors by hand-made DLPack capsules.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from astra_chat.tools.virtual_gpu.adapter import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec

CUDA, CPU = 2, 1
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""DLPack's of NumPy's kinds."""
Array = np.ndarray[Any, Any]


class _DLTensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [
        ("tensor", _DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", _DELETER),
    ]


class DeviceTensor:
    """An array that says it lies on a device; nothing of it is freed before the process ends."""

    _kept: list[Any] = []  # noqa: RUF012

    def __init__(
        self, array: Array, device: tuple[int, int] = (CUDA, 0), byte_offset: int = 0
    ) -> None:
        extents = (ctypes.c_int64 * array.ndim)(*array.shape)
        strides = (ctypes.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
        tensor = _DLTensor(
            array.ctypes.data - byte_offset,
            *device,
            array.ndim,
            CODES[array.dtype.kind],
            8 * array.itemsize,
            1,
            extents,
            strides,
            byte_offset,
        )
        self._managed = _DLManagedTensor(tensor, None, _DELETER(lambda _: None))
        self._device = device
        DeviceTensor._kept += [self, array, extents, strides]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **_: object) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._managed), b"dltensor", None)


def zeros(*shape: int, dtype: str = "float16", offset: int = 0) -> Array:
    """Zeros at an address that is `offset` bytes past a multiple of 256."""
    dt = np.dtype(dtype)
    count = int(np.prod(shape)) * dt.itemsize
    room = np.zeros(count + 512, dtype=np.uint8)
    start = -room.ctypes.data % 256 + offset
    return room[start : start + count].view(dt).reshape(shape)


def refusals(function: Any) -> dict[str, str]:
    """What is said of each call that must not reach the kernel."""
    out, given = zeros(5, 136), zeros(5, 272)
    tries: dict[str, tuple[tuple[Array, dict[str, Any]], tuple[Array, dict[str, Any]]]] = {
        "cpu": ((out, {"device": (CPU, 0)}), (given, {})),
        "other device": ((out, {}), (given, {"device": (CUDA, 1)})),
        "dimensions": ((out, {}), (zeros(5 * 272), {})),
        "strided": ((out, {}), (zeros(10, 272)[::2], {})),
        "dtype": ((zeros(5, 136, dtype="float64"), {}), (zeros(5, 272, dtype="float64"), {})),
        "two dtypes": ((out, {}), (zeros(5, 272, dtype="float32"), {})),
        "width": ((out, {}), (zeros(5, 270), {})),
        "tokens": ((out, {}), (zeros(4, 272), {})),
        "domain": ((zeros(5, 12), {}), (zeros(5, 24), {})),
        "misaligned": ((out, {}), (zeros(5, 272, offset=2), {})),
        "misaligned by offset": ((zeros(5, 136, offset=8), {"byte_offset": 8}), (given, {})),
    }
    said = {}
    for name, arguments in tries.items():
        try:
            function(*(tvm_ffi.from_dlpack(DeviceTensor(a, **kw)) for a, kw in arguments))
            said[name] = "accepted"
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


def largest_error(function: Any, gpu: VirtualGpu, byte_offset: int) -> float:
    """|got - silu(x) y| of a real call, on tensors that start `byte_offset` into their storage."""
    given, out = zeros(5, 272, offset=byte_offset), zeros(5, 136, offset=byte_offset)
    given[...] = np.random.default_rng(0).standard_normal(given.shape)
    for array, name in ((given, "input"), (out, "out")):
        gpu.register(array, name)
    tensors = (DeviceTensor(a, byte_offset=byte_offset) for a in (out, given))
    function(*map(tvm_ffi.from_dlpack, tensors))
    x, y = given[:, :136].astype(np.float64), given[:, 136:].astype(np.float64)
    return float(np.abs(out - x / (1 + np.exp(-x)) * y).max())


def main() -> None:
    module, ptx, resources = sys.argv[1:]
    gpu = VirtualGpu(spec("h200"))
    gpu.load(Path(module), Path(ptx), {n: (r, s) for n, (r, s) in json.loads(resources).items()})
    function = tvm_ffi.load_module(module).silu_and_mul
    said = refusals(function)
    errors = [largest_error(function, gpu, byte_offset) for byte_offset in (0, 32)]
    print(json.dumps({"said": said, "errors": errors}))


if __name__ == "__main__":
    main()
