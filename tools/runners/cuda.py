"""The runner process of device `cuda`: launch plans on a real GPU; hands back bytes.

Only device code of a candidate is here: its launchers were recorded elsewhere.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.stand_ins import ALIGNMENT
from astra_chat.tools.run.protocol import CallRequest, CaseReport, CudaRequest
from astra_chat.tools.runners.arguments import limit_files_and_cores
from astra_chat.tools.runners.cuda_buffers import aligned
from astra_chat.tools.runners.cuda_guarded import GuardedCall, addresses_of
from astra_chat.tools.runners.cuda_plans import Enqueue, Kernels, status_of
from astra_chat.tools.runners.cuda_poison import Poison, copies
from astra_chat.tools.runners.cuda_state import ModuleVariables
from astra_chat.tools.runners.cuda_timing import Side, TimedCall
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.buffer_layout import poisoned
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.task.placement import Layout
from astra_chat.tools.types import ITEM_BYTES, is_float

GUARD_BYTES, GUARD_STEPS = 4 * ALIGNMENT, 4
"""Poisoned bytes on both sides of every block, at least: a write outside shows. Up to so many
times the alignment more, drawn for each process: an address tells a kernel nothing."""
LATE_CYCLES = 400_000
"""About 0.2 ms: how much later than the launch the inputs arrive on the stream."""


def main() -> None:
    reporter = Reporter(opened)
    limit_files_and_cores()
    request = CudaRequest.model_validate(reporter.request)
    task = load_task(request.task)
    dirt = opened(request.index)
    lock(reporter.pipe)
    kernels, state = _loaded(request.cubin)
    baseline = Side(*_loaded(request.baseline_cubin)) if request.baseline_cubin else None
    held: list[torch.Tensor] = []
    ahead = dict[int, CaseReport]()
    for index, call in enumerate(request.calls):
        reporter.send("start", index=index)
        try:
            if baseline:
                sides = baseline, Side(kernels, state)
                done = TimedCall(task, call, sides, request, dirt).run()
            elif call.how == OVERLAPPED:
                ahead = ahead or _overlapped(task, index, kernels, request)
                done = ahead.pop(index)
            else:
                done = _check(task, call, kernels, held, dirt, request)
            if changed := state.changed():
                done = CaseReport(changed=changed[0])
        except RuntimeError as error:  # torch's word for a CUDA error: the kernel's, and sticky
            done = CaseReport(status=status_of(error))
        reporter.send("case", **done.numbered(index))
        if done.status or done.changed:
            return


@cache
def opened(index: int) -> Poison:
    """Open a GPU: the driver starts what it needs before the lock, and torch loads its kernels."""
    torch.cuda.set_device(index)
    torch.zeros(1, device="cuda")
    torch.cuda._sleep(1)
    dirt = Poison()
    torch.cuda.synchronize()
    return dirt


def _loaded(cubin: Path) -> tuple[Kernels, ModuleVariables]:
    kernels = Kernels(cubin)
    return kernels, ModuleVariables(kernels.variables)


def _check(
    task: Task,
    call: CallRequest,
    kernels: Kernels,
    held: list[torch.Tensor],
    dirt: Poison,
    request: CudaRequest,
) -> CaseReport:
    """Run once; write every argument's bytes with the guards on both sides."""
    guard_bytes = _guard_bytes(request.seed)
    guarded = GuardedCall(task, call, guard_bytes)
    lies, contents = guarded.lies, guarded.contents()
    if call.how != "same_buffers":
        # Old ones go after new are made.
        held[:] = [_before(lies, call, i, c, guard_bytes) for i, c in enumerate(contents)]
    _deliver_weights(lies, held, contents, guard_bytes)
    closable = _closable(lies, held, request.index) if call.how == "graph" else []
    addresses = addresses_of(lies, held, guard_bytes)
    enqueue = kernels.bind(task, call, call.launches, addresses)
    torch.cuda.synchronize()
    if call.how == "graph":
        after = _replayed(call, enqueue, contents, held, dirt, closable)
    else:
        after = _streamed(call, enqueue, contents, held, dirt)
    for arg, left in zip(task.args, guarded.left_in(after), strict=True):
        left.tofile(call.after / f"{arg.name}.after")
    return CaseReport(guard_bytes=guard_bytes)


def _overlapped(
    task: Task, index: int, kernels: Kernels, request: CudaRequest
) -> dict[int, CaseReport]:
    """The reports, by index, of the call at this index and of the one that runs beside it."""
    guard_bytes, pair = _guard_bytes(request.seed), pair_at(request.calls, index)
    overlapped(task, [GuardedCall(task, call, guard_bytes) for call in pair], kernels)
    report = CaseReport(guard_bytes=guard_bytes, copies=ROUNDS)
    return dict.fromkeys(range(index, index + len(pair)), report)


