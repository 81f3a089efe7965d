"""A plugin in an engine: found by its entry point and set before the functions, its kernel run on
the virtual GPU. The engine is written here, with the interface that SGLang documents."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from astra_chat.package.engine_file import read_engine_file
from astra_chat.package.folder import Contents, write_plugin
from astra_chat.package.winners import winners
from astra_chat.session.export import link_module
from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.build.tvm_ffi_binding import ensure_binding
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.virtual_gpu.adapter import ensure_runtime
from astra_vgpu.ground.cache import cache_folder
from astra_vgpu.ground.toolkit import find_toolkit
from tests.recorded_files import VIRTUAL
from tests.sources import IMPORT_PATH, ROOT

ENGINE = {
    "sglang/srt/plugins/__init__.py": """
from importlib.metadata import entry_points
from sglang.srt.plugins.hook_registry import HookRegistry

def load_plugins():
    for point in entry_points(group="sglang.srt.plugins"):
        point.load()()
    HookRegistry.apply_hooks()
""",
    "sglang/srt/plugins/hook_registry.py": """
import enum, functools, pkgutil

class HookType(enum.Enum):
    AROUND = "around"

class HookRegistry:
    _hooks = {}

    @classmethod
    def register(cls, target, hook, hook_type, *, source=None):
        cls._hooks.setdefault(target, []).append((hook_type, hook, source))

    @classmethod
    def apply_hooks(cls):
        for target, hooks in cls._hooks.items():
            place, _, name = target.rpartition(".")
            place = pkgutil.resolve_name(place)
            for _, hook, _ in hooks:
                setattr(place, name, functools.partial(hook, getattr(place, name)))
""",
    "sglang/kernels/ops/activation/activation.py": """
import torch
CALLS = []

def _run_activation_inplace(op_name, input, out):
    CALLS.append(op_name)
    gate, up = input.float().chunk(2, -1)
    out.copy_(torch.nn.functional.silu(gate) * up)

def run(op_name, input, out):
    return _run_activation_inplace(op_name, input, out)
""",
    "sglang-0.5.17.dist-info/METADATA": "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.17\n",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as of site-packages: the engine, and the plugin's wheel unpacked as pip does it."""
    folder = tmp_path_factory.mktemp("plugin")
    with ExitStack() as stack:
        (winner,) = winners([VIRTUAL], stack)
        file = read_engine_file(find_task("silu_and_mul"))
        assert file is not None
        hooks = {"silu_and_mul": file.hooks}
        contents = Contents("sglang", "sm_90", {"silu_and_mul": winner}, hooks)
        with zipfile.ZipFile(write_plugin(contents, folder / "package")) as wheel:
            wheel.extractall(folder / "site")
    for name, text in ENGINE.items():
        path = folder / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "site"


