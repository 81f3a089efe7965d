"""`.file`, `.loc` and sections: what ptxas 13.0 took and did not take."""

from __future__ import annotations

import pytest

from astra_vgpu.ptx.parser import PtxSyntaxError, parse

HEAD = ".version 9.0 .target sm_90 .address_size 64 "
BODY = (
    ".visible .entry k() { .loc 1 16 5\n .loc 2 8 5, function_name $n+1, inlined_at 1 16 5\n ret; }"
)
TAIL = '.file 1 "a.cu"\n.file 2 "b.h", 5, 6\n.section .debug_str { $n: .b8 1, 255\n .b64 $n-4 }'


def test_lines_and_sections() -> None:
    (instruction,) = parse(HEAD + BODY + TAIL).kernels["k"].body
    assert instruction.source == "b.h:8, inlined at a.cu:16"  # type: ignore[union-attr]


def test_a_function_that_is_inlined_in_its_own_file_has_the_line_of_its_call() -> None:
    (instruction,) = parse(HEAD + BODY + TAIL.replace("b.h", "b.cu")).kernels["k"].body
    assert instruction.source == "b.cu:8, inlined at a.cu:16"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("inlined_at 1 16 5", "inlined_at 1 16 6"),
        ("$n+1", "$m"),
        ("1 16 5\n", "1 -16 5\n"),
        ("1 16 5\n", "1 16\n"),
        ("function_name", "name"),
        (".file 2", ".file 1"),
        ('"a.cu"', "a.cu"),
        (".file 1", ".file -1"),
        ("1, 255", "1, 256"),
        ("1, 255", "1,,255"),
        ("1, 255", "$n"),
        ("1, 255", "1/255"),
        ("$n:", "$n: $n:"),
        (".b8", ".b7"),
        (".b64 $n-4", ".b64 $n-"),
        (".debug_str", '"debug"'),
        ("a.cu", "\u00e4.cu"),
    ],
)
def test_what_ptxas_does_not_take(old: str, new: str) -> None:
    text = HEAD + BODY + TAIL
    assert old in text
    with pytest.raises(PtxSyntaxError):
        parse(text.replace(old, new, 1))
