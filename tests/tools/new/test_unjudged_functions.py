"""What callers use of a file beside the task's function is left as it is, to the byte."""

from __future__ import annotations

import pytest

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.build.same_code import same_code
from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.new.callable import HostText, other_functions
from astra_chat.tools.new.unjudged_functions import changed_functions
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, load_task
from tests.two_operators import SILU, sample

BASELINE, WINNER = sample("activation.cu"), sample("vectors.cu")
HOST = {
    "its launch": ("limit_kernel<<<1", "limit_kernel<<<2", ["limit"]),
    "a function that it calls": ("{ return kThreads; }", "{ return 96; }", ["threads", "kThreads"]),
    "a constant": ("kThreads = 64", "kThreads = 96", ["kThreads"]),
}
MACRO = "#define numel() size(0)\nvoid limit("


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    folder = tmp_path_factory.mktemp("two") / "activation"
    folder.mkdir()
    for name in ("task.toml", "reference.py"):
        (folder / name).write_text((SILU / name).read_text())
    (folder / "baseline.cu").write_text(BASELINE)
    return load_task(folder)


@pytest.mark.parametrize(("old", "new", "names"), HOST.values(), ids=HOST)
def test_host_code_is_followed_to_what_differs(old: str, new: str, names: list[str]) -> None:
    before = HostText(BASELINE).reached("limit")
    assert before == HostText(WINNER).reached("limit")
    after = HostText(WINNER.replace(old, new)).reached("limit")
    assert [one for one in before if after.get(one) != before[one]] == names


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ("template <> struct Pair<at::Half> { int value; };", "Pair"),
        ("template <typename T, int N> struct alignas(16) Pair { T values[N]; };", "Pair"),
        ("template void pair<at::Half, A<float>>(int count);", "pair"),
        ("template <class T> using Pair = A<T>;", "Pair"),
        ("static const std::vector<Half> pairs{1};", "pairs"),
        ("template <int N = (3 > 2)> struct Pair { int value; };", "Pair"),
        ("static int pairs[1 < 2 ? 3 : 4];", "pairs"),
    ],
)
def test_arguments_of_templates_are_not_declared(declared: str, name: str) -> None:
    """A candidate that specializes a template of its own for Half changes nothing of Half's."""
    alone = HostText(f"{declared}\nvoid limit() {{ at::Half x; float y; std::vector z; A a; }}")
    assert list(alone.reached("limit")) == ["limit"]
    named = HostText(f"{declared}\nvoid limit() {{ {name} x; }}")
    assert list(named.reached("limit")) == ["limit", name]


def test_the_other_operator_is_found(task: Task) -> None:
    assert list(other_functions(task, BASELINE)) == ["limit"]


@pytest.mark.second_tier
def test_a_build_is_refused_that_changes_what_the_other_operator_runs(task: Task) -> None:
    """Builds of four files: by macros alone, and by device code alone."""
    sources = [
        WINNER,
        WINNER.replace("void limit(", MACRO),
        WINNER.replace("{-6.0f, 6.0f}", "{-5.0f, 6.0f}"),
    ]
    made = build_all(task, [BASELINE, *sources], pick_device("virtual"))
    baseline, *builds = (one for one in made if isinstance(one, Build))
    found = [changed_functions(build, task, build.source, baseline) for build in builds]
    same = [{kernel_name(name) for name in same_code(build, baseline)} for build in builds]
    assert found[0] == [] and same == [{"limit_kernel"}, {"limit_kernel"}, set()]
    assert [one.what.partition(" but no call")[0] for (one,) in found[1:]] == [
        "function limit differs from the baseline's,",
        "function limit differs from the baseline's: it runs `limit_kernel`,",
    ]
