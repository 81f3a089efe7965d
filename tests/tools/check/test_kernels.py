"""Kernels that no call of a check launches: calls are sought for them, the rest is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.calls import CheckProgress, check
from astra_chat.tools.check.kernels import CheckedKernels
from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, Correct, Device, Refused, Wrong
from tests.tools.check.planted_line import planted

TASK = find_task("silu_and_mul")
CHECK = tuple(case for case in TASK.check if case.dims["d"] < 300)
LAUNCH = "template <typename T>\ncudaError_t launch("
Found = tuple[Wrong | Failure | None, CheckProgress]
Judge = Callable[[str, bool], Found]


def with_paths(scalar: str, condition: str, factor: str) -> str:
    """A further kernel, `rare`, which half calls of one kind launch."""
    kernel = (
        "template <int kWidth> __global__ void rare(__half* out, const __half* in, int64_t tokens,"
        " int64_t d) {\n  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;\n"
        "  if (i >= tokens * d) return;\n  const int64_t t = i / d, c = i % d;\n"
        "  const float gate = float(in[t * 2 * d + c]), up = float(in[t * 2 * d + d + c]);\n"
        f"  out[i] = __half(gate / (1.0f + expf(-gate)) * up{factor});\n}}\n\n"
    )
    assert scalar.count(LAUNCH) == 1
    source = scalar.replace(LAUNCH, kernel + LAUNCH)
    launch = (
        f"if (dtype == 1 && {condition}) {{ rare<4352><<<unsigned((tokens * d + 255) / 256), 256,"
        " 0, stream>>>((__half*)out, (const __half*)input, tokens, d); return cudaGetLastError(); }"
    )
    return planted(source, launch)


@pytest.fixture
def judge(device: Device, oracle: Oracle) -> Judge:
    """What is found beyond CHECK, to confirm a winner or not."""

    def further(
        runner: Runner, built: Build, cases: Sequence[Case], seen: CheckProgress
    ) -> Correct | Wrong | Failure:
        made = oracle.oracle_cases(cases, runner.stop)
        return check(runner, built, [Call(t, hidden=True) for t in made], None, seen)

    def found(source: str, confirming: bool) -> Found:
        built, seen = build(TASK, source, device), CheckProgress()
        assert isinstance(built, Build), built
        runner = Runner(TASK, device, seed=Seed("7"))
        before = build(TASK, TASK.baseline, device)
        assert isinstance(before, Build)
        kernels = CheckedKernels(runner, built, before, confirming)
        kernels.seek(CHECK)
        return kernels.fault(seen, further), seen

    return found


@pytest.mark.second_tier
def test_a_kernel_of_one_width_is_found_by_its_template_s_number(judge: Judge, scalar: str) -> None:
    fault, seen = judge(with_paths(scalar, "d == 4352", ""), True)
    assert fault is None and not seen.never_launched
    assert any(case.dims["d"] == 4352 and case.dtype == "float16" for case in seen.sought)


@pytest.mark.second_tier
def test_a_wrong_kernel_beyond_a_number_of_the_launcher_is_met(judge: Judge, scalar: str) -> None:
    fault, seen = judge(with_paths(scalar, "tokens >= 777 && d % 16 == 8", " * 1.5f"), False)
    assert isinstance(fault, Wrong) and fault.case.dims["tokens"] >= 777
    assert fault.case in seen.sought


@pytest.mark.second_tier
def test_one_of_a_template_is_found_beside_another(judge: Judge, scalar: str) -> None:
    """No number of the source or the template is the width, but 13 times a power of two is."""
    source = with_paths(scalar, "tokens > 77", "")
    one = "rare<4352><<<"
    assert source.count(one) == 1
    fault, seen = judge(source.replace(one, "(d == (13 << 8) ? rare<13> : rare<1>)<<<"), True)
    assert fault is None and seen.never_launched == ()


@pytest.mark.second_tier
def test_what_no_legal_call_launches_is_named_and_not_confirmed(judge: Judge, scalar: str) -> None:
    """More tokens than the contract allows."""
    source = with_paths(scalar, "tokens > 2000000", "")
    fault, seen = judge(source, False)
    assert fault is None and seen.never_launched == ("rare<4352>",)
    fault, seen = judge(source, True)
    assert isinstance(fault, Refused) and fault.gate == "plan"
    (finding,) = fault.findings
    assert "kernel rare<4352> is not launched by any of" in finding.what
    assert "rare(" in source.splitlines()[finding.line - 1]


def test_a_kernel_that_is_never_used_is_named(judge: Judge, scalar: str) -> None:
    fault, seen = judge(scalar.replace(LAUNCH, "__global__ void unused() {}\n\n" + LAUNCH), False)
    assert fault is None and seen.never_launched == ("unused",)


@pytest.mark.second_tier
def test_nothing_is_sought_where_every_kernel_ran(judge: Judge, scalar: str) -> None:
    fault, seen = judge(scalar, True)
    assert fault is None and not seen.sought and not seen.never_launched
