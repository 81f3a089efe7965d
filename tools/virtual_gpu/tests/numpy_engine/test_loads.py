"""Loads and stores written as PTX: widths, vectors, spaces, several buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.numpy_engine.conftest import Bench

from astra_vgpu.memory.buffers import Memory, StoreWatch
from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import Fault

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; "
    "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [in];"
)


def bench(body: str, before: str = "") -> Bench:
    return Bench(
        parse(
            f"{HEAD}{before}.visible .entry kernel(.param .u64 out, .param .u64 in)\n"
            f"{{ {REGISTERS} {body} ret; }}"
        )
    )


def each(size: int, pointer: str = "%rd1", to: str = "%rd3") -> str:
    return f"mul.wide.u32 %rd2, %r0, {size}; add.s64 {to}, {pointer}, %rd2;"


@pytest.mark.parametrize(
    ("load", "dtype", "wide"),
    [
        ("u8 %r1", np.uint8, np.uint32),
        ("s8 %r1", np.int8, np.int32),
        ("u16 %r1", np.uint16, np.uint32),
        ("s16 %r1", np.int16, np.int32),
    ],
)
def test_narrow_loads_extend_by_their_type(load: str, dtype: Any, wide: Any) -> None:
    x = np.arange(-60, 68).astype(dtype)
    out = np.zeros(128, wide)
    body = f"{each(x.itemsize)} ld.global.{load}, [%rd3]; {each(4, '%rd0', '%rd4')}"
    bench(body + "st.global.u32 [%rd4], %r1;").launch("kernel", 1, 128, out, x)
    assert np.array_equal(out, x.astype(wide))


def test_narrow_stores_cut() -> None:
    x = np.arange(128, dtype=np.uint32) * 77
    out = np.zeros(128, np.uint8)
    body = f"{each(4)} ld.global.u32 %r1, [%rd3]; add.s64 %rd4, %rd0, %rd5; "
    body = "cvt.u64.u32 %rd5, %r0; " + body + "st.global.u8 [%rd4], %r1;"
    bench(body).launch("kernel", 1, 128, out, x)
    assert np.array_equal(out, x.astype(np.uint8))


@pytest.mark.parametrize(
    ("kind", "regs", "size"),
    [
        ("v2.b32", "{%r1, %r2}", 8),
        ("v4.b32", "{%r1, %r2, %r3, %r4}", 16),
        ("v2.b64", "{%rd5, %rd6}", 16),
        ("v4.b16", "{%h1, %h2, %h3, %h4}", 8),
        ("v2.b16", "{%h1, %h2}", 4),
        ("v4.u8", "{%h1, %h2, %h3, %h4}", 4),
        ("b64", "%rd5", 8),
    ],
)
@pytest.mark.parametrize("threads", [64, 50])
def test_vectors(kind: str, regs: str, size: int, threads: int) -> None:
    x = np.random.default_rng(1).integers(0, 256, (64, size)).astype(np.uint8)
    x = np.frombuffer(x.tobytes() + bytes(16), np.uint8)
    room = np.zeros(64 * size + 16, np.uint8)
    source, out = (a[-a.ctypes.data % 16 :][: 64 * size] for a in (x, room))
    source = np.ascontiguousarray(source)
    body = f"{each(size)} ld.global.{kind} {regs}, [%rd3]; {each(size, '%rd0', '%rd4')}"
    bench(body + f"st.global.{kind} [%rd4], {regs};").launch("kernel", 1, threads, out, source)
    assert np.array_equal(out[: threads * size], source[: threads * size])
    assert not out[threads * size :].any()


def test_a_load_into_its_own_address_register() -> None:
    x = np.zeros(32, np.uint64)
    x[:] = x.ctypes.data + 8 * (np.arange(32, dtype=np.uint64)[::-1])
    out = np.zeros(32, np.uint64)
    body = f"{each(8)} ld.global.u64 %rd3, [%rd3]; ld.global.u64 %rd3, [%rd3];"
    bench(f"{body} {each(8, '%rd0', '%rd4')} st.global.u64 [%rd4], %rd3;").launch(
        "kernel", 1, 32, out, x
    )
    assert np.array_equal(out, x[::-1])


def test_lanes_may_use_different_buffers() -> None:
    parts = [np.full(4, 10 * n, np.int32) for n in range(8)]
    pointers = np.array([p.ctypes.data + 4 * (n % 4) for n in range(4) for p in parts], np.uint64)
    out, memory = np.zeros(32, np.int32), Memory()
    for number, part in enumerate(parts):
        memory.add(part, f"part {number}")
    body = (
        f"{each(8)} ld.global.u64 %rd5, [%rd3]; ld.global.u32 %r1, [%rd5]; add.u32 %r1, %r1, 1; "
        f"st.global.u32 [%rd5], %r1; {each(4, '%rd0', '%rd4')} st.global.u32 [%rd4], %r1;"
    )
    report = bench(body).launch("kernel", 1, 32, out, pointers, memory=memory)
    assert np.array_equal(out, [10 * (k % 8) + 1 for k in range(32)])
    assert all((part == 10 * n + 1).all() for n, part in enumerate(parts))
    assert report.counters.global_load_requests == 2
    pointers[9] += 64 * 1024 * 1024
    with pytest.raises(Fault, match="thread \\(9, 0, 0\\)"):
        bench(body).launch("kernel", 1, 32, out, pointers, memory=memory)


def test_an_access_may_not_straddle_the_end(aligned: Any) -> None:
    x, out = aligned(np.zeros(127, np.uint8)), np.zeros(32, np.uint32)
    body = f"{each(4)} ld.global.u32 %r1, [%rd3];"
    with pytest.raises(Fault, match=r"read of 4 bytes.*127 bytes, offset 124"):
        bench(body).launch("kernel", 1, 32, out, x)
    bench(body).launch("kernel", 1, 31, out, x)


def test_a_guarded_load_touches_only_its_lanes(aligned: Any) -> None:
    x, out = aligned(np.arange(40, dtype=np.uint32)), np.full(64, 9, np.uint32)
    body = (
        f"{each(4)} {each(4, '%rd0', '%rd4')} setp.lt.u32 %p1, %r0, 40; mov.u32 %r1, 5; "
        "@%p1 ld.global.u32 %r1, [%rd3]; st.global.u32 [%rd4], %r1;"
    )
    bench(body).launch("kernel", 1, 64, out, x)
    assert np.array_equal(out, [*range(40), *[5] * 24])


def test_one_address_for_all_lanes() -> None:
    x, out = np.array([41], np.uint32), np.zeros(96, np.uint32)
    body = f"ld.global.u32 %r1, [%rd1]; {each(4, '%rd0', '%rd4')} st.global.u32 [%rd4], %r1;"
    report = bench(body).launch("kernel", 1, 96, out, x)
    assert (out == 41).all()
    assert report.counters.global_load_requests == report.counters.global_load_sectors == 3


def test_static_and_dynamic_shared_memory_do_not_overlap() -> None:
    before = ".shared .align 4 .b8 fixed[20];\n.extern .shared .align 16 .b8 more[];\n"
    body = (
        "mov.u32 %r1, fixed; mov.u32 %r2, more; st.shared.u32 [fixed+16], 7; "
        "st.shared.u32 [%r2], 8; ld.shared.u32 %r3, [%r1+16]; ld.shared.u32 %r4, [more]; "
        "sub.u32 %r5, %r2, %r1; st.global.v2.u32 [%rd0], {%r3, %r4}; st.global.u32 [%rd0+8], %r5;"
    )
    out = np.zeros(4, np.uint32)
    bench(body, before).launch("kernel", 1, 1, out, out, shared=16)
    assert list(out[:3]) == [7, 8, 32]
    with pytest.raises(Fault, match="out_of_bounds"):
        bench(body, before).launch("kernel", 1, 1, out, out, shared=0)


def test_fresh_shared_memory_is_poison() -> None:
    """Reading uninitialized memory gives NaN, not zero."""
    before = ".shared .align 4 .b8 fixed[8];\n"
    out = np.zeros(1, np.float32)
    body = "ld.shared.f32 %r1, [fixed]; st.global.f32 [%rd0], %r1;"
    bench(body, before).launch("kernel", 1, 1, out, out)
    assert np.isnan(out[0])


def test_writes_are_noted_for_samples() -> None:
    out, memory = np.zeros(128, np.uint16), Memory()
    address = memory.add(out, "out")
    memory.track_writes(True)
    body = f"{each(4, '%rd0', '%rd4')} st.global.u32 [%rd4], %r0;"
    bench(body).launch("kernel", 1, 40, out, out, memory=memory)
    buffer = memory.find(address)
    assert buffer is not None and buffer.written is not None
    assert buffer.written[:160].all() and not buffer.written[160:].any()


def test_generic_addresses_of_parameters_and_spaces() -> None:
    before = ".shared .align 8 .b8 fixed[8];\n"
    body = (
        ".local .align 8 .b8 own[8]; mov.u64 %rd2, out; cvta.param.u64 %rd3, %rd2; "
        "ld.u64 %rd4, [%rd3]; mov.u64 %rd5, own; cvta.local.u64 %rd6, %rd5; st.u64 [%rd6], 77; "
        "ld.local.u64 %rd7, [own]; mov.u64 %rd5, fixed; cvta.shared.u64 %rd6, %rd5; "
        "st.u64 [%rd6], %rd7; isspacep.shared %p1, %rd6; isspacep.global %p2, %rd4; "
        "ld.shared.u64 %rd7, [fixed]; @%p1 add.u64 %rd7, %rd7, 1; @%p2 add.u64 %rd7, %rd7, 10; "
        "cvta.to.shared.u64 %rd5, %rd6; @%p1 ld.shared.u64 %rd8, [%rd5]; "
        "add.u64 %rd7, %rd7, %rd8; st.u64 [%rd4], %rd7;"
    )
    out = np.zeros(1, np.uint64)
    bench(body, before).launch("kernel", 1, 1, out, out)
    assert out[0] == 77 + 1 + 10 + 77


@pytest.mark.parametrize("offset", [-4, -400, 16])
def test_an_access_outside_the_parameters(offset: int) -> None:
    out = np.zeros(1, np.uint32)
    body = f"mov.b64 %rd2, out; add.s64 %rd2, %rd2, {offset}; ld.param.u32 %r1, [%rd2];"
    with pytest.raises(Fault, match="read of 4 bytes at param offset"):
        bench(f"{body} st.u32 [%rd0], %r1;").launch("kernel", 1, 1, out, out)


@pytest.mark.parametrize(
    ("last", "thread"),
    [
        ("st.global.u32 [%rd0+8], 3;", 31),
        ("@%p1 st.global.v4.u32 [%rd0], {%r1, %r1, %r1, %r1};", 5),
        ("@%p1 red.global.add.u32 [%rd0+8], 1;", 5),
        ("@%p1 st.u32 [%rd0+8], 3;", 5),
    ],
    ids=["store", "vector", "atomic", "generic"],
)
def test_watched_bytes_name_the_last_store_to_them(last: str, thread: int, aligned: Any) -> None:
    out, data = aligned(np.zeros(4, np.uint32)), aligned(np.zeros(4, np.uint32))
    memory = Memory()
    memory.watch = StoreWatch(int(out.ctypes.data) + 8, 4)
    body = "setp.eq.u32 %p1, %r0, 5; mov.u32 %r1, 7;\nst.global.u32 [%rd0+8], 1;\n"
    beside = "\nst.global.u32 [%rd0+4], 2; st.global.u32 [%rd0+12], 2;"
    made = bench(f"{body}{last}{beside}")
    made.launch("kernel", 1, 32, out, data, memory=memory)
    (line,) = (i.line for i in made.module.kernels["kernel"].body if i.text and i.text in last)
    assert memory.watch.last == f"PTX line {line}, block (0, 0, 0), thread ({thread}, 0, 0)"
