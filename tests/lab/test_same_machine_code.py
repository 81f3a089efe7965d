"""Recorded kernels compile to the same code as written and as judged."""

from __future__ import annotations

import pytest

from lab.same_machine_code import compared, recorded


@pytest.mark.second_tier
@pytest.mark.parametrize("place", range(6))
def test_recorded_kernels_compile_to_equal_objects(place: int) -> None:
    kernels = recorded(attacks=True)
    assert compared(kernels[place * len(kernels) // 6]) == "same"
