"""Mutants are drawn evenly and repeatably, and built together; what is no C++ is dropped."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from astra_chat.tools.mutation.mutants import Mutant, build_mutants, mutants
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task, load_task
from tests.chat_samples import SCALAR, task, task_folder

__all__ = ["task", "task_folder"]


def test_a_draw_is_even_repeatable_and_without_doubles() -> None:
    source = find_task("fused_add_rmsnorm").baseline
    drawn = mutants(source, 20, ("eps",))
    assert drawn == mutants(source, 20, ("eps",)) and len(drawn) == 20
    assert drawn[:8] == mutants(source, 8, ("eps",))
    assert len({m.source for m in drawn}) == 20 and source not in {m.source for m in drawn}
    assert len({m.operator for m in drawn}) >= 12, "no operator twice before the others"
    assert mutants(source, 8, ("eps",), seed=1) != drawn[:8]


def test_a_source_without_faults_has_no_mutants() -> None:
    assert mutants("void f() {}", 5) == []


def test_those_that_are_no_c_are_dropped_and_the_others_share_a_file(task: Task) -> None:
    assert shutil.which("g++")
    good = mutants(SCALAR, 3)
    bad = Mutant("broken", 5, "", "", SCALAR.replace("2.0f", "2.0f +* no_name"))
    found = build_mutants(task, [good[0], bad, *good[1:]], pick_device("virtual"), Stop())
    assert [one.mutant for one in found] == good
    assert len({one.build.folder for one in found}) == 1
    assert len({one.entry for one in found}) == 3


BOUND = Path(__file__).parents[1] / "build" / "bound_task"
TWICE = """#include <cuda_fp16.h>
extern "C" __global__ void kernel(float* out, int n) { if (threadIdx.x < n) out[0] = 2.0f; }
extern "C" void twice(float* out, int rows) { KERNEL<<<1, 32>>>(out, rows); }
"""


@pytest.mark.parametrize("kernel", ["operator", "kernel", "::kernel"])
@pytest.mark.second_tier
def test_mutants_of_a_file_without_a_launcher_get_theirs(kernel: str, tmp_path: Path) -> None:
    """A registered operator; exported functions; a name that is found in no namespace."""
    shutil.copytree(BOUND, tmp_path / "task")
    toml = tmp_path / "task" / "task.toml"
    source = (tmp_path / "task" / "baseline.cu").read_text()
    if kernel != "operator":
        head, _, _ = toml.read_text().partition("[binding]")
        toml.write_text(f'{head}[binding]\nfunction = "twice"\nargs = ["out", "rows"]\n')
        source = TWICE.replace("KERNEL", kernel)
    task, drawn = load_task(tmp_path / "task"), mutants(source, 2)
    found = build_mutants(task, drawn, pick_device("virtual"), Stop())
    assert [one.mutant for one in found] == drawn and len(drawn) == 2
    assert len({one.build.folder for one in found}) == 1 + (kernel == "::kernel")
    for one in found:
        assert f" {one.entry}\n" in exported(one.build.library)


def exported(library: Path) -> str:
    done = subprocess.run(["nm", "-D", str(library)], check=True, capture_output=True, text=True)
    return done.stdout
