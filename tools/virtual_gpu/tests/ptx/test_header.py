"""The head of a text: what ptxas 13.0 took and did not take."""

from __future__ import annotations

import pytest

from astra_vgpu.ptx.parser import PtxSyntaxError, parse

REST = " .visible .entry k() { ret; }"


@pytest.mark.parametrize(
    "head",
    [
        ".version 9.0 .target sm_90 .address_size 64",
        ".version 8.0 .target sm_80",
        ".version 7.0 .target sm_70, texmode_independent .address_size 64",
        ".version 9.0 .target sm_90a .address_size 64",
        ".version 8.7 .target sm_120 .address_size 64",
        ".version 9.1 .target sm_90 .address_size 64",
    ],
)
def test_heads(head: str) -> None:
    assert parse(head + REST).target == head.split()[3].rstrip(",")


@pytest.mark.parametrize(
    "head",
    [
        "",
        ".version 9.0 .target sm_90 .address_size 32",
        ".version 9 .target sm_90 .address_size 64",
        ".version 8.9 .target sm_90 .address_size 64",
        ".version 9.192 .target sm_90 .address_size 64",
        ".version 7.7 .target sm_90 .address_size 64",
        ".version 9.0 .target sm_91 .address_size 64",
        ".version 9.0 .target sm_90f .address_size 64",
        ".version 9.0 .target debug .address_size 64",
        ".version 9.0 .target sm_90, .address_size 64",
        ".version 9.0 .target sm_90, debug .address_size 64",
        ".target sm_90 .version 9.0 .address_size 64",
    ],
)
def test_what_is_no_head(head: str) -> None:
    with pytest.raises(PtxSyntaxError):
        parse(head + REST)
