"""The registry of what engines launch, and the check of a package against it."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from astra_chat.tools.task.folder import task_names
from astra_vgpu.ground.errors import BadInput
from lab.baselines.beside import LIKELY
from lab.baselines.cute_kernels import IN_CUTE
from lab.baselines.foreign import AT_RUN_TIME, HEADERS_TODAY, IN_LIBRARIES, NOT_CALLED_TODAY
from lab.baselines.torch_rivals import IN_TORCH
from lab.baselines.triton_kernels import IN_TRITON
from lab.rivals import Package, Registry, check, listing, main, packages, read_registry, report

REGISTRY = """\
read = "2026-11-28"

[versions]
engine = "1.0"
engine-kernels = "2.0"

[[rival]]
task = "silu_and_mul"
package = "engine"
kernel = "fused"
calls = "any"
places = [
    { file = "engine/a.py", name = "dispatch", line = 3, text = "if small and not large:" },
    { file = "engine/b.cuh", name = "fused_kernel", line = 1 },
    { file = "kernels/lib.so", name = "fused_kernelI6__half", package = "engine-kernels" },
]
measured = ["jit"]

[[rival]]
package = "engine"
kernel = "other"
calls = "any"
places = [{ file = "engine/c.json" }]
not_run = "no task"
"""
FILES = {
    "engine/a.py": "import os\n\ndef dispatch(x):\n    if small\n        and not large: pass\n",
    "engine/b.cuh": "__global__ void fused_kernel() {}\n",
    "engine/c.json": "{}",
}


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    (tmp_path / "rivals.toml").write_text(REGISTRY)
    return read_registry(tmp_path / "rivals.toml")


def wheel(folder: Path, files: dict[str, str], name: str = "engine", version: str = "1.0") -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText\n"
        made.writestr(f"{name}-{version}.dist-info/METADATA", metadata)
        for file, text in files.items():
            made.writestr(file, text)
    return path


def changes(registry: Registry, path: Path) -> list[tuple[str, str]]:
    (package,) = packages(path, registry.versions)
    found = [(one.state, one.what) for one in check(registry, package)]
    return [one for one in found if one[0] != "as written"]


def test_a_wheel_as_it_was_read_has_no_changes(registry: Registry, tmp_path: Path) -> None:
    path = wheel(tmp_path, FILES)
    assert changes(registry, path) == []
    (package,) = packages(path, registry.versions)
    first, last = report(registry, package, check(registry, package))
    assert first == "engine 1.0, the registry's version"
    assert last.strip() == "3 places of 2 kernels: 3 as written, 0 moved, 0 gone"


def test_what_changed_in_a_wheel_is_said(registry: Registry, tmp_path: Path) -> None:
    def of(files: dict[str, str]) -> list[tuple[str, str]]:
        return changes(registry, wheel(tmp_path, files, version="1.1"))

    near, far = "\n" * 15, "\n" * 40
    assert of({**FILES, "engine/a.py": near + FILES["engine/a.py"]}) == []
    assert of({**FILES, "engine/a.py": far + FILES["engine/a.py"]}) == [
        ("moved", "dispatch moved from line 3 to 43")
    ]
    widened = FILES["engine/a.py"].replace("and not large", "or large")
    assert of({**FILES, "engine/a.py": widened}) == [
        ("gone", "this is gone: if small and not large:")
    ]
    renamed = FILES["engine/b.cuh"].replace("fused_kernel", "fused_kernel_v2")
    assert of({**FILES, "engine/b.cuh": renamed}) == [("gone", "fused_kernel is gone")]
    without = {name: text for name, text in FILES.items() if name != "engine/c.json"}
    assert of(without) == [("gone", "the file is gone")]


def test_a_folder_of_packages_and_machine_code(registry: Registry, tmp_path: Path) -> None:
    for name, version in (("Engine", "1.2"), ("engine_kernels", "2.0")):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    for file, text in FILES.items():
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "kernels").mkdir()
    library = tmp_path / "kernels/lib.so"
    library.write_bytes(b"\x7fELF\x00_Z12fused_kernelI6__halfEv\x00\xff")
    engine, kernels = packages(tmp_path, registry.versions)
    assert (engine.name, engine.version) == ("engine", "1.2")
    assert kernels.name == "engine-kernels"
    assert [one.state for one in check(registry, engine)] == ["as written"] * 3
    assert [one.state for one in check(registry, kernels)] == ["as written"]
    assert next(report(registry, engine, [])) == "engine 1.2 (registry: 1.0)"
    library.write_bytes(b"\x7fELF")
    assert [one.what for one in check(registry, kernels)] == [
        "fused_kernelI6__half is gone from the machine code"
    ]


def test_what_is_no_package_is_refused_in_a_line(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_text("text")
    for path, said in (
        (tmp_path / "a.whl", "neither a wheel nor a folder"),
        (tmp_path / "none.whl", "neither a wheel nor a folder"),
        (tmp_path, "contains none of the registry's packages"),
        (wheel(tmp_path, {}, "torch"), "contains none of the registry's packages"),
    ):
        with pytest.raises(BadInput, match=said):
            packages(path, registry.versions)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('not_run = "no task"', "", "either `measured` or `not_run`"),
        ('measured = ["jit"]', 'measured = ["jit"]\nnot_run = "why"', "either"),
        ('engine-kernels = "2.0"', "", "no version of engine-kernels"),
        ('kernel = "other"', "kernel = 3", "kernel"),
        ("[versions]", "[versions", "cannot be read"),
    ],
)
def test_a_registry_that_is_not_one_is_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in REGISTRY
    (tmp_path / "rivals.toml").write_text(REGISTRY.replace(old, new))
    with pytest.raises(BadInput, match=said):
        read_registry(tmp_path / "rivals.toml")


def test_the_command_ends_with_1_where_something_is_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With the real registry: a package of its name that holds nothing."""
    path = wheel(tmp_path, {}, "sglang", "9.0")
    for words, code, said in (
        (["check", str(path)], 1, "the file is gone"),
        (["check", str(tmp_path / "none")], 2, "neither a wheel nor a folder"),
    ):
        monkeypatch.setattr(sys, "argv", ["rivals", *words])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == code
        printed = capsys.readouterr()
        assert said in printed.out + printed.err


