"""A probe stands at the start of the block that a change is in, where a statement may stand."""

from __future__ import annotations

import pytest

from astra_chat.tools.mutation.mutants import HEADER, STOP, probe

SOURCE = """
struct Pair { int a; int b = 1; };
__global__ void kernel(float* out, int n) {
  int sizes[] = {1, 2};
  if (n > 3) {
    out[0] = n + 1;
  } else out[1] = n + 2;
  switch (n) {
    case 7: out[2] = n + 3; break;
    default: { out[3] = n + 4; }
  }
  auto f = [&] { out[4] = n + 5; };
}
"""


@pytest.mark.parametrize(
    ("old", "before"),
    [
        ("n + 1", "if (n > 3) {"),
        ("n + 2", "float* out, int n) {"),
        ("n + 3", "case 7:"),
        ("n + 4", "default: {"),
        ("n + 5", "[&] {"),
        ("{1, 2}", "float* out, int n) {"),
    ],
)
def test_places(old: str, before: str) -> None:
    changed = SOURCE.replace(old, old.replace("n", "m").replace("1, 2", "9, 2"))
    found = probe(SOURCE, changed)
    assert found == HEADER + SOURCE.replace(before, f"{before} {STOP}")


def test_what_stands_in_no_block_has_no_probe() -> None:
    assert probe(SOURCE, SOURCE.replace("b = 1", "b = 2")) is None
    assert probe("int x = 1;", "int x = 2;") is None
