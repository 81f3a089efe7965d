"""The kernels of tests/attacks, honest ones and attacks: each set is one archive there, since as
files they weigh 0.6 MB.

To read, change or add one:

    python -m lab.attack_kernels unpack honest|attacks FOLDER
    python -m lab.attack_kernels pack honest|attacks FOLDER
"""

from __future__ import annotations

import argparse
import io
import lzma
import tarfile
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors

Set = Literal["honest", "attacks"]
FOLDER = Path(__file__).resolve().parents[1] / "tests" / "attacks"


@cache
def kernels(which: Set) -> dict[str, str]:
    """Returns the CUDA text of each kernel of a set by its file's name, sorted; that of an honest
    one begins with its task's."""
    with tarfile.open(_archive(which)) as archive:
        texts = {}
        for member in archive:
            stored = archive.extractfile(member)
            assert stored is not None, member.name
            texts[member.name] = stored.read().decode()
    return dict(sorted(texts.items()))


def pack(which: Set, folder: Path) -> None:
    """Write the archive of a set from the .cu files of a folder; equal files make an equal archive.

    Raises:
        BadInput: there is none.
    """
    files = sorted(folder.glob("*.cu"))
    if not files:
        raise BadInput(f"{folder} contains no .cu file")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in files:
            member = tarfile.TarInfo(path.name)
            member.size = path.stat().st_size
            archive.addfile(member, io.BytesIO(path.read_bytes()))
    content = lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME)
    _archive(which).write_bytes(content)


def unpack(which: Set, folder: Path) -> None:
    """Write each kernel of a set into the folder, as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in kernels(which).items():
        (folder / name).write_text(text)


def _archive(which: Set) -> Path:
    return FOLDER / f"{which}.tar.xz"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("what", choices=("unpack", "pack"))
    parser.add_argument("set", choices=get_args(Set))
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    with one_line_errors():
        (pack if asked.what == "pack" else unpack)(asked.set, asked.folder)


if __name__ == "__main__":
    main()
