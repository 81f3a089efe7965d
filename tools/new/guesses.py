"""What the source of a kernel leaves open, guessed: sizes of cases, ranges of indices, groups of
quantized codes. Everything here is marked for the user."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from astra_chat.tools.new.draft import Draft, DraftScalar, Tensor
from astra_chat.tools.new.layout import names_in
from astra_chat.tools.task.expressions import evaluate, parse_relation

ROWS = (1, 3, 17, 64, 5)
COLUMNS = (64, 96, 256, 1000, 4096)
FLAT = (1, 31, 256, 4099, 65537)
LARGEST = {"only": 16777216, "first": 65536, "last": 16384}
"""Legal extents of a dim by its place, until the user says."""
MOST_ELEMENTS = 2**56
"""Elements of the largest tensor at most: a contract's tensors have less than 2^63 bytes."""
_NAMED = (
    (r"(num_)?(kv_)?heads?(_num)?|num_(q_)?heads|heads_\w+", 4, 128),
    (r"(\w+_)?(head_(size|dim)|rot(ary)?_dim|rope_dim)", 64, 512),
    (r"(\w+_)?(block_size|page_size)", 16, 256),
    (r"(\w*_)?experts?(_num)?", 8, 512),
    (r"top_?k(_num)?|num_topk", 2, 32),
    (r"x|(\w+_)?vec(_size)?|pack(_size|_factor)?", 8, 16),
    (r"(\w+_)?group_size", 64, 256),
    (r"(max_)?num_(blocks|pages)(_per_\w+)?|max_blocks\w*|max_pages\w*", 8, 4096),
    (r"max_(pos|seq|len)\w*|(\w+_)?seq_?len", 128, 131072),
    (r"(num_)?groups?|(num_)?splits?|batch(_size)?|bs", 2, 1024),
)
"""Dims by name: an extent for cases, and the largest legal one."""
TRIED = (1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512, 1024, 2048, 4096, 8192)
VARIED = (1.0, 2.0, 0.5, 1.0, 4.0)
"""Factors of the usual extents of dims with telling names, in turn by check case and dim."""
_TABLES = re.compile(r"cache|table|weight|embed|pool|buffer|pages|cos|sin")
DEFAULTS = {"float": "1.0", "int64_t": "1", "bool": "true"}
"""Values of scalars in TOML, by type, where the source gives none."""
Extents = dict[str, int]


def largest(draft: Draft, dim: str) -> int:
    """The largest legal extent of a dim: less where a tensor has many."""
    most = _largest(draft, dim)
    for names in (names_in(draft.shape_of(t)) for t in draft.tensors):
        if math.prod(_largest(draft, name) for name in names) > MOST_ELEMENTS:
            most = min(most, int(MOST_ELEMENTS ** (1 / len(names))))
    return _whole(draft, dim, most)


def _largest(draft: Draft, dim: str) -> int:
    """The largest extent that a dim of its name, or else of its place, has."""
    for pattern, _, most in _NAMED:
        if re.fullmatch(pattern, dim):
            return most
    place = "last" if dim == draft.dims[-1] else "first"
    return LARGEST["only" if len(draft.dims) == 1 else place]


def check_extents(draft: Draft) -> list[Extents]:
    """Sizes of the check cases, legal by what the source demands."""
    columns = FLAT if len(draft.dims) == 1 else COLUMNS
    found = [
        _legal(draft, _extents(draft, rows, last, case))
        for case, (rows, last) in enumerate(zip(ROWS, columns, strict=True))
    ]
    return [one for one in found if one] or [_extents(draft, ROWS[1], columns[1])]


def bench_extents(draft: Draft, rows: int) -> Extents:
    columns = 4096 * rows if len(draft.dims) == 1 else 4096
    extents = _extents(draft, rows, columns)
    return _legal(draft, extents) or extents


def relations(draft: Draft) -> tuple[list[str], list[str]]:
    """The relations that the source states and that cases can meet, and those that they cannot."""
    met: list[str] = []
    for text in dict.fromkeys([*draft.require, *_divisions(draft), *_slots(draft)]):
        if _readable(text) and _legal(draft, _extents(draft, 3, 96), [*met, text]):
            met.append(text)
    return met, [text for text in draft.require if text not in met]


