"""The folder of a package: modules, runtime, data, and the wheel of it all."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from astra_chat.package.engine_file import Engine, EngineHook, forwarded, parameters_of
from astra_chat.package.kernel_names import kernel_names
from astra_chat.package.winners import Winner
from astra_chat.session.export import export_best
from astra_chat.tools.build.tvm_ffi_binding import dim_sources, parameter_names
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Timed, Value, sha256_of
from astra_chat.transcript.run_folder import module_file
from astra_chat.version import __version__
from astra_vgpu.ground.errors import MissingDependency

NAME, MODULE = "astra-winners", "astra_winners"
SCHEMA = "astra-winners/1"
INSIDE = Path(__file__).resolve().parent / "inside" / MODULE
GROUPS: dict[Engine, str] = {"sglang": "sglang.srt.plugins", "vllm": "vllm.general_plugins"}
WHEEL_TIMEOUT_S = 300


class StepRow(Value):
    """A measured step, as a call of one operator in it."""

    label: str
    dtype: str
    dims: dict[str, int]
    low: float
    """Below 1: the step loses with the winner."""


@dataclass(frozen=True)
class Contents:
    """What a plugin ships, and where it may run."""

    engine: Engine
    arch: str
    winners: Mapping[str, Winner]
    hooks: Mapping[str, Sequence[EngineHook]]
    gpus: Sequence[str] = ()
    """GPUs on which it was proved; empty: before a proof."""
    ranks: int = 0
    """Processes that shared a model in the proof; 0: before a proof."""
    versions: Sequence[str] = ()
    """Versions of the engine in which it was proved; empty: before a proof."""
    steps: Mapping[str, Mapping[str, Sequence[StepRow]]] = field(default_factory=dict)
    """Steps in which a winner gains and others in which it loses, by operator and GPU."""
    gains: Mapping[str, str] = field(default_factory=dict)
    """What measured steps say of an operator."""
    trial: bool = False
    """Nothing was proved yet: it runs under `astra-chat step` alone."""


def write_files(winners: Sequence[Winner], arch: str, out: Path) -> None:
    """Each winner as files: TASK/ with the source, the module, torch_op.py and an example."""
    for winner in winners:
        folder = out / winner.task.name
        export_best(
            winner.task,
            winner.source,
            folder,
            arch=arch,
            origin=f"{winner.words}. {winner.over_today}",
        )


def write_plugin(contents: Contents, out: Path) -> Path:
    """The pip-installable folder of a plugin; returns its wheel. Raises MissingDependency."""
    module = out / MODULE
    shutil.copytree(INSIDE, module, ignore=shutil.ignore_patterns("__pycache__"))
    write_files(list(contents.winners.values()), contents.arch, module / "modules")
    tasks = {name: winner.task for name, winner in contents.winners.items()}
    (module / "hooks.py").write_text(hooks_source(contents.hooks, tasks))
    text = json.dumps(winners_document(contents), indent=1) + "\n"
    (module / "winners.json").write_text(text)
    version = f"1.0+{sha256_of(text)[:12]}"
    group = GROUPS[contents.engine]
    (out / "pyproject.toml").write_text(
        _PYPROJECT.format(
            name=NAME, version=version, group=group, module=MODULE, engine=contents.engine
        )
    )
    (out / "setup.cfg").write_text(_SETUP)
    rows = "\n".join(
        f"| {n} | {w.words} | {w.over_today} | {contents.gains.get(n, 'not measured')} |"
        for n, w in contents.winners.items()
    )
    (out / "README.md").write_text(_README.format(engine=contents.engine, rows=rows, name=NAME))
    return build_wheel(out)


def winners_document(contents: Contents) -> dict[str, Any]:
    """winners.json: what the runtime knows of each winner."""
    return {
        "schema": SCHEMA,
        "astra": __version__,
        "engine": contents.engine,
        "arch": contents.arch,
        "gpus": list(contents.gpus),
        "ranks": contents.ranks,
        "versions": list(contents.versions),
        "trial": contents.trial,
        "operators": {
            name: {
                "candidate": winner.best.candidate,
                "run": winner.summary.run,
                "entry": winner.task.entry,
                "module": f"modules/{name}/{module_file(winner.task.entry)}",
                "kernels": kernel_names(winner.task, winner.source, contents.arch),
                "dims": [list(one) for one in _dims(winner.task)],
                "typed_by": _typed_by(winner.task),
                "rows": {gpu: _rows(timed) for gpu, timed in winner.measured.items()},
                "steps": {
                    gpu: [row.model_dump() for row in rows]
                    for gpu, rows in contents.steps.get(name, {}).items()
                },
            }
            for name, winner in contents.winners.items()
        },
    }


def build_wheel(folder: Path) -> Path:
    """The wheel of a folder, in dist/ of it."""
    code = "from setuptools import build_meta; build_meta.build_wheel('dist')"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=WHEEL_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise MissingDependency(f"setuptools took longer than {WHEEL_TIMEOUT_S} s") from None
    wheels = sorted((folder / "dist").glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["no wheel"])[-1]
        raise MissingDependency(f"setuptools cannot build the wheel: {last}")
    shutil.rmtree(folder / "build", ignore_errors=True)
    shutil.rmtree(folder / f"{MODULE}.egg-info", ignore_errors=True)
    return wheels[0]


def _dims(task: Task) -> Iterator[tuple[str, int, int | None, list[str | int]]]:
    """Each dim: which argument gives it, along which axis (None: it is the argument), and what its
    extent is divided by."""
    names = parameter_names(task)
    for dim, argument, axis, others in dim_sources(task):
        divisors = [int(one) if one.isdecimal() else one for one in others]
        yield dim, names.index(argument), axis, divisors


def _typed_by(task: Task) -> int | None:
    """The argument whose dtype is the first type variable."""
    first = task.variables[:1]
    return next((n for n, arg in enumerate(task.args) if [arg.dtype] == list(first)), None)


def _rows(timed: Timed) -> list[dict[str, Any]]:
    return [
        {
            "label": one.case.named,
            "dtype": one.case.dtype,
            "dims": one.case.dims,
            "low": round(one.ratio_low, 4),
        }
        for one in timed.cases
    ]


_PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = "Faster CUDA kernels for {engine}, found by Astra"
readme = "README.md"
requires-python = ">=3.10"
dependencies = ["apache-tvm-ffi>=0.1.11", "packaging"]

[project.entry-points."{group}"]
astra_winners = "{module}.plugin:{engine}_plugin"

[tool.setuptools]
packages = ["{module}"]

[tool.setuptools.package-data]
{module} = ["*.json", "modules/*/*"]
"""

