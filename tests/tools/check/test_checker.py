"""The whole check of kernels that are right only where they expect to be looked at.

Built without guard and audit, which would refuse some of these for what they hold on to.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check import hidden_cases
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.error_norms import FEW
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.evaluation import CheckRecord
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Tolerance, find_task, load_task
from astra_chat.tools.types import (
    Case,
    Correct,
    Crashed,
    Device,
    Refused,
    TimedOut,
    Unsafe,
    Wrong,
)
from astra_vgpu.ground.errors import BadInput
from lab.attack_kernels import kernels
from tests.tools.check.planted_line import planted

FULL = find_task("silu_and_mul")
ROW_SUM = load_task(Path(__file__).parents[2] / "attacks" / "tasks" / "row_sum")
TASK = FULL.model_copy(
    update={
        "types": ({"T": "float16"}, {"T": "float32"}),
        "check": tuple(c for c in FULL.check if c.dtype != "bfloat16" and c.dims["d"] < 300),
    }
)
RESULT = "out[i] = T(gate / (1.0f + expf(-gate)) * up);"
SWITCH = "  switch (dtype) {"
Found = tuple[Correct | Wrong | Failure, CheckRecord]


class Bench:
    """One checker, used for many kernels as a judge uses it."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.oracle = Oracle(TASK)
        self.checker = Checker(Runner(TASK, device), self.oracle)

    def check(self, source: str, *extra: Case) -> Found:
        built = build(TASK, source, self.device)
        assert isinstance(built, Build), built
        return self.checker.check(built, extra)


@pytest.fixture(scope="module")
def benches() -> Iterator[dict[str, Bench]]:
    made: dict[str, Bench] = {}
    yield made
    for bench in made.values():
        bench.oracle.close()


@pytest.fixture(scope="module")
def honest_checks() -> dict[str, tuple[Found, Found]]:
    return {}


@pytest.fixture
def bench(device: Device, benches: dict[str, Bench]) -> Bench:
    return benches.setdefault(device.kind, Bench(device))


@pytest.fixture
def honest(
    bench: Bench, scalar: str, honest_checks: dict[str, tuple[Found, Found]]
) -> tuple[Found, Found]:
    """Two checks of a correct kernel, one after the other: several tests look at them."""
    kind = bench.device.kind
    if kind not in honest_checks:
        honest_checks[kind] = bench.check(scalar), bench.check(scalar)
    return honest_checks[kind]


def edited(source: str, old: str, new: str) -> str:
    assert source.count(old) == 1
    return source.replace(old, new)


def wrong(found: Found) -> Wrong:
    assert isinstance(found[0], Wrong), found[0]
    return found[0]


def refused(found: tuple[object, CheckRecord]) -> str:
    """What the recorder says of a launcher that no plan can stand for."""
    outcome = found[0]
    assert isinstance(outcome, Refused) and outcome.gate == "plan", outcome
    return outcome.findings[0].what


@pytest.mark.second_tier
def test_an_honest_kernel_passes_hidden_cases_too(
    honest: tuple[Found, Found], device: Device
) -> None:
    outcome, record = honest[0]
    assert isinstance(outcome, Correct), outcome
    assert outcome.hidden == record.drawn > 3 * len(record.hidden) >= 30
    assert outcome.cases == record.cases and len(record.visible) == len(TASK.check)
    assert not record.left_out
    assert outcome.deterministic is True and record.repeats >= 4
    assert outcome.error_ratio is not None and outcome.error_ratio < 1.5
    assert record.how["same_buffers"] == 2 * len(TASK.dtypes)
    assert ("graph" in record.how) == (device.kind == "cuda")
    assert record.elements > 100_000 and record.read_bytes > record.elements
    assert record.failed is None


