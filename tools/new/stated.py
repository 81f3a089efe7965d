"""What a source states in words: shapes in comments, conditions in checks such as TORCH_CHECK."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from astra_chat.tools.new.aliases import aliases, without_aliases
from astra_chat.tools.new.source import Function, Piece, closing
from astra_chat.tools.new.tensor_matcher import matched
from astra_chat.tools.types import DTypeName

Shape = tuple[str, ...]

CHECKS = re.compile(
    r"(TORCH_(INTERNAL_ASSERT|CHECK)\w*|CHECK\w*|AT_(ASSERT|CHECK)\w*|TVM_FFI_I?CHECK\w*"
    r"|STD_TORCH_CHECK\w*|RuntimeCheck|FLASHINFER_CHECK\w*|assert)"
)
_BRACKETS = re.compile(r"\[([^\[\]\n]*)\]|\(((?:[^()\n]|\([^()\n]*\))*,(?:[^()\n])*)\)")
_EXTENT = re.compile(r"[a-z0-9_+*/()\- ]+")
_AFTER_PARAMETER = re.compile(
    r"[ \t]*[,)]?[ \t]*\{?[ \t]*(//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/)", re.DOTALL
)
_SIDES = re.compile(r"(.+?)(==|<=|>=|!=|<|>)(.+)")
_ABSENT = re.compile(r"!\w+(?:(?:\.|->)(?:has_value|defined)\(\))?|\w+==(?:std::)?nullopt")
_DTYPE = re.compile(r"(\w+)(?:\.|->)(?:scalar_type|dtype)\(\)")
DTYPE_WORDS: dict[str, DTypeName] = {
    "Float": "float32", "Float32": "float32", "Half": "float16", "Float16": "float16",
    "BFloat16": "bfloat16", "Float8_e4m3fn": "float8_e4m3fn", "Float8_e5m2": "float8_e5m2",
    "Char": "int8", "Int8": "int8", "Byte": "uint8", "UInt8": "uint8", "Int": "int32",
    "Int32": "int32", "Long": "int64", "Int64": "int64", "Bool": "bool", "dl_int32": "int32",
    "dl_int64": "int64", "dl_float16": "float16", "dl_bfloat16": "bfloat16",
    "dl_float32": "float32",
}  # fmt: skip
"""A framework's names of dtypes, without what stands before them."""


@dataclass
class Stated:
    """What was found; sides of equations as text without blanks."""

    comments: dict[str, list[Shape]] = field(default_factory=dict)
    """Parameter: the shapes that comments give it, "..." for extents that they leave open."""
    ranks: dict[str, int] = field(default_factory=dict)
    equal: list[tuple[str, str]] = field(default_factory=list)
    alike: list[tuple[str, str]] = field(default_factory=list)
    """Tensors of the same shape."""
    dtypes: dict[str, tuple[DTypeName, ...]] = field(default_factory=dict)
    same_dtype: list[tuple[str, str]] = field(default_factory=list)
    multiples: list[tuple[str, int]] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    """Other comparisons: "rot_dim<=head_size"."""


def stated(function: Function, source: str, pieces: Sequence[Piece]) -> Stated:
    """Read the comments at a function's parameters and before it, and the checks in its body."""
    found = Stated(comments=comment_shapes(function, source))
    for tensor, shape, dtypes in matched(source[function.start : function.end]):
        found.comments[tensor] = [shape]
        if dtypes:
            found.dtypes[tensor] = dtypes
    first_names = aliases(function, pieces)
    tensors = {parameter.name for parameter in function.parameters}
    for name, arguments in _checks(function, pieces):
        arguments = [without_aliases(text, first_names) for text in arguments]
        if name.endswith("SHAPE") and tensors.intersection(arguments) == {arguments[0]}:
            _read_shape(found, arguments)
        else:
            _read_check(found, name, arguments)
    return found


def _read_shape(found: Stated, arguments: Sequence[str]) -> None:
    """CHECK_SHAPE(x, rows, d): what a comment could say."""
    shape = tuple(extent(text) for text in arguments[1:])
    if all(shape):
        found.comments.setdefault(arguments[0], [shape])


def comment_shapes(function: Function, source: str) -> dict[str, list[Shape]]:
    """Shapes of each parameter, by name, from the comment behind it, or after its name in a comment
    before the function or in its body."""
    shapes: dict[str, list[Shape]] = {}
    inside = re.findall(r"//[^\n]*", source[function.start : function.end])
    before = "\n".join([_before(function, source), *inside])
    for parameter in function.parameters:
        comment = _AFTER_PARAMETER.match(source, parameter.end)
        text = comment[1] if comment else ""
        if not (own := list(_shapes_in(text))) and parameter.name:
            named = re.search(
                rf"\b{re.escape(parameter.name)}\b[`\"']?\s*(?:[:=\-]|is|has shape|of shape)?\s*"
                r"(?:(?:an?\s+)?(?:\w+\s+)?tensor\s+of\s+)?(?:shape)?\s*:?\s*([\[(][^\n]*)",
                before,
            )
            own = list(_shapes_in(named[1]))[:1] if named else []
        if own:
            shapes[parameter.name] = own
    return shapes


def _before(function: Function, source: str) -> str:
    """The text of the comments right before a function."""
    above = source[: function.start].rstrip()
    if above.endswith("*/"):
        return above[above.rindex("/*") :]
    lines: list[str] = []
    for line in reversed(source[: function.start].splitlines()):
        stripped = line.strip()
        if not stripped.startswith(("//", "*", "/*")) and not stripped.endswith("*/"):
            if stripped or lines:
                break
            continue
        lines.append(stripped.strip("/* "))
    return "\n".join(reversed(lines))


