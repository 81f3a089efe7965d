"""The CUDA program of the numerics test: one kernel per instruction, here and on a GPU."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_toolkit
from astra_vgpu.programs.run_program import run_program
from astra_vgpu.types import Engine
from lab.virtual_gpu.numerics.inputs import Bits, count, inputs, sample
from lab.virtual_gpu.numerics.instruction import WIDTHS, ComparedInstruction

RUN_TIMEOUT_S = 900.0
_THREADS = 128
_ROWS = 64
"""Instructions of one program."""
_HEAD = """// Made by program.py: every instruction on its inputs; both as files of raw bits.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>
"""
_MAIN = """
struct Row {
  void (*run)(const char*, const uint64_t*, char*, unsigned);
  unsigned count, width, at;
};
const uint64_t places[] = {%s};
const Row rows[] = {%s};

int check(cudaError_t error, size_t row) {
  if (error) std::fprintf(stderr, "row %%zu: %%s\\n", row, cudaGetErrorString(error));
  return error;
}

int main(int argc, char** argv) {
  std::FILE* in = std::fopen(argv[1], "rb");
  std::FILE* out = std::fopen(argv[2], "wb");
  if (!in || !out) return 2;
  std::vector<char> given(%dull), result(8u << 20);
  if (std::fread(given.data(), 1, given.size(), in) != given.size()) return 2;
  char *source, *target;
  if (check(cudaMalloc(&source, given.size()), 0)) return 1;
  if (check(cudaMalloc(&target, result.size()), 0)) return 1;
  cudaMemcpy(source, given.data(), given.size(), cudaMemcpyHostToDevice);
  for (size_t number = 0; number < sizeof rows / sizeof *rows; ++number) {
    const Row& row = rows[number];
    const size_t bytes = size_t(row.count) * row.width;
    row.run(source, places + row.at, target, row.count);
    if (check(cudaGetLastError(), number) || check(cudaDeviceSynchronize(), number)) return 1;
    cudaMemcpy(result.data(), target, bytes, cudaMemcpyDeviceToHost);
    if (std::fwrite(result.data(), 1, bytes, out) != bytes) return 2;
  }
  cudaFree(source);
  cudaFree(target);
  return std::fclose(out);
}
"""


def answers(
    chosen: Sequence[ComparedInstruction],
    device: str = "virtual",
    engine: Engine = "numpy",
    *,
    sampled: bool = False,
) -> dict[str, Bits]:
    """What a device answers, by the instruction's name: raw bits, [inputs] or, of a matrix product,
    [registers, inputs]. Device cuda is the GPU of this machine. `sampled`: to few inputs.

    Raises MissingDependency where the toolkit or the GPU is missing, or the program fails.
    """
    parts = [chosen[at : at + _ROWS] for at in range(0, len(chosen), _ROWS)]
    results: dict[str, Bits] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for part in pool.map(lambda part: _answers(part, device, engine, sampled), parts):
            results |= part
    return results


def _answers(
    chosen: Sequence[ComparedInstruction], device: str, engine: Engine, sampled: bool
) -> dict[str, Bits]:
    with tempfile.TemporaryDirectory(prefix="astra-numerics-") as name:
        folder = Path(name)
        source, given, outputs = (folder / part for part in ("all.cu", "inputs", "outputs"))
        text, data = program(chosen, sampled=sampled)
        source.write_text(text)
        given.write_bytes(data)
        words = [str(given), str(outputs)]
        if device == "cuda":
            _run_natively(source, folder / "all", words)
        else:
            run = run_program(source, words, engine=engine, timeout_s=RUN_TIMEOUT_S)
            if run.exit_code:
                why = run.refused or "; ".join(run.faults) or run.ended
                raise MissingDependency(f"the program ended with {run.exit_code}: {why}")
        return _cut(chosen, outputs.read_bytes(), sampled)


def _run_natively(source: Path, tool: Path, words: Sequence[str]) -> None:
    nvcc = str(find_toolkit().nvcc)
    build = [nvcc, "-arch=native", "-std=c++17", "-O1"]
    for command in ([*build, "-o", str(tool), str(source)], [str(tool), *words]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingDependency(f"{Path(command[0]).name} failed: {done.stderr.strip()[:400]}")


def _count(instruction: ComparedInstruction, sampled: bool) -> int:
    number = count(instruction)
    return sample(number).size if sampled else number


def _cut(chosen: Sequence[ComparedInstruction], data: bytes, sampled: bool) -> dict[str, Bits]:
    results: dict[str, Bits] = {}
    at = 0
    for instruction in chosen:
        letters = instruction.shape.partition(":")[0]
        raw = np.dtype(f"u{WIDTHS[letters[0]] // 8}")
        number = _count(instruction, sampled)
        size = number * len(letters)
        part = np.frombuffer(data, raw, size, at)
        results[instruction.name] = part.reshape(-1, number) if len(letters) > 1 else part
        at += size * raw.itemsize
    return results


def program(chosen: Sequence[ComparedInstruction], *, sampled: bool = False) -> tuple[str, bytes]:
    """The program's text, and the file that it reads."""
    places: dict[bytes, int] = {}
    data: list[bytes] = []
    size = 0
    kernels: list[str] = []
    rows: list[str] = []
    offsets: list[int] = []
    for number, instruction in enumerate(chosen):
        at = len(offsets)
        for array in inputs(instruction):
            raw = (array[sample(array.size)] if sampled else array).tobytes()
            if raw not in places:
                places[raw] = size
                data.append(raw)
                size += len(raw)
            offsets.append(places[raw])
        kernels.append(_kernel(number, instruction))
        letters = instruction.shape.partition(":")[0]
        width = WIDTHS[letters[0]] // 8 * len(letters)
        rows.append(f"{{run{number}, {_count(instruction, sampled)}, {width}, {at}}}")
    main = _MAIN % (", ".join(map(str, offsets)), ",\n  ".join(rows), size)
    return _HEAD + "\n".join(kernels) + main, b"".join(data)


