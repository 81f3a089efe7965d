"""The author's text and what nvcc gets of it compile to equal object files, or nothing is said."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import pytest

from astra_chat.tools.build import proven_object as proven_object_module
from astra_chat.tools.build.proven_object import both_objects, proven_object
from astra_chat.tools.task.folder import find_task
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.toolkit import find_toolkit

TASK = find_task("silu_and_mul")
KERNEL = """
/* a comment
   of two lines */ namespace { __device__ int twice(int i) { return i * 2; } }  // and one more
template <class T> static __global__ void k(T* out) { out[threadIdx.x] = twice(__LINE__); }
extern "C" cudaError_t silu_and_mul(void* out, const void*, long rows, long, int,
                                    cudaStream_t stream) {
  k<float><<<1, /* threads */ 32, 0, stream>>>((float*)out);
  return cudaGetLastError();
}
"""


def test_comments_and_nameless_namespaces_change_nothing() -> None:
    path = proven_object(TASK, KERNEL, find_toolkit(), "sm_90")
    assert both_objects(TASK, KERNEL, find_toolkit(), "sm_90").equal
    assert {p.name for p in path.parent.iterdir()} >= {"kernel.o", "kernel.author.o", "kernel.cu"}


def test_other_code_is_a_clear_failure() -> None:
    """A digraph that an argument of the # operator holds is spelt otherwise."""
    source = "#define SPELT(x) #x\n__device__ const char* kept = SPELT(<:);\n" + KERNEL
    with pytest.raises(BadInput, match="its author wrote it compiles to code that differs"):
        proven_object(TASK, source, find_toolkit(), "sm_90")


def test_what_cannot_be_read_in_one_way_is_said() -> None:
    with pytest.raises(BadInput, match="cannot be compiled: line 2: an unterminated comment"):
        proven_object(TASK, "\n/*", find_toolkit(), "sm_90")


@pytest.mark.parametrize(
    ("written", "judged", "equal"), [("aba", "bcb", True), ("ab", "cd", False)]
)
def test_texts_of_several_objects_have_one_in_common(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: str, judged: str, equal: bool
) -> None:
    """nvcc gave one recorded kernel three objects in eight builds; a stand-in for it does so in a
    known order."""
    turns = {"author": cycle(written), "built": cycle(judged)}

    def compiled(_: list[str], texts: dict[str, str], scratch: Path) -> None:
        (scratch / proven_object_module.OBJECT).write_text(next(turns[texts["kernel.cu"]]))

    monkeypatch.setattr(proven_object_module, "_compile", compiled)
    texts, authors = {"kernel.cu": "built"}, {"kernel.cu": "author"}
    one, other = proven_object_module._pair([], texts, authors, tmp_path)
    assert (one == other) is equal
    assert one.decode() in judged and other.decode() in written
