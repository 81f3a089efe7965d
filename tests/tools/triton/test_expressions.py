"""A launcher's arithmetic in C++ gives what Python gives."""

from __future__ import annotations

import ast
import itertools
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from astra_chat.tools.triton.expressions import HELPERS, Cpp, LauncherNames, NotAllowed, kind_of
from astra_chat.tools.triton.variants import next_power_of_2
from astra_chat.tools.types import DTYPE_CODES
from astra_vgpu.ground.toolkit import find_compiler

NAMES = LauncherNames(
    {"a": "int", "b": "int", "s": "float", "flag": "bool", "x": "pointer"},
    {"x": "T"},
    {"T": "dtype"},
)
EXPRESSIONS = [
    "a + b * 3 - 7",
    "a // b",
    "a % b",
    "-a // b",
    "(a - 50) % b",
    "a / b",
    "triton.cdiv(a, b)",
    "triton.next_power_of_2(a)",
    "min(a, b, 5)",
    "max(a * s, b)",
    "a if a < b <= 40 else b",
    "4 if flag and not a == b or b != 3 else 8",
    "1 if x.dtype == tl.float16 else 2",
    "1 if x is None else 2",
    "a * 1000000000000",
]


def values(text: str, a: int, b: int) -> float:
    functions = SimpleNamespace(cdiv=lambda m, n: -(-m // n), next_power_of_2=next_power_of_2)
    names = {"a": a, "b": b, "s": 0.25, "flag": True, "triton": functions, "min": min, "max": max}
    names |= {"x": SimpleNamespace(dtype="half"), "tl": SimpleNamespace(float16="half")}
    return float(eval(text, {"__builtins__": {}}, names))


def test_cpp_and_python_agree(tmp_path: Path) -> None:
    cpp = Cpp(NAMES, dict.fromkeys(NAMES.kinds))
    texts = [cpp.text(ast.parse(text, mode="eval").body) for text in EXPRESSIONS]
    pairs = list(itertools.product((0, 1, 7, 16, 40, 129), (1, 3, 16)))
    body = "".join(f'    printf("%.17g ", static_cast<double>({text}));\n' for text in texts)
    (tmp_path / "t.cc").write_text(
        "#include <algorithm>\n#include <cstdint>\n#include <cstdio>\n"
        + HELPERS
        + "void show(int64_t a, int64_t b, float s, bool flag, int dtype, const void* x) {\n"
        + f'{body}    printf("\\n");\n}}\nint main() {{\n'
        + "".join(
            f"  show({a}, {b}, 0.25f, true, {DTYPE_CODES['float16']}, &main);\n".replace(
                "&main", "reinterpret_cast<const void*>(1)"
            )
            for a, b in pairs
        )
        + "}\n"
    )
    command = [str(find_compiler()), "-x", "c++", "-o", "t", "t.cc", "-lstdc++"]
    subprocess.run(command, cwd=tmp_path, check=True)
    shown = subprocess.run([tmp_path / "t"], capture_output=True, text=True, check=True).stdout
    for (a, b), line in zip(pairs, shown.splitlines(), strict=True):
        assert [*map(float, line.split())] == [values(text, a, b) for text in EXPRESSIONS], (a, b)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a.real", "write integers"),
        ("a ** b", "write integers"),
        ("s // a", "only for integers"),
        ("a if a else b", "this is int, but bool is needed"),
        ("x + 1", "a number is needed"),
        ("min(a)", "wrong number of arguments"),
        ("triton.cdiv(a, b=b)", "write integers"),
        ("c", "c is not defined"),
        ("a is None", "pointer is needed"),
        ("x.dtype < tl.float16", "write integers"),
        ("1e400", "write integers"),
        ("99999999999999999999", "write integers"),
    ],
)
def test_other_expressions_are_refused(text: str, words: str) -> None:
    with pytest.raises(NotAllowed, match=words.replace("(", r"\(")):
        kind_of(ast.parse(text, mode="eval").body, NAMES)
