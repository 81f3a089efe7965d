"""mma, wmma, ldmatrix and stmatrix: a warp's registers as matrices."""

from __future__ import annotations

from collections.abc import Sequence

from astra_vgpu.c_engine.code import Code, family
from astra_vgpu.c_engine.memory import (
    address,
    c_space,
    items_of,
    resolved_space,
    room,
    site_of,
    space_of,
)
from astra_vgpu.isa.fragments import BITS, Fragment, MatrixAccess, Transfer
from astra_vgpu.isa.matrices import (
    Product,
    matrix_count,
    mma_product,
    parts,
    wmma_product,
    wmma_transfer,
)
from astra_vgpu.ptx.syntax import Operand
from astra_vgpu.types import WARP_LANES

_LINE = "unsigned __int128"


@family("mma")
def mma(code: Code) -> None:
    _multiply(code, mma_product(code))


def _fragment(code: Code, fragment: Fragment) -> str:
    at = ", ".join(str(place) for lane in fragment.at for place in lane)
    table = code.unit.table("uint16_t", at)
    form = fragment.format.upper()
    return f"{{{form}, {BITS[fragment.format]}, {fragment.elements}, {table}}}"


def _multiply(code: Code, product: Product) -> None:
    fragments = ", ".join(_fragment(code, x) for x in (product.a, product.b, product.c, product.d))
    sizes = f"{product.a.rows}, {product.b.columns}, {product.a.columns}"
    step = product.step or product.a.columns
    flags = f"{int(product.is_integer)}, {int(product.saturates)}, {step}"
    form = code.unit.table("struct product", f"{{{sizes}, {flags}, {fragments}}}")
    sources = [
        [
            code.array(code.reader(o, f"b{fragment.word_bits}"), f"uint{fragment.word_bits}_t")
            for o in parts(code, code.operand(place), fragment)
        ]
        for place, fragment in ((1, product.a), (2, product.b), (3, product.c))
    ]
    targets = parts(code, code.operand(0), product.d)
    bits = product.d.word_bits
    word, call = f"uint{bits}_t", "multiply" if bits == 32 else "multiply_doubles"
    results = [code.results(word) for _ in targets]
    inputs = ", ".join(f"(const {word} *[]){{{', '.join(names)}}}" for names in sources)
    outputs = f"({word} *[]){{{', '.join(f'X{n}' for n in results)}}}"
    code.warp(f"{call}(w, {code.place}, {code.active()}, {form}, {inputs}, {outputs});")
    _put_all(code, targets, results, bits)


def _put_all(
    code: Code, targets: Sequence[Operand], results: Sequence[int], bits: int = 32
) -> None:
    for target, result in zip(targets, results, strict=True):
        code.put(target, f"b{bits}", f"x{result}")


