"""Dtypes of tensors: their names, sizes and codes. Imports nothing of ours."""

from __future__ import annotations

from typing import Literal, get_args

DTypeName = Literal[
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int8",
    "uint8",
    "int32",
    "int64",
    "bool",
    "float8_e8m0fnu",
]

DTYPES: tuple[DTypeName, ...] = get_args(DTypeName)
ITEM_BYTES: dict[str, int] = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "int64": 8,
    "bool": 1,
    "float8_e8m0fnu": 1,
}
DTYPE_CODES: dict[str, int] = {name: code for code, name in enumerate(DTYPES)}
"""What a launcher is told of a dtype: its `dtype` argument, and one for each further variable."""


UNSIGNED_POWERS: DTypeName = "float8_e8m0fnu"
"""Scales of the MX formats: powers of two, without sign and zero."""


def is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


C_TYPES: dict[DTypeName, str] = {
    "float32": "float",
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float8_e4m3fn": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "bool": "bool",
    "float8_e8m0fnu": "__nv_fp8_e8m0",
}
"""Element types of CUDA's headers."""