def _divisions(draft: Draft) -> Iterator[str]:
    """An extent a // b of a shape says that b divides a."""
    for tensor in draft.tensors:
        for extent in tensor.shape:
            for a, b in re.findall(r"([a-z_]\w*)//([a-z_]\w*|\d+)", extent):
                yield f"{a} % {b} == 0"


def _slots(draft: Draft) -> Iterator[str]:
    """Yields relations that demand at least as many slots as tokens: none is written twice."""
    for tensor in draft.tensors:
        if draft.is_index(tensor):
            index = index_of(draft, tensor)
            if index["kind"] == "slots":
                slots = "*".join(draft.shape_of(tensor))
                if slots != index["below"]:
                    yield f"{slots} <= {index['below']}"


def _readable(text: str) -> bool:
    try:
        parse_relation(text)
    except ValueError:
        return False
    return True


def _extents(draft: Draft, rows: int, columns: int, case: int = 0) -> Extents:
    """Rows first, columns last; dims with telling names by their names, others are small."""
    extents: Extents = {}
    for place, name in enumerate(draft.dims):
        usual = next((usual for pattern, usual, _ in _NAMED if re.fullmatch(pattern, name)), 0)
        factor = VARIED[(case + place) % len(VARIED)] if case else 1.0
        usual = max(1, int(usual * factor)) if usual else 0
        if len(draft.dims) == 1 or place == len(draft.dims) - 1:
            value = usual or columns
        else:
            value = rows if place == 0 and not usual else usual or 2
        if values := draft.extents.get(name):
            value = values[0]
        extents[name] = value if values else _whole(draft, name, value)
    return extents


