"""Matrix products of the numerics test, and wmma's loads and stores.

The loads and stores show which lane holds which element, so the products can be compared register
by register.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from astra_vgpu.isa.fragments import BITS, Fragment, wmma_fragment
from lab.virtual_gpu.numerics.instruction import ComparedInstruction

_USUAL = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
Shape = tuple[int, int, int]


def matrices() -> Iterator[ComparedInstruction]:
    yield from _mma()
    yield from _mma_of_doubles()
    for shape, form, sums in _wmma_forms():
        yield from _wmma(shape, form, sums)
    yield from _transfers()


def _mma() -> Iterator[ComparedInstruction]:
    """Shapes: registers of D, and of A, B and C together as the program's loop sees them."""
    forms = (
        ("m16n8k8", "f16", "f16"),
        ("m16n8k16", "f16", "f16"),
        ("m16n8k8", "f32", "f16"),
        ("m16n8k16", "f32", "f16"),
        ("m16n8k8", "f32", "bf16"),
        ("m16n8k16", "f32", "bf16"),
        ("m16n8k4", "f32", "tf32"),
        ("m16n8k8", "f32", "tf32"),
    )
    for size, total, form in forms:
        name = f"mma.sync.aligned.{size}.row.col.{total}.{form}.{form}.{total}"
        yield ComparedInstruction(name, mma_shape(size, total, form), form, total)
    for size, a, b in product(("m16n8k16", "m16n8k32"), ("s8", "u8"), ("s8", "u8")):
        for tail in ("", ".satfinite"):
            name = f"mma.sync.aligned.{size}.row.col{tail}.s32.{a}.{b}.s32"
            yield ComparedInstruction(name, mma_shape(size, "s32", a), "int")


def mma_shape(size: str, total: str, form: str) -> str:
    """ "rr:rrrr|rr|rr": registers of D; of A, B and C."""
    k = int(size.partition("k")[2])
    bits = {"f16": 16, "bf16": 16, "tf32": 32}.get(form, 8)
    a, b = 16 * k * bits // 1024, 8 * k * bits // 1024
    c = 2 if total == "f16" else 4
    return f"{'r' * c}:{'r' * a}|{'r' * b}|{'r' * c}"


def _mma_of_doubles() -> Iterator[ComparedInstruction]:
    for m, n, k in ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)):
        name = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.f64.f64.f64.f64"
        a, b, c = ("l" * (size // 32) for size in (m * k, k * n, m * n))
        yield ComparedInstruction(name, f"{c}:{a}|{b}|{c}", "f64", "f64")


def _wmma_forms() -> Iterator[tuple[Shape, str, tuple[str, str]]]:
    """Shape, format of A and B, and those of D and C."""
    for shape in _USUAL:
        for sums in product(("f32", "f16"), ("f32", "f16")):
            yield shape, "f16", sums
        yield shape, "bf16", ("f32", "f32")
        for form in ("s8", "u8"):
            yield shape, form, ("s32", "s32")
    yield (16, 16, 8), "tf32", ("f32", "f32")
    yield (8, 8, 4), "f64", ("f64", "f64")


def _wmma(shape: Shape, form: str, sums: tuple[str, str]) -> Iterator[ComparedInstruction]:
    m, n, k = shape
    d, c = sums
    size = f"m{m}n{n}k{k}"
    fragments = (
        wmma_fragment(d, "d", m, n),
        wmma_fragment(form, "a", m, k),
        wmma_fragment(form, "b", k, n),
        wmma_fragment(c, "c", m, n),
    )
    letter = "l" if form == "f64" else "r"
    own = [letter * _registers(fragment) for fragment in fragments]
    groups, first = [], 0
    for fragment, mine in zip(fragments, own, strict=True):
        # Copies of A's and B's elements in registers of their own.
        copies = fragment.elements // fragment.different
        names = [f"%{first + i}" for i in range(len(mine))] * copies
        groups.append(f"{{{', '.join(names)}}}")
        first += len(mine)
    types = f"{d}.{c}" if form == "f16" else f"{d}.{form}.{form}.{c}"
    tails = ("", ".satfinite") if d == "s32" else ("",)
    for tail in tails:
        name = f"wmma.mma.sync.aligned.row.col.{size}.{types}{tail}"
        yield ComparedInstruction(
            name,
            f"{own[0]}:{own[1]}|{own[2]}|{own[3]}",
            "int" if d == "s32" else form,
            "" if d == "s32" else d,
            text=f"{name} {', '.join(groups)};",
            accumulator=c,
        )


def _registers(fragment: Fragment) -> int:
    """That are no copies."""
    return fragment.different * BITS[fragment.format] // fragment.word_bits


def _transfers() -> Iterator[ComparedInstruction]:
    """Every fragment from a matrix in shared memory, and accumulators back there."""
    forms = [
        *(
            (part, shape, form)
            for shape in _USUAL
            for part, forms in (
                ("a", "f16 bf16 s8"),
                ("b", "f16 bf16 s8"),
                ("c", "f16 f32 s32"),
                ("d", "f16 f32 s32"),
            )
            for form in forms.split()
        ),
        *((part, (16, 16, 8), "tf32") for part in "ab"),
        *((part, (16, 16, 8), "f32") for part in "cd"),
        *((part, (8, 8, 4), "f64") for part in "abcd"),
    ]
    for (part, shape, form), order in product(forms, ("row", "col")):
        yield _transfer(part, shape, form, order)


def _transfer(part: str, shape: Shape, form: str, order: str) -> ComparedInstruction:
    m, n, k = shape
    rows, columns = {"a": (m, k), "b": (k, n)}.get(part, (m, n))
    fragment = wmma_fragment(form, part, rows, columns)
    words = rows * columns * BITS[form] // 1024
    letter = "l" if form == "f64" else "r"
    held = letter * (fragment.registers if part != "d" else _registers(fragment))
    stride = columns if order == "row" else rows
    how = "store" if part == "d" else "load"
    name = f"wmma.{how}.{part}.sync.aligned.{order}.m{m}n{n}k{k}.shared.{form}"
    results, sources = ("r" * words, held) if part == "d" else (held, "r" * words)
    names = [f"%{i}" for i in range(words + len(held))]
    first, last = names[: len(results)], names[len(results) :]
    if part == "d":
        steps = f"{name} [m], {{{', '.join(last)}}}, {stride}; {_WAIT} {_words('ld', first)}"
    else:
        steps = f"{_words('st', last)} {_WAIT} {name} {{{', '.join(first)}}}, [m], {stride};"
    text = (
        f"{{ .reg .u32 l, m, w; .shared .align 128 .b8 all[{4 * 128 * words}]; "
        f"mov.u32 l, %%tid.x; shr.u32 w, l, 5; and.b32 l, l, 31; mov.u32 m, all; "
        f"mad.lo.u32 m, w, {128 * words}, m; mad.lo.u32 l, l, {4 * words}, m; {steps} }}"
    )
    return ComparedInstruction(name, f"{results}:{sources}", "int", text=text, few=True)


_WAIT = "bar.warp.sync 0xffffffff;"


def _words(how: str, names: Sequence[str]) -> str:
    """A lane's words of its warp's matrix."""
    return " ".join(
        f"{how}.shared.b32 {f'{name}, [l+{4 * i}]' if how == 'ld' else f'[l+{4 * i}], {name}'};"
        for i, name in enumerate(names)
    )