def _deliver_weights(
    lies: Layout, held: list[torch.Tensor], contents: list[torch.Tensor], guard_bytes: int
) -> None:
    """Arguments that are constant across calls are there already, also in the buffers of the call
    before."""
    for index, arg in enumerate(lies.args):
        number = lies.places[index][0]
        block, span = lies.blocks[number], lies.span(index)
        if arg.weight and not block.mixed:
            first = guard_bytes + block.shift
            inside = slice(first + span.start, first + span.stop)
            held[number][inside] = contents[number][inside]


def _streamed(
    call: CallRequest,
    enqueue: Enqueue,
    contents: list[torch.Tensor],
    buffers: list[torch.Tensor],
    dirt: Poison,
) -> list[torch.Tensor]:
    """On a stream of its own, on which the inputs arrive late and the results are taken at once.

    Work that is put on another stream meets inputs that are not there yet, or is not waited for;
    so does a kernel that is launched programmatically and does not wait (cuda_poison.py). Now and
    then it is stream 0, which a caller may use as well.
    """
    own = call.seed.of("stream").random().randrange(4)
    stream = torch.cuda.Stream() if own else torch.cuda.default_stream()
    after = [torch.empty_like(buffer) for buffer in buffers]
    listed = copies(buffers, contents)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LATE_CYCLES)
        dirt.spread(call.pattern, stream.cuda_stream)
        if dirt.delivers:
            dirt.deliver(listed, stream.cuda_stream)
        else:
            for buffer, content in zip(buffers, contents, strict=True):
                buffer.copy_(content, non_blocking=True)
        enqueue(stream.cuda_stream)
        for result, buffer in zip(after, buffers, strict=True):
            result.copy_(buffer, non_blocking=True)
    torch.cuda.synchronize()
    return after


def _replayed(
    call: CallRequest,
    enqueue: Enqueue,
    contents: list[torch.Tensor],
    buffers: list[torch.Tensor],
    dirt: Poison,
    closable: list[ReadOnly],
) -> list[torch.Tensor]:
    """Captured while the buffers hold nothing but poison, and replayed once the inputs are there:
    what runs during the capture is lost, as it is in a server that replays graphs.

    What may only be read is `closable`: during the replay a write there fails.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        enqueue(torch.cuda.current_stream().cuda_stream)
    for buffer, content in zip(buffers, contents, strict=True):
        buffer.copy_(content)
    torch.cuda.synchronize()
    for memory in closable:
        memory.close()
    dirt.spread(call.pattern, int(torch.cuda.current_stream().cuda_stream))
    graph.replay()
    torch.cuda.synchronize()
    return buffers


def _closable(lies: Layout, held: list[torch.Tensor], index: int) -> list[ReadOnly]:
    """Move what may only be read to memory that can be closed, where this driver has such."""
    views: list[ReadOnly] = []
    for number, block in enumerate(lies.blocks):
        if all(lies.args[member].constant for member in block.members):
            try:
                views.append(ReadOnly(held[number], index))
            except RuntimeError:
                return views
            held[number] = views[-1].tensor
    return views


def _guard_bytes(seed: Seed) -> int:
    """Returns the guard bytes on each side of a block, drawn once for all calls of this process."""
    return GUARD_BYTES + ALIGNMENT * seed.of("guards").random().randrange(GUARD_STEPS)


def _before(
    lies: Layout, call: CallRequest, number: int, content: torch.Tensor, guard_bytes: int
) -> torch.Tensor:
    """What a block holds until the inputs arrive: poison; of integers that are read the same
    numbers in reverse, since a kernel may use any of them as a place."""
    block = lies.blocks[number]
    before = torch.from_numpy(poisoned(content.numel(), call.pattern)).cuda()
    for index in block.members:
        arg = lies.args[index]
        if arg.read and not is_float(arg.dtype_of(call.case)):
            first = guard_bytes + block.shift
            span = slice(0, block.bytes) if block.mixed else lies.span(index)
            inside = slice(first + span.start, first + span.stop)
            numbers = content[inside].reshape(-1, ITEM_BYTES[arg.dtype_of(call.case)])
            before[inside] = numbers.flip(0).reshape(-1)
    return aligned(content.numel()).copy_(before)


# Two calls of different cases at once on a real GPU, each in buffers and on a stream of its own.
#
# What a kernel keeps outside of its arguments while it runs, a counter or sums that it sets back in
# the end, is shared by the two, and shows in the results of one of them.

OVERLAPPED = "overlapped"
"""CallRequest.how of both calls of a pair, which follow each other."""
ROUNDS = 4
"""Rounds of a pair of calls: each overlaps in its own way."""
GATE_CYCLES = 2_000_000
"""About 1 ms, in which all launches of a round are put on their streams: they begin together."""


def pair_at(calls: Sequence[CallRequest], index: int) -> Sequence[CallRequest]:
    """The call at this index and the next one, if both are to overlap; else the call alone."""
    pair = calls[index : index + 2]
    return pair if all(call.how == OVERLAPPED for call in pair) else pair[:1]


def overlapped(task: Task, pair: Sequence[GuardedCall], kernels: Kernels) -> None:
    """Run the calls at once, ROUNDS times; write every argument's bytes of each round, guards
    included, one after the other.

    Raises:
        RuntimeError: for a CUDA error.
    """
    for one in pair:
        for arg in task.args:
            (one.call.after / f"{arg.name}.after").write_bytes(b"")
    contents = [one.contents() for one in pair]
    for _ in range(ROUNDS):
        held = [[aligned(c.numel()).copy_(c) for c in mine] for mine in contents]
        _at_once(task, pair, kernels, held)
        for one, blocks in zip(pair, held, strict=True):
            for arg, left in zip(task.args, one.left_in(blocks), strict=True):
                with (one.call.after / f"{arg.name}.after").open("ab") as file:
                    file.write(left.tobytes())


def _at_once(
    task: Task,
    pair: Sequence[GuardedCall],
    kernels: Kernels,
    held: Sequence[Sequence[torch.Tensor]],
) -> None:
    """One round: the streams wait for a gate until everything is on them."""
    enqueues = []
    for one, blocks in zip(pair, held, strict=True):
        addresses = addresses_of(one.lies, blocks, one.guard_bytes)
        enqueues.append(kernels.bind(task, one.call, one.call.launches, addresses))
    gate, streams = torch.cuda.Stream(), [torch.cuda.Stream() for _ in pair]
    torch.cuda.synchronize()
    with torch.cuda.stream(gate):
        torch.cuda._sleep(GATE_CYCLES)
    for stream in streams:
        stream.wait_stream(gate)
    for enqueue, stream in zip(enqueues, streams, strict=True):
        enqueue(stream.cuda_stream)
    torch.cuda.synchronize()


# Device memory that kernels may read and not write: a write is a GPU fault.
#
# Comparing an argument before and after a call does not show a kernel that used it as scratch and
# restored it. Source: "Virtual Memory Management" in NVIDIA's CUDA C++ guide.

PINNED, ON_DEVICE, READ, READ_WRITE = 1, 1, 1, 3
"""The driver's numbers: type of an allocation, of a place, and rights."""


