"""Numbers of host code: literals of the source, and constants of a built object."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from astra_chat.tools.check.known_numbers import HostNumber, object_numbers, source_numbers

CODE = """
typedef long long int64;
extern "C" int f(int64 tokens, int d, float eps) {
  if (tokens == 70001) return 1;
  if (d == 37 * 9 + 4000) return 2;
  if (eps == 1.5e-4f) return 3;
  switch (d) { case 5003: return 4; case 5009: return 5; }
  return tokens > 123457 ? 6 : 0;
}
"""


def compared(text: str) -> set[float]:
    return {one.value for one in source_numbers(text) if one.compared}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("if (tokens == 333) return;", 333),
        ("if (333 >= tokens) return;", 333),
        ("switch (d) { case 4096: break; }", 4096),
        ("if (n < 0x1'000u) return;", 4096),
        ("if (n > 4 * 1024 * 2) return;", 8192),
        ("if (n != 1 << 12) return;", 4096),
        ("if (eps == 1e-4f) return;", 1e-4),
        ("if (n == (77)) return;", 77),
    ],
)
def test_literals_of_comparisons_are_read(text: str, number: float) -> None:
    assert number in compared(text)


def test_other_literals_come_behind() -> None:
    found = list(source_numbers("constexpr int kFew = 129; if (n == 7) f(kFew, a0, 3.5f);"))
    assert [one.value for one in found] == [7, 129, 7, 3.5]
    assert not found[1].compared and found[3].floating


def test_a_rest_has_its_divisor() -> None:
    found = list(source_numbers("if (tokens % 97 == 13) return;"))
    assert HostNumber(13.0, False, True, 97) in found


def test_bounds_are_told_apart() -> None:
    one, other = (next(source_numbers(f"if (n {sign} 99) return;")) for sign in ("==", ">="))
    assert not one.ordered and other.ordered


def test_strings_and_shifts_are_no_comparisons() -> None:
    assert not compared('f("n == 5"); // n == 6\n g(a << 7, b >> 9, "x");')


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_constants_of_a_built_object_are_read(tmp_path: Path) -> None:
    (tmp_path / "f.cpp").write_text(CODE)
    command = ["g++", "-O3", "-c", str(tmp_path / "f.cpp"), "-o", str(tmp_path / "f.o")]
    subprocess.run(command, check=True)
    found = list(object_numbers((tmp_path / "f.o").read_bytes()))
    integers = {one.value for one in found if not one.floating}
    assert {70001, 4333, 5003, 5009} <= integers
    assert integers & {123456, 123457, 123458}, "a bound, or the number beside it"
    assert any(one.floating and abs(one.value - 1.5e-4) < 1e-9 for one in found)


def test_no_object_gives_nothing() -> None:
    assert not list(object_numbers(b"no ELF"))
