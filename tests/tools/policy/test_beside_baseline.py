"""A candidate may keep what its baseline has, and bring nothing new of the kind."""

import pytest

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.policy import binary_audit
from astra_chat.tools.policy.binary_audit import audit_beside
from astra_chat.tools.policy.source_guard import guard_beside
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task

PLATFORMS = """
__device__ int dot(int a, int b) {
#if defined(USE_HIP)
  int c;
  asm("\\n \\
    v_add_u32 %0, %1, %2 \\n \\
    " : "=v"(c) : "v"(a), "v"(b));
  return c;
#else
  return a * b;
#endif
}
"""


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        (PLATFORMS.replace("a * b", "b * a"), []),
        (PLATFORMS.replace("USE_HIP", "USE_MORE"), ["USE_MORE"]),
        (PLATFORMS + "#include <fstream>\n", ["#include <fstream>"]),
    ],
)
def test_a_candidate_keeps_the_platforms_of_its_baseline(source: str, refused: list[str]) -> None:
    task = find_task("silu_and_mul")
    findings = guard_beside(task.baseline + source, task, task.baseline + PLATFORMS)
    assert [finding.what.split(":")[0] for finding in findings] == refused


def test_without_them_in_the_baseline_they_are_refused() -> None:
    task = find_task("silu_and_mul")
    (finding,) = guard_beside(task.baseline + PLATFORMS, task, task.baseline)
    assert finding.what.startswith("USE_HIP: ")


@pytest.mark.second_tier
def test_a_candidate_keeps_the_exported_functions_of_its_baseline() -> None:
    task, device = find_task("silu_and_mul"), pick_device("virtual")
    kept = f'{task.baseline}\nextern "C" int mine(int n) {{ return n; }}\n'
    more = kept.replace("mine", "other")
    before, other = build_all(task, [kept, more], device)
    assert isinstance(before, Build) and isinstance(other, Build)
    assert audit_beside(before, task, kept, before) == ()
    (finding,) = audit_beside(other, task, more, before)
    assert finding.what.startswith("other: exports it in addition to the launcher")


@pytest.mark.second_tier
def test_a_candidate_may_have_twice_the_ptx_of_its_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file with hundreds of kernels has more than the limit."""
    task = find_task("silu_and_mul")
    more = f"{task.baseline}\n__global__ void twice(float* x) {{ x[threadIdx.x] *= 2; }}\n"
    built = build_all(task, [task.baseline, more], pick_device("virtual"))
    small, large = (one for one in built if isinstance(one, Build))
    monkeypatch.setattr(binary_audit, "PTX_BYTES", 100)
    assert not [f for f in audit_beside(large, task, more, small) if "of PTX" in f.what]
    assert "of PTX" in binary_audit.all_findings(large, task, more, 100)[0].what
