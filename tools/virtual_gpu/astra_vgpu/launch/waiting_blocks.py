"""Blocks that wait for others of their launch: found by running some, not by reading the kernel.

A sample of a large launch is spread over its grid. Where a block of the sample waits for a value
that only a block outside the sample would store, the launch is begun again and its first blocks
run instead. A kernel whose text could wait (a polling load in a loop) and does not, is sampled like
any other: what is looked at must not hang on a line that is never executed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from astra_vgpu import numpy_engine
from astra_vgpu.launch.sampled_launches import PartsUnsupported
from astra_vgpu.launch.sampling import choose_blocks, first_part
from astra_vgpu.memory.block_races import watched_buffers
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.numpy_engine import Program
from astra_vgpu.ptx.parser import Module
from astra_vgpu.types import Fault, Launch, LaunchReport

TIMEOUT = "timeout"
"""Kind of the fault of a block that never ends."""
Undo = Callable[[], None]


class WaitingBlocks:
    """One launch of a kernel that could wait for other blocks, before a sample of it runs."""

    def __init__(
        self, module: Module, launch: Launch, memory: Memory, addresses: Mapping[str, int]
    ) -> None:
        """`addresses`: of the module's variables."""
        self._module, self._launch = module, launch
        self._memory, self._addresses = memory, addresses

    def sampled(
        self,
        run: Callable[[bool], LaunchReport],
        blocks: Sequence[int] | None,
        seed: int,
    ) -> LaunchReport:
        """The report of `run`, which is given whether the sample has to be the first blocks.

        blocks: those that may run, or all. seed: of choose_blocks. Raises Fault, and
        PartsUnsupported where blocks wait for some that an earlier sample left out.
        """
        reference = numpy_engine.translate(self._module, self._launch.kernel)
        chosen = range(self._launch.grid.count) if blocks is None else blocks
        first = first_part(self._launch)
        undo = self._snapshot(reference)
        if len(chosen) > first:
            places = choose_blocks(len(chosen), first, seed)
            if not self._wait([chosen[place] for place in places], undo):
                try:
                    return run(False)
                except Fault as fault:
                    if fault.kind != TIMEOUT:
                        raise
                    undo()
        if blocks is not None and self._wait(chosen[:first], undo):
            raise PartsUnsupported(
                self._launch.kernel, "a kernel", "its blocks wait for some that were left out"
            )
        report = run(True)
        return dataclasses.replace(report, waited=report.sampled)

    def need_order(self, blocks: Sequence[int] | None) -> bool:
        """Whether these blocks, or all, can only run one after the other, as every second of them
        shows that runs without those between."""
        chosen = range(self._launch.grid.count) if blocks is None else blocks
        reference = numpy_engine.translate(self._module, self._launch.kernel)
        some = chosen[1 : 2 * first_part(self._launch) : 2]
        return bool(some) and self._wait(some, self._snapshot(reference))

    def _wait(self, blocks: Sequence[int], undo: Undo) -> bool:
        """Whether one of these blocks waits for something that none of them stores. They run all at
        once, as those of a cooperative launch do; what they wrote is undone."""
        together = numpy_engine.translate(self._module, self._launch.kernel, cooperative=True)
        try:
            numpy_engine.run(
                together,
                self._launch,
                self._memory,
                blocks=blocks,
                counters=False,
                prints=False,
                module_globals=self._addresses,
            )
        except Fault as fault:  # any other one shows again, and is told, when the launch runs
            return fault.kind == TIMEOUT
        finally:
            undo()
        return False

    def _snapshot(self, reference: Program) -> Undo:
        """What gives memory back that the kernel may store to, and the notes of what was stored."""
        kept = [
            (buffer, buffer.data.copy(), None if buffer.written is None else buffer.written.copy())
            for buffer in watched_buffers(
                reference.reach, self._launch, self._memory, self._addresses
            )
        ]

        def undo() -> None:
            for buffer, data, written in kept:
                buffer.data[:] = data
                if written is not None and buffer.written is not None:
                    buffer.written[:] = written

        return undo