def test_the_registry_names_what_lab_baselines_runs_and_nothing_else() -> None:
    registry = read_registry()
    assert {one.task for one in registry.rival if one.task} == set(task_names())
    torch = {task: [rival.name for rival in some] for task, some in IN_TORCH.items()}
    measured = {(one.task, n) for one in registry.rival for n in one.measured if "torch" in n}
    assert measured == {(task, name) for task, names in torch.items() for name in names}
    headers, jit, triton, cute, library = (
        {one.task for one in registry.rival if name in one.measured}
        for name in ("headers", "jit", "triton", "cute", "library")
    )
    assert cute == set(IN_CUTE)
    assert (headers, jit, triton) == (set(HEADERS_TODAY), set(AT_RUN_TIME), set(IN_TRITON))
    no_library_today = {"rope_and_kv_write"}
    assert library == set(IN_LIBRARIES) - set(NOT_CALLED_TODAY) - no_library_today
    for task in task_names():
        names = [name for one in registry.of_task(task) for name in one.measured]
        assert names and len(names) == len(set(names)) and set(names) <= set(LIKELY)
    for one in registry.rival:
        assert one.pdl or not any(name.endswith("-pdl") for name in one.measured)
    assert "topk_softmax" in list(listing(registry))


def test_a_file_is_read_once_for_all_its_places(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    content = Package.content

    def counted(package: Package, file: str) -> bytes | None:
        asked.append(file)
        return content(package, file)

    monkeypatch.setattr(Package, "content", counted)
    twice = registry.model_copy(update={"rival": registry.rival * 2})
    (package,) = packages(wheel(tmp_path, FILES), registry.versions)
    assert len(check(twice, package)) == 2 * len(FILES)
    assert sorted(asked) == sorted(FILES)
