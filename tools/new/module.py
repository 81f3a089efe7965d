"""A PyTorch module in KernelBench's form as a task: `class Model`, get_inputs, get_init_inputs.

The file is run in a walled process, which traces forward (tools/runners/module_trace.py). Inputs
are read arguments, parameters and buffers too, marked as weights; the module itself in float64 is
the reference. Its operators become plain kernels where they are simple ones.
"""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_chat.tools.cpp_heads import head
from astra_chat.tools.new.draft import (
    MARK,
)
from astra_chat.tools.new.module_baseline import SCRATCH, PlainKernels, parameters, plain_kernels
from astra_chat.tools.new.module_kernels import NoPlainKernel
from astra_chat.tools.new.module_task import module_toml
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, run_limited
from astra_vgpu.ground.errors import BadInput, reading

CHILD = "astra_chat.tools.runners.module_trace"
CLASS, MAKERS = "Model", {"get_inputs", "get_init_inputs"}
FILE = "problem"
TIMEOUT_S = 300.0


@dataclass(frozen=True)
class ModuleTask:
    """Texts of a task's files, by name, and what a user has to know of it."""

    texts: dict[str, str]
    notes: tuple[str, ...] = ()


def is_module(path: Path) -> bool:
    """Whether a file of Python defines a module in this form, rather than a Triton kernel."""
    with reading(path):
        text = path.read_text()
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        raise BadInput(
            f"{path}, line {error.lineno}: it is not valid Python: {error.msg}"
        ) from None
    defined = {getattr(node, "name", "") for node in body}
    return CLASS in defined and bool(defined & MAKERS)


def module_task(name: str, path: Path, op: str | None = None) -> ModuleTask:
    """The task of a module; `op` is the class, if it is not Model. Raises BadInput."""
    kind = op or CLASS
    contract = _traced(path, kind)
    reads = [*contract["inputs"], *contract["weights"]]
    count = len(contract["outputs"])
    results = _free_names(["out"] if count == 1 else [f"out_{n}" for n in range(count)], reads)
    dims = list(contract["dims"])
    taken = {*reads, *results, *dims}
    entry = name if name not in taken else f"{name}_launcher"
    notes = list(_fixed(contract["inputs"]))
    try:
        kernels = plain_kernels(entry, contract["nodes"], reads, results, dims)
    except NoPlainKernel as error:
        kernels = _blank(entry, str(error), parameters(reads, results, dims))
        notes.append(f"no plain kernel is known for {error}: write baseline.cu yourself")
    text = path.read_text()
    toml = module_toml(name, entry, contract, results, f"{FILE}:{kind}", path.name, kernels)
    return ModuleTask(
        {"task.toml": toml, "baseline.cu": kernels.text, f"{FILE}.py": text}, tuple(notes)
    )


def _fixed(inputs: Mapping[str, Any]) -> Iterator[str]:
    """Sizes of inputs that no case varies."""
    for name, arg in inputs.items():
        if numbers := [extent for extent in arg["shape"] if extent.isdecimal()]:
            some = ", ".join(dict.fromkeys(numbers))
            yield (
                f"{name}: the module allows only one value for the size {some}, so no case"
                " varies it"
            )


def _free_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    while set(names) & {*taken, SCRATCH}:
        names = [f"{name}_" for name in names]
    return list(names)


def _traced(path: Path, kind: str) -> dict[str, Any]:
    """What the walled process says of the file. Raises BadInput."""
    with tempfile.TemporaryDirectory(prefix="astra-module-") as scratch:
        folder = Path(scratch).resolve()
        file, answer = folder / path.name, folder / "answer.json"
        with reading(path):
            file.write_text(path.read_text())
        command = [sys.executable, "-m", CHILD, str(file), kind, str(answer)]
        sandbox = SandboxPolicy(write=(folder,))
        try:
            end = run_limited(
                command, timeout_s=TIMEOUT_S, cwd=folder, stop=Stop(), sandbox=sandbox
            )
        except StepTimeout:
            raise BadInput(f"{path.name}: tracing it took more than {TIMEOUT_S:.0f} s") from None
        if not answer.is_file():
            last = end.output.strip().rpartition("\n")[2] or f"exit status {end.returncode}"
            raise BadInput(f"{path.name}: its process ended unexpectedly: {last}")
        made: dict[str, Any] = json.loads(answer.read_text())
    if reason := made.get("refused"):
        raise BadInput(f"{path.name}: {reason}")
    if reason := made.get("failed"):
        place = f", line {made['line']}" if made["line"] else ""
        raise BadInput(f"{path.name}{place}: {reason}")
    return made


def _blank(entry: str, operator: str, given: Sequence[str]) -> PlainKernels:
    """A launcher that is to be written."""
    lines = [
        f"// {MARK}: the kernel and its launcher: no plain kernel is known for {operator}.",
        "#include <cstdint>",
        "#include <cuda_runtime.h>",
        "",
        *head(f'extern "C" cudaError_t {entry}', given, " {"),
        "  return cudaErrorNotSupported;",
        "}",
        "",
    ]
    return PlainKernels("\n".join(lines), "", "")
