"""The command `numerics`: compares both engines with a GPU and prints a table.

Recorded results of an H200 hold, for a few inputs of each instruction, the results of approximate
ones and a checksum of exact ones, and for all inputs a checksum of each.
"""

from __future__ import annotations

import datetime
import io
import json
import lzma
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.recordings.reading import read_recorded
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.types import Engine
from lab.virtual_gpu.numerics.inputs import Bits, sample
from lab.virtual_gpu.numerics.instruction import ComparedInstruction
from lab.virtual_gpu.numerics.instructions import instructions
from lab.virtual_gpu.numerics.program import answers
from lab.virtual_gpu.numerics.ulps import LOST, canonical, checksums, distance, worst_difference

_AT_ONCE = 128
"""Instructions whose answers to all inputs are held in memory together, up to 4 MiB each."""


@dataclass(frozen=True)
class Row:
    """One instruction, here against a GPU."""

    name: str
    elements: int
    equal: int
    """Number of elements that are bit-equal; NaNs count as equal to each other."""
    worst_ulps: int = 0
    """Largest distance in ulps; -1: one is a NaN where the other is a number."""
    ulps_99: int = 0
    """Distance in ulps that 99 % of the results do not exceed."""
    worst_difference: float = 0.0
    """Largest absolute difference of finite floats."""
    bound: str = ""

    @property
    def share(self) -> float:
        return self.equal / self.elements


def compare(instruction: ComparedInstruction, ours: Bits, theirs: Bits) -> Row:
    """Compares the raw results of both."""
    kind = instruction.result
    a, b = canonical(ours, kind), canonical(theirs, kind)
    equal = int(np.count_nonzero(a == b))
    if not kind or equal == a.size:
        return Row(instruction.name, a.size, equal, bound=instruction.bound)
    apart = np.abs(distance(ours, theirs, kind))
    worst = int(apart.max())
    return Row(
        instruction.name,
        a.size,
        equal,
        -1 if worst == LOST else worst,
        int(np.quantile(apart, 0.99, method="higher")),
        worst_difference(ours, theirs, kind),
        instruction.bound,
    )


def numerics(
    device: str, engine: Engine, only: str, out: Path | None, *, every_input: bool = False
) -> int:
    """Prints the table; how many exact instructions differ. only: beginnings of names, by commas.

    On `virtual` an engine's answers to few inputs are compared with those that are kept of an
    H200; with `every_input` its answers to all of them, of what is bit-equal, with checksums. On
    `cuda` all inputs are tried on the GPU of this machine and on the engine; with `out`, a folder,
    the table, the kept answers and details are written there. Raises BadInput for an unknown
    instruction, MissingDependency without toolkit or GPU.
    """
    chosen = [i for i in instructions() if i.name.startswith(tuple(only.split(",")))]
    if not chosen:
        raise BadInput(f"no instruction begins with {only!r}")
    if device == "virtual":
        rows, about = (against_checksums if every_input else against_kept)(chosen, engine)
    else:
        rows, about = _on_gpu(chosen, engine, out)
    print(f"{engine} engine against {about}\n{table(rows)}")
    return sum(not row.bound and row.equal < row.elements for row in rows)


def against_kept(chosen: Sequence[ComparedInstruction], engine: Engine) -> tuple[list[Row], str]:
    """Rows, and what they were compared with."""
    held = read()
    ours = answers(chosen, engine=engine, sampled=True)
    rows = []
    for instruction in chosen:
        name, results = instruction.name, ours[instruction.name]
        if name in held.answers:
            rows.append(compare(instruction, results, held.answers[name]))
        elif name in held.checksums:
            same = checksum(results, instruction.result) == held.checksums[name]
            rows.append(Row(name, results.size, results.size * same))
    return rows, f"{held.device}, {held.date}, few inputs"


def against_checksums(
    chosen: Sequence[ComparedInstruction], engine: Engine
) -> tuple[list[Row], str]:
    """Compares checksums over all inputs, for instructions whose results must be bit-equal. Returns
    the rows, and what they were compared with."""
    held = read()
    rows = []
    known = [i for i in chosen if i.name in held.whole and not i.approximate]
    for at in range(0, len(known), _AT_ONCE):
        part = known[at : at + _AT_ONCE]
        ours = answers(part, engine=engine)
        for i in part:
            chunks = checksums(ours[i.name], i.result, CHUNK)
            size = canonical(ours[i.name], i.result).size
            rows.append(Row(i.name, size, size * (whole_checksum(chunks) == held.whole[i.name])))
    return rows, f"checksums of {held.device}, {held.date}, all inputs"


def _on_gpu(
    chosen: Sequence[ComparedInstruction], engine: Engine, out: Path | None
) -> tuple[list[Row], str]:
    device, date = _device_name(), datetime.date.today().isoformat()
    theirs = answers(chosen, "cuda")
    if out:
        out.mkdir(parents=True, exist_ok=True)
        keep(out / "h200.npz.xz", device, date, theirs, list(chosen))
    ours = answers(chosen, engine=engine)
    rows = [compare(i, ours[i.name], theirs[i.name]) for i in chosen]
    if out:
        (out / "table.json").write_text(json.dumps([asdict(row) for row in rows], indent=1))
        _write_details(out, chosen, ours, theirs)
    return rows, f"{device}, {date}"


def _device_name() -> str:
    asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    except OSError:
        return "a GPU"
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else "a GPU"


def _write_details(
    out: Path,
    chosen: Sequence[ComparedInstruction],
    ours: Mapping[str, Bits],
    theirs: Mapping[str, Bits],
) -> None:
    """The GPU's checksums; where it differs; of floats, by how much: enough to try a mended engine
    against all inputs without the GPU."""
    exact: dict[str, Any] = {}
    approximate: dict[str, Any] = {}
    for i in chosen:
        a, b = canonical(ours[i.name], i.result), canonical(theirs[i.name], i.result)
        exact[f"{i.name} checksums"] = checksums(theirs[i.name], i.result, CHUNK)
        if i.approximate:
            approximate[i.name] = a - b
        else:
            places = np.flatnonzero(a != b)[:4096]
            exact[f"{i.name} places"], exact[f"{i.name} answers"] = places, b[places]
    np.savez_compressed(out / "exact.npz", **exact)
    np.savez_compressed(out / "approximate.npz", **approximate)


def table(rows: Sequence[Row]) -> str:
    """Approximate instructions one by one; exact ones counted, those that differ named."""
    lines = [
        f"{'approximate':56}{'bit-equal':>10}{'99 % ulps':>12}{'worst':>12}{'absolute':>10}"
        "  NVIDIA's bound"
    ]
    lines += [
        f"{r.name:56}{r.share:10.2%}{r.ulps_99:12d}{r.worst_ulps:12d}"
        f"{f'{r.worst_difference:.2g}' if 'absolute' in r.bound else '':>10}  {r.bound}"
        for r in rows
        if r.bound
    ]
    exact = [row for row in rows if not row.bound]
    differ = [row for row in exact if row.equal < row.elements]
    lines.append(
        f"{len(exact)} exact instructions, {sum(row.elements for row in exact)} results:"
        f" {len(differ)} differ"
    )
    lines += [
        f"  {r.name:54}{r.elements - r.equal:10d} of {r.elements}, worst {r.worst_ulps} ulps"
        for r in differ
    ]
    return "\n".join(lines)


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
