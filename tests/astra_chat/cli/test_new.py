"""`astra-chat new` and `tasks check` on the command line: what is missing is said as text."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.cli.new import complete_task
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task_validation import check_task
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import REFERENCE, SCALAR, TASK_TOML
from tests.sources import IMPORT_PATH

ROOT = Path(__file__).parents[3]
KERNELS = ROOT / "tests" / "tools" / "new" / "kernels"
DEVICE = pick_device("virtual")


def astra(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "astra_chat", *map(str, words)],
        cwd=folder,
        check=False,
        env={**os.environ, "PYTHONPATH": IMPORT_PATH},
        capture_output=True,
        text=True,
        timeout=900,
    )


def task(folder: Path, baseline: str = SCALAR, reference: str = REFERENCE) -> str:
    (folder / "doubled").mkdir()
    (folder / "doubled" / "task.toml").write_text(TASK_TOML)
    (folder / "doubled" / "baseline.cu").write_text(baseline)
    (folder / "doubled" / "reference.py").write_text(reference)
    return str(folder / "doubled")


@pytest.mark.second_tier
def test_new_lists_what_is_left_and_check_insists_on_it(tmp_path: Path) -> None:
    made = astra(tmp_path, "new", "mine", "--from", KERNELS / "rms_norm_torch.cu")
    assert made.returncode == 0 and made.stderr == ""
    assert "rms_norm of the torch extension" in made.stdout
    places = [line.strip() for line in made.stdout.splitlines() if line.startswith("  mine/")]
    assert any(place.startswith("mine/task.toml, line") for place in places)
    own = (KERNELS / "rms_norm_torch.cu").read_text()
    assert (tmp_path / "mine" / "baseline.cu").read_text() == own, "the file stays as it is"
    checked = astra(tmp_path, "tasks", "check", "mine", "--device", "virtual")
    assert checked.returncode == 2 and checked.stdout == ""
    asked = [line.removeprefix("astra-chat:   ") for line in checked.stderr.splitlines()[1:]]
    assert asked == places
    again = astra(tmp_path, "new", "mine", "--from", KERNELS / "rms_norm_torch.cu")
    assert again.returncode == 2 and "mine already exists" in again.stderr


@pytest.mark.second_tier
def test_a_complete_task_is_loaded(tmp_path: Path) -> None:
    assert complete_task(task(tmp_path), DEVICE).name
    assert complete_task("silu_and_mul", DEVICE).name == "silu_and_mul"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("cudaGetLastError()", "cudaDeviceSynchronize()", "a launcher must not wait"),
        ("return cudaGetLastError();", "return nothing;", 'identifier "nothing" is undefined'),
        ("int64_t", "int", "but task.toml describes"),
    ],
)
def test_a_baseline_that_cannot_be_built(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in SCALAR
    with pytest.raises(BadInput, match=words):
        complete_task(task(tmp_path, SCALAR.replace(old, new)), DEVICE)


def test_a_folder_that_is_no_task(tmp_path: Path) -> None:
    folder = task(tmp_path)
    (Path(folder) / "reference.py").unlink()
    with pytest.raises(BadInput, match=r"reference\.py is missing"):
        complete_task(folder, DEVICE)
    shutil.rmtree(folder)
    with pytest.raises(BadInput, match="no task"):
        complete_task(folder, DEVICE)


@pytest.mark.second_tier
def test_a_baseline_that_disagrees_is_told_by_its_first_element(tmp_path: Path) -> None:
    assert "2 *" in REFERENCE or "* 2" in REFERENCE, "the sample doubles"
    wrong = REFERENCE.replace("2 *", "3 *").replace("* 2", "* 3")
    found = complete_task(task(tmp_path, reference=wrong), DEVICE)
    report = check_task(found, DEVICE)
    assert not report.fit
    words = report.lines()[0]
    assert words.startswith("baseline.cu does not compute what reference.py defines: wrong on")
    assert "expected" in words


@pytest.mark.second_tier
def test_all_errors_of_a_contract_are_told_at_once(tmp_path: Path) -> None:
    folder = Path(task(tmp_path))
    text = (folder / "task.toml").read_text()
    for old, new in (
        ('access = "write"', 'access = "wrote"'),
        ("max = 256", "max = 0"),
        ('{ rows = 3, d = 20, dtype = "float32" }', '{ rows = 3, d = 21, dtype = "float32" }'),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "task.toml").write_text(text)
    done = astra(tmp_path, "tasks", "check", folder, "--device", "virtual")
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) >= 2, done.stderr
    assert all(line.startswith(f"astra-chat: {folder}/task.toml, line ") for line in lines)
    numbers = [int(line.split("line ")[1].split(":")[0]) for line in lines]
    written = [
        n for n, line in enumerate(text.splitlines(), 1) if "wrote" in line or "max = 0" in line
    ]
    assert set(written) <= set(numbers)
