"""A framework's words in those of a launcher: pointers, sizes, strides, dtypes, the stream."""

from __future__ import annotations

import re

from astra_chat.tools.new.draft import C_TYPES, Draft, Tensor, pointer
from astra_chat.tools.new.host_function import DATA, Facts
from astra_chat.tools.new.layout import contiguous

_AXIS = r"\s*(?:\(\s*(-?\d+)\s*\)|(?:\(\s*\))?\s*\[\s*(-?\d+)\s*\])"
FOREIGN = re.compile(
    r"\b(torch|at|c10|tvm|ffi|py|pybind11)\s*::|\bTensor(View)?\b|\bDLTensor\b|\bTORCH_\w+"
    r"|\bTVM_FFI\w*|\bAT_\w+|\bC10_\w+|\.(options|scalar_type|data_ptr|dtype|device|is_cuda)\b"
    r"|\bCHECK_(INPUT|CUDA|CONTIGUOUS)\w*|\bdata_ptr\b|\bDL(DataType|Device)\b|\bkDL\w+"
    r"|\b(c10::|std::)optional\b|\bdevice_of\b|\.(contiguous|to|view|reshape|sizes?|numel)\("
)
_STREAM = re.compile(
    r"(static_cast<\s*cudaStream_t\s*>\(|\(cudaStream_t\)\s*)?"
    r"((at|c10|torch)::cuda::getCurrentCUDAStream\([^()]*\)(\.stream\(\))?"
    r"|TVMFFIEnvGetStream\([^()]*(\([^()]*\)[^()]*)*\))(?(1)\)?)"
)
_DTYPE_TEST = re.compile(
    r"(\w+)\.(?:scalar_type|dtype)\(\)\s*==\s*(?:at|torch|c10)::(?:ScalarType::|k)"
    r"(BFloat16|Half|Float16|Float32|Float8_e4m3fn|Float8_e5m2|Float|Char|Byte|Int32|Int64|Int|Long"
    r"|Bool)\b"
)
_DTYPE_TYPES = {
    "BFloat16": "__nv_bfloat16",
    "Half": "__half",
    "Float16": "__half",
    "Float8_e4m3fn": "__nv_fp8_e4m3",
    "Float8_e5m2": "__nv_fp8_e5m2",
    "Char": "int8_t",
    "Byte": "uint8_t",
    "Int": "int32_t",
    "Long": "int64_t",
    "Int32": "int32_t",
    "Int64": "int64_t",
    "Bool": "bool",
}
_HALVES = (
    (re.compile(r"\b(at|c10|torch)::Half\b"), "__half"),
    (re.compile(r"\b(at|c10|torch)::BFloat16\b"), "__nv_bfloat16"),
    (re.compile(r"\b(at|c10|torch)::Float8_e4m3fn\b"), "__nv_fp8_e4m3"),
    (re.compile(r"\b(at|c10|torch)::Float8_e5m2\b"), "__nv_fp8_e5m2"),
)


def halves(text: str) -> str:
    for pattern, plain in _HALVES:
        text = pattern.sub(plain, text)
    return text


def words(draft: Draft, facts: Facts, text: str) -> str:
    """The framework's words in those of the launcher: pointers, sizes, strides, counts, stream."""
    text = _DTYPE_TEST.sub(lambda test: _dtype_test(draft, facts, test), text)
    text = _STREAM.sub("stream", halves(text))
    for tensor in draft.tensors:
        text = _pointers(tensor, text)
        text = _sizes(draft, tensor, text)
    return text


def needs_framework(draft: Draft, text: str) -> bool:
    """Whether what is left names the framework, or asks a tensor for something."""
    names = "|".join(re.escape(t.name) for t in draft.tensors)
    return bool(FOREIGN.search(text) or re.search(rf"\b(?:{names})\s*(?:\.|->)\s*\w", text))


def _dtype_test(draft: Draft, facts: Facts, test: re.Match[str]) -> str:
    """x.dtype() == kHalf as a test of the type that x has here."""
    tensor = next((t for t in draft.tensors if t.name == test[1]), None)
    names = facts.type_names(draft)
    wanted = _DTYPE_TYPES.get(test[2], "float")
    if tensor and tensor.dtype in C_TYPES:
        return "true" if C_TYPES[tensor.dtype] == wanted else "false"
    name = names.get(tensor.dtype if tensor else "T", "scalar_t")
    return f"std::is_same_v<{name}, {wanted}>"


def _pointers(tensor: Tensor, text: str) -> str:
    name = re.escape(tensor.name)

    def put(match: re.Match[str]) -> str:
        return pointer(tensor, match["element"])

    element = r"(?:const\s+)?(?P<element>[^<>()*]+?)\s*(?:const\s*)?"
    call = rf"{name}{DATA}\s*(?:<[^>()]*>)?\s*\(\s*\)"
    for pattern in (
        rf"(?:static|reinterpret)_cast<\s*{element}\*\s*>\(\s*{call}\s*\)",
        rf"\(\s*{element}\*\s*\)\s*{call}",
        rf"\b{name}{DATA}\s*<\s*{element}>\s*\(\s*\)",
    ):
        text = re.sub(pattern, put, text)
    text = re.sub(rf"\b{name}{DATA}\s*\(\s*\)", tensor.name, text)
    if tensor.optional:
        text = re.sub(
            rf"\b{name}(?:(?:\.|->)(?:has_value|defined)\(\)|\.value\(\)\.defined\(\))",
            f"({tensor.name} != nullptr)",
            text,
        )
    return text


def _sizes(draft: Draft, tensor: Tensor, text: str) -> str:
    shape, name = draft.shape_of(tensor), rf"\b{re.escape(tensor.name)}(?:\.|->)"
    whole = [extent if re.fullmatch(r"\w+", extent) else f"({extent})" for extent in shape]

    def size(match: re.Match[str]) -> str:
        axis = int(next(group for group in match.groups() if group))
        inside = -len(shape) <= axis < len(shape)
        return shape[axis].replace("//", " / ").replace("*", " * ") if inside else match[0]

    def stride(match: re.Match[str]) -> str:
        axis = int(next(group for group in match.groups() if group))
        if not -len(shape) <= axis < len(shape):
            return match[0]
        axis %= len(shape)
        strides = tensor.strides or contiguous(shape)
        free = [a for a, kind in enumerate(strides) if kind == "free"]
        if axis in free:
            return tensor.stride_names[free.index(axis)]
        return strides[axis].replace("//", " / ").replace("*", " * ")

    text = re.sub(rf"{name}(?:sizes?|shape){_AXIS}", size, text)
    text = re.sub(rf"{name}strides?{_AXIS}", stride, text)
    count = " * ".join(whole).replace("//", " / ")
    text = re.sub(rf"{name}numel\(\)", f"({count})", text)
    if tensor.shape:
        text = re.sub(rf"{name}n?dim(?:ension)?\(\)", str(len(shape)), text)
    return text
