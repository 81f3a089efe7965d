"""Landlock by itself: what a child may read, list and write after `restrict`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.tools.sandbox import landlock

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")

SCRIPT = """
import os, sys
from pathlib import Path
from astra_chat.tools.sandbox import landlock
read, write, listed = sys.argv[1:4]
landlock.restrict(["/usr", read, "/not/there"], [write], [listed], network=False)
{tried}
print("done")
"""


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    found = []
    for name in ("read", "write", "listed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        found.append(str(tmp_path / name))
    return found


def ended(places: list[str], tried: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(tried=tried), *places],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "tried",
    [
        "assert (Path(read) / 'file').read_text() == 'read'",
        "(Path(write) / 'new').write_text('x')",
        "(Path(write) / 'file').unlink()",
        "assert os.listdir(listed) == ['file']",
    ],
)
def test_granted(places: list[str], tried: str) -> None:
    assert ended(places, tried) == "done"


@pytest.mark.parametrize(
    "tried",
    [
        "(Path(read) / 'file').write_text('x')",
        "(Path(read) / 'new').write_text('x')",
        "(Path(read) / 'file').unlink()",
        "(Path(listed) / 'file').read_text()",
        "os.listdir(Path(read).parent)",
        "(Path(write) / 'file').rename(Path(read) / 'moved')",
        "(Path(write) / 'link').symlink_to('/etc/passwd'); (Path(write) / 'link').read_text()",
    ],
)
def test_refused(places: list[str], tried: str) -> None:
    assert "Error" in ended(places, tried) and "landlock" not in ended(places, tried)


def test_rights_grow_with_the_abi() -> None:
    assert landlock.all_rights(1) == 0x1FFF and landlock.all_rights(3) == 0x7FFF
    assert landlock.all_rights(5) == landlock.all_rights(99) == 0xFFFF
