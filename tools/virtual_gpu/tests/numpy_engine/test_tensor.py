"""mma, wmma, ldmatrix and stmatrix against matrix products in float64 and in integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.isa.test_fragments import FORMS
from tests.isa.test_fragments import fragment as fragment_of
from tests.numpy_engine.conftest import Bench

from astra_vgpu import numpy_engine
from astra_vgpu.isa.fragments import BITS, transfer
from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import Fault, PtxUnsupported

RANDOM = np.random.default_rng(7)


@pytest.fixture(scope="module")
def bench(compiled: Any) -> Any:
    return compiled("tensor.cu")


def as_bf16(x: Any) -> Any:
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bf16(raw: Any) -> Any:
    return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def close(found: Any, a: Any, b: Any, c: Any, digits: int) -> None:
    """Each term is cut 25 places behind the largest, then the sum: bit for bit in numerics/."""
    exact = a @ b + c
    largest = np.abs(a).max() * np.abs(b).max() + np.abs(c).max()
    allowed = np.abs(exact) * 2.0**-digits + (a.shape[1] + 1) * largest * 2.0**-24
    assert (np.abs(found.astype(np.float64) - exact) <= allowed).all()


def test_wmma_with_float_accumulators(bench: Any, aligned: Any) -> None:
    a, b = (aligned(RANDOM.normal(size=(16, 16)).astype(np.float16)) for _ in range(2))
    c, d = (
        aligned(RANDOM.normal(size=(16, 16)).astype(np.float32)),
        aligned(np.zeros((16, 16), "f4")),
    )
    bench.launch("wmma_f16_f32", 1, 32, a, b, c, d)
    close(d, a.astype(float), b.astype(float), 2.0 * c.astype(float), 23)


def test_wmma_with_half_accumulators(bench: Any, aligned: Any) -> None:
    a = aligned(RANDOM.normal(size=(32, 16)).astype(np.float16))
    b = aligned(RANDOM.normal(size=(8, 16)).astype(np.float16))
    c, d = aligned(RANDOM.normal(size=(32, 8)).astype(np.float16)), aligned(np.zeros((32, 8), "f2"))
    bench.launch("wmma_f16_f16", 1, 32, a, b, c, d)
    close(d, a.astype(float), b.astype(float).T, 2.0 * c.astype(float), 11)


def test_wmma_of_bfloat16(bench: Any, aligned: Any) -> None:
    a = aligned(as_bf16(RANDOM.normal(size=(8, 16))))
    b = aligned(as_bf16(RANDOM.normal(size=(32, 16))))
    c, d = aligned(RANDOM.normal(size=(8, 32)).astype(np.float32)), aligned(np.zeros((8, 32), "f4"))
    bench.launch("wmma_bf16", 1, 32, a, b, c, d)
    close(d, from_bf16(a), from_bf16(b).T, 2.0 * c.astype(float), 23)


def test_wmma_of_integers(bench: Any, aligned: Any) -> None:
    a, b = (aligned(RANDOM.integers(-128, 128, (16, 16)).astype(np.int8)) for _ in range(2))
    c, d = (
        aligned(RANDOM.integers(-99, 99, (16, 16)).astype(np.int32)),
        aligned(np.zeros((16, 16), "i4")),
    )
    bench.launch("wmma_s8", 1, 32, a, b, c, d)
    assert np.array_equal(d, a.astype(int) @ b.astype(int).T + 2 * c)


@pytest.mark.parametrize("form", ["f16", "bf16", "tf32"])
def test_mma_of_fragments_that_ldmatrix_loads(bench: Any, aligned: Any, form: str) -> None:
    k = 8 if form == "tf32" else 16
    a, b = RANDOM.normal(size=(16, k)), RANDOM.normal(size=(8, k))
    if form == "tf32":
        ra, rb = (aligned(x.astype(np.float32)) for x in (a, b))
        xa, xb = ((r.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(float) for r in (ra, rb))
    elif form == "f16":
        ra, rb = (aligned(x.astype(np.float16)) for x in (a, b))
        xa, xb = ra.astype(float), rb.astype(float)
    else:
        ra, rb = aligned(as_bf16(a)), aligned(as_bf16(b))
        xa, xb = from_bf16(ra), from_bf16(rb)
    c, d = aligned(RANDOM.normal(size=(16, 8)).astype(np.float32)), aligned(np.zeros((16, 8), "f4"))
    report = bench.launch(f"tile_{form}", 1, 32, ra, rb, c, d)
    close(d, xa, xb.T, c.astype(float), 23)
    assert report.counters.warp_instructions["tensor"] == 1


def test_mma_of_integers_clamps(bench: Any, aligned: Any) -> None:
    a = aligned(RANDOM.integers(-128, 128, (16, 32)).astype(np.int8))
    b = aligned(RANDOM.integers(0, 256, (8, 32)).astype(np.uint8))
    c = aligned(RANDOM.integers(-9, 9, (16, 8)).astype(np.int32))
    c[0, :4], c[0, 4:] = np.iinfo(np.int32).max, np.iinfo(np.int32).min
    d = aligned(np.zeros((16, 8), np.int32))
    bench.launch("tile_s8", 1, 32, a, b, c, d)
    exact = a.astype(np.int64) @ b.astype(np.int64).T + c
    assert np.array_equal(d, np.clip(exact, -(1 << 31), (1 << 31) - 1))
    assert not np.array_equal(d, exact)


def test_mma_in_half_precision(bench: Any, aligned: Any) -> None:
    a, b, c = (
        aligned(RANDOM.normal(size=s).astype(np.float16)) for s in ((16, 8), (8, 8), (16, 8))
    )
    d = aligned(np.zeros((16, 8), np.float16))
    bench.launch("tile_half", 1, 32, a, b, c, d)
    close(d, a.astype(float), b.astype(float).T, c.astype(float), 11)


def test_matrices_are_transposed_on_the_way(bench: Any, aligned: Any) -> None:
    x = aligned(np.arange(256, dtype=np.uint16).reshape(4, 8, 8))
    taken, out = aligned(np.zeros((32, 4, 2), np.uint16)), aligned(np.zeros((4, 8, 8), np.uint16))
    bench.launch("transposed", 1, 32, x, taken, out)
    fragments = taken.transpose(1, 0, 2).reshape(4, 8, 8)
    assert np.array_equal(fragments, x.transpose(0, 2, 1))
    assert np.array_equal(out[:2], x[:2]) and not out[2:].any()


def test_all_lanes_of_a_warp_multiply_together(bench: Any, aligned: Any) -> None:
    a, d = aligned(np.zeros(32, np.uint32)), aligned(np.zeros(32, np.uint32))
    with pytest.raises(Fault, match=r"shuffle_missing_lane.*tensor.cu"):
        bench.launch("half_a_warp", 1, 32, a, d)


@pytest.mark.parametrize(
    "instruction",
    [
        "wgmma.fence.sync.aligned;",
        "mapa.shared::cluster.u32 %r1, %r1, %r1;",
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r1}], [%r1];",
    ],
)
def test_what_needs_a_gpu_says_so(instruction: str) -> None:
    text = (
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry kernel() {\n"
        f".reg .b32 %r<3>; .reg .b64 %rd<3>;\n{instruction}\nret; }}"
    )
    named = ".".join(instruction.split(" ")[0].rstrip(";").split(".")[:2])
    with pytest.raises(PtxUnsupported, match=f"line 6: {named}, which needs a GPU, in "):
        numpy_engine.translate(parse(text), "kernel")


def _register(form: str) -> str:
    return {"f64": "f64", "f32": "f32"}.get(form, "b32")


def _fragments_ptx(order: str, space: str) -> str:
    """One warp loads each fragment from the matrix at ROOM bytes times its number, lines APART
    elements apart, and leaves its registers; accumulators are stored again behind that."""
    lines = []
    for number, (part, shape, form) in enumerate(FORMS):
        fragment = fragment_of(part, shape, form)
        kind, size = _register(form), fragment.word_bits // 8
        names = [f"%f{number}_{i}" for i in range(fragment.registers)]
        lines += [f".reg .{kind} {name};" for name in names]
        group = f"{{{', '.join(names)}}}" if len(names) > 1 or form != "f64" else f"{{{names[0]}}}"
        name = "m{}n{}k{}".format(*shape)
        at = f"[matrices + {number * ROOM}]" if space == "shared" else f"[%in + {number * ROOM}]"
        lines.append(
            f"wmma.load.{part}.sync.aligned.{order}.{name}.{space}.{form} {group}, {at}, {APART};"
        )
        lines += [
            f"st.global.{kind} [%mine + {number * KEPT + i * size}], {name};"
            for i, name in enumerate(names)
        ]
        if part == "c":
            to = (
                f"[matrices + {number * ROOM}]"
                if space == "shared"
                else f"[%back + {number * ROOM}]"
            )
            lines.append(
                f"wmma.store.d.sync.aligned.{order}.{name}.{space}.{form} {to}, {group}, {APART};"
            )
    filling = (
        f"""mov.u32 %i, %tid.x; $fill: mul.wide.u32 %w, %i, 16; add.u64 %w, %w, %in;
        ld.global.v4.u32 {{%t, %u, %v, %x}}, [%w]; mul.lo.u32 %y, %i, 16; mov.u32 %z, matrices;
        add.u32 %y, %y, %z; st.shared.v4.u32 [%y], {{%t, %u, %v, %x}}; add.u32 %i, %i, 32;
        setp.lt.u32 %p, %i, {len(FORMS) * ROOM // 16}; @%p bra $fill; bar.sync 0;"""
        if space == "shared"
        else ""
    )
    return f""".version 8.0\n.target sm_90\n.address_size 64
    .extern .shared .align 16 .b8 matrices[];
    .visible .entry fragments(.param .u64 in, .param .u64 kept, .param .u64 back) {{
    .reg .b64 %in, %mine, %back, %w; .reg .b32 %i, %t, %u, %v, %x, %y, %z; .reg .pred %p;
    ld.param.u64 %in, [in]; ld.param.u64 %mine, [kept]; ld.param.u64 %back, [back];
    mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, {len(FORMS) * KEPT}; add.u64 %mine, %mine, %w;
    {filling}
    {" ".join(lines)}
    ret; }}"""


