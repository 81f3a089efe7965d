"""Headers come along from wherever they lie, each once, and are included as they then lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.new.headers import TAKEN, gathered
from astra_vgpu.ground.errors import BadInput


def tree(folder: Path, files: dict[str, str]) -> Path:
    """Files of a project; the kernel among them."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "ops/kernel.cu"


def test_from_folders_below_and_above(tmp_path: Path) -> None:
    kernel = tree(
        tmp_path,
        {
            "ops/kernel.cu": '#include <cstdint>\n  #  include "inc/vec.cuh" // ours\n'
            '#include "../common/math.h"\n#include "torch/extension.h"\nint x;\n',
            "ops/inc/vec.cuh": '#pragma once\n#include "deep/types.h"\n'
            '#include "../../common/math.h"\n',
            "ops/inc/deep/types.h": "using i64 = long long;\n",
            "common/math.h": '#pragma once\n#include "../ops/inc/vec.cuh"\n',
        },
    )
    given = gathered([kernel])
    source, headers = given.source, given.headers
    assert source == (
        '#include <cstdint>\n  #  include "vec.cuh" // ours\n#include "math.h"\n'
        '#include "torch/extension.h"\nint x;\n'
    )
    assert headers == {
        "math.h": '#pragma once\n#include "vec.cuh"\n',
        "types.h": "using i64 = long long;\n",
        "vec.cuh": '#pragma once\n#include "types.h"\n#include "math.h"\n',
    }


def test_two_of_one_name(tmp_path: Path) -> None:
    kernel = tree(
        tmp_path,
        {
            "ops/kernel.cu": '#include "a/util.h"\n#include "b/util.h"\n#include "a/kernel.cu"\n',
            "ops/a/util.h": "int a;\n",
            "ops/b/util.h": "int b;\n",
            "ops/a/kernel.cu": "int c;\n",
        },
    )
    assert "kernel.cu" in TAKEN
    given = gathered([kernel])
    source, headers = given.source, given.headers
    assert source == '#include "util.h"\n#include "b_util.h"\n#include "a_kernel.cu"\n'
    assert headers == {"util.h": "int a;\n", "b_util.h": "int b;\n", "a_kernel.cu": "int c;\n"}


def test_what_needs_the_framework_stands_in_the_source(tmp_path: Path) -> None:
    """Kernel and binding in files of their own, with a header of declarations between them."""
    kernel = tree(
        tmp_path,
        {
            "ops/kernel.cu": '#include "ops.h"\n#include "plain.h"\nint kernel;\n',
            "ops/ext.cpp": '#include "all.h"\n#include "ops.h"\nint binding;\n',
            "ops/ops.h": "#pragma once\n#include <torch/extension.h>\nint declared;\n",
            "ops/all.h": '#include "ops.h"\n#include "plain.h"\nint all;\n',
            "ops/plain.h": "int p;\n",
        },
    )
    given = gathered([kernel, kernel.parent / "ext.cpp"])
    source, headers = given.source, given.headers
    assert headers == {"plain.h": "int p;\n"}
    words = [line for line in source.splitlines() if line.strip()]
    assert words == [
        "#include <torch/extension.h>",
        "int declared;",
        '#include "plain.h"',
        "int kernel;",
        '#include "plain.h"',
        "int all;",
        "int binding;",
    ]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('\n#include "mine.cuh"\n', r'line 2: it includes "mine\.cuh", and .* is not there'),
        ('#include "there.h"\n', r'there\.h, line 1: it includes "lost\.h"'),
        ('#include "a name.h"\n', r"the name a name\.h will not do"),
        ('#include "binary.h"\n', r"cannot read .*binary\.h: it is not text"),
        ('#include "x/u.h"\n#include "y/x/u.h"\n#include "z/x/u.h"\n', r"two files are called"),
    ],
)
def test_what_cannot_come_along(tmp_path: Path, source: str, words: str) -> None:
    kernel = tree(
        tmp_path,
        {
            "ops/kernel.cu": source,
            "ops/there.h": '#include "lost.h"\n',
            "ops/a name.h": "",
            "ops/x/u.h": "1",
            "ops/y/x/u.h": "2",
            "ops/z/x/u.h": "3",
        },
    )
    (tmp_path / "ops/binary.h").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match=words):
        gathered([kernel])


def test_lines_are_those_of_their_files(tmp_path: Path) -> None:
    kernel = tree(
        tmp_path,
        {
            "ops/kernel.cu": 'int a;\n#include "ops.h"\nint b;\n#include "plain.h"\nint c;\n',
            "ops/ops.h": "#pragma once\n#include <torch/extension.h>\nint d;\n",
            "ops/plain.h": "int p;\n",
            "ops/ext.cpp": "int e;\nint f;\n",
        },
    )
    given = gathered([kernel, kernel.parent / "ext.cpp"])
    lines = given.source.splitlines()
    places = {text: given.place(number) for number, text in enumerate(lines, 1) if text}
    assert places["int d;"] == "ops.h, line 3" and places["int b;"] == "kernel.cu, line 3"
    assert places["int c;"] == "kernel.cu, line 5" and places["int f;"] == "ext.cpp, line 2"
