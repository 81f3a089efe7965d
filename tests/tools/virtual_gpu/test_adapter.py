"""The adapter to the virtual GPU: type checkers and Python see the same names in it."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from astra_chat.tools.virtual_gpu import adapter


def test_what_type_checkers_read_is_what_is_loaded() -> None:
    tree = ast.parse(Path(adapter.__file__).read_text())
    read = {
        node.module.removeprefix("astra_vgpu."): {alias.name for alias in node.names}
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and "astra_vgpu" in node.module
    }
    assert read == {home: set(names) for home, names in adapter.HOMES.items()}


@pytest.mark.parametrize("home", adapter.HOMES)
def test_a_name_leads_to_its_home(home: str) -> None:
    module = import_module(f"astra_vgpu.{home}")
    for name in adapter.HOMES[home]:
        assert getattr(adapter, name) is getattr(module, name)


def test_another_name_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="fetch_everything"):
        exec("from astra_chat.tools.virtual_gpu.adapter import fetch_everything")


def test_no_engine_is_loaded_before_it_is_asked_for() -> None:
    code = (
        "import sys; from astra_chat.tools.virtual_gpu.adapter import Engine;"
        "print([n for n in sys.modules if n.startswith('astra_vgpu') and 'engine' in n])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