@pytest.mark.parametrize(
    "formula",
    [
        "gate * up / (1.0f + exp2f(-1.4426950408889634f * gate))",
        "up * (gate * __frcp_rn(1.0f + __expf(-gate)))",
    ],
)
@pytest.mark.second_tier
def test_other_honest_formulas_pass(
    bench: Bench, scalar: str, formula: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These formulas are one function in other roundings. What becomes of infinities and overflows
    depends on the formula, so there are none here."""
    usual = ("normal", "heavy_tail", "binary", "tiny", "denormal", "ramp", "one_hot")
    monkeypatch.setattr(hidden_cases, "CHANCE", usual[3:])
    task = TASK.model_copy(update={"check": tuple(c for c in TASK.check if c.values in usual)})
    source, oracle = edited(scalar, RESULT, f"out[i] = T({formula});"), Oracle(task)
    built = build(task, source, bench.device)
    assert isinstance(built, Build), built
    for root in ("1", "2"):
        outcome, _ = Checker(Runner(task, bench.device), oracle, Entropy(root)).check(built, ())
        assert isinstance(outcome, Correct), outcome
    oracle.close()


@pytest.mark.second_tier
def test_a_value_rounded_in_between_is_less_precise_than_the_baseline(
    bench: Bench, scalar: str
) -> None:
    """Within twice the baseline's rms error; a task may allow it by a larger oracle_ratio."""
    between = edited(scalar, RESULT, "out[i] = T(float(T(gate / (1.0f + expf(-gate)))) * up);")
    found = wrong(bench.check(between))
    assert found.reason == "precision" and found.case.dtype == "float16"
    assert "not the nearest float16" in found.note


@pytest.mark.second_tier
def test_seeds_are_fresh_and_hidden_cases_differ_each_time(honest: tuple[Found, Found]) -> None:
    (_, first), (_, second) = honest
    assert first.visible == second.visible
    # A case that the baseline itself fails on a drawn seed keeps the seed of its task.
    assert sum(case.seed != 0 for case in first.visible) > len(first.visible) // 2
    assert not {c.seed for c in first.hidden} & {c.seed for c in second.hidden}


@pytest.mark.second_tier
def test_shapes_learnt_by_heart(bench: Bench, scalar: str) -> None:
    known = " || ".join(f"d == {d}" for d in {case.dims["d"] for case in TASK.check})
    bad = edited(scalar, SWITCH, f"  if (!({known})) return cudaSuccess;\n{SWITCH}")
    found = bench.check(bad)
    assert wrong(found).reason == "unwritten" and wrong(found).case not in found[1].visible
    drawn = found[1].failed
    assert drawn == wrong(found).case, "every later check of the run may have it, and then"
    again = bench.check(bad, drawn)
    assert wrong(again).case == drawn and again[1].failed is None, "it is no drawn one"
    assert bench.check(scalar, drawn)[1].failed is None


@pytest.mark.second_tier
def test_a_grid_that_ends_at_65535(bench: Bench, scalar: str) -> None:
    clipped = edited(
        scalar, "if (i >= tokens * d) return;", "if (i >= min(tokens, int64_t(65536)) * d) return;"
    )
    found = wrong(bench.check(clipped))
    assert found.reason == "unwritten" and found.case.dims["tokens"] > 65536


@pytest.mark.second_tier
def test_alignment_that_the_contract_does_not_promise(bench: Bench, scalar: str) -> None:
    picky = f"  if (size_t(input) % 32) return cudaErrorMisalignedAddress;\n{SWITCH}"
    outcome, _ = bench.check(edited(scalar, SWITCH, picky))
    assert isinstance(outcome, Crashed)
    assert outcome.case.offsets.get("input", outcome.case.offset) % 2 == 1


@pytest.mark.second_tier
def test_results_remembered_by_address(bench: Bench, scalar: str) -> None:
    """Saves what it wrote, and hands that out again when it sees the same input pointer."""
    memo = f"""
  static const void* key = nullptr;
  static int64_t size = 0;
  static void* saved = nullptr;
  const int64_t bytes = tokens * d * (dtype == 0 ? 4 : 2);
  if (key == input && size == bytes)
    return cudaMemcpyAsync(out, saved, bytes, cudaMemcpyDeviceToDevice, stream);
  if (saved) cudaFree(saved);
  cudaMalloc(&saved, bytes);
  key = input;
  size = bytes;
{SWITCH}"""
    keep = "  return cudaMemcpyAsync(saved, out, bytes, cudaMemcpyDeviceToDevice, stream);\n}"
    source = edited(scalar, SWITCH, memo)
    for code, name in enumerate(("float", "__half", "__nv_bfloat16")):
        call = f"launch<{name}>(out, input, tokens, d, stream);"
        source = edited(source, f"case {code}: return {call}", f"case {code}: {call} break;")
    assert "cudaMalloc" in refused(bench.check(source[: source.rindex("}")] + keep))


@pytest.mark.second_tier
def test_work_that_stops_after_some_calls(bench: Bench, scalar: str) -> None:
    tired = f"  static int calls = 0;\n  if (++calls > 12) return cudaSuccess;\n{SWITCH}"
    assert "depends on" in refused(bench.check(edited(scalar, SWITCH, tired)))


@pytest.mark.second_tier
def test_a_baseline_that_keeps_state_is_bad_input(device: Device, tmp_path: Path) -> None:
    """Not a check without hidden cases."""
    counting = kernels("attacks")["s24_device_memory.cu"]
    shutil.copytree(ROW_SUM.folder, tmp_path / "task")
    (tmp_path / "task" / "baseline.cu").write_text(counting)
    task, oracle = load_task(tmp_path / "task"), Oracle(ROW_SUM)
    try:
        built = build(task, ROW_SUM.baseline, device)
        assert isinstance(built, Build)
        with pytest.raises(
            BadInput, match="row_sum is refused: a call writes to module variable last"
        ):
            Checker(Runner(task, device), oracle).check(built, ())
    finally:
        oracle.close()


@pytest.mark.second_tier
def test_lost_precision_within_the_tolerance(bench: Bench, scalar: str) -> None:
    cut = """const float exact = gate / (1.0f + expf(-gate)) * up;
  out[i] = T(sizeof(T) == 4 ? __uint_as_float(__float_as_uint(exact) & 0xffffffc0u) : exact);"""
    found = wrong(bench.check(edited(scalar, RESULT, cut)))
    assert found.reason == "precision" and found.case.dtype == "float32"


@pytest.mark.second_tier
def test_other_bits_every_time_are_reported(bench: Bench, scalar: str) -> None:
    """The last bit of a few results follows the output's address: correct, but other bits from call
    to call."""
    flip = """const float exact = gate / (1.0f + expf(-gate)) * up;
  const bool chosen = sizeof(T) == 4 && i % 13 == (uintptr_t(out) >> 8) % 13;
  const bool usual = fabsf(exact) > 1e-3f && fabsf(exact) < 1e3f;
  const bool flipped = chosen && usual;
  out[i] = T(flipped ? __uint_as_float(__float_as_uint(exact) ^ 1u) : exact);"""
    outcome, _ = bench.check(edited(scalar, RESULT, flip))
    assert isinstance(outcome, Correct) and outcome.deterministic is False


@pytest.mark.second_tier
def test_a_result_that_is_read_before_it_is_written(
    bench: Bench, scalar: str, device: Device, honest: tuple[Found, Found]
) -> None:
    """Without effect in any call: no poison is below 2. A kernel that leaves out what seems to be
    there already is wrong only after another call."""
    if device.kind != "virtual":
        pytest.skip("the virtual GPU's warnings")
    source = edited(scalar, RESULT, f"if (float(out[i]) == 1.5f) return;  // reads\n  {RESULT}")
    outcome, record = bench.check(source)
    assert isinstance(outcome, Unsafe), outcome
    line = next(n for n, t in enumerate(source.splitlines(), 1) if t.endswith("// reads"))
    assert outcome.what.startswith("uninitialized read of") and f".cu:{line}" in outcome.where
    assert all(" of out (" in words for words in record.warnings)
    assert honest[0][1].warnings == ()


@pytest.mark.second_tier
def test_a_case_that_the_baseline_fails_is_not_held_against_anybody(
    device: Device, scalar: str, tmp_path: Path
) -> None:
    folder = tmp_path / TASK.name
    shutil.copytree(TASK.folder, folder, ignore=shutil.ignore_patterns("script"))
    baseline = folder / "baseline.cu"
    baseline.write_text(planted(baseline.read_text(), "if (tokens == 999) --tokens;"))
    task = load_task(folder).model_copy(update={"types": TASK.types, "check": TASK.check})
    oracle, built = Oracle(task), build(task, scalar, device)
    assert isinstance(built, Build)
    case = Case(dims={"tokens": 999, "d": 520}, dtype="float32")
    outcome, record = Checker(Runner(task, device), oracle).check(built, [case])
    oracle.close()
    assert isinstance(outcome, Correct)
    assert any(
        words.startswith("999x520 float32: the baseline is wrong") for words in record.left_out
    )


@pytest.mark.second_tier
def test_a_task_that_lets_zeros_pass_is_the_users_to_mend(device: Device) -> None:
    """Results are of float32 and their terms are not stated: all others are judged by place,
    too."""
    loose = {name: Tolerance(rtol=1.0, atol=1e3) for name in ROW_SUM.tolerance}
    task = ROW_SUM.model_copy(update={"tolerance": loose, "oracle_ratio": 1e9})
    oracle, built = Oracle(task), build(ROW_SUM, ROW_SUM.baseline, device)
    assert isinstance(built, Build)
    with pytest.raises(BadInput, match="accept a trivial output: out: all zeros"):
        Checker(Runner(task, device), oracle).check(built, ())
    oracle.close()


@pytest.mark.gpu
def test_a_launch_on_another_stream_is_wrong(scalar: str, benches: dict[str, Bench]) -> None:
    from astra_chat.tools.system.devices import pick_device

    own = edited(scalar, "<<<blocks, 256, 0, stream>>>", "<<<blocks, 256>>>")
    found, _ = benches.setdefault("cuda", Bench(pick_device("cuda"))).check(own)
    assert isinstance(found, Refused) and "a stream other than" in found.findings[0].what


@pytest.mark.gpu
def test_work_done_while_a_graph_is_captured_is_lost(
    scalar: str, benches: dict[str, Bench]
) -> None:
    from astra_chat.tools.system.devices import pick_device

    once = f"""
  cudaStreamCaptureStatus status;
  cudaStreamIsCapturing(stream, &status);
  if (status != cudaStreamCaptureStatusNone) return cudaSuccess;
{SWITCH}"""
    found, _ = benches.setdefault("cuda", Bench(pick_device("cuda"))).check(
        edited(scalar, SWITCH, once)
    )
    assert isinstance(found, Refused) and "cudaStreamIsCapturing" in found.findings[0].what


@pytest.mark.second_tier
def test_the_baselines_errors_on_few_results_are_learned_on_several_seeds(device: Device) -> None:
    """One number may be right by luck: an honest sum in another order was refused for that."""
    oracle = Oracle(ROW_SUM)
    runner = Runner(ROW_SUM, device)
    checker = Checker(runner, oracle)
    single = Case(dims={"rows": 1, "n": 4097}, dtype="float32", seed=3)
    several = single.model_copy(update={"dims": {"rows": FEW, "n": 65}})
    special = single.model_copy(update={"values": "special"})
    ran: list[Case] = []
    whole = checker._runner.kept_runs

    def noted(built: Build, calls: Sequence[Call], *rest: Any) -> Iterator[CaseRun | Failure]:
        ran.extend(call.oracle_case.case for call in calls)
        return whole(built, calls, *rest)

    checker._runner.kept_runs = noted  # type: ignore[method-assign, assignment]
    oracle_cases = oracle.oracle_cases([single, several, special], Stop())
    assert not checker.learn(oracle_cases)
    assert [case.dims["rows"] for case in ran] == [1, FEW, 1] + [1] * (FEW - 1)
    assert len({case.seed for case in ran if case.dims == single.dims}) == FEW
    assert all(oracle_case.folder.is_dir() for oracle_case in oracle_cases)
    assert not checker.learn(oracle_cases) and len(ran) == FEW + 2, "known by now"
    oracle.close()


@pytest.mark.second_tier
def test_shared_cases_of_few_results_are_compared_and_not_measured(device: Device) -> None:
    """There are many of them: seven further seeds of each would take a judge seconds."""
    oracle = Oracle(ROW_SUM)
    checker = Checker(Runner(ROW_SUM, device), oracle)
    few = [c for c in checker._shared if c.dims["rows"] < FEW][:2]
    oracle_cases = oracle.oracle_cases(few, Stop())
    assert len(few) == 2 and not checker._on_further_seeds(few)
    assert not checker.learn(oracle_cases)
    assert all(checker.baseline_errors.knows(case) for case in few)
    built = build(ROW_SUM, ROW_SUM.baseline, device)
    assert isinstance(built, Build)
    for run in Runner(ROW_SUM, device).run(built, oracle_cases, "check"):
        assert isinstance(run, CaseRun) and checker.baseline_errors.judge(run) is None
    oracle.close()


@pytest.mark.second_tier
def test_a_case_is_not_judged_by_some_of_its_seeds(device: Device) -> None:
    """Where time runs out in between, one lucky result would refuse honest kernels."""
    oracle = Oracle(ROW_SUM)
    checker = Checker(Runner(ROW_SUM, device), oracle)
    single = Case(dims={"rows": 1, "n": 4097}, dtype="float32", seed=3)
    several = single.model_copy(update={"dims": {"rows": FEW, "n": 65}})
    whole = checker._runner.kept_runs

    def cut(built: Build, calls: Sequence[Call], *rest: Any) -> Iterator[CaseRun | Failure]:
        for number, run in enumerate(whole(built, calls, *rest)):
            yield TimedOut(step="check", limit_s=1.0) if number == 4 else run

    checker._runner.kept_runs = cut  # type: ignore[method-assign, assignment]
    failed = checker.learn(oracle.oracle_cases([several, single], Stop()))
    assert [str(one) for one in failed] == [f"{single.label}: the baseline timed out"]
    assert failed[0].case == single and failed[0].tried, "once, whichever of its seeds it was"
    assert checker.baseline_errors.knows(several) and not checker.baseline_errors.knows(single)
    oracle.close()
