"""Shapes and strides of a kernel's tensors, from its code, its comments and its checks together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from astra_chat.tools.new.draft import PER_COLUMN
from astra_chat.tools.new.stated import Shape, Stated

_NAME = re.compile(r"[a-z_]\w*")
_STRIDE = r"(?:{t}_(?:\w+_)?stride(?:_(\w+))?|stride_{t}(?:_?(\w+))?|ld{t})"
_LIKE = re.compile(r"(?P<result>out|output|y)_?|(?:grad_|d_?)(?P<of>[a-z]\w*?)_?")
FUNCTIONS = ("ceil_div", "min", "max")
GUESSED = "is this its shape? (// [rows, d] after its parameter states it)"
PARTLY = "is this its shape? The code states only some of its sizes"
SEVERAL = "is this its shape? A comment names several"
OPEN = "is this its shape? A comment does not state its first extents"


@dataclass
class TensorShapes:
    """Shapes by tensor, and the dims that they need."""

    shapes: dict[str, Shape] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    """Tensor: why its shape may be another."""
    dims: list[str] = field(default_factory=list)
    """Those of the code, then further names in shapes, in the order of the tensors."""
    sizes: dict[tuple[str, int], str] = field(default_factory=dict)
    """Tensor and axis, from the front or the back: its extent."""

    def extent(self, tensor: str, axis: int) -> str:
        """An extent as an expression; "" where it is not known."""
        if extent := self.sizes.get((tensor, axis)):
            return extent
        shape = self.shapes.get(tensor, ())
        return shape[axis] if -len(shape) <= axis < len(shape) else ""


def layout_of(
    tensors: Sequence[str],
    stated: Stated,
    sizes: dict[tuple[str, int], str],
    shapes: dict[str, Shape],
    dims: Sequence[str],
    integers: Sequence[str],
) -> TensorShapes:
    """`sizes` and `shapes` are what the code states, `dims` its sizes, `integers` the parameters
    that may be sizes."""
    layout = TensorShapes(shapes=dict(shapes), sizes=dict(sizes))
    known = {*dims, *integers}
    for tensor in tensors:
        _from_comment(layout, tensor, stated, known)
    _rename(layout, tensors, known)
    for _ in range(2):  # what one check tells of a tensor, another tells of the next
        _from_checks(layout, stated, known)
    for tensor in tensors:
        _guess(layout, tensor, stated, dims)
    for tensor in tensors:
        _like_another(layout, tensor)
    if not (dims or integers or any(names_in(shape) for shape in layout.shapes.values())):
        _by_rank(layout, tensors, stated)
    used = names_in(e for t in tensors for e in layout.shapes.get(t, ()))
    layout.dims = [*dims, *(name for name in used if name not in dims)]
    return layout


def names_in(extents: Iterable[str]) -> list[str]:
    """Names of dims in expressions, each once."""
    found = (name for extent in extents for name in _NAME.findall(extent))
    return list(dict.fromkeys(name for name in found if name not in FUNCTIONS))


def _from_comment(layout: TensorShapes, tensor: str, stated: Stated, known: set[str]) -> None:
    """The shape in a comment that fits the code best: of known names, of the most extents."""
    offered = [s for s in stated.comments.get(tensor, ()) if _fits(layout, tensor, s, stated)]
    if not offered:
        return
    best = max(offered, key=lambda s: (_known(s, known), len(s)))
    if "..." in best:
        best = _filled(layout, tensor, best)
        layout.doubts[tensor] = OPEN
    elif len(offered) > 1:
        layout.doubts[tensor] = SEVERAL
    if best:
        layout.shapes[tensor] = best


def _fits(layout: TensorShapes, tensor: str, shape: Shape, stated: Stated) -> bool:
    """Whether it has the axes that the code asks for, and the rank that a check demands."""
    axes = [axis for name, axis in layout.sizes if name == tensor]
    deepest = max((axis + 1 if axis >= 0 else -axis for axis in axes), default=0)
    rank = stated.ranks.get(tensor)
    return "..." in shape or (len(shape) >= deepest and rank in (None, len(shape)))


def _known(shape: Shape, known: set[str]) -> float:
    names = names_in(shape)
    return sum(name in known for name in names) / len(names) if names else 1.0


def _filled(layout: TensorShapes, tensor: str, shape: Shape) -> Shape:
    """With what the code knows in the place of ...; () where it does not."""
    place = shape.index("...")
    end = shape[place + 1 :]
    coded = layout.shapes.get(tensor, ())
    rows = coded[: len(coded) - 1] if len(coded) > 1 else ()
    rows = rows or tuple(e for (t, axis), e in layout.sizes.items() if t == tensor and axis == 0)
    rows = rows or tuple(s[0] for s in layout.shapes.values() if len(s) > 1)[:1]
    return (*shape[:place], *rows, *end) if rows else ()


def _rename(layout: TensorShapes, tensors: Sequence[str], known: set[str]) -> None:
    """Where the code has a variable for an extent, comments mean it by their own name."""
    renamed: dict[str, str] = {}
    for (tensor, axis), extent in layout.sizes.items():
        said = TensorShapes(shapes=layout.shapes).extent(tensor, axis)
        if said and _NAME.fullmatch(said) and said not in known and said != extent:
            renamed.setdefault(said, extent)
    for tensor in tensors:
        if shape := layout.shapes.get(tensor):
            layout.shapes[tensor] = tuple(_renamed(extent, renamed) for extent in shape)
    for (tensor, axis), extent in layout.sizes.items():
        shape = layout.shapes.get(tensor, ())
        if -len(shape) <= axis < len(shape) and names_in([shape[axis]]):
            whole = list(shape)
            whole[axis] = extent
            layout.shapes[tensor] = tuple(whole)


def _renamed(extent: str, names: dict[str, str]) -> str:
    def other(match: re.Match[str]) -> str:
        new = names.get(match[0], match[0])
        return new if _NAME.fullmatch(new) or extent == match[0] else f"({new})"

    return _NAME.sub(other, extent)


def _from_checks(layout: TensorShapes, stated: Stated, known: set[str]) -> None:
    for left, right in stated.equal:
        _equal(layout, stated, left, right, known)
        _equal(layout, stated, right, left, known)
    for first, second in (*stated.alike, *(pair[::-1] for pair in stated.alike)):
        if first not in layout.shapes and second in layout.shapes:
            layout.shapes[first] = layout.shapes[second]
        for (tensor, axis), extent in list(layout.sizes.items()):
            if tensor == second and extent and not layout.sizes.get((first, axis)):
                layout.sizes[first, axis] = extent
        _complete(layout, stated, first)


def _complete(layout: TensorShapes, stated: Stated, tensor: str) -> None:
    """The shape of a tensor whose sizes are all known."""
    axes = {a: e for (t, a), e in layout.sizes.items() if t == tensor}
    rank = stated.ranks.get(tensor, 0)
    found = [axes.get(a, axes.get(a - rank, "")) for a in range(rank)]
    if tensor not in layout.shapes and found and all(found):
        layout.shapes[tensor] = tuple(found)


def _equal(layout: TensorShapes, stated: Stated, asked: str, value: str, known: set[str]) -> None:
    """x.size(1) == value, where value is a number, a known name or another known size."""
    extent = expression(layout, value, known)
    if not extent:
        return
    if count := re.fullmatch(r"(\w+)(?:\.|->)numel\(\)", asked):
        if all(name != count[1] or axis in (0, -1) for name, axis in layout.sizes):
            layout.shapes.setdefault(count[1], (extent,))
        return
    size = _size(asked)
    if size is None or layout.sizes.get(size):
        return
    tensor, axis = size
    layout.sizes[size] = extent
    shape = list(layout.shapes.get(tensor, ()))
    if -len(shape) <= axis < len(shape) and not layout.sizes.get((tensor, axis - len(shape))):
        if extent.isdecimal():  # the check is more exact than a comment
            shape[axis] = extent
            layout.shapes[tensor] = tuple(shape)
        return
    _complete(layout, stated, tensor)


def _guess(layout: TensorShapes, tensor: str, stated: Stated, dims: Sequence[str]) -> None:
    """Where only some extents are known, the likeliest shape with these."""
    axes = {axis: extent for (name, axis), extent in layout.sizes.items() if name == tensor}
    rank = stated.ranks.get(tensor) or max((a + 1 if a >= 0 else -a for a in axes), default=0)
    if tensor in layout.shapes or not rank or not dims:
        return
    last = dims[-1] if axes or rank > 1 or tensor.lower() in PER_COLUMN else dims[0]
    usual = (*(dims[:1] if rank > 1 else ()), *("1",) * (rank - 2), last)
    layout.shapes[tensor] = tuple(
        axes.get(place) or axes.get(place - rank) or usual[place] for place in range(rank)
    )
    layout.doubts[tensor] = PARTLY if axes else GUESSED


def _by_rank(layout: TensorShapes, tensors: Sequence[str], stated: Stated) -> None:
    """Where only checks speak of sizes, each axis is a dim, but for those that a check equates."""
    for tensor in tensors:
        axes = range(stated.ranks.get(tensor, 0))
        if axes and tensor not in layout.shapes:
            layout.shapes[tensor] = tuple(f"{tensor.strip('_')}_{axis}" for axis in axes)
    for sides in stated.equal:
        sizes = [size for size in map(_size, sides) if size and layout.extent(*size)]
        if len(sizes) == 2 and sizes[0] != sizes[1]:
            (tensor, axis), other = sorted(sizes, key=lambda s: -tensors.index(s[0]))
            shape = list(layout.shapes[tensor])
            shape[axis] = layout.extent(*other)
            layout.shapes[tensor] = tuple(shape)


def _like_another(layout: TensorShapes, tensor: str) -> None:
    """A gradient has the shape of what it is the gradient of, a result often that of the input,
    v_merged that of v_a and v_b."""
    if tensor in layout.shapes:
        return
    if not (like := _LIKE.fullmatch(tensor)):
        stem = tensor.rpartition("_")[0]
        named = {s for name, s in layout.shapes.items() if name.rpartition("_")[0] == stem}
        if stem and len(named) == 1:
            layout.shapes[tensor] = named.pop()
            layout.doubts[tensor] = GUESSED
        return
    names = ("x", "input", "inp", "u") if like["result"] else (like["of"], f"{like['of']}_")
    shape = next((layout.shapes[name] for name in names if name in layout.shapes), ())
    if shape and all(_NAME.fullmatch(extent) or not like["result"] for extent in shape):
        layout.shapes[tensor] = shape
        layout.doubts[tensor] = GUESSED


def _size(text: str) -> tuple[str, int] | None:
    match = re.fullmatch(
        r"(\w+)(?:\.|->)(?:size\((-?\d+)\)|sizes\(\)\[(-?\d+)\]|shape\(?\)?\[(-?\d+)\])", text
    )
    return (match[1], int(match[2] or match[3] or match[4])) if match else None


def expression(layout: TensorShapes, text: str, known: set[str]) -> str:
    """C++ text of integers, known names and known sizes as an expression of task.toml, or ""."""
    text = re.sub(r"static_cast<[\w:]+>|\(int\)", "", text.replace(" ", ""))

    def put(match: re.Match[str]) -> str:
        size = _size(match[0])
        extent = layout.extent(*size) if size else ""
        return extent if extent and re.fullmatch(r"\w+", extent) else f"({extent})"

    text = re.sub(
        r"\w+(?:\.|->)(?:size\(-?\d+\)|sizes\(\)\[-?\d+\]|shape\(?\)?\[-?\d+\])", put, text
    )
    text = re.sub(r"(\w+)(?:\.|->)numel\(\)", lambda m: _product(layout, m[1]) or m[0], text)
    text = re.sub(r"(?<!/)/(?!/)", "//", text)
    whole = re.fullmatch(r"[\w+*/()-]+", text) and "()" not in text
    names = re.findall(r"[A-Za-z_]\w*", text)
    return text if whole and all(name in known for name in names) else ""


def _product(layout: TensorShapes, tensor: str) -> str:
    """How many elements a tensor has; "" where it is not known."""
    return "*".join(
        e if re.fullmatch(r"\w+", e) else f"({e})" for e in layout.shapes.get(tensor, ())
    )


def contiguous(shape: Shape) -> Shape:
    """Strides of a dense tensor as expressions."""
    strides, inner = [], list[str]()
    for extent in reversed(shape):
        strides.append("*".join(inner) or "1")
        inner.insert(0, extent if re.fullmatch(r"\w+", extent) else f"({extent})")
    return tuple(reversed(strides))


def with_stride(parameter: str, tensors: Sequence[str]) -> str:
    """The tensor in which a parameter of this name is a distance: x_stride, stride_x, x_stride_0,
    ldx; "" where there is none. The longest name counts: key_cache_stride is not key's."""
    found = (t for t in tensors if re.fullmatch(_STRIDE.format(t=re.escape(t)), parameter))
    return max(found, key=len, default="")


def strides_of(shape: Shape, asked: set[int]) -> Shape:
    """Free where the code asks for a stride, and outside of it, but for the innermost axis; else
    what is dense inside; () where all is dense."""
    axes = {axis if axis >= 0 else axis + len(shape) for axis in asked}
    last = max((axis for axis in axes if 0 <= axis < len(shape) - 1), default=-1)
    dense = contiguous(shape)
    return ("free",) * (last + 1) + dense[last + 1 :] if last >= 0 else ()
