"""The task as a prompt shows it: the stable part, the same in every turn of a run."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Sequence

from astra_chat.tools.extension.guard import forward_head
from astra_chat.tools.language import CUDA_ONLY, Language
from astra_chat.tools.new.callable import other_functions
from astra_chat.tools.task.contract_text import (
    argument_text,
    codes_text,
    domain_lines,
    precision_text,
    scalar_text,
    types_text,
)
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.text import fenced
from astra_chat.tools.timing.comparison import resolution_text
from astra_chat.tools.timing.verdict import LESS_MEMORY, MIN_GAIN, NO_REGRESSION
from astra_chat.tools.triton.launcher import launcher_head
from astra_chat.tools.types import Basis, Device
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import SPECS

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
MOST_INPUTS = 4000
"""Characters of code that say how inputs are drawn."""


def task_text(task: Task, device: str) -> str:
    """What a kernel of the task computes, of which arguments, and how results are compared."""
    args = bullets([*map(argument_text, task.args), *map(scalar_text, task.scalars)])
    tolerances = ", ".join(
        f"{dtype} rtol {t.rtol:g} atol {t.atol:g}" for dtype, t in task.tolerance.items()
    )
    tolerance = f"tolerance: {tolerances}; " if tolerances else ""
    return (
        f"{task.summary}\nArguments (T is the dtype of the case):\n{args}\n"
        f"Valid dims:\n{bullets(domain_lines(task))}\n"
        f"dtypes: {types_text(task)}; {tolerance}rms error at"
        f" most {task.oracle_ratio:g} times the baseline's own\n"
        f"precision: {precision_text(task)}\n"
        f"nvcc flags: {' '.join(task.flags)}\nDevice: {device}"
    )


def launcher_text(task: Task, languages: Sequence[Language] = CUDA_ONLY) -> str:
    """The prototype of the launcher to export; the head of a Triton launcher and that of a torch
    extension's function, where the run takes these; of a task with a [binding] the function that
    it is made from."""
    text = f"{fenced(f'{prototype(task)};')}\n{codes_text(task)}"
    if "triton" in languages:
        text += f"\nIn a Triton file:\n{fenced(launcher_head(task), 'python')}"
    if "torch" in languages:
        text += f"\nIn a torch extension:\n{fenced(forward_head(task))}"
    if task.binding is None:
        return text
    kept = (
        "The file keeps the form of the baseline; where this form contradicts the rules of a "
        "kernel file, this section applies. Include the framework's headers as the baseline does."
    )
    if task.binding.launcher:
        return (
            f"{kept} `{task.binding.launcher}` is compiled after the file: keep the functions that"
            " it calls, with the same parameters, and define nothing that it"
            f" defines:\n{fenced(task.launcher_file)}\n"
            f"The launcher below is made from that file; do not define the launcher:\n{text}"
        )
    kind = "operator" if task.binding.operator else "function"
    return (
        f"{kept} Keep the {kind} `{task.binding.called}` with the same parameters, and define and "
        f"register it as the baseline does.{_others_text(task)} The launcher below is"
        f" made from `{task.binding.called}`; do not define the launcher:\n{text}"
    )


def _others_text(task: Task) -> str:
    """What else callers use of the user's file, as a sentence; "" for nothing."""
    try:
        others = ", ".join(f"`{name}`" for name in other_functions(task, task.baseline))
    except BadInput:  # a file that is only compiled
        return ""
    return others and (
        f" The file also exports {others}: leave it unchanged, with every function, constant and "
        "kernel that it uses. No call of the task runs that code, so a candidate that changes any "
        "of it is refused; its kernels need not be launched. If your launcher shares code with "
        "it, add a copy for your own use."
    )


def headers_text(task: Task) -> str:
    """The task's headers, each under the name by which a candidate includes it: as the baseline
    does, else from the folder that the baseline was in."""
    spelled = {
        posixpath.normpath(posixpath.join(folder, name)): name
        for folder in (*task.include, "")
        for name in _INCLUDE.findall(task.baseline)
    }
    folder = task.include[0] if task.include else "."
    return "\n".join(
        f'#include "{spelled.get(name) or posixpath.relpath(name, folder)}":\n{fenced(text)}'
        for name, text in task.header_texts().items()
    )


