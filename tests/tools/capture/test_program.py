"""Real programs, captured: what the recorder sees, and what it says where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.capture.calls import calls_text, read_calls
from astra_chat.tools.capture.findings import (
    contradictions,
    groups_of,
    integer_ranges,
    unseen,
    views,
)
from astra_chat.tools.capture.program import operator_name
from astra_vgpu.ground.errors import BadInput
from tests.tools.capture.programs import Program

SERVING = """
import torch, ops
for rows in (1, 1, 1, 8):
    ops.rms(torch.ones(rows, 64), torch.full((64,), 2.0), eps=1e-5)
ops.rms(torch.tensor([[1.0, float("nan"), float("-inf"), 3.0]]), torch.ones(4), 1e-3, None)
for _ in range(6):
    qkv = torch.randn(4, 3 * 32).bfloat16()
    q, k, v = qkv.split(32, dim=1)
    ops.attend(q, k, v, torch.empty(4, 32, dtype=torch.bfloat16))
table = torch.arange(40.0).reshape(10, 4)
for _ in range(3):
    torch.ops.mine.gather(torch.empty(3, 4), table, torch.tensor([7, 0, 2]), 2.0)
ops.gather(torch.empty(3, 4), table, idx=torch.tensor([1, 1, 9]), scale=3.0)
ops.total([torch.ones(2), torch.ones(2)])
ops.Norm.apply(torch.ones(5))
"""
NAMES = ("ops:rms", "ops:attend", "mine::gather", "ops:total", "ops:Norm.apply")


@pytest.mark.second_tier
def test_equal_calls_are_one_with_a_count_and_their_values(
    program: Program, tmp_path: Path
) -> None:
    calls = program.calls(SERVING, NAMES, contents=tmp_path / "kept")
    assert calls.ended == "exit code 0" and calls.whole and not list(unseen(calls))
    rms = calls.operator("ops:rms")
    assert [call.count for call in rms.calls] == [3, 1, 1]
    first = rms.calls[0]
    assert first.tensors["x"].shape == (1, 64) and first.tensors["x"].dtype == "float32"
    assert first.values["eps"].counts == ((1e-5, 3),) and "bias" not in first.values
    assert first.tensors["w"].values and first.tensors["w"].values.least == 2.0
    special = next(call for call in rms.calls if call.tensors["x"].shape == (1, 4))
    seen = special.tensors["x"].values
    assert seen and seen.nan and seen.minus_infinity and not seen.infinity
    assert (seen.least, seen.greatest) == (1.0, 3.0) and special.values["bias"].value is None

    (attend,) = calls.operator("ops:attend").calls
    assert attend.count == 6 and attend.looked == 4
    assert groups_of(attend) == [("q", "k", "v")]
    assert [attend.tensors[name].offset_bytes for name in "qkv"] == [0, 64, 128]
    assert attend.tensors["q"].strides == (96, 1)
    assert {name for name, tensor in attend.tensors.items() if tensor.written} == {"out"}
    assert attend.results["result"].buffer == attend.tensors["out"].buffer
    assert list(views(calls.operator("ops:attend"))) == [
        "q and k and v were views of one buffer in 6 calls"
    ]
    gather = calls.operator("mine::gather")
    assert gather.count == 4 and gather.declared.startswith("mine::gather(Tensor(a0!) out")
    assert next(integer_ranges(gather)) == "idx contains 0 to 9, below table.shape[0]"
    assert not list(contradictions(gather))
    (total,) = calls.operator("ops:total").calls
    assert list(total.tensors) == ["parts[0]", "parts[1]"]
    assert calls.operator("ops:Norm.apply").count == 1
    assert first.contents and (tmp_path / "kept" / first.contents).is_file()

    file = tmp_path / "calls.json"
    file.write_text(calls_text(calls))
    assert read_calls(file) == calls
    assert max(map(len, file.read_text().splitlines())) < 260, "it is readable"


CRASHING = """
import os, sys, torch, ops
for _ in range(12):
    ops.rms(torch.ones(3, 64), torch.ones(64))
"""


@pytest.mark.parametrize(
    ("end", "ended", "least"),
    [
        ("raise ValueError('half way')", "exit code 1", 12),
        ("os.kill(os.getpid(), 9)", "signal SIGKILL", 8),
        ("os._exit(3)", "exit code 3", 8),
    ],
)
def test_of_a_program_that_crashes_the_calls_are_kept(
    program: Program, end: str, ended: str, least: int
) -> None:
    calls = program.calls(CRASHING + end, ["ops:rms"])
    assert calls.ended == ended and calls.whole == (least == 12)
    assert least <= calls.operator().count <= 12
    assert any(ended in line for line in unseen(calls))


def test_operators_that_were_not_called_are_named_with_the_reason(program: Program) -> None:
    names = ["ops:tiny", "ops:missing", "nowhere:f", "mine::gather", "mine::no", "aten::mm"]
    with pytest.raises(BadInput) as error:
        program.calls("import torch, ops\ntorch.ones(2, 2) @ torch.ones(2, 2)", names)
    said = str(error.value)
    assert "\n" not in said and said.endswith("the program ended with exit code 0")
    for words in (
        "ops:tiny was never called",
        "ops does not define missing",
        "the program never imported nowhere",
        "mine::gather was never called",  # though torch.library takes it away at the end
        "mine::no: no such operator is registered",
        "aten::mm was not called through torch.ops",
    ):
        assert words in said


def test_a_python_that_keeps_the_recorder_out_is_named(program: Program) -> None:
    with pytest.raises(BadInput, match="no Python process of the program loaded the recorder"):
        program.calls("import sys", ["ops:rms"], options=["-I"])


COMPILED = """
import torch, ops
for rows in (1, 1, 8):
    torch.compile(lambda x, w: ops.rms(x, w) + 1, backend="eager", fullgraph=True)(
        torch.ones(rows, 64), torch.ones(64))
