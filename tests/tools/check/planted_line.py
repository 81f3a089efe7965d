"""A fault in the launcher of silu_and_mul: a line before the launch."""

from __future__ import annotations

HEAD = "int dtype, cudaStream_t stream) {"


def planted(source: str, line: str) -> str:
    """`line` sees `tokens` and `d` as the caller passes them."""
    assert source.count(HEAD) == 1
    return source.replace(HEAD, f"{HEAD}\n  {line}")
