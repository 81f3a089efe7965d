"""A winner goes back into the file that it came from: the same functions for the same callers."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.optimize.written import own_form
from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Correct
from tests.chat_samples import REFERENCE, TASK_TOML, VECTOR

SILU = Path(__file__).parent / "silu"
USER = """\
// Doubles rows.
#include <cuda_runtime.h>

namespace ours {

__global__ void one(float* out, const float* in, int total) {
  for (int i = threadIdx.x; i < total; i += blockDim.x) out[i] = in[i] + in[i];
}

void twice(const float* input, float* out, int rows, int d, cudaStream_t queue) {
  one<<<1, 128, 0, queue>>>(out, input, rows * d);
}

}  // namespace ours
"""
BINDING = """
[binding]
function = "ours::twice"
args = ["input", "out", "rows", "d", {}]
"""


def made(folder: Path, user: str = USER) -> Task:
    """The task of a user's file, as `new` leaves it."""
    (folder / "task.toml").write_text(TASK_TOML + BINDING)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "baseline.cu").write_text(user)
    return load_task(folder)


@pytest.mark.second_tier
@pytest.mark.parametrize("linkage", ["", 'extern "C" '])
def test_the_users_function_calls_a_winner_that_is_the_launcher_alone(
    tmp_path: Path, linkage: str
) -> None:
    """Judged through it: the contract's launcher calls it, and it calls the winner's, here under
    another name."""
    user = USER.replace("void twice", f"{linkage}void twice")
    task = made(tmp_path, user)
    form = own_form(VECTOR, user, task)
    assert form.bridged == "twice" and form.lacking == ()
    assert f"{linkage}void twice(const float* input, float* out" in form.text
    through = form.text.replace("doubled(", "winner(").replace('extern "C"', "static")
    with Judge(task, pick_device("virtual"), trust=True) as judge:
        assert isinstance(judge.check(through).outcome, Correct)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int rows, int d,", "int total,"),
        ("void twice", "int twice"),
        ("void twice", "template <int N = 1>\nvoid twice"),
    ],
)
def test_what_gives_no_call_is_named(tmp_path: Path, old: str, new: str) -> None:
    user = USER.replace(old, new)
    form = own_form(VECTOR, user, made(tmp_path, user))
    assert form.lacking == ("twice",) and form.text == VECTOR


def test_a_function_with_other_parameters_is_another(tmp_path: Path) -> None:
    winner = USER.replace("int rows", "long rows") + VECTOR
    assert own_form(winner, USER, made(tmp_path)).bridged == "twice"


def test_a_torch_extension_is_whole_with_the_operator_alone(tmp_path: Path) -> None:
    for name in ("task.toml", "reference.py"):
        (tmp_path / name).write_text((SILU / name).read_text())
    user, winner = ((SILU / name).read_text() for name in ("activation.cu", "vectors.cu"))
    (tmp_path / "baseline.cu").write_text(user)
    task = load_task(tmp_path)
    assert (
        own_form(winner, user, task).lacking == () and own_form(winner, user, task).text == winner
    )
    module = winner[winner.index("PYBIND11_MODULE") :]
    assert own_form(winner.replace(module, ""), user, task).lacking == ("silu_and_mul",)
