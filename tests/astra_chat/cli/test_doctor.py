"""The doctor tells a machine that can run from one that cannot, and never says a key."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.cli.diagnosis import (
    Point,
    bindings_point,
    counters_permitted,
    diagnose,
    driver_point,
)
from tests.astra_chat.fake_openai import Asked, Reply, failed, serving
from tests.astra_chat.fake_openai import said as said_by_a_model
from tests.sources import IMPORT_PATH

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "import sys, typer; from astra_chat.cli.doctor import register\napp = typer.Typer()\n"
PROGRAM += "app.callback()(lambda: None); register(app); app(['doctor', *sys.argv[1:]])"


def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": IMPORT_PATH, **changes}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_this_machine_runs_the_virtual_loop() -> None:
    found = diagnose()
    assert found.virtual, [point for point in found.points if not point.ok]


def test_json_is_versioned_and_carries_every_point() -> None:
    done = run("--json", OPENAI_API_KEY="sk-never-to-be-said")
    said = json.loads(done.stdout)
    assert done.returncode == 0
    assert said["schema"] == "astra-chat/doctor/1"
    names = {point["name"]: point for point in said["points"]}
    assert {"Python", "nvcc", "torch", "GPU", "isolation", "OPENAI_API_KEY"} <= set(names)
    assert names["OPENAI_API_KEY"]["ok"]
    assert names["nvdisasm"]["serves"] == "virtual" and names["nvdisasm"]["ok"]
    assert names["cuda-bindings"]["serves"] == "cuda" and names["cuda-bindings"]["ok"]
    assert "sk-never-to-be-said" not in done.stdout + done.stderr


def test_a_lack_is_said_with_what_to_do_and_exits_3(tmp_path: Path) -> None:
    for name in ("sh", "env"):
        (tmp_path / name).symlink_to(Path(shutil.which(name) or pytest.fail(name)))
    done = run(PATH=str(tmp_path), CXX="")
    assert done.returncode == 3
    assert "no g++ on PATH" in done.stdout
    assert "apt-get install g++" in done.stdout
    assert "Astra cannot run here yet." in done.stdout
    assert "Traceback" not in done.stderr


def test_a_cache_folder_that_cannot_be_made_is_a_lack(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(ASTRA_CACHE=str(tmp_path / "file"))
    assert done.returncode == 3
    assert "set ASTRA_CACHE" in done.stdout


def test_output_has_no_colour_off_a_terminal() -> None:
    assert "\x1b" not in run().stdout


@pytest.mark.parametrize(
    ("newest", "nvcc", "ok", "advice"),
    [
        (13000, (13, 0), True, ""),
        (13020, (13, 0), True, ""),
        (13000, (13, 2), True, "machine code runs"),
        (12080, (13, 0), False, "install a driver for CUDA 13, or an nvcc of CUDA 12"),
        (12080, None, True, ""),
    ],
)
def test_the_driver_is_held_against_nvcc(
    newest: int, nvcc: tuple[int, int] | None, ok: bool, advice: str
) -> None:
    point = driver_point("580.1", newest, nvcc)
    assert point.ok == ok
    assert advice in point.advice
    assert bool(advice) == bool(point.advice)


@pytest.mark.parametrize(("version", "ok"), [("12.9.4", True), ("13.5.0", True), ("14.0.1", False)])
def test_cuda_bindings_are_held_against_the_driver(version: str, ok: bool) -> None:
    point = bindings_point(Point(name="b", serves="cuda", ok=True, found=version), 13020)
    assert point.ok == ok and ("cuda-bindings<14" in point.advice) == (not ok)
    missing = Point(name="b", serves="cuda", ok=False, found="missing", advice="pip install b")
    assert bindings_point(missing, 13020) == missing


def test_counter_permission_is_read_from_the_driver(tmp_path: Path) -> None:
    parameters = tmp_path / "params"
    parameters.write_text("ResmanDebugLevel: 4\nRmProfilingAdminOnly: 1\n")
    assert counters_permitted(0, parameters)
    assert not counters_permitted(1000, parameters)
    parameters.write_text("RmProfilingAdminOnly: 0\n")
    assert counters_permitted(1000, parameters)
    assert counters_permitted(1000, tmp_path / "none")


@pytest.mark.second_tier
def test_the_cuda_release_of_torch_is_read_without_importing_it() -> None:
    code = (
        "import sys; from astra_chat.cli.diagnosis import torch_cuda_version as v; print(v() or '')"
    )
    code += "; assert 'torch' not in sys.modules; import torch; print(torch.version.cuda or '')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    read, imported = done.stdout.split("\n")[:2]
    assert read == imported


def test_a_model_is_asked_one_real_question() -> None:
    """What came, how long it took, and its tokens; each different model once."""
    asked: list[Asked] = []

    def answer(one: Asked) -> Reply:
        asked.append(one)
        reply = said_by_a_model('{"reply": {"kind": "pass", "words": "ready"}}')
        return reply if one.body["model"] == "good" else failed(404, "no model called gone")

    with serving(answer) as server:
        models = f"vllm:good,coder=vllm:gone,base_url={server.url}"
        done = run("--models", models, "--json")
    points = {p["name"]: p for p in json.loads(done.stdout)["points"] if p["serves"] == "models"}
    assert done.returncode == 2 and len(asked) == 2 and list(points) == ["vllm:good", "vllm:gone"]
    good, gone = points.values()
    assert good["ok"] and re.fullmatch(
        r"answered in [\d.]+ s, 100 tokens in, 20 out: {.*ready.*}", good["found"]
    )
    assert not gone["ok"] and "no model called gone; use the name of the model" in gone["found"]


def test_only_live_models_are_asked() -> None:
    done = run("--models", "scripted")
    assert done.returncode != 0 and "only live models can be tried" in done.stderr + done.stdout
