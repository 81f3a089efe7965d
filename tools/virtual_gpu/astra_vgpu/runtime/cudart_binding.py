"""Binds the fake CUDA runtime to Python by ctypes.

The C side (cudart/) knows the ABI; a `Host` (host.py) decides what a call does.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.runtime.host import CopyAccess, Host
from astra_vgpu.types import Dim3


class _Device(ctypes.Structure):
    """struct vcudart_device."""

    _fields_ = [
        ("name", ctypes.c_char * 256),
        *((n, ctypes.c_uint64) for n in ("memory_bytes", "l2_bytes")),
        *(
            (n, ctypes.c_int32)
            for n in (
                "major",
                "minor",
                "sms",
                "threads_per_sm",
                "blocks_per_sm",
                "registers_per_sm",
                "shared_per_block",
                "shared_per_block_optin",
                "shared_per_sm",
                "shared_reserved_per_block",
                "sm_clock_khz",
                "memory_clock_khz",
                "memory_bus_bits",
            )
        ),
    ]


class _Function(ctypes.Structure):
    """struct vcudart_function."""

    _fields_ = [
        (n, ctypes.c_int32)
        for n in (
            "registers",
            "static_shared_bytes",
            "max_threads",
            "max_dynamic_shared_bytes",
            "binary_version",
        )
    ]


_INT, _SIZE, _NAME = ctypes.c_int, ctypes.c_uint64, ctypes.c_char_p
_SIZE_OUT, _DIM = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)

_CALLBACKS: dict[str, Any] = {
    "launch": ctypes.CFUNCTYPE(_INT, _INT, _NAME, _DIM, _DIM, _SIZE, ctypes.c_void_p, _INT),
    "allocate": ctypes.CFUNCTYPE(_INT, _SIZE, _SIZE_OUT),
    "release": ctypes.CFUNCTYPE(_INT, _SIZE),
    "touch": ctypes.CFUNCTYPE(_INT, _SIZE, _SIZE, _INT),
    "symbol": ctypes.CFUNCTYPE(_INT, _INT, _NAME, _SIZE_OUT, _SIZE_OUT),
    "function": ctypes.CFUNCTYPE(_INT, _INT, _NAME, ctypes.POINTER(_Function)),
    "set_attribute": ctypes.CFUNCTYPE(_INT, _INT, _NAME, _INT, _INT),
    "occupancy": ctypes.CFUNCTYPE(_INT, _INT, _NAME, _INT, _SIZE, ctypes.POINTER(_INT)),
    "managed": ctypes.CFUNCTYPE(_INT, _SIZE, _SIZE_OUT),
    "open": ctypes.CFUNCTYPE(_INT, _INT),
    "now": ctypes.CFUNCTYPE(_INT, _SIZE_OUT),
    "capture": ctypes.CFUNCTYPE(_INT, _INT, _SIZE_OUT),
    "note": ctypes.CFUNCTYPE(_INT, _SIZE, _SIZE, _SIZE, _INT, _INT),
    "replay": ctypes.CFUNCTYPE(_INT, _SIZE),
    "lend": ctypes.CFUNCTYPE(_INT, _SIZE, _SIZE),
    "held": ctypes.CFUNCTYPE(_INT, _SIZE_OUT),
    "forget": ctypes.CFUNCTYPE(_INT),
    "limit_heap": ctypes.CFUNCTYPE(_INT, _SIZE),
    "refuse": ctypes.CFUNCTYPE(_INT, _NAME),
}
_READ = ctypes.CFUNCTYPE(_INT, _SIZE)
_ANSWER = ctypes.CFUNCTYPE(_INT, _NAME, _NAME, ctypes.POINTER(ctypes.c_int64))
_WORDS = {b"gemm": 21, b"random": 8, b"vector": 9}
"""Operand words of a library's call, by kind of call (libraries.h)."""


class _Table(ctypes.Structure):
    """struct vcudart_host."""

    _fields_ = [
        *_CALLBACKS.items(),
        ("attributes", ctypes.c_void_p),  # NULL: see vcudart.h
        ("read", _READ),
        ("answer", _ANSWER),
    ]


_attached: Runtime | None = None
"""C keeps pointers into it: it must not be collected."""


class Runtime:
    """The fake runtime that one loaded library brought along, attached to a host."""

    def __init__(self, library: ctypes.CDLL, host: Host) -> None:
        """Raises AttributeError if the library was not linked with the fake runtime."""
        self._library = library
        self._library.vcudart_attach  # noqa: B018
        adapters = _Adapters(host)
        calls = {name: _guarded(host, getattr(adapters, name)) for name in _CALLBACKS}
        self._table = _Table(*(kind(calls[name]) for name, kind in _CALLBACKS.items()))
        self._table.read = _READ(_guarded(host, host.read, failed=NO_MODULE))
        self._table.answer = _ANSWER(_guarded(host, adapters.answer))
        self._device = _device(host.spec)
        self.attach()

    def attach(self) -> None:
        """Route the calls of the process here; the runtime is one for all libraries."""
        global _attached
        _attached = self
        self._library.vcudart_attach(ctypes.byref(self._table), ctypes.byref(self._device))

    def adopt(self, module: int) -> int:
        """Give what registered since the last call that module number; returns how many."""
        return int(self._library.vcudart_adopt(module))

    def reset(self) -> None:
        """Clear the error state, a stuck one too."""
        self._library.vcudart_reset()

    def detach(self) -> None:
        """Answer no call of the process any more, unless another has been attached since."""
        global _attached
        if _attached is self:
            self._library.vcudart_detach()
            _attached = None