"""


@pytest.mark.second_tier
def test_under_torch_compile_it_says_that_it_saw_nothing(program: Program) -> None:
    with pytest.raises(BadInput, match=r"torch\.compile traced ops:rms into a graph"):
        program.calls(COMPILED, ["ops:rms"])


@pytest.mark.second_tier
def test_beside_compiled_calls_it_says_which_may_be_missing(program: Program) -> None:
    calls = program.calls(COMPILED + "ops.rms(torch.ones(2, 8), torch.ones(8))", ["ops:rms"])
    assert calls.operator().count == 1
    (said,) = unseen(calls)
    assert "torch.compile traced" in said


def test_calls_that_contradict_a_schema_are_a_line_each(program: Program) -> None:
    text = "import torch, ops\nx = torch.zeros(4)\ntorch.ops.liar.fill(x)\ntorch.ops.liar.same(x)"
    calls = program.calls(text, ["liar::fill", "liar::same"])
    (writes,) = contradictions(calls.operator("liar::fill"))
    assert writes.startswith("liar::fill writes 'x', but its schema says that it does not")
    (returns,) = contradictions(calls.operator("liar::same"))
    assert returns.startswith("liar::same returns memory of 'x' as result")


PROCESSES = """
import multiprocessing, torch, ops

def work(rows):
    for _ in range(5):
        ops.rms(torch.ones(rows, 8), torch.ones(8))

if __name__ == "__main__":
    work(1)
    for way in ("fork", "spawn"):
        process = multiprocessing.get_context(way).Process(target=work, args=(1,))
        process.start()
        process.join()
"""


@pytest.mark.second_tier
def test_calls_of_all_processes_are_one(program: Program) -> None:
    (call,) = program.calls(PROCESSES, ["ops:rms"]).operator().calls
    assert call.count == 15


def test_the_program_s_own_sitecustomize_runs_too(program: Program) -> None:
    (program.folder / "sitecustomize.py").write_text("import builtins\nbuiltins.HERE = 7")
    text = "import torch, ops\nops.tiny(torch.ones(HERE), 1)"
    (call,) = program.calls(text, ["ops:tiny"]).operator().calls
    assert call.tensors["x"].shape == (7,)


@pytest.mark.second_tier
def test_a_million_calls_stay_small(program: Program) -> None:
    text = "import torch, ops\nx = torch.ones(2)\nfor i in range(10**6): ops.tiny(x, i % 3)"
    calls = program.calls(text, ["ops:tiny"])
    assert [call.count for call in calls.operator().calls] == [333334, 333333, 333333]
    assert len(calls_text(calls)) < 10_000


def test_of_endlessly_many_kinds_of_calls_the_first_are_kept(program: Program) -> None:
    text = "import torch, ops\nx = torch.ones(2)\nfor i in range(5000): ops.tiny(x, i)"
    calls = program.calls(text, ["ops:tiny"])
    operator = calls.operator()
    assert (len(operator.calls), operator.count, operator.beyond) == (4096, 4096, 904)
    assert any("904 calls beyond the first 4,096 kinds" in line for line in unseen(calls))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torch.ops.mine.gather", "mine::gather"),
        ("torch.ops.mine.gather.out", "mine::gather.out"),
        ("mine::gather", "mine::gather"),
        ("pkg.mod:f", "pkg.mod:f"),
        ("pkg:Class.f", "pkg:Class.f"),
    ],
)
def test_an_operator_s_name(text: str, name: str) -> None:
    assert operator_name(text) == name


@pytest.mark.parametrize("text", ["rms", "", ":f", "m:", "__main__:f", "a::b::c"])
def test_what_is_no_operator_is_one_line(text: str) -> None:
    with pytest.raises(BadInput, match="--op") as error:
        operator_name(text)
    assert "\n" not in str(error.value)


GRAPH = """
import torch, ops
x, w = torch.ones(4, 64, device="cuda"), torch.ones(64, device="cuda")
ops.rms(x, w)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    ops.rms(x, w)
for _ in range(7):
    graph.replay()
"""


def test_replays_are_counted_where_torch_makes_them(program: Program) -> None:
    """A replay without a graph fails, and has been seen."""
    text = """
import torch, ops
ops.tiny(torch.ones(2), 1)
for _ in range(3):
    try:
        torch.cuda.CUDAGraph.replay(None)
    except Exception:
        pass
"""
    assert program.calls(text, ["ops:tiny"]).graph_replays == 3


@pytest.mark.gpu
def test_replays_of_a_cuda_graph_are_said_to_be_unseen(program: Program) -> None:
    calls = program.calls(GRAPH, ["ops:rms"])
    assert calls.operator().count == 2 and calls.operator().in_graphs == 1
    assert calls.graph_replays == 7
    assert any("replayed 7 times" in line for line in unseen(calls))
