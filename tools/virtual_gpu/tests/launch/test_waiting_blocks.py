"""Which blocks of a large launch run where a kernel could wait for others, and where it does."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from astra_vgpu.launch.engines import Engines
from astra_vgpu.launch.sampled_launches import Parts, PartsUnsupported
from astra_vgpu.launch.sampling import choose_blocks
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.ptx.parser import Module, parse
from astra_vgpu.runtime.calls import device_array
from astra_vgpu.types import Dim3, Engine, Launch, LaunchReport

BLOCKS, THREADS, PROBED = 200, 512, 32
HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 out, .param .u64 flags, .param .u32 polls)\n"
    "{ .reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %d<9>;"
    " ld.param.u64 %d0, [out]; ld.param.u64 %d1, [flags]; ld.param.u32 %r7, [polls];"
    " mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 0;\n"
    " mad.wide.u32 %d2, %r0, 4, %d0; mad.wide.u32 %d3, %r0, 4, %d1;\n"
)
STORES = "@%p0 bra end; add.u32 %r3, %r0, 1; st.global.u32 [%d2], %r3;\n"
END = "end: ret; }"
POLLS = "again: ld.acquire.gpu.global.u32 %r2, [%d3+-4]; setp.eq.u32 %p1, %r2, 0; @%p1 bra again;\n"
NEVER = f"{HEAD} setp.eq.u32 %p2, %r7, 0; @%p2 bra on; {POLLS} on: {STORES} {END}"
"""The loop is there; polls = 0 leaves it out."""
CHAIN = (
    f"{HEAD} setp.eq.u32 %p2, %r0, 0; or.pred %p3, %p0, %p2; @%p3 bra on; {POLLS} on: {STORES}"
    f" st.release.gpu.global.u32 [%d3], 1; {END}"
)
"""Each block waits for the one before it."""
PLAIN = f"{HEAD} {STORES} {END}"


class Bench:
    """Launches of 200 blocks, of which few are affordable."""

    def __init__(self, engine: Engine, affordable: int | None, **options: int) -> None:
        instructions = 15 * THREADS * affordable if affordable else None
        self.engines = Engines(engine, None, instructions, **options)
        self.memory, self.parts = Memory(), Parts()
        self.memory.track_writes(True)
        self.out, self.flags = (device_array(n).view(np.uint32) for n in (4 * BLOCKS, 1028))
        for array, name in ((self.out, "out"), (self.flags, "flags")):
            array[:] = 0
            self.memory.add(array, name)

    def launch(self, module: Module, polls: int = 0) -> LaunchReport:
        addresses = (int(a.ctypes.data) for a in (self.out, self.flags))
        params = struct.pack("<QQI", *addresses, polls)
        launch = Launch("k", Dim3(BLOCKS), Dim3(THREADS), 0, params)
        return self.engines.run(module, launch, self.memory, {}, counters=True, parts=self.parts)

    def stored(self) -> Sequence[int]:
        """Blocks whose store is there, and is right."""
        (found,) = np.nonzero(self.out)
        assert (self.out[found] == found + 1).all()
        return [int(block) for block in found]


@pytest.mark.parametrize("engine", ["numpy", "c"])
def test_a_loop_that_is_never_executed_changes_no_sample(engine: Engine) -> None:
    """The affordable share differs a little, as the instructions do; where they lie does not."""
    plain, dead = Bench(engine, 2), Bench(engine, 2)
    for bench, text in ((plain, PLAIN), (dead, NEVER)):
        report = bench.launch(parse(text))
        assert report.sampled and not report.waited
        assert list(report.ran or ()) == bench.stored()
        assert {0, BLOCKS - 1} <= set(bench.stored())
    if engine == "numpy":
        assert plain.stored() == dead.stored()


@pytest.mark.parametrize("engine", ["numpy", "c"])
def test_blocks_that_wait_are_sampled_from_the_first_on(engine: Engine) -> None:
    bench = Bench(engine, 2)
    report = bench.launch(parse(CHAIN))
    assert report.sampled and report.waited
    assert bench.stored() == list(range(len(bench.stored()))) == list(report.ran or ())
    (buffer,) = (b for b in bench.memory.buffers if b.name == "out")
    assert buffer.written is not None
    assert np.flatnonzero(buffer.written).tolist() == list(range(4 * len(bench.stored())))


@pytest.mark.parametrize("affordable", [None, 100_000])
@pytest.mark.second_tier
def test_a_chain_that_can_be_afforded_runs_whole(affordable: int | None) -> None:
    bench = Bench("numpy", affordable)
    report = bench.launch(parse(CHAIN))
    assert not report.sampled and not report.waited
    assert bench.stored() == list(range(BLOCKS))


def test_a_wait_behind_the_first_part_is_met_too() -> None:
    """One block waits, for one that the sample leaves out; what ran before that is undone."""
    one = parse(CHAIN.replace("setp.eq.u32 %p2, %r0, 0;", "setp.ne.u32 %p2, %r0, %r7;"))
    ran = set(Bench("numpy", 100).launch(one, polls=BLOCKS).ran or ())
    first = set(choose_blocks(BLOCKS, PROBED, 0))
    waits = min(b for b in ran - first if b - 1 not in ran)
    bench = Bench("numpy", 100, endless_instructions=2**24)
    report = bench.launch(one, polls=waits)
    assert report.waited and report.blocks_run > PROBED
    assert bench.stored() == list(range(report.blocks_run))


@pytest.mark.parametrize(("text", "last"), [(PLAIN, 0), (NEVER, 0), (CHAIN, BLOCKS - 1)])
def test_atomics_are_served_from_the_last_block_on_unless_blocks_wait(text: str, last: int) -> None:
    """The order of a check's second process: whose exchange comes last is there in the end."""
    exchange = "st.global.u32 [%d2], %r3; atom.global.exch.b32 %r4, [%d1+1024], %r0;"
    bench = Bench("numpy", None)
    bench.memory.descending = True
    bench.launch(parse(text.replace("st.global.u32 [%d2], %r3;", exchange)))
    assert bench.flags[1024 // 4] == last and bench.stored() == list(range(BLOCKS))


def test_blocks_that_wait_for_what_an_earlier_sample_left_out_are_unsupported() -> None:
    bench = Bench("numpy", 2)
    assert bench.launch(parse(PLAIN)).sampled
    with pytest.raises(PartsUnsupported, match="wait for some that were left out"):
        bench.launch(parse(CHAIN))