def device_bytes(spec: GpuSpec) -> bytes:
    """What the fake runtime says of a GPU: struct vcudart_device, for a host that is no Python."""
    return bytes(_device(spec))


def _device(spec: GpuSpec) -> _Device:
    device = _Device(name=spec.name.encode(), major=spec.compute[0], minor=spec.compute[1])
    for name in (
        "memory_bytes",
        "l2_bytes",
        "sms",
        "threads_per_sm",
        "blocks_per_sm",
        "registers_per_sm",
        "shared_per_block",
        "shared_per_block_optin",
        "shared_per_sm",
        "shared_reserved_per_block",
        "memory_bus_bits",
    ):
        setattr(device, name, getattr(spec, name))
    device.sm_clock_khz = round(spec.sm_clock_hz / 1e3)
    # Two bits a clock and line.
    device.memory_clock_khz = round(spec.dram_bytes_per_s * 8 / spec.memory_bus_bits / 2 / 1e3)
    return device


class _Adapters:
    """The host's methods in C's terms, under the names of struct vcudart_host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def launch(
        self,
        module: int,
        name: bytes,
        grid: Any,
        block: Any,
        dynamic: int,
        args: Any,
        cooperative: int,
    ) -> int:
        dims = Dim3(*grid[:3]), Dim3(*block[:3])
        return self._host.launch(
            module, name.decode(), *dims, dynamic, args or 0, bool(cooperative)
        )

    def allocate(self, nbytes: int, address: Any) -> int:
        error, address[0] = self._host.allocate(nbytes)
        return error

    def release(self, address: int) -> int:
        return self._host.release(address)

    def touch(self, address: int, nbytes: int, access: int) -> int:
        return self._host.touch(address, nbytes, CopyAccess(access))

    def symbol(self, module: int, name: bytes, address: Any, nbytes: Any) -> int:
        error, address[0], nbytes[0] = self._host.symbol(module, name.decode())
        return error

    def function(self, module: int, name: bytes, out: Any) -> int:
        error, attributes = self._host.function(module, name.decode())
        if attributes is not None:
            major, minor = self._host.spec.compute
            out[0] = _Function(
                attributes.registers,
                attributes.static_shared_bytes,
                attributes.max_threads,
                attributes.max_dynamic_shared_bytes,
                10 * major + minor,
            )
        return error

    def set_attribute(self, module: int, name: bytes, attribute: int, value: int) -> int:
        return self._host.set_attribute(module, name.decode(), attribute, value)

    def occupancy(self, module: int, name: bytes, threads: int, dynamic: int, blocks: Any) -> int:
        error, blocks[0] = self._host.occupancy(module, name.decode(), threads, dynamic)
        return error

    def managed(self, nbytes: int, address: Any) -> int:
        error, address[0] = self._host.managed(nbytes)
        return error

    def open(self, on: int) -> int:
        return self._host.open(bool(on))

    def now(self, ns: Any) -> int:
        ns[0] = self._host.now()
        return 0

    def capture(self, on: int, graph: Any) -> int:
        error, number = self._host.capture(bool(on))
        if not on:
            graph[0] = number
        return error

    def note(self, to: int, source: int, nbytes: int, kind: int, value: int) -> int:
        return self._host.note(to, source, nbytes, kind, value)

    def replay(self, graph: int) -> int:
        return self._host.replay(graph)

    def lend(self, address: int, nbytes: int) -> int:
        return self._host.lend(address, nbytes)

    def held(self, nbytes: Any) -> int:
        nbytes[0] = self._host.held()
        return 0

    def forget(self) -> int:
        return self._host.forget()

    def limit_heap(self, nbytes: int) -> int:
        return self._host.limit_heap(nbytes)

    def answer(self, kind: bytes, call: bytes, words: Any) -> int:
        return self._host.answer(kind.decode(), call.decode(), words[: _WORDS[kind]])

    def refuse(self, what: bytes) -> int:
        return self._host.refuse(what.decode())


_one_at_a_time = threading.RLock()
"""Several threads of the host may call at once; a callback may lead to another."""
NO_MODULE = -1


def _guarded(
    host: Host, call: Callable[..., int], *, failed: int | None = None
) -> Callable[..., int]:
    """failed: what to answer behind an exception, where that is no error code."""

    def safe(*args: Any) -> int:
        try:
            with _one_at_a_time:
                return call(*args)
        except BaseException as error:  # nothing may cross C, an interrupt included
            code = host.broke(error)
            return code if failed is None else failed

    return safe


_LIBRARIES = (
    "cuda",
    "__cuda",
    "cublas",
    "curand",
    "cufft",
    "cusolver",
    "cusparse",
    "cudnn",
    "nccl",
)


def missing_call(error: OSError) -> str:
    """The call of CUDA or one of its libraries that a library lacks which does not load; "" if it
    lacks something else."""
    _, _, rest = str(error).partition("undefined symbol: ")
    name = rest.split(",")[0].strip()
    return name if name.startswith(_LIBRARIES) else ""
