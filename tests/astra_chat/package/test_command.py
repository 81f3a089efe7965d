"""astra-chat package: what is refused, and what a proof has to show."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from astra_chat.cli.main import app
from astra_chat.package.plugins import hooks_of, proved_plugin
from astra_chat.package.proof import NotProved, proof_of, read_proof
from astra_chat.package.winners import winners, with_engine_files
from astra_chat.tools.task.folder import find_task
from astra_vgpu.ground.errors import AstraError, BadInput
from tests.recorded_files import LIVE, VIRTUAL

PAGE: dict[str, Any] = {
    "engine": "sglang",
    "version": "0.5.17",
    "torch": "2.11.0",
    "gpu": "NVIDIA H200",
    "arch": "sm_90",
    "ranks": 1,
    "graphs": [{"ours<8>(int)": 6, "gemm": 4}, {"gemm": 4}],
    "counts": [["silu_and_mul", "took", "", 12], ["silu_and_mul", "fell back", "no rows", 3]],
}
DOCUMENT = {
    "operators": {"silu_and_mul": {"candidate": "0123456789ab", "kernels": ["ours<8>(int)"]}}
}


def package(*words: object) -> Result:
    return CliRunner().invoke(app, ["package", *(str(word) for word in words)])


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["-o", "out"], "--for files", 2),
        (["--for", "files"], "-o DIR", 2),
        (
            ["--for", "files", "-o", "out", "--proof", "p.json"],
            "cannot be used with --for files",
            2,
        ),
        (["--for", "sglang", "-o", "out"], "--prove proof.json", 1),
        (["--for", "vllm", "-o", "out"], "contains only operators that were seen", 1),
        (["--for", "sglang", "--prove", "p.json"], "--engine-command", 2),
        (["--for", "sglang", "-o", "out", "--proof", "none.json"], "cannot read none.json", 2),
        (
            ["--for", "sglang", "-o", "out", "--trial", "--proof", "p.json"],
            "before there is a proof",
            2,
        ),
        (["--for", "files", "-o", "out", "--trial"], "cannot be used with --for files", 2),
        (["--check"], "is not a plugin package", 2),
    ],
)
def test_what_is_refused_says_what_to_do(
    words: list[str], said: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = package(VIRTUAL, *words)
    error = result.exception
    assert isinstance(error, AstraError) and error.exit_code == code
    assert said in str(error) and not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    result = package(VIRTUAL, "--for", "files", "-o", tmp_path)
    assert isinstance(result.exception, BadInput) and "not overwritten" in str(result.exception)


def test_the_fastest_measured_winner_of_a_task_is_taken() -> None:
    """Runs of moe_sum_reduce have none by estimate; a GPU accepted their fastest afterwards."""
    with ExitStack() as stack:
        (one,) = winners([LIVE / "further/moe_sum_reduce-*"], stack)
        assert one.summary.best is None and one.confirmed
        assert set(one.measured) == {"NVIDIA H100 80GB HBM3", "NVIDIA H200"}
        others = [LIVE / "further/moe_sum_reduce-sglang-team-1.jsonl"]
        with pytest.raises(BadInput, match="nothing to package"):
            winners(others, stack)


def proof(tmp_path: Path, candidate: str, **changes: object) -> Path:
    document = json.loads(json.dumps(DOCUMENT).replace("0123456789ab", candidate))
    path = tmp_path / "proof.json"
    found = proof_of([PAGE, {**PAGE, "graphs": []}], document, "serve").model_copy(update=changes)
    path.write_text(found.model_dump_json())
    return path


def test_a_proof_counts_graphs_calls_and_reasons(tmp_path: Path) -> None:
    found = read_proof(proof(tmp_path, "0123456789ab"))
    shown = found.operators["silu_and_mul"]
    assert (found.graphs, shown.graphs, shown.kernels) == (2, 1, {"ours<8>(int)": 6})
    assert shown.took == 24 and shown.fell_back == {"no rows": 6}
    assert found.shows("silu_and_mul", "0123456789ab")
    assert not found.shows("silu_and_mul", "ba9876543210") and not found.shows("rmsnorm", "0")


@pytest.mark.parametrize(
    ("candidate", "changes", "error", "said"),
    [
        ("ffffffffffff", {}, NotProved, "no winner of these runs was seen"),
        ("", {"engine": "vllm"}, BadInput, "a proof for vllm does not apply to sglang"),
    ],
)
def test_a_plugin_ships_what_was_seen_in_that_engine(
    candidate: str, changes: dict[str, str], error: type[AstraError], said: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        found = winners([VIRTUAL], stack)
        path = proof(tmp_path, candidate or found[0].best.candidate, **changes)
        with pytest.raises(error, match=said):
            proved_plugin(found, "sglang", [path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_task_of_ones_own_brings_its_engine_file(tmp_path: Path) -> None:
    """A shipped task's, too, if its folder is named."""
    folder = tmp_path / "mine"
    shutil.copytree(find_task("silu_and_mul").folder, folder)
    with ExitStack() as stack:
        found = winners([VIRTUAL], stack)
        (own,) = with_engine_files(found, [folder])
        assert own.engine_file() == found[0].engine_file()
        text = (folder / "engine.toml").read_text()
        (folder / "engine.toml").write_text('schema = 1\nnone = "ours alone"\n')
        assert hooks_of(own, "sglang") == () and hooks_of(found[0], "sglang")
        (folder / "engine.toml").write_text(text.replace("input = ", "other = "))
        with pytest.raises(BadInput, match="the launcher takes"):
            own.engine_file()
        (folder / "engine.toml").unlink()
        with pytest.raises(BadInput, match=r"mine: it has no engine\.toml"):
            with_engine_files(found, [folder])
        with pytest.raises(BadInput, match=r"rmsnorm is rmsnorm; .* winners for silu_and_mul"):
            with_engine_files(found, [find_task("rmsnorm").folder])