def _whole(draft: Draft, dim: str, extent: int) -> int:
    """The extent, rounded up to a multiple of what the source demands."""
    step = draft.multiples.get(dim, 1)
    return -(-extent // step) * step


def _legal(draft: Draft, extents: Extents, required: list[str] | None = None) -> Extents | None:
    """These extents, or the nearest that meet the relations: one or two dims changed."""
    required = relations(draft)[0] if required is None else required
    parsed = [parse_relation(text) for text in required]

    integers = integers_of(draft)

    def meets(some: Mapping[str, int]) -> bool:
        try:
            return all(relation.value({**integers, **some}) for relation in parsed)
        except (KeyError, ZeroDivisionError):
            return False

    settled = settled_extents(draft, extents, required)
    if meets(settled) and settled[draft.dims[0]] == extents[draft.dims[0]]:
        return settled  # by the first dim the cases differ
    dims = [name for name in names_in(required) if name in extents and name not in draft.extents]
    for count in (1, 2):
        tried = [
            {**extents, **{n: _whole(draft, n, v) for n, v in zip(chosen, values, strict=True)}}
            for chosen in itertools.combinations(dims, count)
            for values in itertools.product(TRIED, repeat=count)
        ]
        if legal := [one for one in tried if meets(one)]:
            return min(legal, key=lambda one: _distance(extents, one))
    return settled if meets(settled) else None


def integers_of(draft: Draft) -> dict[str, int]:
    """Values of integer scalars, which relations may name."""
    return {s.name: int(scalar_value(s)) for s in draft.scalars if s.type == "int64_t"}


def settled_extents(
    draft: Draft, extents: Mapping[str, int], required: Sequence[str], keep: Collection[str] = ()
) -> Extents:
    """With relations met that say what a dim is, or what divides or bounds it; but of these."""
    found = dict(extents)
    for text in (*required, *required):
        told = re.fullmatch(r"([a-z_]\w*) (==|%|<=|>=) (.+?)( == 0)?", text)
        if told is None or told[1] not in found or (told[2] == "%") != bool(told[4]):
            continue
        try:
            by = evaluate(told[3], {**integers_of(draft), **found})
        except (KeyError, ValueError, ZeroDivisionError):
            continue
        own = found[told[1]]
        nearest = {
            "==": by,
            "%": -(-own // max(by, 1)) * by,
            "<=": min(own, by),
            ">=": max(own, by),
        }
        changed = _whole(draft, told[1], nearest[told[2]])
        if changed > 0 and told[1] not in draft.extents and told[1] not in keep:
            found[told[1]] = changed
    return found


def _distance(wanted: Extents, extents: Extents) -> float:
    """Distance in octaves; the first dim counts most, since the cases differ by it."""
    away = [abs(math.log2(extents[name] / wanted[name])) for name in wanted]
    return sum(away) + 8 * (away[0] > 0)


def index_of(draft: Draft, tensor: Tensor) -> dict[str, object]:
    """The likely range and kind of an argument that holds places in another."""
    kind = "any"
    if re.search(r"(^|_)pos", tensor.name):
        kind = "positions"
    elif re.search(r"slot|loc", tensor.name):
        kind = "slots"
    elif re.search(r"indptr|offset|cu_|sorted", tensor.name):
        kind = "sorted"
    table, below = _table(draft, tensor)
    found: dict[str, object] = {"from": 0, "below": below, "kind": kind}
    if kind == "slots":
        found["none"] = -1
    return found | ({"table": table} if table and "*" not in below else {})


def _table(draft: Draft, tensor: Tensor) -> tuple[str, str]:
    """The argument that it indexes, and how many places that has."""
    own = draft.shape_of(tensor)
    experts = [dim for dim in draft.dims if "experts" in dim]
    if experts and re.search(r"topk|expert", tensor.name):
        return "", experts[0]
    for other in draft.tensors:
        shape = draft.shape_of(other)
        if other == tensor or not _TABLES.search(other.name) or shape[0] in own:
            continue
        pages = [e for e in shape[1:] if re.fullmatch(r"(\w+_)?(block|page)_size", e)]
        if pages and re.search(r"slot|loc", tensor.name):
            return other.name, f"{shape[0]}*{pages[0]}"
        return other.name, shape[0]
    return "", _places(draft, tensor.name) or draft.dims[0]


def _places(draft: Draft, name: str) -> str:
    """How many places dims with telling names say, where no table has a known shape."""

    def named(pattern: str) -> str:
        return next((dim for dim in draft.dims if re.fullmatch(pattern, dim)), "")

    blocks, size = named(r"(num_)?(blocks|pages)"), named(r"(\w+_)?(block|page)_size")
    if re.search(r"slot|loc", name) and blocks and size:
        return f"{blocks}*{size}"
    return named(r"max_pos\w*") if re.search(r"(^|_)pos", name) else ""


def scale_of(draft: Draft, tensor: Tensor) -> tuple[str, list[str]] | None:
    """Name of the argument of the scales of written 8-bit codes, and the block that shares one;
    None where there are no such scales."""
    codes = {"float8_e4m3fn", "float8_e5m2", "int8"}
    if not tensor.written or not set(draft.possible(tensor)) <= codes:
        return None
    written = [t for t in draft.tensors if t.access == "write" and t.dtype == "float32"]
    scales = next((t for t in written if "scale" in t.name or t.name.endswith("_s")), None)
    if scales is None:
        return None
    shape, each = draft.shape_of(tensor), draft.shape_of(scales)
    each = (*each, *("1",) * (len(shape) - len(each)))
    return scales.name, [_group(a, b) for a, b in zip(shape, each, strict=False)]


def _group(extent: str, groups: str) -> str:
    if extent == groups:
        return "1"
    by = re.fullmatch(re.escape(extent) + r"//(\w+)", groups)
    return by[1] if by else extent


def scalar_value(scalar: DraftScalar) -> str:
    """Its value as TOML has it, guessed where the source gives none."""
    value = scalar.value.rstrip("fFlLuU") or ("1e-6" if "eps" in scalar.name else "")
    if scalar.type == "bool":
        return value.lower() if value.lower() in ("true", "false") else DEFAULTS["bool"]
    value = {"true": "1", "false": "0"}.get(value.lower(), value)
    try:
        return value if scalar.type == "float" and float(value) < 3e38 else str(int(value))
    except ValueError:
        return DEFAULTS[scalar.type]
