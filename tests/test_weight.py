"""What a checkout weighs: everyone who clones the repository pays for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 18_000_000


def test_what_git_does_not_ignore_is_light() -> None:
    """Too heavy? Recorded files belong into an archive (transcripts/README.md)."""
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    sizes = {path: path.lstat().st_size for path in paths if path.is_symlink() or path.is_file()}
    heaviest = sorted(sizes, key=lambda path: -sizes[path])[:10]
    assert sum(sizes.values()) <= MOST_BYTES, [f"{sizes[p]:,} {p.name}" for p in heaviest]
