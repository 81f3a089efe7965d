"""Rows as a Parquet file whose schema follows from the row's type. pyarrow comes with the extra
`analysis`."""

from __future__ import annotations

import io
import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

from astra_chat.tools.field_notes import field_notes
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import MissingDependency

try:
    import pyarrow as pa
    from pyarrow import parquet
except ImportError:
    raise MissingDependency("Parquet needs pyarrow: pip install 'astra-chat[analysis]'") from None

SCALARS = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def parquet_bytes(kind: type[Value], rows: Sequence[Value], about: dict[str, str]) -> bytes:
    """All rows as one file, with typed columns also where there are none. `about` is kept in the
    file's metadata, and each column has its description."""
    schema = schema_of(kind).with_metadata(about)
    table = pa.Table.from_pylist([row.model_dump() for row in rows], schema=schema)
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def schema_of(kind: type[Value]) -> Any:
    """Columns of a row."""
    fields, notes = [], field_notes(kind)
    for name, field in kind.model_fields.items():
        column = pa.field(name, arrow_type(field.annotation))
        about = {"description": notes[name]} if name in notes else None
        fields.append(column.with_metadata(about))
    return pa.schema(fields)


def arrow_type(annotation: Any) -> Any:
    """Returns the Arrow type of what rows are made of: scalars, choices of words, rows in rows,
    tuples of one type, each perhaps missing."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        (one,) = (argument for argument in arguments if argument is not types.NoneType)
        return arrow_type(one)
    if origin is Literal:
        return pa.string()
    if origin is tuple:
        return pa.list_(arrow_type(arguments[0]))
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return pa.struct(
            [(n, arrow_type(f.annotation)) for n, f in annotation.model_fields.items()]
        )
    return SCALARS[annotation]
