"""The stable part of a prompt: the task, its launcher, and how candidates are compared."""

from __future__ import annotations

from pathlib import Path

from astra_chat.agents.task_text import (
    MOST_INPUTS,
    comparison_text,
    device_text,
    inputs_text,
    launcher_text,
    task_text,
)
from astra_chat.tools.task.binding import Binding
from astra_chat.tools.task.folder import Scalar, Task, find_task
from astra_chat.tools.task.launcher import prototype
from tests.chat_samples import DEVICE


def test_it_says_where_arguments_begin_and_what_scalars_are(task: Task) -> None:
    """Hidden cases move every argument by its least alignment, and rows apart."""
    out, *others = task.args
    moved = out.model_copy(update={"min_alignment_bytes": 4, "strides": ("free", "1")})
    eps = Scalar(name="eps", type="float", value=1e-6)
    changed = task.model_copy(update={"args": (moved, *others), "scalars": (eps,)})
    text = task_text(changed, "virtual GPU")
    stride = f"row stride {out.name}_stride elements"
    assert f"write, aligned to 4 bytes, {stride} (at least one row)\n" in text
    assert "read, aligned to 16 bytes\n" in text
    assert "- eps: float, 1e-06 in every case\n" in text


def test_precision_is_told_as_it_is_judged(task: Task) -> None:
    text = task_text(task, "virtual GPU")
    assert "float32 rtol 1e-06 atol 1e-06" in text
    assert "rms error at most 2 times the baseline's own" in text


def test_the_launcher_is_a_prototype(task: Task) -> None:
    assert f"{prototype(task)};" in launcher_text(task)
    assert "do not define the launcher" not in launcher_text(task)


def test_a_file_in_a_form_of_its_own_is_told_to_keep_it(task: Task) -> None:
    bound = task.model_copy(update={"binding": Binding(function="ours::twice", args=("out",))})
    text = launcher_text(bound)
    assert "the function `ours::twice` with the same parameters" in text
    assert "do not define the launcher" in text and f"{prototype(task)};" in text


def test_a_tester_is_told_how_inputs_are_drawn(task: Task, tmp_path: Path) -> None:
    shipped = inputs_text(find_task("merge_state_v2"))
    assert shipped.startswith(
        '```python\nPLACED = ("ramp", "one_hot")\nEMPTY_ONE_IN = 4\ndef make_in'
    )
    assert "sums.draw(generator, (n, h))" in shipped and "def reference" not in shipped
    source = "def half(x):\n    return x\n\ndef make_inputs(case, g):\n    return half(A)\nA = 1\n"
    (tmp_path / "reference.py").write_text(source)
    own = task.model_copy(update={"folder": tmp_path})
    assert all(part in inputs_text(own) for part in ("def half", "def make_inputs", "A = 1"))
    (tmp_path / "reference.py").write_text(source + "A = [" + "0, " * MOST_INPUTS + "]\n")
    assert inputs_text(own) == "", "too long to be shown"


def test_one_threshold_is_told_with_the_rule_that_decides_a_tie() -> None:
    text = comparison_text("estimated")
    assert (
        "whose ratios differ by less than 4% are a tie, which is not a gain and does not justify"
        " a round."
    ) in text
    assert "less similarly two kernels spend their time, the wider" in text
    assert "can lift it above 1, and so justifies a round" in text
    measured = comparison_text("measured")
    assert "intervals of both" in measured and "lift it above 1" not in measured


def test_a_device_is_told_with_what_a_plan_reckons_with() -> None:
    assert device_text(DEVICE) == f"{DEVICE.name}: 132 SMs of 64 warps, L2 60 MiB, DRAM 4.8 TB/s"
    unknown = DEVICE.model_copy(update={"spec": "other"})
    assert device_text(unknown) == DEVICE.name
