"""The honest kernels of tests/attacks, which are one archive there: as files they weigh 0.4 MB.

To read, change or add one:

    python -m lab.honest_kernels unpack FOLDER
    python -m lab.honest_kernels pack FOLDER
"""

from __future__ import annotations

import argparse
import io
import lzma
import tarfile
from functools import cache
from pathlib import Path

from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors

ARCHIVE = Path(__file__).resolve().parents[1] / "tests" / "attacks" / "honest.tar.xz"


@cache
def honest_kernels() -> dict[str, str]:
    """Returns the CUDA text of each by its file's name, which begins with its task's, sorted."""
    with tarfile.open(ARCHIVE) as archive:
        texts = {}
        for member in archive:
            stored = archive.extractfile(member)
            assert stored is not None, member.name
            texts[member.name] = stored.read().decode()
    return dict(sorted(texts.items()))


def pack(folder: Path) -> None:
    """Write the archive from the .cu files of a folder; equal files make an equal archive.

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
    ARCHIVE.write_bytes(lzma.compress(packed.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(folder: Path) -> None:
    """Write each kernel into the folder, as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in honest_kernels().items():
        (folder / name).write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("what", choices=("unpack", "pack"))
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    with one_line_errors():
        (pack if asked.what == "pack" else unpack)(asked.folder)


if __name__ == "__main__":
    main()
