"""Functions and places are found in C++ as people write it."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.source import code, functions, pieces, with_namespaces
from astra_vgpu.ground.errors import BadInput

SOURCE = r"""
#include <cuda_fp16.h>
#define WIDE(x) \
  ((x) * 2)
// int ghost(int x) { return x; }
namespace a {
struct Pair { int x; int sum() const { return x; } };
template <typename T, int N>
__global__ void __launch_bounds__(256) kernel(T* __restrict__ out, const T* in, int n = 1 << 2) {
  const char* text = "} not a brace {";
  if (n) { out[0] = in[0]; }
}
}  // namespace a
extern "C" {
int inside(void) { return 0; }
}
extern "C" __attribute__((visibility("default"))) cudaError_t
launch(void* out, const void* in, std::pair<int, int> two, cudaStream_t) { return cudaSuccess; }
int declared(int x);
int last() { return 1; }
"""


def test_functions_are_found_with_their_linkage() -> None:
    found = functions(code(pieces(SOURCE)))
    assert [(f.name, f.c_linkage, f.on_device) for f in found] == [
        ("kernel", False, True),
        ("inside", True, False),
        ("launch", True, False),
        ("last", False, False),
    ]


def test_parameters_have_types_names_and_defaults() -> None:
    kernel, inside, launch, _ = functions(code(pieces(SOURCE)))
    assert [(p.type, p.name, p.default) for p in kernel.parameters] == [
        ("T * __restrict__", "out", ""),
        ("const T *", "in", ""),
        ("int", "n", "1<<2"),
    ]
    assert inside.parameters == ()
    assert [p.name for p in launch.parameters] == ["out", "in", "two", ""]


def test_places_are_those_of_the_source() -> None:
    found = pieces(SOURCE)
    for piece in found:
        text = SOURCE[piece.start : piece.end]
        assert text == piece.text or (text.startswith("#") and text.endswith(piece.text))
    kernel = functions(code(found))[0]
    assert SOURCE[kernel.start :].startswith("template <typename T, int N>")
    assert SOURCE[: code(found)[kernel.close].end].endswith("out[0] = in[0]; }\n}")


@pytest.mark.parametrize(
    ("source", "words"),
    [('const char* x = "open;\n', "line 1")],
)
def test_what_is_no_cpp_is_named_by_line(source: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        pieces(source)


def test_a_token_over_two_lines_has_its_place() -> None:
    source = 'asm("add \\\n sub");\nre\\\nturn 1;'
    assert [source[p.start : p.end] for p in pieces(source)][2] == '"add \\\n sub"'
    assert "return" in [p.text for p in pieces(source)]


NAMESPACES = """#ifndef LIB_VERSION
#define LIB_VERSION v2
#endif
#define LIB_INNER inline namespace LIB_VERSION {  // of this version
#define LIB_BEGIN \\
  namespace lib {   \\
  LIB_INNER
#define LIB_END } /* v2 */ }
#define LIB_LIMIT 4
"""


def test_namespaces_that_macros_open() -> None:
    source = "\nLIB_BEGIN\nnamespace inner {\nvoid f(int n) {\nLIB_LIMIT\n; }\n}\nLIB_END  // lib\n"
    (found,) = functions(code(pieces(with_namespaces(source, [NAMESPACES]))))
    assert (found.name, found.namespaces, found.line) == ("f", ("lib", "v2", "inner"), 4)
    assert with_namespaces(source, []) == source
