"""Kernels that are wrong for one number of their own are found by the cases drawn for it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.calls import check
from astra_chat.tools.check.cases_by_heart import cases_by_heart
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.known_numbers import known_numbers
from astra_chat.tools.entropy import Entropy, Seed
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Correct, Device, Wrong

SEED = Seed("wrong by heart")


class Fault(NamedTuple):
    task: str
    old: str
    new: str


SILU = "result.item[i] = from_float<T>(silu(to_float(x.item[i])) * to_float(y.item[i]));"
TOKEN = "  const int64_t token = blockIdx.x;"
VECTORS = "  const int vectors = static_cast<int>(d)"
HALF = "  const int half = rot_dim / 2;\n  const T* cos_row"
TOPK = "  switch (dtype) {\n    case 0: return with(launch<float>);"
SQUARES = "  float squares = 0.0f;\n"
OUTER = "to_float(y.item[i]));"
FAULTS = {
    "value": Fault(
        "silu_and_mul",
        SILU,
        "float v = to_float(x.item[i]); if (v == 3.140625f) v = 0.0f;"
        " result.item[i] = from_float<T>(silu(v) * " + OUTER,
    ),
    "between": Fault(
        "silu_and_mul",
        SILU,
        "float v = to_float(x.item[i]); if (v > 77.25f && v < 77.75f) v = 0.0f;"
        " result.item[i] = from_float<T>(silu(v) * " + OUTER,
    ),
    "packed bits": Fault(
        "silu_and_mul",
        "const Vector<T> y = load(up + index * kSize);",
        "const Vector<T> y = load(up + index * kSize);"
        " if (*reinterpret_cast<const unsigned*>(&x.item[2]) == 0x42484248u) continue;",
    ),
    "tokens beyond": Fault("silu_and_mul", TOKEN, TOKEN + " if (gridDim.x > 4999) return;"),
    "a token": Fault("silu_and_mul", TOKEN, TOKEN + " if (token == 70000) return;"),
    "row length": Fault("silu_and_mul", TOKEN, TOKEN + " if (d == 1232) return;"),
    "vectors": Fault("silu_and_mul", TOKEN, TOKEN + " if (d / kSize == 513) return;"),
    "host": Fault("silu_and_mul", VECTORS, "  if (tokens == 333) return cudaSuccess;\n" + VECTORS),
    "folded": Fault(
        "silu_and_mul",
        VECTORS,
        "  constexpr int kA = 37, kB = kA * 9 + 1;\n  if (tokens == kB) return cudaSuccess;\n"
        + VECTORS,
    ),
    "index": Fault(
        "rotary_embedding",
        HALF,
        HALF.replace("\n", "\n  if (positions[blockIdx.x] == 4711) return;\n", 1),
    ),
    "stride": Fault(
        "rotary_embedding",
        HALF,
        HALF.replace("\n", "\n  if (query.token_stride == 4104) return;\n", 1),
    ),
    "rest": Fault("topk_softmax", TOPK, "  if (tokens % 97 == 13) return cudaSuccess;\n" + TOPK),
    "scalar": Fault(
        "topk_softmax", TOPK, "  if (moe_softcapping == 12.5f) return cudaSuccess;\n" + TOPK
    ),
    "greatest of a group": Fault(
        "per_token_group_quant_fp8",
        "  const float scale = largest * (1.0f / kLargest);",
        "  if (largest == 5.375f) largest = 5.5f;\n"
        "  const float scale = largest * (1.0f / kLargest);",
    ),
    "a negative value": Fault(
        "moe_sum_reduce",
        "for (int expert = 0; expert < experts; ++expert) sum += to_float(first[expert * hidden]);",
        "for (int expert = 0; expert < experts; ++expert) {"
        " float v = to_float(first[expert * hidden]); if (v == -2.71875f) v = 0; sum += v; }",
    ),
    "bits": Fault(
        "rmsnorm",
        "squares += to_float(x.item[i]) * to_float(x.item[i]);",
        "squares += sizeof(T) == 2 && *reinterpret_cast<const unsigned short*>(&x.item[i]) =="
        " 0x4049 ? 0.0f : to_float(x.item[i]) * to_float(x.item[i]);",
    ),
    "rows apart": Fault("rmsnorm", SQUARES, SQUARES + "  if (input_stride == 4104) return;\n"),
    "eps": Fault(
        "rmsnorm",
        "  const int vectors = static_cast<int>(h) / kSize;",
        "  if (eps == 1e-4f) eps = 0.0f;\n  const int vectors = static_cast<int>(h) / kSize;",
    ),
}


def faulty(fault: Fault) -> tuple[Task, str]:
    task = find_task(fault.task)
    assert fault.old in task.baseline
    return task, task.baseline.replace(fault.old, fault.new)


def by_heart(task: Task, source: str, device: Device, seed: Seed = SEED) -> Correct | object:
    """The outcome of a source on the cases of its own numbers."""
    built = build(task, source, device, Stop())
    assert isinstance(built, Build), built
    oracle = Oracle(task)
    try:
        cases = cases_by_heart(task, known_numbers(built), seed)
        assert cases
        calls = [Call(one, hidden=True) for one in oracle.oracle_cases(cases, Stop())]
        return check(Runner(task, device, Stop(), seed=seed), built, calls)
    finally:
        oracle.close()


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.second_tier
def test_wrong_for_one_number_is_found(name: str, device: Device) -> None:
    task, source = faulty(FAULTS[name])
    outcome = by_heart(task, source, device)
    assert isinstance(outcome, Wrong), outcome


@pytest.mark.parametrize("name", sorted({fault.task for fault in FAULTS.values()}))
@pytest.mark.second_tier
def test_the_baseline_is_right_on_the_cases_of_its_numbers(name: str, device: Device) -> None:
    task = find_task(name)
    assert isinstance(by_heart(task, task.baseline, device), Correct)


@pytest.mark.second_tier
@pytest.mark.parametrize("name", ["host", "bits"])
def test_the_whole_check_finds_it_and_records_the_numbers(name: str, device: Device) -> None:
    task, source = faulty(FAULTS[name])
    built = build(task, source, device, Stop())
    assert isinstance(built, Build), built
    oracle = Oracle(task)
    try:
        entropy = Entropy("7")
        checker = Checker(Runner(task, device), oracle, entropy)
        outcome, record = checker.check(built, (), seed=entropy.evaluation("it"))
        assert isinstance(outcome, Wrong), outcome
        assert record.known == known_numbers(built)
        assert 333 in record.known.sizes or 0x4049 in record.known.bits
    finally:
        oracle.close()
