"""Ways of a module on memory that is given: on the CPU, the GPU's timing loop left out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from astra_chat.tools.runners import module_calls as calls
from astra_chat.tools.task.folder import Task, find_task, load_task
from tests.tools.runners.small_module import small_mlp


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(small_mlp(tmp_path_factory.mktemp("mlp")))


def test_eager_reads_the_given_weights_and_inputs(task: Task) -> None:
    function = calls.module_of(task)
    given = calls.drawn(task, task.bench[0][0], "cpu")
    with torch.no_grad():
        (found,) = calls.bound(function, given, "cpu").call(calls.eager)
        hidden = torch.nn.functional.silu(given["x"] @ given["up_weight"].T + given["up_bias"])
        wanted = hidden @ given["down_weight"].T + given["down_bias"]
        given["down_bias"].add_(1.0)  # the same memory
        (more,) = calls.bound(function, given, "cpu").call(calls.eager)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(more, wanted + 1.0)


def test_a_tensor_in_given_bytes_is_no_view() -> None:
    memory = torch.zeros(3, 256, dtype=torch.uint8)
    found = calls.in_memory(memory[1], torch.float32, (2, 5))
    found.fill_(1.0)
    assert not found._is_view() and found.is_contiguous()
    assert memory[1, :40].view(torch.float32).tolist() == [1.0] * 10
    assert not memory[0].any() and not memory[1, 40:].any() and not memory[2].any()


def test_what_cannot_be_run_says_why(
    task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = calls.bound(calls.module_of(task), calls.drawn(task, task.bench[0][0], "cpu"), "cpu")
    with pytest.raises(calls.NotRun, match=r"^RuntimeError: Unrecognized mode=nonsense[^\n]*$"):
        calls.compiled(0, "nonsense", first)
    with pytest.raises(calls.NotRun, match="not a PyTorch module"):
        calls.module_of(find_task("silu_and_mul"))


@pytest.mark.second_tier
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compilation_serves_all_sets_of_buffers(
    task: Task, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    function, case = calls.module_of(task), task.bench[0][0]
    first = calls.bound(function, calls.drawn(task, case, "cpu"), "cpu")
    config = torch._dynamo.config
    monkeypatch.setattr(config, "error_on_recompile", True)
    with torch.no_grad():
        ways = [calls.compiled(number, "default", first) for number in range(2)]
        for way in ways:
            other = calls.bound(function, calls.drawn(task, case, "cpu"), "cpu")
            torch.testing.assert_close(other.call(way), other.call(calls.eager))
    assert len([*tmp_path.iterdir()]) >= 2, "each has a cache of its own"
