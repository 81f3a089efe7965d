"""Run by build/test_tvm_ffi_binding.py: calls the module of tests/contracts/scatter, in which every
word of schema 2 stands, on the virtual GPU.

Arguments: the module, its PTX, and as JSON the registers and shared memory of each kernel.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi
from numpy.lib.stride_tricks import as_strided

from astra_chat.tools.virtual_gpu.adapter import VirtualGpu
from astra_vgpu.ground.gpu_specs import spec
from tests.tools.call_binding import Array, DeviceTensor, zeros

TOKENS, HEADS, HEAD_SIZE, BLOCKS, BLOCK_SIZE = 3, 2, 8, 2, 16


@dataclass(frozen=True)
class Tensors:
    """One call's arguments, in the module's order."""

    cache: Array
    key: Array
    slot: Array
    bias: Array | None
    scratch: Array
    rot_dim: int = 4
    causal: bool = True

    def given(self) -> tuple[Any, ...]:
        tensors = (self.cache, self.key, self.slot, self.bias, self.scratch)
        held = (None if t is None else tvm_ffi.from_dlpack(DeviceTensor(t)) for t in tensors)
        return *held, self.rot_dim, self.causal

    def expected(self) -> Array:
        rows = self.cache.astype(np.float64).reshape(BLOCKS * BLOCK_SIZE, HEADS, HEAD_SIZE)
        for token, slot in enumerate(self.slot.tolist()):
            if slot >= 0:
                added = 0 if self.bias is None else self.bias[:, None]
                rows[slot] = (self.key[token] + added) * (1 if self.causal else -1)
        return rows.reshape(self.cache.shape)


def view(strides: tuple[int, int], dtype: str) -> Array:
    """Numbers [tokens, heads, head_size] with these strides of tokens and heads, in elements."""
    room = zeros(TOKENS * strides[0] + HEADS * strides[1] + HEAD_SIZE, dtype=dtype)
    places = [stride * room.itemsize for stride in (*strides, 1)]
    found = as_strided(room, (TOKENS, HEADS, HEAD_SIZE), places)
    found[...] = np.random.default_rng(0).standard_normal(found.shape)
    return found


def tensors(dtype: str = "float16", index: str = "int64") -> Tensors:
    slot = zeros(TOKENS, dtype=index)
    slot[...] = (17, -1, 4)
    bias = zeros(HEADS, dtype="float32")
    bias[...] = (0.5, -2)
    return Tensors(
        zeros(BLOCKS, BLOCK_SIZE, HEADS * HEAD_SIZE, dtype=dtype),
        view((40, 12), dtype),
        slot,
        bias,
        zeros(256, dtype="uint8"),
    )


def largest_error(function: Any, gpu: VirtualGpu, made: Tensors) -> float:
    expected = made.expected()
    key, item = made.key, made.key.itemsize
    last = sum((n - 1) * stride for n, stride in zip(key.shape, key.strides, strict=True)) // item
    arrays = {
        "cache": made.cache,
        "slot": made.slot,
        "bias": made.bias,
        "scratch": made.scratch,
        "key": as_strided(key, (last + 1,), (item,)),
    }
    addresses = [gpu.register(a, name) for name, a in arrays.items() if a is not None]
    function(*made.given())
    for address in addresses:
        gpu.unregister(address)
    return float(np.abs(made.cache - expected).max())


def refusals(function: Any) -> dict[str, str]:
    """What is said of each call that must not reach the kernel."""
    good, single = tensors(), zeros(HEADS + 1, dtype="float32")
    tries: dict[str, Tensors] = {
        "odd stride": replace(good, key=view((41, 12), "float16")),
        "overlap": replace(good, key=view((12, 8), "float16")),
        "last axis": replace(good, key=zeros(TOKENS, HEADS, 2 * HEAD_SIZE)[..., ::2]),
        "bias extent": replace(good, bias=single),
        "bias dtype": replace(good, bias=zeros(HEADS)),
        "index dtype": replace(good, slot=zeros(TOKENS, dtype="int16")),
        "combination": tensors("float32", "int32"),
        "scratch extent": replace(good, scratch=zeros(128, dtype="uint8")),
        "scratch dtype": replace(good, scratch=zeros(256, dtype="int8")),
        "relation": replace(good, rot_dim=10),
    }
    said = {}
    for name, made in tries.items():
        try:
            function(*made.given())
            said[name] = "accepted"
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


def main() -> None:
    module, ptx, resources = sys.argv[1:]
    gpu = VirtualGpu(spec("h200"))
    gpu.load(Path(module), Path(ptx), {n: (r, s) for n, (r, s) in json.loads(resources).items()})
    function = tvm_ffi.load_module(module).scatter
    said = refusals(function)
    calls = [
        tensors(),
        tensors(index="int32"),
        replace(tensors("float32"), bias=None, causal=False),
        replace(tensors(), key=view((16, 8), "float16"), rot_dim=2),
    ]
    errors = [largest_error(function, gpu, made) for made in calls]
    print(json.dumps({"said": said, "errors": errors}))


if __name__ == "__main__":
    main()