_SETUP = """\
[bdist_wheel]
python_tag = py3
plat_name = linux_x86_64
"""

_README = """\
# Faster kernels for {engine}

| operator | winner | today | in a server's step |
|---|---|---|---|
{rows}

    pip install dist/*.whl                  # {engine} loads it at its next start
    python -m astra_winners check           # shows which functions of {engine} it hooks
    pip uninstall {name}                    # removes everything

- `ASTRA_WINNERS`: `all` (the default), `off`, or a comma-separated list of operators.
- `ASTRA_WINNERS_COUNTERS=NAME`: each process records in NAME.PID which calls a winner handled, and
  why the original ran for others. `python -m astra_winners counters NAME.*` adds up the files.

The original runs if a call is outside the contract, or if the winner was not faster on the
timed case that is nearest to the call. Speedups over the baseline and over today's kernels are
those of single kernels; only `astra-chat step` shows what a server's step gains. Modules, sources
and contracts: `astra_winners/modules/`.
"""


# hooks.py of a package: each place of the engine as a function that tries the winners that may
# serve the call, and calls the original otherwise.

Hooks = Mapping[str, Sequence[EngineHook]]
"""Hooks by the name of their operator."""
HEAD = '''\
"""Written by `astra-chat package` from the engine.toml of each task. The engine calls these
instead of its own functions, with the original as the first argument. A function that torch.compile
traces calls the original."""

import torch

from astra_winners.operators import OPERATORS
'''


def hooks_source(hooks: Hooks, tasks: Mapping[str, Task]) -> str:
    """The file's text. Operators that share a place share a function."""
    places: dict[tuple[str, ...], list[tuple[str, EngineHook]]] = {}
    for name, own in hooks.items():
        for hook in own:
            place = (hook.engine, hook.target, hook.versions, hook.signature)
            places.setdefault(place, []).append((name, hook))
    parts = [HEAD]
    rows: list[str] = []
    for number, some in enumerate(places.values()):
        function = f"hook_{number}"
        parts.append("\n".join(_function(function, some, tasks)))
        rows += _row(function, some)
    table = "\n".join(["HOOKS = [", *rows, "]"])
    return "\n\n".join([*parts, table]) + "\n"


def _function(
    name: str, some: Sequence[tuple[str, EngineHook]], tasks: Mapping[str, Task]
) -> Iterator[str]:
    first = some[0][1]
    original = f"original({forwarded(first.signature)})"
    yield f"def {name}(original, {first.signature}):"
    yield f'    """{first.target}. Without the hook: {_harmless(first.replaces)}."""'
    yield "    if torch.compiler.is_compiling():"
    yield f"        return {original}"
    for operator, hook in some:
        yield f"    operator = OPERATORS[{operator!r}]"
        yield f"    if operator.wanted and ({_one_line(hook.when)}) and operator.ready():"
        keyword = "if"
        for gate in hook.gates:
            yield f"        {keyword} not ({_one_line(gate.holds)}):"
            yield f"            operator.falls_back({gate.otherwise!r})"
            keyword = "elif"
        inner = "            " if hook.gates else "        "
        if hook.gates:
            yield "        else:"
        yield f"{inner}try:"
        yield from (f"{inner}    {line}" for line in _launch(hook, tasks[operator]))
        yield f"{inner}except RuntimeError as error:  # such as an impossible view"
        yield f"{inner}    operator.falls_back(str(error).partition('\\n')[0])"
    yield f"    return {original}"
    yield ""


def _launch(hook: EngineHook, task: Task) -> Iterator[str]:
    yield from (f"{key} = {_one_line(value)}" for key, value in hook.let.items())
    yield "if operator.launch("
    for parameter in parameter_names(task):
        yield f"    {_one_line(hook.arguments[parameter])},"
    yield "):"
    yield f"    return {_one_line(hook.returns)}"


def _row(name: str, some: Sequence[tuple[str, EngineHook]]) -> Iterator[str]:
    """The hook as plugin.py reads it."""
    first = some[0][1]
    yield "    {"
    yield f'        "engine": {first.engine!r},'
    yield f'        "target": {first.target!r},'
    yield f'        "versions": {first.versions!r},'
    yield f'        "parameters": {tuple(parameters_of(first.signature))!r},'
    yield f'        "operators": {tuple(operator for operator, _ in some)!r},'
    yield f'        "function": {name},'
    yield "    },"


def _one_line(expression: str) -> str:
    """An expression without comments and line ends."""
    return ast.unparse(ast.parse(expression, mode="eval"))


def _harmless(text: str) -> str:
    """Text of a task file ends no string of ours."""
    return textwrap.shorten(text.replace("\\", "\\\\").replace('"', "'"), 400)