def run(site: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = f"{site}:{ROOT / 'tests' / 'tools'}:{IMPORT_PATH}"
    return subprocess.run(
        [sys.executable, *words],
        env={"PYTHONPATH": paths, "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.second_tier
def test_the_engine_runs_the_winner_and_the_original_where_it_does_not_fit(
    site: Path, tmp_path: Path
) -> None:
    """The package takes a build, and the kernel runs: seconds."""
    task = find_task("silu_and_mul")
    source = (site / "astra_winners/modules/silu_and_mul/best.cu").read_text()
    toolkit, built = find_toolkit(), build(task, source, virtual_device("h200"))
    assert isinstance(built, Build)
    fake = ensure_runtime(toolkit.cxx, toolkit.include_dir, cache_folder("virtual-gpu"))
    module = tmp_path / "silu_and_mul.so"
    objects = [built.object, ensure_binding(task, toolkit)]
    link_module(objects, module, toolkit, [f"-L{fake}", "-lvcudart"])
    resources = {r.kernel: (r.registers, r.static_shared_bytes) for r in built.resources}
    script = str(ROOT / "tests" / "tools" / "call_plugin.py")
    counters = {"ASTRA_WINNERS_COUNTERS": str(tmp_path / "counts")}
    done = run(site, script, str(module), str(built.ptx), json.dumps(resources), **counters)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["fits"] == [
        "silu_and_mul: sglang.kernels.ops.activation.activation:_run_activation_inplace: hooked"
    ]
    assert max(found["ours"], found["odd"]) < 5e-3
    assert (found["ours original"], found["other original"], found["odd original"]) == (0, 1, 1)
    counts = {(what, why): n for _, what, why, n in found["counts"]}
    assert counts.pop(("took", "")) == 1
    reasons = sorted(why for _, why in counts)
    assert len(reasons) == 2 and "d = 12 is outside 8" in reasons[0] and "tokens = 0" in reasons[1]
    summed = run(site, "-m", "astra_winners", "counters", *map(str, tmp_path.glob("counts.*")))
    assert summed.returncode == 0 and summed.stdout.splitlines()[0].split()[1:] == ["took", "1"]


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("before", "after", "environment", "words", "code"),
    [
        ("", "", {}, ": hooked", 0),
        ("Version: 0.5.17", "Version: 0.4.9", {}, "sglang 0.4.9 is not >=0.5.17", 1),
        (
            "op_name, input, out):\n    CALLS",
            "name, x, y):\n    CALLS",
            {},
            "it takes (name, x, y)",
            1,
        ),
        ("", "", {"ASTRA_WINNERS": "off"}, "is it installed and enabled?", 1),
    ],
)
def test_check_says_what_is_hooked(
    before: str, after: str, environment: dict[str, str], words: str, code: int, site: Path
) -> None:
    """Another version, another signature, switched off: the original runs, and a line says why."""
    for name, text in ENGINE.items():
        (site / name).write_text(text.replace(before, after) if before else text)
    found = run(site, "-m", "astra_winners", "check", **environment)
    assert found.returncode == code and words in found.stdout, found.stderr[-2000:]


CALLED = """
import json, sys, torch
import astra_winners.operators as operators
import sglang.kernels.ops.activation.activation as activation
from sglang.srt.plugins import load_plugins
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

operators.gpu = lambda: ("NVIDIA H200", "sm_90")
operators.PACKAGED |= {"gpus": ["NVIDIA H200"], "ranks": 1}
load_plugins()
exec(sys.argv[1])
activation.run("silu", torch.randn(2, 64), torch.zeros(2, 32))
assert activation.CALLS == ["silu"]
print(json.dumps([key[2] for key in operators.COUNTERS.totals()]))
"""


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("", "out must be a CUDA tensor"),
        ("operators.gpu = lambda: ('NVIDIA B200', 'sm_100')", "built for sm_90"),
        ("operators.gpu = lambda: ('NVIDIA H20', 'sm_90')", "proved on NVIDIA H200"),
        ("operators.ranks = lambda: 8", "8 share this model"),
        (
            "HookRegistry.register('sglang.kernels.ops.activation.activation"
            "._run_activation_inplace', print, HookType.AROUND, source='other')",
            "plugin other also hooks",
        ),
    ],
)
def test_the_original_runs_and_a_line_says_why(change: str, why: str, site: Path) -> None:
    """Another GPU, more ranks, another plugin; and a call that is outside the contract."""
    for name, text in ENGINE.items():
        (site / name).write_text(text)
    found = run(site, "-c", CALLED, change)
    assert found.returncode == 0, found.stderr[-2000:]
    (reason,) = json.loads(found.stdout.splitlines()[-1])
    assert why in reason and (not change or f"running the original: {reason}" in found.stderr)


SWITCHED = """
import sys
import astra_winners.operators as operators
import sglang.kernels.ops.activation.activation as activation
from sglang.srt.plugins import load_plugins

operators.gpu = lambda: ("NVIDIA H200", "sm_90")
operators.PACKAGED["trial"] = True
load_plugins()
(winner,) = operators.OPERATORS.values()
print(winner.hooked, winner.wanted)
operators.switch([])
print(winner.hooked, winner.wanted)
operators.switch(["silu_and_mul", "rmsnorm"])
print(winner.hooked, winner.wanted)
"""


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("environment", "hooked"), [({"ASTRA_WINNERS_TRIAL": "1"}, True), ({}, False)]
)
def test_a_trial_takes_calls_where_a_step_is_measured(
    environment: dict[str, str], hooked: bool, site: Path
) -> None:
    """`astra-chat step` switches winners, and none that has no hook."""
    for name, text in ENGINE.items():
        (site / name).write_text(text)
    found = run(site, "-c", SWITCHED, **environment)
    assert found.stdout.splitlines() == [f"{hooked} {on and hooked}" for on in (True, False, True)]
    assert ("works only in `astra-chat step`" in found.stderr) is not hooked
