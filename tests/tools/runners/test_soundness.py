"""What is wrong with a reference.py itself: each fault is found, and named with its line."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

from astra_chat.tools.runners.answers import Tensors
from astra_chat.tools.runners.oracle import fault
from astra_chat.tools.task.folder import Task, load_task

CONTRACT = """
schema = 2
name = "doubled"
summary = "twice the numbers, as codes and as an order of them"
entry = "doubled"
dtypes = ["float32"]
flops = "n"
flags = []
args = [
    { name = "x", dtype = "T", shape = ["n"], access = "read" },
    { name = "scale", dtype = "float32", shape = ["1"], access = "read" },
    { name = "codes", dtype = "int8", shape = ["n"], access = "write", judged = CODES },
    { name = "order", dtype = "int32", shape = ["n"], access = "write", judged = ORDER },
]
check = [{ n = 8, dtype = "float32" }]
bench = [{ n = 8, dtype = "float32" }]
demo = [{ n = 8, dtype = "float32" }]
[dims.n]
min = 1
max = 1000
[tolerance]
[provenance]
baseline = "none"
""".replace("CODES", '{ by = "quantized", scale = "scale", group = ["n"] }').replace(
    "ORDER", '{ by = "accept" }'
)
REFERENCE = """import torch
SEEN = []
def make_inputs(case, generator):
    return {"x": torch.rand(8, generator=generator), "scale": torch.ones(1)}
def reference(inputs):
    x = inputs["x"].double()
    return {"codes": x * 254, "order": x.argsort()}
def accept(inputs, outputs):
    if (inputs["x"][outputs["order"].long()].diff() < 0).any():
        return "not ascending", 0
def canonical(outputs, inputs):
    return {**outputs, "order": outputs["order"].sort().values}
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (tmp_path / "task.toml").write_text(CONTRACT)
    (tmp_path / "baseline.cu").write_text("// none\n")
    (tmp_path / "reference.py").write_text(REFERENCE)
    return load_task(tmp_path)


def found(task: Task, old: str = "", new: str = "") -> dict[str, object]:
    path = task.folder / "reference.py"
    assert not old or REFERENCE.count(old) == 1
    path.write_text(REFERENCE.replace(old, new) if old else REFERENCE)
    spec = importlib.util.spec_from_file_location("reference_under_test", path)
    assert spec and spec.loader
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def inputs() -> Tensors:
        drawn: Tensors = module.make_inputs(None, torch.Generator().manual_seed(7))
        return drawn

    return fault(task, module, task.check[0], inputs)


def test_a_sound_reference(task: Task) -> None:
    assert found(task) == {"fault": "", "line": 0}


@pytest.mark.parametrize(
    ("old", "new", "words", "line"),
    [
        (
            "torch.rand(8, generator=generator)",
            "torch.rand(8)",
            "make_inputs draws a different 'x'",
            3,
        ),
        ('inputs["x"].double()', 'inputs["x"].mul_(0.5).double()', "writes to its input 'x'", 5),
        ("x * 254,", "x * 254 + torch.rand(1),", "reference returns a different 'codes'", 5),
        (
            "def accept(",
            "def accepts(",
            "'order' is judged by accept, but reference.py defines no function",
            5,
        ),
        ("x.argsort()", "x.argsort(descending=True)", "accept refuses what reference", 8),
        (
            '"order": outputs["order"].sort().values',
            '"order": outputs["order"].roll(1)',
            "canonical() changes 'order'",
            11,
        ),
        (
            '    return {**outputs, "order',
            '    SEEN.append(1)\n    return {**outputs, "codes": '
            'outputs["codes"] * 0 + len(SEEN), "order',
            "canonical() changes 'codes'",
            11,
        ),
    ],
)
def test_a_fault_is_named_with_the_line_of_its_function(
    task: Task, old: str, new: str, words: str, line: int
) -> None:
    said = found(task, old, new)
    assert words in str(said["fault"]) and said["line"] == line


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("x.argsort()", "x.argsort().int()", "reference.py returns 'order' as torch.int32"),
        ("x * 254", "x.float()", "reference.py returns 'codes' as torch.float32"),
        ('"order": x.argsort()', '"orders": x.argsort()', "returns no 'order'"),
        ("x.argsort()}", "x.argsort()[:4]}", "(4,), but the contract says torch.int64 (8,)"),
    ],
)
def test_another_dtype_or_shape_than_the_contract_says(
    task: Task, old: str, new: str, words: str
) -> None:
    with pytest.raises((KeyError, ValueError)) as caught:  # the oracle process words it
        found(task, old, new)
    assert words in str(caught.value)
