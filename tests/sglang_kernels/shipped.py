"""What the tests of every shipped task share: its kernels compiled, its script held to its form."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from astra_chat.models.script import SCRIPT, Script, ScriptedKernel, load_script
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge import Judge
from astra_chat.tools.policy.source_guard import guard
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.types import Case
from astra_vgpu.ground.toolkit import find_toolkit

NAMES = re.compile(r"`[^`]*`|\bL[12]\b")
"""What may hold digits: names of code between backquotes, and the caches."""
TIMED = {"accepted", "tie", "slower"}


def kernels(task: Task) -> dict[str, str]:
    """Text of every kernel of a task, by name in its folder; those that the script stores too."""
    files = sorted(task.folder.rglob("*.cu"))
    texts = {path.relative_to(task.folder).as_posix(): path.read_text() for path in files}
    if (task.folder / SCRIPT).is_file():
        script = load_script(task)
        texts |= {f"script/{k.file}": script.sources[k.file] for k in script.kernels()}
    return texts


def scripted_turns(script: Script) -> list[ScriptedKernel]:
    return [turn for one in script.rounds for turn in (one.coder, *one.fixer)]


def broken(script: Script) -> list[str]:
    """Names of the kernels that the script expects not to build."""
    return [
        f"script/{t.file}" for t in scripted_turns(script) if t.expects.measured == "build_failed"
    ]


def sound(task: Task, script: Script) -> list[str]:
    """Names of the others."""
    return [name for name in kernels(task) if name not in broken(script)]


def reference(task: Task) -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", task.folder / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(task: Task, kernel: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """nvcc to PTX, with the contract's prototype declared before the file."""
    (folder / "kernel.cu").write_text(kernel)
    unit = folder / "unit.cu"
    unit.write_text(
        f'#include <cstdint>\n#include <cuda_runtime.h>\n{prototype(task)};\n#include "kernel.cu"\n'
    )
    target = folder / "unit.ptx"
    command = [
        str(find_toolkit().nvcc),
        "-ptx",
        "-arch=compute_90",
        *task.flags,
        "-o",
        str(target),
        str(unit),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def require_prototype(task: Task, kernel: str, folder: Path) -> None:
    built = compiled(task, kernel, folder)
    assert built.returncode == 0, built.stderr
    assert (folder / "unit.ptx").read_text().count(".entry") >= len(task.dtypes)
    assert guard(kernel, task.entry) == ()


def unwarned(found: Evaluation) -> Evaluation:
    """The virtual GPU's sanitizer has nothing to say of a shipped kernel."""
    assert found.check is None or found.check.warnings == ()
    return found


def require_verdict(judge: Judge, script: Script, turn: ScriptedKernel) -> None:
    """A real GPU gives the verdict of the script; the virtual one says whether it is right."""
    source = script.sources[turn.name]
    if judge.device.kind == "cuda":
        outcome = unwarned(judge.evaluate(source)).outcome
        assert verdict(outcome) == turn.expects.measured, outcome
        return
    found = unwarned(judge.check(source)).outcome
    expected = turn.expects.estimated
    assert found.kind == ("correct" if expected in TIMED else expected), found


def words_of(script: Script) -> Iterator[str]:
    for suite in script.testers:
        yield from (suite.words, *(case.why for case in suite.cases))
    for one in script.rounds:
        yield from (one.plan.title, one.plan.change, one.plan.why, one.coder.words)
        yield from (repair.words for repair in one.fixer)
        assert one.profiler is not None
        yield one.profiler.words


def require_no_figures(script: Script) -> None:
    """Figures are fields, filled from evaluations."""
    for words in words_of(script):
        assert not re.search(r"\d", NAMES.sub("", words)), words


def require_story(task: Task, script: Script) -> None:
    """A failed build, a wrong result and gains; every file of the folder is used, none twice."""
    turns = scripted_turns(script)
    expected = [turn.expects.measured for turn in turns]
    assert len(script.rounds) >= 4
    assert {"build_failed", "wrong"} <= set(expected) and expected.count("accepted") >= 2
    assert all(one.fixer[-1].expects.measured in TIMED for one in script.rounds if one.fixer)
    used = {f"script/{turn.file}" for turn in turns}
    assert used == {name for name in kernels(task) if name.startswith("script/")}
    assert len({script.sources[turn.name] for turn in turns}) == len(turns)


def require_anchors(task: Task, script: Script) -> None:
    """Plans name places in sources that came before."""
    seen = [task.baseline]
    for one in script.rounds:
        assert any(one.plan.anchor in source for source in seen), one.plan.anchor
        seen += [script.sources[turn.name] for turn in (one.coder, *one.fixer)]


def require_new_cases(task: Task, script: Script) -> None:
    """The tester's cases are legal and not the task's own."""
    known = {case.label for case in task.check}
    cases: list[Case] = [test.case() for suite in script.testers for test in suite.cases]
    assert cases
    for case in cases:
        task.require_legal(case)
        assert case.label not in known


def require_end(script: Script) -> None:
    """It ends by itself and leaves choices to the selector."""
    following = [one.profiler.next for one in script.rounds if one.profiler]
    assert following[-1] == "stop" and "stop" not in following[:-1]
    assert following.count("unsure") == len(script.choices) > 0
    assert len(script.testers) == 1 + script.choices.count("tester")
