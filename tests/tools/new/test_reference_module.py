"""A user's function becomes a task's reference, with the files that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.new.reference_module import ReferenceFunction
from astra_vgpu.ground.errors import BadInput


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "norms.py").write_text("import torch, json\nimport helpers\ndef rms(x): pass\n")
    (tmp_path / "helpers.py").write_text("from pkg.deep import one\n")
    (tmp_path / "json.py").write_text("never = 1\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "deep.py").write_text("from . import other\nclass Norm:\n def f(x): 1\n")
    (tmp_path / "pkg" / "other.py").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_comes_with_what_it_imports_from_beside_it(project: Path) -> None:
    function = ReferenceFunction("norms:rms")
    assert function.name == "norms:rms"
    files = {"norms.py", "helpers.py", "pkg/__init__.py", "pkg/deep.py", "pkg/other.py"}
    assert set(function.files()) == files
    deep = ReferenceFunction("pkg.deep:Norm.f")
    assert set(deep.files()) == {"pkg/__init__.py", "pkg/deep.py", "pkg/other.py"}
    assert ReferenceFunction(str(project / "norms.py") + ":rms").name == "norms:rms"


def test_of_an_installed_module_only_the_name_is_kept(project: Path) -> None:
    function = ReferenceFunction("torch.nn.functional:silu")
    assert function.name == "torch.nn.functional:silu" and function.files() == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("norms:other", "defines no other"),
        ("nowhere.at:all", "there is no nowhere/at.py here"),
        ("norms", "write module:function"),
        ("missing.py:f", "cannot read missing.py"),
        ("norms:rms(", "write module:function"),
    ],
)
def test_what_cannot_be_used_is_one_line(project: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        ReferenceFunction(text)
    assert said in str(error.value) and "\n" not in str(error.value)
