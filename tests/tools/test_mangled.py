"""Names as nvcc mangles them."""

from __future__ import annotations

import pytest

from astra_chat.tools.mangled import kernel_name, last_identifier


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


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZZ12silu_and_mulE5calls", "calls"),
        (
            "_ZN39_INTERNAL_2d71fa48_9_kernel_cu_2626ddf841_GLOBAL__N__2d71fa48_9_kernel_cu_2626ddf8"
            "5tableE",
            "table",
        ),
        ("_ZN41_GLOBAL__N__2d71fa48_9_kernel_cu_2626ddf8L5tableE", "table"),
        ("_ZZ5countILi300EEvPfE4last", "last"),
        ("_ZSt4cout", "_ZSt4cout"),
        ("kept", "kept"),
    ],
)
def test_the_last_identifier_is_a_variables_own_name(mangled: str, name: str) -> None:
    assert last_identifier(mangled) == name


def test_a_name_of_thousands_of_digits_is_read_too() -> None:
    """It is a legal identifier of C, so a candidate may have it."""
    name = f"_Z{'1' * 5000}"
    assert kernel_name(name) == name
    assert last_identifier(name) == name