@family("wmma")
def wmma(code: Code) -> None:
    how = code.option("load", "store", "mma")
    if how == "mma":
        _multiply(code, wmma_product(code))
        return
    place = 1 if how == "load" else 0
    space = resolved_space(code, space_of(code), code.operand(place))
    transfer, usual = wmma_transfer(code, space)
    base = code.keep(address(code, code.operand(place)), "uint64_t")
    stride = code.read(2, "u32") if len(code.operands) == 3 else f"{usual}u"
    lines = code.keep(stride, "uint32_t")
    active = code.active()
    code.warp(f"require_whole_warp(w, {code.place}, {active});")
    if transfer.turned:
        code.warp(f"count_turned(w, {active}, {len(transfer.accesses)});")
    bits = BITS[transfer.fragment.format]
    places = [_places(code, access, bits // 8, base, lines) for access in transfer.accesses]
    move = _load if how == "load" else _store
    move(code, transfer, c_space(space), active, places)


def _places(code: Code, access: MatrixAccess, size: int, base: int, lines: int) -> str:
    """Where each lane's part of an access begins."""
    at = [*access.at, *[(0, 0)] * (WARP_LANES - len(access.at))]
    line, inside = (
        code.unit.table("uint16_t", ", ".join(str(pair[k]) for pair in at)) for k in (0, 1)
    )
    offset = f"((uint64_t)x{lines} * {line}[l] + {inside}[l]) * {size}"
    return code.array(f"x{base} + {offset}", "uint64_t")


def _load(code: Code, transfer: Transfer, space: str, active: str, places: Sequence[str]) -> None:
    loaded = []
    for access, place in zip(transfer.accesses, places, strict=True):
        data = room(code, access.size)
        site = site_of(code, access.size, writes=False, ordered=False)
        taking = f"({active} & {(1 << len(access.at)) - 1}u)"
        code.warp(f"load(w, {site}, {space}, {place}, {taking}, X{data});")
        loaded.append(f"X{data}")
    code.warp(f"meet(w, {active});")
    fragment = transfer.fragment
    source = ", ".join(str(place) for lane in transfer.source for place in lane)
    carried, table = _carried(code, transfer, loaded), code.unit.table("uint16_t", source)
    targets = parts(code, code.operand(0), fragment)
    bits = fragment.word_bits
    words = [code.results(f"uint{bits}_t") for _ in targets]
    outputs = f"(void *[]){{{', '.join(f'X{n}' for n in words)}}}"
    code.warp(f"take_fragment({carried}, {table}, {fragment.elements}, {outputs}, {bits // 8});")
    _put_all(code, targets, words, bits)


def _store(code: Code, transfer: Transfer, space: str, active: str, places: Sequence[str]) -> None:
    fragment = transfer.fragment
    bits = fragment.word_bits
    words = [
        code.array(code.reader(o, f"b{bits}"), f"uint{bits}_t")
        for o in parts(code, code.operand(1), fragment)
    ]
    data = [f"X{room(code, access.size)}" for access in transfer.accesses]
    source = ", ".join(str(place) for lane in transfer.source for place in lane)
    carried, table = _carried(code, transfer, data), code.unit.table("uint16_t", source)
    inputs = f"(const void *[]){{{', '.join(words)}}}"
    code.warp(f"give_fragment({carried}, {table}, {fragment.elements}, {inputs}, {bits // 8});")
    for access, place, held in zip(transfer.accesses, places, data, strict=True):
        site = site_of(code, access.size, writes=True, ordered=False)
        code.warp(f"store(w, {site}, {space}, {place}, {active}, {held});")
    code.warp(f"meet(w, {active});")


def _carried(code: Code, transfer: Transfer, data: Sequence[str]) -> str:
    """What all accesses carry, as the first arguments of take_fragment and give_fragment."""
    fragment = transfer.fragment
    whole, size = f"(void *[]){{{', '.join(data)}}}", BITS[fragment.format] // 8
    return f"{whole}, {WARP_LANES * transfer.each}, {fragment.different}, {size}"


@family("ldmatrix")
def load_matrix(code: Code) -> None:
    """Lane l gives the address of row l % 8 of matrix l / 8, and gets two neighbours of a row, or
    with .trans of a column."""
    space = c_space(resolved_space(code, space_of(code), code.operand(1)))
    count, transposed = matrix_count(code)
    where = code.array(address(code, code.operand(1)), "uint64_t")
    active, data = code.active(), code.results(_LINE)
    site = site_of(code, 16, writes=False, ordered=False)
    code.warp(f"require_whole_warp(w, {code.place}, {active});")
    lanes = f"({active} & {(1 << 8 * count) - 1}u)"
    code.warp(f"load(w, {site}, {space}, {where}, {lanes}, X{data});")
    code.warp(f"meet(w, {active});")
    results = [code.results() for _ in range(count)]
    for matrix, result in enumerate(results):
        code.warp(f"take_matrix(X{data}, {matrix}, {int(transposed)}, X{result});")
    _put_all(code, items_of(code.operand(0)), results)


@family("stmatrix")
def store_matrix(code: Code) -> None:
    """The inverse of ldmatrix."""
    space = c_space(resolved_space(code, space_of(code), code.operand(0)))
    count, transposed = matrix_count(code)
    where = code.array(address(code, code.operand(0)), "uint64_t")
    words = [code.array(code.reader(item, "b32")) for item in items_of(code.operand(1))]
    active, data = code.active(), code.results(_LINE)
    site = site_of(code, 16, writes=True, ordered=False)
    code.warp(f"require_whole_warp(w, {code.place}, {active});")
    for matrix, word in enumerate(words):
        code.warp(f"give_matrix(X{data}, {matrix}, {int(transposed)}, {word});")
    lanes = f"({active} & {(1 << 8 * count) - 1}u)"
    code.warp(f"store(w, {site}, {space}, {where}, {lanes}, X{data});")
    code.warp(f"meet(w, {active});")
