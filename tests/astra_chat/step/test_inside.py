"""The program that runs in the engine's Python, as far as it needs no GPU: turns, the float32
forward pass, and that its samples are what the report reads."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from astra_chat.step import samples as reading
from astra_chat.step.judged import judged
from astra_chat.step.running import INSIDE
from astra_chat.step.samples import samples_of
from tests.sources import IMPORT_PATH

REQUEST: dict[str, Any] = {
    "engine": "sglang",
    "model": "moe6",
    "batches": [1, 8],
    "rounds": 9,
    "steps": 2,
    "prompt_tokens": 4,
    "seed": 1,
    "alone": True,
    "out": "",
}


def program(*words: str, cwd: Path = Path(__file__).parent) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env={"PYTHONPATH": f"{INSIDE}:{IMPORT_PATH}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(INSIDE))
    from astra_step import turns

    yield turns
    for name in [name for name in sys.modules if name.startswith("astra_step")]:
        del sys.modules[name]


def test_variants_have_the_names_that_the_report_reads(turns: Any) -> None:
    for name in ("WITHOUT", "AGAIN", "ALL", "ONLY"):
        assert getattr(turns, name) == getattr(reading, name)
    assert turns.variants(["a", "b"]) == {
        "without": [],
        "again": [],
        "all": ["a", "b"],
        "only a": ["a"],
        "only b": ["b"],
    }
    assert set(turns.variants(["a"])) == set(turns.variants(["a", "b"], alone=False))


def test_variants_take_turns_in_an_order_that_changes(turns: Any) -> None:
    """Each once a round: a GPU that slows down slows all of them down."""
    calls: list[str] = []

    def timer(name: str) -> Any:
        def timed(replays: int) -> float:
            calls.append(name)
            return 1000.0 + len(calls)

        return timed

    timed = {name: timer(name) for name in ("without", "again", "all")}
    found = turns.blocks(timed, 12, random.Random(1))
    assert {len(one) for one in found.values()} == {12}
    rounds = [tuple(calls[n : n + 3]) for n in range(4, len(calls), 3)]
    assert all(set(one) == set(timed) for one in rounds) and len(Counter(rounds)) > 3
    apart = [sum(found[name]) / 12 for name in timed]
    assert max(apart) - min(apart) < 3


def test_a_block_takes_about_20_ms(turns: Any) -> None:
    assert [turns.replays_in_block(us) for us in (10, 1000, 50_000)] == [200, 20, 5]


def test_what_is_measured_is_what_the_report_reads() -> None:
    """A variant that cannot be captured is named, and the others are measured."""
    done = program("measured_program.py", json.dumps(REQUEST))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stderr.splitlines()[-1])
    assert "captured only norm: RuntimeError: misaligned address" in done.stdout
    names = ("silu", "norm", "unused")
    head = {
        "schema": "astra-chat/step-samples/1",
        "request": REQUEST,
        **{
            "engine": "sglang",
            "version": "0.5.17",
            "torch": "2.11.0",
            "gpu": "GPU",
            "arch": "sm_90",
        },
        "ranks": 1,
        "hooks": [],
        "packaged": {n: {"candidate": "0" * 12, "kernels": [f"{n}_kernel"]} for n in names},
    }
    report = judged([samples_of(head | found, "measured")])
    assert {name: one.finding for name, one in report.operators.items()} == {
        "silu": "gains",
        "norm": "not engaged",
        "unused": "not engaged",
    }
    assert report.operators["unused"].why == "the measured steps do not call this operator"
    times = {v.name: v.times for v in report.models[0].variants}
    assert times["all"][0].speedup.ratio > times["only silu"][0].speedup.ratio > 1.04
    assert times["only silu"][1].calls["silu"][0].dims == {"tokens": 8, "d": 64}
    assert times["all"][1].parity.rows == 24 and times["without"][0].parity.error < 0.1


def test_each_capture_of_sglang_is_noticed() -> None:
    """Its runner is as before afterwards, also if a capture fails."""
    done = program("captured_program.py")
    assert done.stdout.strip() == "as before", done.stderr


def test_the_float32_pass_is_that_of_the_model() -> None:
    """Beside one written out number by number in float64."""
    done = program("forward_by_hand.py")
    assert done.stdout.strip() == "equal", done.stderr


STEPS = """
import torch, weakref
CALLS = []

def make(requests):
    def step():
        CALLS.append(requests)
        return torch.ones(requests, 5, dtype=torch.bfloat16)
    return step

def owner(requests):
    step = make(requests)
    weakref.finalize(step, print, "freed before its graphs").atexit = False
    return step

def nothing(requests):
    return lambda: None

def number(requests):
    return requests
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("steps:make", "(8, 5) torch.float32"),
        ("steps:owner", "(8, 5) torch.float32"),
        ("steps:nothing", ""),
        ("steps:number", "steps:number(1) must return a function, not int"),
        ("steps:none", "--call steps:none: module 'steps' has no attribute 'none'"),
        ("nowhere:make", "--call nowhere:make: No module named 'nowhere'"),
    ],
)
def test_a_step_of_ones_own_is_captured_and_run(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    done = program(str(Path(__file__).parent / "called_program.py"), name, cwd=tmp_path)
    assert done.stdout.strip() == said, done.stderr


def test_without_a_gpu_nothing_is_measured(tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    request.write_text(json.dumps(REQUEST | {"out": str(tmp_path / "out.json")}))
    done = program("-m", "astra_step", str(request))
    assert done.returncode == 3 and "no GPU" in done.stderr
    assert not (tmp_path / "out.json").exists()
