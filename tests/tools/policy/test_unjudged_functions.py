"""What callers use of a file beside the task's function is left as it is, to the byte."""

from __future__ import annotations


import pytest

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.build.same_code import same_code
from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.policy.beside_baseline import audit
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, load_task
from tests.two_operators import SECOND, SILU, sample

BASELINE, WINNER = sample("activation.cu"), sample("vectors.cu")
CHANGES = {
    "its launch": ("limit_kernel<<<1", "limit_kernel<<<2", "not what the baseline has, and"),
    "a function that it calls": ("{ return kThreads; }", "{ return 96; }", "it runs `threads`"),
    "a constant": ("kThreads = 64", "kThreads = 96", "it runs `kThreads`"),
    "a macro": ("void limit(", "#define numel() size(0)\nvoid limit(", "not what the baseline"),
    "its kernel": ("limited(x[i]);", "limited(x[i]) * 2.0f;", "it runs `limit_kernel`"),
    "a device function": ("? kLimits[0] :", "? 0.0f :", "it runs `limit_kernel`"),
    "a device constant": ("{-6.0f, 6.0f}", "{-5.0f, 6.0f}", "it runs `limit_kernel`"),
    "what a name registers": ("&limit)", "&silu_and_mul)", "it runs `silu_and_mul`"),
}
DEAD = "__global__ void limit_kernel(double* x) { *x = 0; }\n"


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("two") / "activation"
    folder.mkdir()
    for name in ("task.toml", "reference.py"):
        (folder / name).write_text((SILU / name).read_text())
    (folder / "baseline.cu").write_text(BASELINE)
    return load_task(folder)


def built(task: Task, *sources: str) -> list[Build]:
    made = build_all(task, [BASELINE, *sources], pick_device("virtual"))
    return [one for one in made if isinstance(one, Build)]


def test_a_winner_that_leaves_it_keeps_its_machine_code(task: Task) -> None:
    baseline, winner = built(task, WINNER)
    assert audit(winner, task, WINNER, baseline) == ()
    assert {kernel_name(name) for name in same_code(winner, baseline)} == {"limit_kernel"}


@pytest.mark.second_tier
def test_what_changes_it_is_refused(task: Task) -> None:
    changed = {name: WINNER.replace(old, new) for name, (old, new, _) in CHANGES.items()}
    without, dead = WINNER.replace(SECOND, "").replace('m.def("limit", &limit);', ""), WINNER + DEAD
    baseline, *builds = built(task, *changed.values(), without, dead)
    for build, (name, source) in zip(builds, changed.items(), strict=False):
        (finding,) = audit(build, task, source, baseline)
        assert finding.what.startswith("function limit is not what"), name
        assert CHANGES[name][2] in finding.what, (name, finding.what)
        on_device = CHANGES[name][2].endswith("`limit_kernel`")
        assert bool(same_code(build, baseline)) is not on_device, name
    assert audit(builds[-2], task, without, baseline) == ()
    assert not same_code(builds[-2], baseline)
    (one,) = same_code(builds[-1], baseline)
    assert kernel_name(one) == "limit_kernel" and "double" not in one and "Pd" not in one