class _Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("number", ctypes.c_int)]


class _Allocation(ctypes.Structure):
    """CUmemAllocationProp; of the rest, 0 is the usual."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("place", _Place),
        ("windows", ctypes.c_void_p),
        ("rest", ctypes.c_uint64),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("place", _Place), ("rights", ctypes.c_int)]


class ReadOnly:
    """Bytes on the device `index`, writable until `close`.

    Raises RuntimeError where the driver refuses. Never freed: a runner lives for seconds.
    """

    def __init__(self, content: torch.Tensor, index: int) -> None:
        """`content`: uint8, flat, on the device; it is copied."""
        self._driver, self._address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
        self._place, unit = _Place(ON_DEVICE, index), ctypes.c_size_t()
        asked = _Allocation(kind=PINNED, place=self._place)
        self._do("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(asked), 0)
        room = -(-content.numel() // unit.value) * unit.value
        self._room, zero = ctypes.c_size_t(room), ctypes.c_size_t(0)
        held, none = ctypes.c_uint64(), ctypes.c_uint64(0)
        self._do("cuMemCreate", ctypes.byref(held), self._room, ctypes.byref(asked), none)
        self._do("cuMemAddressReserve", ctypes.byref(self._address), self._room, zero, none, none)
        self._do("cuMemMap", self._address, self._room, zero, held, none)
        self._allow(READ_WRITE)
        self.__cuda_array_interface__ = {
            "shape": (content.numel(),),
            "typestr": "|u1",
            "version": 3,
            "data": (self._address.value, False),
        }
        self.tensor = torch.as_tensor(self, device=f"cuda:{index}")
        self.tensor.copy_(content)

    def close(self) -> None:
        """From now on a kernel that writes there fails."""
        torch.cuda.synchronize()
        self._allow(READ)

    def _allow(self, rights: int) -> None:
        access = _Access(self._place, rights)
        self._do(
            "cuMemSetAccess", self._address, self._room, ctypes.byref(access), ctypes.c_size_t(1)
        )

    def _do(self, name: str, *arguments: object) -> None:
        if status := getattr(self._driver, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {status}")


if __name__ == "__main__":
    main()
