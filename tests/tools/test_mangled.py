"""Names as nvcc mangles them."""

from __future__ import annotations

import pytest

from astra_chat.tools.mangled import kernel_name


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z4siluPf", "silu"),
        ("_Z11silu_kernelI6__halfLi4EEvPKT_PS1_i", "silu_kernel"),
        ("_ZN4mine4siluI6__halfEEvPKT_", "silu"),
        ("_ZN12_GLOBAL__N_14siluEPf", "silu"),
        ("_ZL4siluPf", "silu"),
        ("silu", "silu"),
        ("_Z", "_Z"),
        ("_Z999silu", "_Z999silu"),
        ("_ZN9999999999999999999999x", "_ZN9999999999999999999999x"),
    ],
)
def test_a_reader_sees_the_name_that_the_source_has(mangled: str, name: str) -> None:
    assert kernel_name(mangled) == name
