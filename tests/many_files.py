"""Files of which so many are open that new ones get numbers that select() does not take."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BEYOND_SELECT = 1024
SPARE = 256


@contextmanager
def many_open() -> Iterator[int]:
    """Yields the lowest number that a new file can get, BEYOND_SELECT or more; skips the test where
    the machine allows no process so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = BEYOND_SELECT + SPARE
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"at most {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    files = list[int]()
    try:
        while not files or files[-1] < BEYOND_SELECT:
            files.append(os.open(os.devnull, os.O_RDONLY))
        yield files[-1] + 1
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
