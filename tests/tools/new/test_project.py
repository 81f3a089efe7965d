"""What a file includes comes along in its place; what is missing is named at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.new.project import project_of
from astra_vgpu.ground.errors import BadInput

KERNEL = """#include <torch/all.h>
#ifdef USE_ROCM
#include <hip/hip_fp8.h>
#endif
#include "../common/math.h"
#include "shared/types.cuh"
"""


def project(folder: Path) -> Path:
    """A repository with a kernel that includes from above, and from a folder of headers."""
    for name, text in {
        "csrc/norm/kernel.cu": KERNEL,
        "csrc/common/math.h": '#pragma once\n#include "deep.h"\n',
        "csrc/common/deep.h": "#pragma once\n",
        "third/party/shared/types.cuh": "#pragma once\nstruct Pair;\n",
        "csrc/common/unused.h": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "csrc/norm/kernel.cu"


def test_headers_keep_their_places(tmp_path: Path) -> None:
    kernel = project(tmp_path)
    found = project_of([kernel], [tmp_path / "third/party"])
    assert found.source == KERNEL
    assert sorted(found.headers) == [
        "project/csrc/common/deep.h",
        "project/csrc/common/math.h",
        "project/third/party/shared/types.cuh",
    ]
    assert found.include == ("project/csrc/norm", "project/third/party")


def test_a_root_is_searched(tmp_path: Path) -> None:
    kernel = project(tmp_path)
    assert project_of([kernel], root=tmp_path) == project_of([kernel], [tmp_path / "third/party"])


def test_the_repository_is_searched_nearest_first(tmp_path: Path) -> None:
    kernel = project(tmp_path)
    (tmp_path / "types.cuh").write_text("")
    for folder in ("csrc/includes/shared", "a/shared"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "types.cuh").write_text("")
    with pytest.raises(BadInput, match=r"missing: shared/types\.cuh: "):
        project_of([kernel])
    (tmp_path / ".git").mkdir()
    assert "project/includes/shared/types.cuh" in project_of([kernel]).headers


def test_pytorchs_headers_are_never_the_repositorys(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("c10/Deep.h", "ATen/Tensor.h"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("#error real")
    kernel = tmp_path / "kernel.cu"
    kernel.write_text("#include <ATen/Tensor.h>\n#include <c10/Deep.h>\n")
    found = project_of([kernel])
    assert [*found.headers] == ["project/stand_ins/c10/Deep.h"]
    assert found.include[-1] == "project/stand_ins"


def test_headers_of_libraries_are_named(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cu"
    kernel.write_text("#include <cutlass/array.h>\n#include <one.h>\n#include <cute/a.hpp>\n")
    with pytest.raises(BadInput, match=r"missing: cute/a\.hpp, .*, one\.h \(of CUTLASS\): give"):
        project_of([kernel])
    kernel.write_text("#include <ATen/native/Any.h>\n#include <ATen/native/cuda/Loops.cuh>\n")
    with pytest.raises(
        BadInput, match=r"^kernel\.cu: ATen/native/cuda/Loops\.cuh: code of .* copy"
    ):
        project_of([kernel])


def test_all_missing_headers_are_named_at_once(tmp_path: Path) -> None:
    kernel = tmp_path / "a" / "kernel.cu"
    kernel.parent.mkdir()
    (tmp_path / ".git").mkdir()
    kernel.write_text('#include "one.h"\n#include <two/three.cuh>\n#include <torch/all.h>\n')
    with pytest.raises(BadInput, match=r"headers are missing: one\.h, two/three\.cuh: .* --root"):
        project_of([kernel])


def test_what_a_macro_of_the_build_includes(tmp_path: Path) -> None:
    (tmp_path / "fast.h").write_text("")
    kernel = tmp_path / "kernel.cu"
    kernel.write_text('#ifdef FAST\n#include "fast.h"\n#endif\n')
    assert not project_of([kernel]).headers
    found = project_of([kernel], defines=["FAST"])
    assert list(found.headers) == ["project/fast.h"] and found.defines == ("-DFAST",)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text("")
    with pytest.raises(BadInput, match="absent is not a folder"):
        project_of([tmp_path / "kernel.cu"], [tmp_path / "absent"])


def test_the_error_of_an_error_directive_is_named(tmp_path: Path) -> None:
    (tmp_path / "arch.h").write_text('#ifndef ARCH\n#error "define ARCH"\n#endif\n')
    kernel = tmp_path / "kernel.cu"
    kernel.write_text('#include "arch.h"\n')
    with pytest.raises(BadInput, match="define ARCH"):
        project_of([kernel])
    assert project_of([kernel], defines=["ARCH=900"]).headers
