"""Tokens per second of an engine with and without winners: starts by turns, and what they say."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.step.running import INSIDE
from astra_vgpu.ground.errors import BadInput
from lab.engine_rates import ServingRequest, Start, read_starts, shift, summary
from tests.sources import IMPORT_PATH

ENGINE = {
    "sglang/__init__.py": """
import os, time

class Engine:
    def __init__(self, server_args):
        assert "--mem-fraction-static" in server_args
        print("a line of the engine's own")
        if os.environ.get("BROKEN") == os.environ["ASTRA_WINNERS"]:
            raise SystemExit(7)

    def generate(self, input_ids, sampling_params):
        time.sleep(0.02 if os.environ["ASTRA_WINNERS"] == "all" else 0.03)
        if os.environ["ASTRA_WINNERS"] == "all":
            with open(f"{os.environ['ASTRA_WINNERS_COUNTERS']}.{os.getpid()}", "w") as file:
                file.write("     6\\trmsnorm\\ttook\\t\\n     2\\trmsnorm\\tfell back\\tno rows\\n")
""",
    "sglang/srt/server_args.py": "prepare_server_args = list",
    "sglang/srt/plugins/hook_registry.py": "HookRegistry = HookType = None",
}


def program(tmp_path: Path, limit_s: float = 100, **environment: str) -> list[Start]:
    for name, text in ENGINE.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    out = tmp_path / "rates.jsonl"
    request = ServingRequest(
        model="moe6",
        http=False,
        batches=(1, 8),
        rounds=4,
        waves=2,
        together=1,
        limit_s=limit_s,
        out=str(out),
    )
    asked = tmp_path / "request.json"
    asked.write_text(request.model_dump_json())
    done = subprocess.run(
        [sys.executable, "-m", "astra_step.serving", str(asked)],
        env={
            "PYTHONPATH": f"{tmp_path / 'site'}:{INSIDE}:{IMPORT_PATH}",
            "PATH": "/usr/bin:/bin",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0 and "a line of the engine's own" in done.stderr, done.stderr
    return read_starts([out])


@pytest.mark.second_tier
def test_starts_are_measured_by_turns_and_their_counts_outlive_them(tmp_path: Path) -> None:
    starts = program(tmp_path)
    assert sorted(one.variant for one in starts) == ["again"] * 2 + ["with"] * 2 + ["without"] * 2
    assert {one.wave for one in starts} == {0, 1} and not any(one.error for one in starts)
    assert all(len(rates) == 3 for one in starts for rates in one.rates.values())
    assert {tuple(one.took.items()) for one in starts} == {(), (("rmsnorm", 6),)}
    head, *rows, took = summary(starts)
    assert head == "2 starts without, 2 starts again, 2 starts with" and len(rows) == 2
    assert took == "rmsnorm: handled 6 to 6 calls in each start, 0 without winners"


@pytest.mark.second_tier
def test_where_time_is_up_no_server_is_measured_or_left(tmp_path: Path) -> None:
    starts = program(tmp_path, limit_s=0.01)
    assert len(starts) == 3 and not any(one.rates or one.error for one in starts)
    with pytest.raises(BadInput, match="no start succeeded for without, again, with"):
        list(summary(starts))


@pytest.mark.second_tier
def test_a_start_that_fails_is_named(tmp_path: Path) -> None:
    starts = program(tmp_path, BROKEN="all")
    assert {one.error for one in starts if one.variant == "with"} == {"it ended with exit code 7"}
    assert all(one.rates for one in starts if one.variant != "with")
    with pytest.raises(BadInput, match="no start succeeded for with"):
        list(summary(starts))


def starts(gain: float, seed: int, count: int = 4) -> list[Start]:
    draws = random.Random(seed)
    return [
        Start(
            wave=0,
            variant=variant,  # type: ignore[arg-type]
            error="",
            rates={"8": tuple(1000 * factor * draws.gauss(1, 0.02) for _ in range(1))},
            took={},
        )
        for variant, factor in (("without", 1.0), ("again", 1.0), ("with", gain))
        for _ in range(count)
    ]


@pytest.mark.parametrize(("gain", "said"), [(1.3, "gains"), (1.0, "no difference"), (0.7, "loses")])
def test_a_difference_counts_outside_of_what_starts_differ_by(gain: float, said: str) -> None:
    _, line = summary(starts(gain, 1))
    assert line.endswith(said) and f" {gain:.1f}"[:3] in line and "A/A" in line


def test_the_same_engine_seldom_gains_or_loses() -> None:
    found = [list(summary(starts(1.0, seed)))[1].endswith("no difference") for seed in range(200)]
    assert sum(found) >= 198


def test_an_interval_covers_the_factor() -> None:
    draws = random.Random(3)

    def some(count: int) -> list[float]:
        return [draws.gauss(1, 0.02) for _ in range(count)]

    intervals = [shift(some(4), some(8)) for _ in range(600)]
    assert 0.93 < sum(one.low <= 1 <= one.high for one in intervals) / 600 < 0.99
    few = shift([1.1, 1.2, 1.3], [1.0, 1.0, 1.0])
    assert (few.low, few.high) == (1.1, 1.3)


@pytest.mark.parametrize("content", ["{}", "no JSON", json.dumps({"wave": 1})])
def test_another_file_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "rates.jsonl"
    path.write_text(content)
    with pytest.raises(BadInput, match="contains no engine starts"):
        read_starts([path])
    with pytest.raises(BadInput, match="cannot read"):
        read_starts([tmp_path / "none"])
