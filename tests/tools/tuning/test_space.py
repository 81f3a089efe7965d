"""What a source leaves open, and how it is said when that cannot be used."""

from __future__ import annotations

import random

import pytest

from astra_chat.tools.tuning.space import read_space
from astra_vgpu.ground.errors import BadInput

KERNEL = """\
#define ROWS 4  // tune: 1 2, 8
constexpr int kThreads = 1'024;  // tune: 64 128 256
static const unsigned kStages = 2u;
// require: ROWS * kThreads <= 4096
int use() { return ROWS + kThreads; }
"""


def test_the_points_of_a_marked_kernel() -> None:
    space = read_space(KERNEL)
    assert [(one.name, one.values, one.first) for one in space.parameters] == [
        ("ROWS", (1, 2, 8, 4), 4),
        ("kThreads", (64, 128, 256, 1024), 1024),
    ]
    points = list(space.points())
    assert points[0] == {"ROWS": 4, "kThreads": 1024} == space.first
    assert space.combinations == 16 and len(points) == 15, "8 rows of 1,024 threads are too many"
    assert len({tuple(p.items()) for p in points}) == 15


def test_a_point_is_a_source_with_other_values() -> None:
    space = read_space(KERNEL)
    assert space.at(space.first) == KERNEL.replace("1'024", "1024")
    changed = space.at({"ROWS": 8, "kThreads": 64})
    assert "#define ROWS 8  // tune: 1 2 4\n" in changed
    assert "constexpr int kThreads = 64;  // tune: 128 256 1024\n" in changed
    assert read_space(changed).first == {"ROWS": 8, "kThreads": 64}


def test_no_value_is_lost_from_point_to_point() -> None:
    """Neither what a source held and its mark leaves out, nor a mark that names all."""
    space = read_space("constexpr int kWarps = 14;  // tune: 8 16 28\n")
    assert space.at({"kWarps": 28}) == "constexpr int kWarps = 28;  // tune: 8 14 16\n"
    again = read_space(space.at({"kWarps": 28}))
    assert sorted(again.parameters[0].values) == [8, 14, 16, 28]
    whole = read_space("#define ROWS 4  // tune: 1 2, 4\n")
    assert whole.at({"ROWS": 1}) == "#define ROWS 1  // tune: 1 2, 4\n"


def test_constants_may_be_named_from_outside() -> None:
    space = read_space(KERNEL, {"kStages": [1, 2, 3], "ROWS": [2]})
    assert [one.values for one in space.parameters] == [
        (2, 4),
        (64, 128, 256, 1024),
        (1, 2, 3),
    ]
    assert "kStages = 3u;" in space.at({"ROWS": 2, "kThreads": 64, "kStages": 3})


def test_a_sample_holds_the_starting_point_and_is_the_same_again() -> None:
    space = read_space(KERNEL)
    drawn = space.drawn(6, random.Random(1))
    assert len(drawn) == 6 and drawn[0] == space.first
    assert drawn == space.drawn(6, random.Random(1)) != space.drawn(6, random.Random(2))
    assert space.drawn(100, random.Random(1)) == list(space.points())


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("int x = 3;\n", "marks no constant for tuning"),
        ("int x = y;  // tune: 1 2\n", "line 1: there is no integer constant before 'tune:'"),
        ("\nint x = 3;  // tune: 1 two\n", "line 2: '1 two' are not integers"),
        ("int x = 3;  // tune:\n", "line 1: no values"),
        (
            "int x = 3;  // tune: 1\nint x = 3;  // tune: 1\n",
            "line 2: x already has values on an earlier line",
        ),
        ("int x = 3;  // tune: 1\n// require: x <\n", "line 2: 'x <'"),
        ("int x = 3;  // tune: 1\n// require: y < 2\n", "uses y"),
        ("int x = 3;  // tune: 1\n// require: x < 2\n", "current values do not satisfy 'x < 2'"),
        (f"int x = 3;  // tune: {' '.join(map(str, range(99)))}\n", "at most 64"),
    ],
)
def test_what_cannot_be_used_is_said_with_its_line(source: str, words: str) -> None:
    with pytest.raises(BadInput) as error:
        read_space(source)
    assert words in str(error.value)


def test_a_constant_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInput, match="no constant kWarps in the kernel"):
        read_space(KERNEL, {"kWarps": [1, 2]})


TRITON = """\
import triton
ROWS = tl.constexpr(4)  # tune: 1, 2, 4


def f(x, n):
    BLOCK = 1_024  # tune: 512 2048
    # require: BLOCK * ROWS <= 4096
    g[(n // 2,)](x, BLOCK=BLOCK, num_warps=4)
"""


def test_marks_of_a_triton_file() -> None:
    space = read_space(TRITON)
    assert [(one.name, one.values) for one in space.parameters] == [
        ("ROWS", (1, 2, 4)),
        ("BLOCK", (512, 2048, 1024)),
    ]
    assert {"ROWS": 4, "BLOCK": 2048} not in list(space.points())
    text = space.at({"ROWS": 1, "BLOCK": 2048})
    assert "ROWS = tl.constexpr(1)  # tune: 1, 2, 4" in text
    assert "BLOCK = 2048  # tune: 512 1024" in text and "(n // 2,)" in text
    with pytest.raises(BadInput, match=r"line 8: .* write 'NAME = 256  # tune: 64 128 256'"):
        read_space(TRITON.replace("num_warps=4)", "num_warps=4)  # tune: 1"))