def _shapes_in(text: str) -> Iterator[Shape]:
    for match in _BRACKETS.finditer(text):
        parts = _split(match[1] if match[1] is not None else match[2])
        shape = tuple(extent(part) for part in parts)
        if shape and all(shape):
            yield shape


def _split(text: str, sign: str = ",") -> list[str]:
    """Splits at a sign that stands in no bracket."""
    parts, deep = [""], 0
    for letter in text:
        deep += (letter == "(") - (letter == ")")
        parts[-1] += letter
        if deep == 0 and parts[-1].endswith(sign):
            parts[-1] = parts[-1].removesuffix(sign)
            parts.append("")
    return parts


def extent(text: str) -> str:
    """An extent in a comment as one of task.toml; "" where it is none, "..." where it is open."""
    text = text.strip().strip("`'\"").replace("...", "…")
    if text in ("…", "*"):
        return "..."
    text = text.lower()
    if not _EXTENT.fullmatch(text) or re.search(r"[a-z0-9_]\s+[a-z0-9_]", text):
        return ""
    return re.sub(r"/+", "//", text.replace(" ", ""))


def _checks(function: Function, pieces: Sequence[Piece]) -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of each check in a body, arguments without blanks."""
    for index in range(function.body, function.close):
        if CHECKS.fullmatch(pieces[index].text) and pieces[index + 1].text == "(":
            inner = pieces[index + 2 : closing(pieces, index + 1)]
            yield pieces[index].text, _split("".join(p.text for p in inner))


def _read_check(found: Stated, name: str, arguments: Sequence[str]) -> None:
    if not arguments:
        return
    if name.endswith(("CHECK_DIM", "_DIM")) and len(arguments) == 2 and arguments[0].isdecimal():
        found.ranks[arguments[1]] = int(arguments[0])
    elif name.endswith("SHAPE") and len(arguments) == 2:
        found.alike.append((arguments[0], arguments[1]))
    elif name.endswith("_TYPE") and len(arguments) == 2 and (dtype := _named(arguments[1])):
        found.dtypes[arguments[0]] = (dtype,)
    elif comparison := re.search(r"_(EQ|LE|LT|GE|GT)$", name):
        if len(arguments) >= 2:
            sign = {"EQ": "==", "LE": "<=", "LT": "<", "GE": ">=", "GT": ">"}[comparison[1]]
            _read_condition(found, f"{arguments[0]}{sign}{arguments[1]}")
    else:
        _read_condition(found, arguments[0])


def _read_condition(found: Stated, condition: str) -> None:
    condition = _unwrapped(condition)
    if len(parts := _split(condition, "||")) > 1:
        _read_alternatives(found, parts)
        return
    if len(parts := _split(condition, "&&")) > 1:
        for part in parts:
            _read_condition(found, part)
        return
    sides = _SIDES.fullmatch(condition)
    if sides is None:
        return
    left, sign, right = (_unwrapped(sides[1]), sides[2], _unwrapped(sides[3]))
    if "?" in condition or sign == "!=":
        return
    if sign == "==" and _read_equation(found, left, right):
        return
    if re.search(r"[\"'{}]|\.|->|::", left + right) is None:
        found.relations.append(f"{left}{sign}{right}")


def _read_equation(found: Stated, left: str, right: str) -> bool:
    """Whether `left == right` says something of ranks, dtypes, shapes or sizes."""
    if rank := re.fullmatch(r"(\w+)(?:\.|->)(?:dim|ndim|ndimension)\(?\)?", left):
        if right.isdecimal():
            found.ranks[rank[1]] = int(right)
        return True
    if tensor := _DTYPE.fullmatch(left):
        if other := _DTYPE.fullmatch(right):
            found.same_dtype.append((tensor[1], other[1]))
        elif dtype := _named(right):
            found.dtypes[tensor[1]] = (dtype,)
        return True
    whole = r"(\w+)(?:\.|->)(?:sizes|shape)\(\)"
    if (a := re.fullmatch(whole, left)) and (b := re.fullmatch(whole, right)):
        found.alike.append((a[1], b[1]))
        return True
    if (by := re.fullmatch(r"(.+)%(\d+)", left)) and right == "0":
        found.multiples.append((by[1], int(by[2])))
        return True
    if re.search(r"(?:size|shape|numel)\w*\(?", left + right):
        found.equal.append((left, right))
        return True
    return False


def _read_alternatives(found: Stated, parts: Sequence[str]) -> None:
    """Reads dtypes from alternatives: x.scalar_type() == kHalf || x.scalar_type() == kBFloat16."""
    asked = [part for part in parts if not _ABSENT.fullmatch(_unwrapped(part))]
    if len(asked) == 1 and len(parts) > 1:  # !bias || bias->numel() == n
        _read_condition(found, asked[0])
        return
    pairs = [_SIDES.fullmatch(_unwrapped(part)) for part in parts]
    tensors = {m[1] for p in pairs if p and (m := _DTYPE.fullmatch(_unwrapped(p[1])))}
    dtypes = [_named(p[3]) for p in pairs if p]
    if len(tensors) == 1 and len(dtypes) == len(parts) and all(dtypes):
        found.dtypes[tensors.pop()] = tuple(d for d in dtypes if d)


def _unwrapped(text: str) -> str:
    """The text without brackets around all of it."""
    while text.startswith("(") and text.endswith(")") and _closes_last(text):
        text = text[1:-1]
    return text


def _closes_last(text: str) -> bool:
    deep = 0
    for place, letter in enumerate(text):
        deep += (letter == "(") - (letter == ")")
        if deep == 0:
            return place == len(text) - 1
    return False


def _named(word: str) -> DTypeName | None:
    last = word.rsplit("::", 1)[-1]
    return DTYPE_WORDS.get(last) or DTYPE_WORDS.get(last.removeprefix("k"))
