"""mma, wmma, ldmatrix and stmatrix: a warp's registers as matrices."""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.tools.virtual_gpu.c_engine.code import Code, family
from astra_chat.tools.virtual_gpu.c_engine.memory import (
    address,
    c_space,
    items_of,
    resolved_space,
    site_of,
    space_of,
)
from astra_chat.tools.virtual_gpu.matrices import (
    BITS,
    Fragment,
    Product,
    matrix_count,
    mma_product,
    parts,
    wmma_product,
    wmma_transfer,
)
from astra_chat.tools.virtual_gpu.syntax import Operand

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
    flags = f"{int(product.is_integer)}, {int(product.saturates)}"
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
    space = c_space(resolved_space(code, space_of(code), code.operand(place)))
    fragment, order = wmma_transfer(code)
    base = code.keep(address(code, code.operand(place)), "uint64_t")
    usual = fragment.columns if order == "row" else fragment.rows
    stride = code.read(2, "u32") if len(code.operands) == 3 else f"{usual}u"
    lines = code.keep(stride, "uint32_t")
    active = code.active()
    code.warp(f"together(w, {code.place}, {active});")
    places = [_place(code, fragment, order, base, lines, e) for e in range(fragment.different)]
    transfer = _load if how == "load" else _store
    transfer(code, fragment, space, active, places)


def _place(code: Code, fragment: Fragment, order: str, base: int, lines: int, element: int) -> str:
    """The address of one element of each lane."""
    at = [divmod(lane[element], fragment.columns) for lane in fragment.at]
    if order == "col":
        at = [(inside, line) for line, inside in at]
    line, inside = (
        code.unit.table("uint16_t", ", ".join(str(pair[k]) for pair in at)) for k in (0, 1)
    )
    size = BITS[fragment.format] // 8
    offset = f"((uint64_t)x{lines} * {line}[l] + {inside}[l]) * {size}"
    return code.array(f"x{base} + {offset}", "uint64_t")


def _load(code: Code, fragment: Fragment, space: str, active: str, places: Sequence[str]) -> None:
    bits = BITS[fragment.format]
    found = []
    for place in places:
        data = code.results(f"uint{bits}_t")
        site = site_of(code, bits // 8, writes=False, ordered=False)
        code.warp(f"load(w, {site}, {space}, {place}, {active}, X{data});")
        found.append(data)
    code.warp(f"meet(w, {active});")
    found *= fragment.elements // fragment.different
    wide = fragment.word_bits
    each = wide // bits
    for number, target in enumerate(parts(code, code.operand(0), fragment)):
        held = found[number * each : (number + 1) * each]
        word = " | ".join(f"(uint{wide}_t)x{data} << {k * bits}" for k, data in enumerate(held))
        code.put(target, f"b{wide}", word)


def _store(code: Code, fragment: Fragment, space: str, active: str, places: Sequence[str]) -> None:
    bits = BITS[fragment.format]
    each = fragment.word_bits // bits
    words = [
        code.reader(o, f"b{fragment.word_bits}") for o in parts(code, code.operand(1), fragment)
    ]
    for element, place in enumerate(places):
        part = f"(uint{bits}_t)({words[element // each]} >> {element % each * bits})"
        data = code.array(part, f"uint{bits}_t")
        site = site_of(code, bits // 8, writes=True, ordered=False)
        code.warp(f"store(w, {site}, {space}, {place}, {active}, {data});")
    code.warp(f"meet(w, {active});")


@family("ldmatrix")
def load_matrix(code: Code) -> None:
    """Lane l gives the address of row l % 8 of matrix l / 8, and gets two neighbours of a row, or
    with .trans of a column."""
    space = c_space(resolved_space(code, space_of(code), code.operand(1)))
    count, transposed = matrix_count(code)
    where = code.array(address(code, code.operand(1)), "uint64_t")
    active, data = code.active(), code.results(_LINE)
    site = site_of(code, 16, writes=False, ordered=False)
    code.warp(f"together(w, {code.place}, {active});")
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
    code.warp(f"together(w, {code.place}, {active});")
    for matrix, word in enumerate(words):
        code.warp(f"give_matrix(X{data}, {matrix}, {int(transposed)}, {word});")
    lanes = f"({active} & {(1 << 8 * count) - 1}u)"
    code.warp(f"store(w, {site}, {space}, {where}, {lanes}, X{data});")
    code.warp(f"meet(w, {active});")
