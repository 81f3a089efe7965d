"""A contract of schema 2 for tests: every word of it, in a few lines."""

from __future__ import annotations

from pathlib import Path

CONTRACT = Path(__file__).with_name("contract.toml").read_text()


def write_contract(folder: Path, *changes: tuple[str, str]) -> Path:
    """A task folder with this contract, each change made once."""
    text = CONTRACT
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    folder.mkdir(exist_ok=True)
    (folder / "task.toml").write_text(text)
    (folder / "baseline.cu").write_text("// none\n")
    (folder / "reference.py").write_text("# none\n")
    return folder
