"""`package --prove`: an engine is started by its command, its graphs are watched, and it is killed
as engines are. Only the GPU is missing: replays are counted, and the profiler is one of this test.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from astra_chat.cli.main import app
from astra_chat.package.proof import read_proof
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.package.test_plugin import ENGINE
from tests.recorded_files import VIRTUAL
from tests.sources import ROOT

SERVE = """
import json, os, signal, sys, types
from pathlib import Path
import torch

replays = []
torch.cuda.CUDAGraph.replay = lambda graph: replays.append(graph)
torch.cuda.synchronize = lambda: None


class Profiled:
    def __init__(self, activities):
        pass
    def __enter__(self):
        return self
    def __exit__(self, *error):
        self.graph = replays[-1]
    def key_averages(self):
        names = self.graph.names
        return [types.SimpleNamespace(key=n, count=6, self_device_time_total=9.0) for n in names]


torch.profiler.profile = Profiled
import astra_winners.operators as operators
operators.gpu = lambda: ("NVIDIA H200", "sm_90")
from sglang.srt.plugins import load_plugins
load_plugins()
import sglang.kernels.ops.activation.activation as activation
activation.run("silu", torch.randn(2, 64), torch.zeros(2, 32))
kernels = operators.PACKAGED["operators"]["silu_and_mul"]["kernels"]
seen = kernels if sys.argv[1] == "winners" else []


class Graph:
    replay = lambda self: torch.cuda.CUDAGraph.replay(self)
    def __init__(self, names):
        self.names = names


for graph in (Graph([*seen, "gemm"]), Graph(["gemm"])):
    for _ in range(int(sys.argv[2])):
        graph.replay()
assert len(replays) == 2 * int(sys.argv[2])
os.kill(os.getpid(), signal.SIGKILL)
"""


def prove(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    """`package --prove` with the engine of test_plugin.py."""
    for name, text in ENGINE.items():
        path = folder / "engine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "serve.py").write_text(SERVE)
    paths = f"{folder / 'engine'}:{ROOT}:{ROOT / 'tools' / 'virtual_gpu'}"
    monkeypatch.setenv("PYTHONPATH", paths)
    command = shlex.join([sys.executable, str(folder / "serve.py"), *words])
    options = ["--prove", str(folder / "proof.json"), "--engine-command", command]
    return CliRunner().invoke(app, ["package", str(VIRTUAL), "--for", "sglang", *options])


@pytest.mark.second_tier
def test_what_ran_in_the_graphs_proves_a_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = prove(tmp_path, monkeypatch, "winners", "3")
    assert result.exit_code == 0, result.output
    assert "silu_and_mul: runs in 1 of 2 graphs: 1x" in result.output
    proof = read_proof(tmp_path / "proof.json")
    assert (proof.gpu, proof.version, proof.graphs) == ("NVIDIA H200", "0.5.17", 2)
    shown = proof.operators["silu_and_mul"]
    assert set(shown.kernels.values()) == {6} and shown.took == 0
    assert list(shown.fell_back.values()) == [1], "the tensors lie on the host"
    steps = [
        {
            "label": f"m at {n} requests",
            "dtype": "float16",
            "dims": {"tokens": n, "d": 8},
            "low": low,
        }
        for n, low in ((1, 0.99), (8, 1.02))
    ]
    document = json.loads((tmp_path / "proof.json").read_text())
    document["operators"]["silu_and_mul"] |= {"steps": steps, "step": "gains: m at 8: 1.02"}
    (tmp_path / "proof.json").write_text(json.dumps(document))
    plugin = tmp_path / "plugin"
    words = ["--proof", str(tmp_path / "proof.json"), "-o", str(plugin)]
    made = CliRunner().invoke(app, ["package", str(VIRTUAL), "--for", "sglang", *words])
    assert made.exit_code == 0, made.output
    written = json.loads((plugin / "astra_winners/winners.json").read_text())
    assert written["gpus"] == ["NVIDIA H200"] and written["versions"] == ["0.5.17"]
    assert written["operators"]["silu_and_mul"]["steps"] == {"NVIDIA H200": steps}
    assert "the winner handles calls only in steps in which it is faster" in made.output
    row = next(one for one in (plugin / "README.md").read_text().splitlines() if "| silu" in one)
    assert row.endswith("launch today | gains: m at 8: 1.02 (NVIDIA H200) |")


@pytest.mark.second_tier
def test_a_winner_that_no_graph_contains_is_not_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = prove(tmp_path, monkeypatch, "others", "3")
    assert result.exit_code == 1 and "silu_and_mul: was not seen in 0 of 2 graphs" in result.output


@pytest.mark.second_tier
def test_a_command_without_graphs_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph that is replayed twice is not profiled: the first replays warm up."""
    error = prove(tmp_path, monkeypatch, "winners", "2").exception
    assert isinstance(error, BadInput) and "did not replay any CUDA graph three times" in str(error)
    assert "exit code -9" in str(error) and not (tmp_path / "proof.json").exists()
