"""The streaming kernel: as many bytes as the contract's large arguments, every one moved once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.types import Case
from lab.baselines.streaming import (
    VARIANTS,
    Variant,
    streamed_bytes,
    streaming_source,
    streams,
    sweep_source,
)
from tests.contracts.planted import contract

BOUND_BY_LATENCY = {"moe_align_block_size"}
"""Tasks that move next to nothing: what their tables could hold, they do not touch."""
ALL_OF_A_TABLE = {"linear_cross_entropy"}
"""Tasks with an index into a table of which they read every row all the same."""
BY_DATA = {"moe_experts_small"}
"""Tasks whose data says what must be read; a sweep reads it."""


@pytest.mark.parametrize("name", task_names())
def test_it_moves_nearly_what_the_contract_must(name: str) -> None:
    task = find_task(name)
    assert streams(task) == (name not in BOUND_BY_LATENCY | ALL_OF_A_TABLE | BY_DATA)
    assert (sweep_source(task) is not None) == (name in BY_DATA)
    sources = [streaming_source(task, variant) for variant in VARIANTS]
    assert len(set(sources)) == len(VARIANTS)


def test_of_a_table_the_indexed_rows_count() -> None:
    task = contract("reshape_and_cache")
    case = task.bench[0][0]
    names = {"tokens", "heads", "head_size"}
    new = math.prod(case.dims[name] for name in names) * 2
    held = sum(arg.bytes_of(case) for arg in task.args)
    assert streamed_bytes(task, case) == 4 * new < held


@pytest.mark.second_tier
def test_every_vector_is_written_once_from_both_halves() -> None:
    task, device = find_task("silu_and_mul"), virtual_device("h200")
    built = build(task, streaming_source(task, Variant(64, 2, evict_first=True)), device)
    assert isinstance(built, Build)
    case = Case(dims={"tokens": 5, "d": 1048}, dtype="float16", values="ramp")
    oracle = Oracle(task)
    (oracle_case,) = oracle.oracle_cases([case], Stop())
    out, source = task.args
    flat = np.fromfile(oracle_case.input_path(source), dtype=np.uint16)
    half = len(flat) // 2
    for run in Runner(task, device).run(built, [oracle_case], "check"):
        assert isinstance(run, CaseRun), run
        got = run.after(out)[0].view(np.uint16)
        np.testing.assert_array_equal(got, flat[:half] ^ flat[half:])
    oracle.close()