def _kernel(number: int, instruction: ComparedInstruction) -> str:
    results = instruction.shape.partition(":")[0]
    sources = instruction.sources.replace("|", "")
    kind = {letter: f"uint{bits}_t" for letter, bits in WIDTHS.items()}
    params = "".join(f"const {kind[c]}* s{i}, " for i, c in enumerate(sources))
    declared = "".join(f"{kind[c]} r{i}; " for i, c in enumerate(results))
    written = ", ".join(f'"={c}"(r{i})' for i, c in enumerate(results))
    read = ", ".join(f'"{c}"(s{i}[i])' for i, c in enumerate(sources))
    stored = " ".join(
        f"d[{i} * n + i] = r{i};".replace("0 * n + ", "") for i in range(len(results))
    )
    passed = "".join(f"(const {kind[c]}*)(s + at[{i}]), " for i, c in enumerate(sources))
    return (
        f"// {instruction.name}\n"
        f"__global__ void k{number}({params}{kind[results[0]]}* d, unsigned n) {{\n"
        f"  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n  {declared}\n"
        f'  asm("{_assembly(instruction)}" : {written} : {read});\n  {stored}\n}}\n'
        f"void run{number}(const char* s, const uint64_t* at, char* d, unsigned n) {{\n"
        f"  k{number}<<<n / {_THREADS}, {_THREADS}>>>({passed}({kind[results[0]]}*)d, n);\n}}\n"
    )


def _assembly(instruction: ComparedInstruction) -> str:
    if instruction.text:
        return instruction.text
    if not instruction.is_matrix:
        places = ", ".join(f"%{n}" for n in range(len(instruction.sources) + 1))
        return f"{instruction.name} {places};"
    groups, first = [], 0
    for part in instruction.shape.replace(":", "|").split("|"):
        groups.append(", ".join(f"%{n}" for n in range(first, first + len(part))))
        first += len(part)
    return f"{instruction.name} {', '.join(f'{{{g}}}' for g in groups)};"
