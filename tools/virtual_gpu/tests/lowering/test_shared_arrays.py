"""Which arrays in shared memory an address is computed from."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.control_flow import control_flow
from astra_vgpu.lowering.inline import inline
from astra_vgpu.lowering.shared_arrays import named_array, reached_arrays
from astra_vgpu.ptx.parser import parse, shared_layout

HEAD = (
    ".version 9.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 more[];\n"
    ".func take(.param .u64 p) { .reg .b64 %d<2>; ld.param.u64 %d1, [p]; st.u32 [%d1], 1; ret; }\n"
    ".visible .entry k(.param .u64 out)\n{ .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
    ".shared .align 4 .b8 _ZZ1kPfE1a[64]; .shared .align 4 .b8 _ZZ1kPfE1b[32];\n"
    "mov.u32 %r1, %tid.x; ld.param.u64 %rd8, [out];\n"
)
A, B = "mov.u32 %r2, _ZZ1kPfE1a;", "mov.u32 %r3, _ZZ1kPfE1b;"


def reached(body: str) -> list[str]:
    """Names for the last access of a kernel that has all three arrays; "?" where nothing is
    known."""
    used = "st.shared.u8 [more], 0; st.shared.u8 [_ZZ1kPfE1a], 0; st.shared.u8 [_ZZ1kPfE1b], 0;"
    module = parse(f"{HEAD}{used}{body}\nret; }}")
    kernel = module.kernels["k"]
    offsets, _ = shared_layout(module, kernel)
    sizes = {"more": 0, "_ZZ1kPfE1a": 64, "_ZZ1kPfE1b": 32}
    arrays = {name: named_array(name, at, sizes[name]) for name, at in offsets.items()}
    blocks = control_flow(inline(module, kernel), "k")
    found = reached_arrays(blocks, arrays)
    accesses = [i for b in blocks for i in b.body if i.family in ("ld", "st", "atom", "cp")]
    last = [i for i in accesses if "param" not in i.modifiers][-1]
    return [array.name for array in found.get(id(last), ())] or ["?"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("st.shared.u32 [_ZZ1kPfE1a+60], 1;", ["a"]),
        (f"{A} shl.b32 %r4, %r1, 2; add.s32 %r5, %r2, %r4; ld.shared.u32 %r6, [%r5+8];", ["a"]),
        (f"{A} mad.lo.s32 %r5, %r1, 4, %r2; atom.shared.add.u32 %r6, [%r5], 1;", ["a"]),
        (
            f"{A} ld.shared.u32 %r4, [%r2]; {B} add.u32 %r5, %r3, %r4; ld.shared.u32 %r6, [%r5];",
            ["b"],
        ),
        (
            f"{A} {B} setp.eq.u32 %p1, %r1, 0; selp.b32 %r4, %r2, %r3, "
            "%p1; st.shared.u32 [%r4], 1;",
            ["a", "b"],
        ),
        (f"{A} {B} sub.u32 %r4, %r2, %r3; add.u32 %r5, %r3, %r4; st.shared.u32 [%r5], 1;", ["?"]),
        (
            f"{A} mov.u32 %r4, %r2; setp.eq.u32 %p1, %r1, 0; @%p1 ld.shared.u32 %r4, [%r2]; "
            "st.shared.u32 [%r4], 1;",
            ["?"],
        ),
        ("mov.u64 %rd1, _ZZ1kPfE1a; cvta.shared.u64 %rd2, %rd1; st.u32 [%rd2+4], 1;", ["a"]),
        (
            "mov.u64 %rd1, _ZZ1kPfE1b; cvta.shared.u64 %rd2, %rd1; { .param .u64 q; "
            "st.param.u64 [q], %rd2; call.uni take, (q); }",
            ["b"],
        ),
        ("mov.u32 %r4, more; add.u32 %r5, %r4, %r1; st.shared.u8 [%r5], 1;", ["more"]),
        (f"{A} cp.async.ca.shared.global [%r2], [%rd8], 4;", ["a"]),
        ("st.shared.u32 [%r1], 1;", ["?"]),
        ("st.global.u32 [%rd8], 1;", ["?"]),
    ],
)
def test_addresses_are_followed_from_the_names_of_arrays(body: str, expected: list[str]) -> None:
    assert reached(body) == expected


def test_a_single_array_needs_no_bounds() -> None:
    module = parse(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n"
        "{ .shared .align 4 .b8 a[64]; st.shared.u32 [a+60], 1; ret; }"
    )
    blocks = control_flow(inline(module, module.kernels["k"]), "k")
    assert not reached_arrays(blocks, {"a": named_array("a", 0, 64)})


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZZ3sumPfPKflE4room", "room"),
        ("room", "room"),
        ("_ZN3abc4roomE", "_ZN3abc4roomE"),
        ("_ZZN12_GLOBAL__N_16kernelIfEEvPT_E7partial", "partial"),
    ],
)
def test_names_are_those_of_the_source(symbol: str, name: str) -> None:
    assert named_array(symbol, 0, 4).name == name


def test_dynamic_arrays_begin_at_the_modules_largest_alignment() -> None:
    """Seen of ptxas 13.0: another kernel's array moves this one's, and the gap is static memory."""
    text = (
        ".version 9.0\n.target sm_90\n.address_size 64\n.extern .shared .align 4 .b8 small[];\n"
        ".extern .shared .align 256 .b8 large[];\n"
        ".visible .entry k() { .shared .align 4 .b8 a[136]; st.shared.u8 [a], 0; BODY ret; }\n"
    )
    for body, begin in (("st.shared.u8 [small], 0;", 256), ("", None)):
        module = parse(text.replace("BODY", body))
        offsets, size = shared_layout(module, module.kernels["k"])
        assert (offsets.get("small"), size) == (begin, begin or 136)