ROOM, KEPT, APART = 4096, 64, 32


@pytest.mark.parametrize("order", ["row", "col"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_every_fragment_of_wmma(aligned: Any, order: str, space: str) -> None:
    raw = aligned(RANDOM.integers(0, 256, (len(FORMS), ROOM)).astype(np.uint8))
    kept = aligned(np.zeros((32, len(FORMS), KEPT), np.uint8))
    back = aligned(np.zeros_like(raw))
    bench = Bench(parse(_fragments_ptx(order, space)))
    counters = bench.launch("fragments", 1, 32, raw, kept, back, shared=raw.nbytes).counters
    loads = 0
    for number, (part, shape, form) in enumerate(FORMS):
        fragment = fragment_of(part, shape, form)
        bits = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[BITS[form]]
        count, length = fragment.rows, fragment.columns
        lines = np.lib.stride_tricks.as_strided(
            raw[number].view(bits),
            (count, length) if order == "row" else (length, count),
            (APART * bits().itemsize, bits().itemsize),
        )
        matrix = lines if order == "row" else lines.T
        held = kept[:, number, : fragment.elements * bits().itemsize].copy().view(bits)
        assert np.array_equal(held, matrix.reshape(-1)[np.array(fragment.at)]), (part, shape, form)
        loads += len(transfer(fragment, part, order, shared=space == "shared").accesses)
        if part == "c" and space == "global":
            again = np.lib.stride_tricks.as_strided(
                back[number].view(bits), lines.shape, lines.strides
            )
            assert np.array_equal(again, lines)
    stores = sum(
        len(transfer(fragment_of(*x), "c", order, shared=space == "shared").accesses)
        for x in FORMS
        if x[0] == "c"
    )
    if space == "global":
        assert counters.global_load_requests == loads
    else:
        assert counters.shared_requests == loads + stores + len(FORMS) * ROOM // 512
