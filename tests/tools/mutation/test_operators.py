"""Each operator makes the fault that it is named for, and leaves alone what only looks like one."""

from __future__ import annotations

import pytest

from astra_chat.tools.mutation.operators import OPERATORS, faults


def made(operator: str, source: str, scalars: tuple[str, ...] = ()) -> list[str]:
    return [f.edit.apply(source) for f in faults(source, scalars) if f.operator == operator]


@pytest.mark.parametrize(
    ("operator", "source", "fault"),
    [
        ("last", "for (; i < n; ++i) {}", "for (; i + 1 < n; ++i) {}"),
        ("bound", "if (i >= n) return 1;", "if (i > n) return 1;"),
        ("bound", "if (i < n) {}", "if (i <= n) {}"),
        ("arithmetic", "x = a * b;", "x = a + b;"),
        ("accumulate", "{ sum += x; }", "{ sum = x; }"),
        ("extreme", "m = fmaxf(a, b);", "m = fminf(a, b);"),
        ("extreme", "m = __hmax2(a, b);", "m = __hmin2(a, b);"),
        ("constant", "x = 1.0f;", "x = (1.0f * 1.01f);"),
        ("constant", "x = 0.0f;", "x = 0.0078125f;"),
        ("number", "n = (d + 3) / 4;", "n = (d + 4) / 4;"),
        ("number", "if (lane == 0) {}", "if (lane == 1) {}"),
        ("barrier", "f(); __syncthreads(); g();", "f(); ; g();"),
        ("precision", "float x = f(y, z);", "float x = __half2float(__float2half_rn(f(y, z)));"),
        ("precision", "{ s += x * y; }", "{ s = __half2float(__float2half_rn(s + (x * y))); }"),
        ("statement", "{ out[i] = x; }", "{ ; }"),
        ("statement", "{ store(row, x); }", "{ ; }"),
        ("statement", "{ *p = x; }", "{ ; }"),
        ("guard", "x = isinf(y) ? 0 : y;", "x = false ? 0 : y;"),
        ("return", "{ if (i > n) return; f(); }", "{ ; f(); }"),
        ("subscript", "x = a[i];", "x = a[(i) + 1];"),
        ("stride", "x = b * in_stride; y = out_stride;", "x = b * out_stride; y = out_stride;"),
        ("axis", "i = threadIdx.x;", "i = threadIdx.y;"),
        ("narrow", "i = static_cast<int64_t>(n);", "i = static_cast<int>(n);"),
    ],
)
def test_an_operator_makes_its_fault(operator: str, source: str, fault: str) -> None:
    assert fault in made(operator, source)


def test_a_scalar_of_the_contract_is_doubled_where_it_is_used() -> None:
    source = "float f(float x, float eps) { return x + eps; }"
    assert made("scalar", source, ("eps",)) == [source.replace("+ eps", "+ (2 * eps)")]


@pytest.mark.parametrize(
    ("operator", "source"),
    [
        ("last", "template <typename T> void f(); a<b>(c);"),
        ("arithmetic", "const float *p; float* q; x = -y; ++i;"),
        ("accumulate", "for (;; i += step) { f(); }"),
        ("accumulate", "for (;; i += step) f();"),
        ("statement", "{ for (;;) f; if (a) {} return; }"),
        ("subscript", "float item[4];"),
        ("constant", '#define X 1.0f\nconst char* s = "1.0f"; // 1.0f'),
        ("narrow", "n = static_cast<int>(sizeof(T));"),
    ],
)
def test_what_only_looks_like_it_is_left_alone(operator: str, source: str) -> None:
    assert not made(operator, source)


def test_every_operator_says_what_it_does() -> None:
    assert all(operator.__doc__ for operator in OPERATORS.values())
