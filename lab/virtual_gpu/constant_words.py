"""The command `constants`: what a GPU takes for constant loads whose lanes want different words.

Its slopes are the prices of model/constants.py (CONSTANT_WORD_TURNS, CONSTANT_WORD_CYCLES).
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_vgpu.ground.errors import BadInput, MissingDependency
from astra_vgpu.ground.toolkit import find_toolkit
from astra_vgpu.model.constants import CONSTANT_WORD_CYCLES, CONSTANT_WORD_TURNS

SOURCE = Path(__file__).with_suffix(".cu")
TIMEOUT_S = 120.0
GPU = "GPU: "
"""What the program prints first, before the GPU's name."""


@dataclass(frozen=True)
class LoadRow:
    """A constant load whose lanes want so many different words."""

    words: int
    stride: int
    """Distance in words from one word to the next."""
    lone_cycles: float
    """Cycles a load of a lone warp, where each load waits for the one before."""
    many_cycles: float
    """Cycles of the SM for each load, where many warps load at once."""


def constants() -> None:
    """Measures on the GPU of this machine and prints rows and slopes.

    Raises MissingDependency without a GPU or nvcc, BadInput where the program does not build."""
    with tempfile.TemporaryDirectory(prefix="astra-constants-") as name:
        tool = Path(name) / "constant_words"
        command = [str(find_toolkit().nvcc), "-arch=native", "-std=c++17", "-O3", "-o", str(tool)]
        built = _run([*command, str(SOURCE)])
        if built.returncode:
            raise BadInput(f"nvcc cannot build {SOURCE.name}: {built.stderr.strip()[:400]}")
        done = _run([str(tool)])
    if done.returncode:
        raise MissingDependency(f"{SOURCE.name} does not run: {done.stderr.strip()[:400]}")
    gpu, rows = read_rows(done.stdout)
    print("\n".join([gpu, *report(rows)]))


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise MissingDependency(f"{command[0]} did not end within {TIMEOUT_S:.0f} s") from None


def read_rows(output: str) -> tuple[str, list[LoadRow]]:
    """The GPU's name and the rows that the program printed."""
    name, *lines = output.splitlines()
    rows = [
        LoadRow(int(words), int(stride), float(lone), float(many))
        for words, stride, lone, many in (line.split() for line in lines)
    ]
    return name.removeprefix(GPU), rows


def slope(words: Sequence[int], cycles: Sequence[float]) -> float:
    """Cycles for each further word, by least squares."""
    mean_words, mean_cycles = sum(words) / len(words), sum(cycles) / len(cycles)
    over = sum((w - mean_words) * (c - mean_cycles) for w, c in zip(words, cycles, strict=True))
    return over / sum((w - mean_words) ** 2 for w in words)


def report(rows: Sequence[LoadRow]) -> list[str]:
    """A line for each row, then the slopes of each stride beside what the model takes."""
    lines = ["words stride  cycles a load: lone warp   many warps, of the SM"]
    lines += [f"{r.words:5} {r.stride:6} {r.lone_cycles:26.2f} {r.many_cycles:23.2f}" for r in rows]
    for stride in sorted({r.stride for r in rows}):
        mine = [r for r in rows if r.stride == stride]
        words = [r.words for r in mine]
        lone = slope(words, [r.lone_cycles for r in mine])
        many = slope(words, [r.many_cycles for r in mine])
        lines.append(
            f"stride {stride}: each further word takes {lone:.2f} cycles of a lone warp and"
            f" {many:.2f} of the SM; the model takes {CONSTANT_WORD_CYCLES} and"
            f" {CONSTANT_WORD_TURNS}"
        )
    return lines
