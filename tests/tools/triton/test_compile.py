"""Triton's compiler in its process: machine code, its own words, and the sandbox around it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from astra_chat.tools.triton import compile as compiling
from astra_chat.tools.triton.compile import NotCompiled, Variant, compiled_each
from astra_chat.tools.triton.ptx import entry_of
from astra_vgpu.ground.errors import MissingDependency

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + places, tl.load(x + places, mask=places < n) * 2.0, mask=places < n)
"""
VARIANT = Variant({"x": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 128}, 4)


def many(count: int) -> list[tuple[str, Variant]]:
    """So many compilations; several processes share them."""
    blocks = [2 ** (4 + n % 6) for n in range(count)]
    return [("double", Variant(VARIANT.signature, {"BLOCK": n}, 1)) for n in blocks]


@pytest.mark.skipif(find_spec("triton") is not None, reason="Triton is installed")
def test_without_triton_one_line_says_what_to_do() -> None:
    with pytest.raises(MissingDependency, match="pip install triton") as raised:
        compiled_each(SOURCE, [("double", VARIANT)])
    assert "\n" not in str(raised.value)


@needs_triton
@pytest.mark.second_tier
def test_machine_code_of_a_variant() -> None:
    (made,) = compiled_each(SOURCE, [("double", VARIANT)])
    entry = entry_of(made.ptx, 2)
    assert entry.operands == ("l", "r") and not entry.shared and made.shared_bytes == 0
    assert any("ld.global" in line for line in entry.body)


@needs_triton
@pytest.mark.second_tier
def test_answers_of_several_processes_keep_the_order() -> None:
    asked = many(2 * compiling.LEAST_A_CHILD + 1)
    made = [one.ptx for one in compiled_each(SOURCE, asked)]
    code = [entry_of(one, 2) for one in made]
    assert code[:6] == code[6:12] and len(set(code)) == 6


@needs_triton
@pytest.mark.second_tier
def test_products_and_sums_are_fused_where_that_is_wanted() -> None:
    source = SOURCE.replace("* 2.0,", "* 2.0 + 1.0,")
    plain, fused = (
        compiled_each(source, [("double", VARIANT)], fusion=fusion)[0].ptx
        for fusion in (False, True)
    )
    assert "fma.rn.f32" in fused and "fma.rn.f32" not in plain


@needs_triton
@pytest.mark.second_tier
def test_triton_s_own_words_are_the_reason() -> None:
    with pytest.raises(NotCompiled, match=r"tl.dott(.|\n)*dott"):
        compiled_each(SOURCE.replace("tl.load(", "tl.dott("), [("double", VARIANT)])


@needs_triton
@pytest.mark.second_tier
@pytest.mark.parametrize(
    "line",
    [
        "open('{folder}/made', 'w')",
        "open('{folder}/known').read()",
        "__import__('socket').create_connection(('127.0.0.1', 9), 1)",
    ],
)
def test_what_the_file_does_stays_in_the_sandbox(tmp_path: Path, line: str) -> None:
    """What the guard refuses is harmless, too."""
    (tmp_path / "known").write_text("secret")
    with pytest.raises(NotCompiled, match="Error"):
        compiled_each(SOURCE + line.format(folder=tmp_path) + "\n", [("double", VARIANT)])
    assert not (tmp_path / "made").exists()


@needs_triton
@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import os; os._exit(0)", "exit status 0"),
        ("import os; os.kill(os.getpid(), 9)", "exit status"),
        ("import json, atexit; json.dumps = lambda _: '[]'", "answered 0 of 1"),
        ("import json; json.dumps = lambda _: '[{\"ptx\": 3}]'", "cannot be read"),
    ],
)
def test_an_answer_that_is_none_is_a_reason(line: str, words: str) -> None:
    with pytest.raises(NotCompiled, match=words):
        compiled_each(f"{SOURCE}{line}\n", [("double", VARIANT)])
