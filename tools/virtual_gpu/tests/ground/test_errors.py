"""A failure is one line and an exit code, the same wherever Astra is called from."""

from __future__ import annotations

import errno

import pytest

from astra_vgpu.ground.errors import BadInput, MissingDependency, failure


@pytest.mark.parametrize(
    ("error", "words", "code"),
    [
        (BadInput("no task 'x'"), "no task 'x'", 2),
        (MissingDependency("no nvcc"), "no nvcc", 3),
        (OSError(errno.ENOSPC, "No space left on device", "/a"), "/a: No space left on device", 3),
        (OSError("odd"), "odd", 3),
        (KeyError("x"), "internal error: KeyError: 'x'", 3),
    ],
)
def test_a_failure_is_words_and_a_code(error: Exception, words: str, code: int) -> None:
    said, number = failure(error)
    assert said.startswith(words) and number == code and len(said.splitlines()) == 1
