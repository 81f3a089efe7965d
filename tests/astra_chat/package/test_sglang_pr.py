"""`package --for sglang-pr`: what SGLang's own tests ask of the files, without SGLang: literals
that its CI reads, a registration whose target is there, and the contract as a predicate."""

from __future__ import annotations

import ast
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from astra_chat.cli.main import app
from tests.recorded_files import VIRTUAL

NAME, KDA = "silu_and_mul", Path("python/sglang/kernels/kda_kernels")


@pytest.fixture(scope="module")
def change(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pr") / "change"
    words = ["package", str(VIRTUAL), "--for", "sglang-pr", "-o", str(folder)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return folder


def test_the_files_are_where_sglang_has_them(change: Path) -> None:
    files = {str(path.relative_to(change)) for path in change.rglob("*") if path.is_file()}
    tests = "test/registered/kernels"
    assert files == {
        f"{KDA}/csrc/activation/{NAME}.cuh",
        f"{KDA}/{NAME}_jit.py",
        f"{tests}/ops/activation/test_{NAME}_kda.py",
        f"{tests}/benchmark/activation/bench_{NAME}_kda.py",
        "add/python/sglang/kernels/ops/activation/__init__.py",
        f"add/{KDA}/README.md",
        "PULL_REQUEST.md",
    }
    for path in change.rglob("*.py"):
        compile(path.read_text(), str(path), "exec")


def test_ci_reads_literals(change: Path) -> None:
    """SGLang's CI parses the calls and does not run them."""
    found = {}
    for path in (change / "test").rglob("*.py"):
        calls = [
            one.value
            for one in ast.parse(path.read_text()).body
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)
        ]
        (call,) = [one for one in calls if ast.unparse(one.func) == "register_cuda_ci"]
        found[path.name] = {key.arg: ast.literal_eval(key.value) for key in call.keywords}
    stages = {name.partition("_")[0]: one["stage"] for name, one in found.items()}
    assert stages == {"test": "base-b-kernel-unit", "bench": "base-b-kernel-benchmark"}
    assert all(one["runner_config"] == "1-gpu-large" for one in found.values())
    assert all(isinstance(one["est_time"], int) for one in found.values())


def test_the_registered_target_is_there(change: Path) -> None:
    registered: list[Any] = []
    text = (change / "add/python/sglang/kernels/ops/activation/__init__.py").read_text()
    tree = ast.parse(text)
    tree.body = [one for one in tree.body if not isinstance(one, ast.ImportFrom)]
    cuda = types.SimpleNamespace(cuda=lambda **bounds: tuple(bounds.items()))
    names = {
        "register_kernel": registered.append,
        "KernelSpec": types.SimpleNamespace,
        "KernelBackend": types.SimpleNamespace(KDA="KDA"),
        "CapabilityRequirement": cuda,
    }
    exec(compile(tree, "added", "exec"), names)
    (spec,) = registered
    assert (spec.op, spec.backend) == (f"activation.{NAME}", "KDA")
    assert spec.capabilities == {(("min_sm", (9, 0)), ("max_sm", (9, 0)))}
    module, _, function = spec.target.partition(":")
    path = change / "python" / (module.replace(".", "/") + ".py")
    body = ast.parse(path.read_text()).body
    assert function in {one.name for one in body if isinstance(one, ast.FunctionDef)}


class OnGpu(torch.Tensor):
    """A tensor of the host that says it is a GPU's."""

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True


def on_gpu(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype).as_subclass(OnGpu)


@pytest.mark.parametrize(
    ("out", "given", "allowed"),
    [
        (on_gpu(4, 64), on_gpu(4, 128), True),
        (on_gpu(4, 12), on_gpu(4, 24), False),
        (on_gpu(4, 64), on_gpu(4, 128, dtype=torch.bfloat16), False),
        (on_gpu(4, 64), on_gpu(4, 256)[:, ::2], False),
        (on_gpu(3, 64), on_gpu(4, 128), False),
        (torch.empty(4, 64), torch.empty(4, 128), False),
    ],
)
def test_the_contract_is_a_predicate(
    out: torch.Tensor, given: torch.Tensor, allowed: bool, change: Path
) -> None:
    tree = ast.parse((change / KDA / f"{NAME}_jit.py").read_text())
    wanted = ("ceil_div", f"can_use_{NAME}")
    tree.body = [one for one in tree.body if getattr(one, "name", "") in wanted]
    names: dict[str, Any] = {"torch": torch}
    exec(compile(tree, "predicate", "exec"), names)
    assert names[f"can_use_{NAME}"](out, given) is allowed