def inputs_text(task: Task) -> str:
    """`make_inputs` of reference.py with what it names of the file: which arguments a value family
    fills. "" where that is longer than MOST_INPUTS characters."""
    return _function_text(task, "make_inputs")


def accept_text(task: Task) -> str:
    """`accept` of reference.py, which judges results of which several are right; "" where the task
    judges none by it, or it is longer than MOST_INPUTS characters."""
    asked = any(arg.judged is not None and arg.judged.by == "accept" for arg in task.args)
    return _function_text(task, "accept") if asked else ""


def _function_text(task: Task, name: str) -> str:
    """A function of reference.py with what it names of the file."""
    source = task.reference_text
    named = {name: node for node in ast.parse(source).body for name in _defined(node)}
    wanted, seen = [name], set[str]()
    while wanted:
        node = named.get(name := wanted.pop())
        if node is not None and name not in seen:
            seen.add(name)
            wanted += [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
    parts = [ast.get_source_segment(source, named[name]) or "" for name in named if name in seen]
    text = "\n".join(parts)
    return fenced(text, "python") if text and len(text) <= MOST_INPUTS else ""


def _defined(node: ast.stmt) -> list[str]:
    """Names that a statement of a module defines: functions and constants."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def device_text(device: Device) -> str:
    """The device with what a plan reckons with."""
    gpu = SPECS.get(device.spec)
    if gpu is None:
        return device.name
    return (
        f"{device.name}: {gpu.sms} SMs of {gpu.threads_per_sm // 32} warps, L2"
        f" {gpu.l2_bytes / 2**20:.0f} MiB, DRAM {gpu.dram_bytes_per_s / 1e12:.1f} TB/s"
    )


def basis_of(device: Device) -> Basis:
    """How a device comes by its times."""
    return "measured" if device.kind == "cuda" else "estimated"


def comparison_text(basis: Basis, *, memory: bool = False) -> str:
    """How candidates are compared, and what cannot be told from nothing: one threshold for all.
    `memory`: whether a call's memory is the task's second objective."""
    interval = (
        "its whole 90 % prediction interval lies above 1 and no single case's interval lies"
        " entirely below 1. The less similarly two kernels spend their time, the wider the"
        " interval, so of two candidates with the same ratio, one may be faster than the baseline"
        " and the other a tie."
        if basis == "estimated"
        else f"its whole 95 % interval lies above {MIN_GAIN} and no single case's interval"
        f" begins below {NO_REGRESSION}."
    )
    return (
        "A candidate's ratio is the weighted geometric mean of its speedups over the baseline in"
        f" all cases; it is faster than the baseline if {interval}\n"
        f"Resolution: two candidates {resolution_text(basis)} are a tie, which is not a gain and"
        " does not justify a round. Of two tied candidates, the one with the higher ratio counts "
        "as the better, and if their ratios are equal, the earlier one. Predictions are scored at "
        f"this resolution.{_TIED if basis == 'estimated' else ''} A `parent` may also be a"
        f" discarded candidate.{_memory_text(basis) if memory else ''}"
    )


_TIED = (
    " One exception: while the best candidate is a tie with the baseline only because its interval"
    " begins below 1, a gain within the resolution can lift it above 1, and so justifies a round."
)


def _memory_text(basis: Basis) -> str:
    """How memory counts beside speed."""
    text = (
        "\nMemory: of two candidates whose ratios differ by less than 1 %, the one that needs less"
        " memory counts as the better."
    )
    if basis == "estimated":
        return text
    return (
        f"{text} A tie with the baseline in which no case's interval begins below {NO_REGRESSION}"
        f" is accepted if its memory is at most {LESS_MEMORY} times the baseline's."
    )


def bullets(lines: Sequence[str]) -> str:
    """Returns lines as a Markdown list."""
    return "\n".join(f"- {line}" for line in lines)
