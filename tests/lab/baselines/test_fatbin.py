"""Machine code out of libraries: what nvcc embeds is found again, packed or plain."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.toolkit import find_toolkit
from lab.baselines.fatbin import cubin_with, cubins, kernels_of, unpacked

SOURCE = """
__global__ void doubled(float* x) { x[threadIdx.x] *= 2; }
extern "C" void go(float* x) { doubled<<<1, 32>>>(x); }
"""
NAME = "_Z7doubledPf"


@pytest.fixture(scope="module", params=["none", "speed", "size"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shared library for two architectures, its cubins plain or packed in either way."""
    folder = tmp_path_factory.mktemp("fatbin")
    (folder / "a.cu").write_text(SOURCE)
    words = {
        "none": ["--no-compress"],
        "speed": ["-compress-mode=speed"],
        "size": ["-compress-mode=size"],
    }[request.param]
    if request.param == "size":
        pytest.importorskip("zstandard")
    command = [
        str(find_toolkit().nvcc),
        "-shared",
        "-Xcompiler=-fPIC",
        "-cudart=none",
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=sm_90",
        *words,
        "-o",
        str(folder / "a.so"),
        str(folder / "a.cu"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "a.so"


def test_a_kernel_is_found_by_name_and_architecture(library: Path) -> None:
    cubin = cubin_with(library, ["other", NAME])
    assert cubin is not None and cubin.startswith(b"\x7fELF") and NAME in kernels_of(cubin)
    assert cubin_with(library, [NAME], arch=80) not in (None, cubin)


def test_what_is_not_there_is_said(library: Path, tmp_path: Path) -> None:
    assert cubin_with(library, ["other"]) is None and cubin_with(library, []) is None
    assert cubin_with(library, [NAME], arch=75) is None
    with pytest.raises(BadInput, match="not a cubin"):
        kernels_of(b"text")
    with pytest.raises(BadInput, match="cannot be read"):
        list(cubins(tmp_path / "none.so", 90))


@pytest.mark.parametrize(
    ("packed", "plain"),
    [
        (b"\x50hello", b"hello"),
        (b"\x11a\x01\x00\x10b", b"aaaaaab"),
        (b"\xf0\x01" + b"x" * 16, b"x" * 16),
        (b"\x1fz\x01\x00\x05", b"z" * 25),
    ],
)
def test_blocks_are_unpacked(packed: bytes, plain: bytes) -> None:
    assert unpacked(packed, len(plain)) == plain


@pytest.mark.parametrize("packed", [b"\x11a\x05\x00", b"\x11a\x00\x00", b"\x50hell"])
def test_damaged_blocks_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match="LZ4"):
        unpacked(packed, 99)
