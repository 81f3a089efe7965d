"""__FILE__: it may be printed, and nothing may depend on it."""

from __future__ import annotations

import pytest

from astra_chat.tools.cpp_tokens import Code, tokens
from astra_chat.tools.policy.source_guard import file_names

REFUSED = {
    "its first letter": "constexpr char c = __FILE__[0];",
    "a function that looks at it": (
        "constexpr bool f(const char* p) { return p[0]; }\nbool b = f(__FILE__);"
    ),
    "joined to another literal": 'auto s = "a" __FILE__;',
    "compared": 'bool b = strcmp(__FILE__, "kernel.cu");',
    "through a macro": "#define F __FILE__\nbool b = F[0];",
    "an error check that looks at it": (
        "#define CHECK(x) check(x, __FILE__)\n"
        "int check(int e, const char* f) { if (f[0]) return 1; "
        'fprintf(stderr, "%s", f); }'
    ),
}
ACCEPTED = {
    "printed by a macro": (
        "#define CHECK(x) do { cudaError_t e = (x); if (e) { "
        'fprintf(stderr, "%s:%d %s\\n", __FILE__, __LINE__, #x); return e; '
        "} } while (0)"
    ),
    "printed by a function": (
        "static void check(cudaError_t e, const char* file, int line) { if "
        '(e) { fprintf(stderr, "%s %d", file, line); } }\n'
        "#define CHECK(x) check((x), __FILE__, __LINE__)"
    ),
    "printed through a list of arguments": (
        '#define SAY(...) fprintf(stderr, __VA_ARGS__)\n#define CHECK(x) SAY("%s", __FILE__)'
    ),
    "printed by a macro of a macro": (
        '#define CHECK_(x, f, l) printf("%s:%d", f, l)\n'
        "#define CHECK(x) CHECK_(x, __FILE__, __LINE__)"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_looks_at_a_files_name_is_refused(name: str) -> None:
    found = list(file_names(Code(tokens(REFUSED[name]))))
    assert [one.what.partition(":")[0] for one in found] == ["__FILE__"]


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_prints_it_is_accepted(name: str) -> None:
    assert list(file_names(Code(tokens(ACCEPTED[name])))) == []


def test_functions_that_call_each_other_end() -> None:
    code = "void f(const char* p) { g(p); } void g(const char* p) { f(p); } int i = f(__FILE__);"
    assert list(file_names(Code(tokens(code))))
