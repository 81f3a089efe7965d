"""Recorded results of an H200.

For a few inputs of each instruction: the results of approximate ones, a checksum of exact ones. For
all inputs: a checksum of each.
"""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.recordings.reading import read_recorded
from astra_vgpu.ground.errors import BadInput
from lab.virtual_gpu.numerics.inputs import Bits, sample
from lab.virtual_gpu.numerics.instruction import ComparedInstruction
from lab.virtual_gpu.numerics.ulps import checksums

KEPT = Path(__file__).parent / "h200.npz.xz"
CHUNK = 1024
"""Elements of a checksum in a run's details."""


@dataclass(frozen=True)
class Reference:
    device: str
    date: str
    answers: Mapping[str, Bits]
    """Raw results of approximate instructions for few inputs, by name."""
    checksums: Mapping[str, int]
    """CRC-32 of the results of exact instructions for few inputs, by name."""
    whole: Mapping[str, int]
    """CRC-32 of the results of all instructions for all inputs, by name: whole_checksum."""


def whole_checksum(chunks: NDArray[np.uint32]) -> int:
    """Returns the checksum of all results, given those of every CHUNK elements."""
    return zlib.crc32(chunks.astype("<u4").tobytes())


def checksum(bits: Bits, kind: str) -> int:
    return int(checksums(bits, kind, bits.size * bits.itemsize)[0])


def keep(
    path: Path,
    device: str,
    date: str,
    results: Mapping[str, Bits],
    chosen: list[ComparedInstruction],
) -> None:
    """found: full answers of the device, by name."""
    few = {
        i.name: np.ascontiguousarray(results[i.name][..., sample(results[i.name].shape[-1])])
        for i in chosen
    }
    exact = [i for i in chosen if not i.approximate]
    arrays = io.BytesIO()
    np.savez(
        arrays,
        _about=np.array([device, date]),
        _exact=np.array([i.name for i in exact]),
        _checksums=np.array([checksum(few[i.name], i.result) for i in exact], np.uint32),
        _all=np.array([i.name for i in chosen]),
        _whole=np.array([_whole(results[i.name], i.result) for i in chosen], np.uint32),
        **{i.name: few[i.name] for i in chosen if i.approximate},  # type: ignore[arg-type]
    )
    # As a whole: what an instruction and its .ftz form share takes no room twice.
    path.write_bytes(lzma.compress(arrays.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _whole(bits: Bits, kind: str) -> int:
    return whole_checksum(checksums(bits, kind, CHUNK))


def read(path: Path = KEPT) -> Reference:
    """Raises BadInput where nothing is kept."""
    if not path.is_file():
        raise BadInput(f"no {path}: run numerics --device cuda -o FOLDER on a GPU")
    with np.load(io.BytesIO(read_recorded(path)), allow_pickle=False) as held:
        device, date = map(str, held["_about"])
        exact = dict(zip(map(str, held["_exact"]), map(int, held["_checksums"]), strict=True))
        whole = dict(zip(map(str, held["_all"]), map(int, held["_whole"]), strict=True))
        answers = {name: held[name] for name in held.files if not name.startswith("_")}
    return Reference(device, date, answers, exact, whole)
