"""baseline.cu of a Triton kernel: Triton's machine code and a launcher that chooses among it.

Triton compiles a kernel for each element type and constant, and once more for arguments that are
multiples of 16, which lets it load 16 bytes at once. The launcher takes the variant that its
arguments allow, as Triton's own would. The user says what Python's host code says in Triton: the
grid, the constants and the number of warps.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from astra_chat.tools.cpp_heads import head
from astra_chat.tools.new.draft import (
    Draft,
)
from astra_chat.tools.new.triton_launch import Choice, TritonLaunch
from astra_chat.tools.task.expressions import parse
from astra_chat.tools.triton.compile import ARCH, TYPES, Compiled, Constant, Variant, compiled
from astra_chat.tools.triton.cpp_launch import LAUNCH
from astra_chat.tools.triton.ptx import SHARED, PtxEntry, asm_statement, entry_of
from astra_chat.tools.types import DTYPE_CODES, DTypeName
from astra_vgpu.ground.errors import BadInput

MOST_VARIANTS = 64
INVALID = "cudaErrorInvalidValue"
HELPERS = """\
// Triton's integers have 32 bits.
inline bool narrow(int64_t number) { return number == static_cast<int>(number); }

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
"""
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}


@dataclass(frozen=True)
class TritonParameter:
    """A parameter of the Triton kernel that is no constant, in the contract's words."""

    name: str
    kind: Literal["tensor", "int", "float", "one"]
    """one: the distance of neighbours in a dense axis."""
    argument: str
    """The launcher's parameter."""


@dataclass(frozen=True, kw_only=True)
class _Stated:
    """A Triton kernel, and what the user says about its launches."""

    kernel: ast.FunctionDef
    draft: Draft
    parameters: Sequence[TritonParameter]
    launch: TritonLaunch
    constants: Mapping[str, Choice]
    """Every constant of the kernel."""

    @property
    def order(self) -> list[str]:
        """Names of the kernel's arguments, constants among them."""
        given = self.kernel.args
        return [a.arg for a in [*given.posonlyargs, *given.args, *given.kwonlyargs]]


@dataclass(frozen=True)
class _Kernel:
    """A compiled variant, and when the launcher takes it."""

    name: str
    variant: Variant
    entry: PtxEntry
    shared_bytes: int


@dataclass(frozen=True)
class _Made:
    """The code for some dtypes and constants: for multiples of 16, and for any arguments."""

    types: Mapping[str, DTypeName]
    constants: Mapping[str, Constant]
    by_16: _Kernel
    any: _Kernel

    @property
    def kernels(self) -> list[_Kernel]:
        return [self.any] if self.by_16.entry == self.any.entry else [self.by_16, self.any]


def baseline(
    source: str,
    kernel: ast.FunctionDef,
    draft: Draft,
    parameters: Sequence[TritonParameter],
    launch: TritonLaunch,
) -> str:
    """Text of baseline.cu. Raises BadInput, and MissingDependency without Triton."""
    constants = _with_defaults(kernel, launch)
    _require_names(draft, launch)
    stated = _Stated(
        kernel=kernel, draft=draft, parameters=parameters, launch=launch, constants=constants
    )
    return _text(stated, _variants(source, stated))


def _values(stated: _Stated) -> list[dict[str, Constant]]:
    """All combinations of the constants' values. Raises BadInput where they are too many."""
    names, choices = list(stated.constants), stated.constants.values()
    chosen = [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*(choice.values for choice in choices))
    ]
    dtypes = len(stated.draft.types)
    if 2 * dtypes * len(chosen) > MOST_VARIANTS:
        raise BadInput(
            f"{dtypes} dtypes with {len(chosen)} values of constants, each built twice,"
            f" give more than {MOST_VARIANTS} kernels: give fewer values"
        )
    return chosen


def _variants(source: str, stated: _Stated) -> list[_Made]:
    """What Triton makes of the kernel for all dtypes and constants."""
    name = stated.kernel.name
    each = [
        (of, values, _variant(stated, of, values))
        for values in _values(stated)
        for of in stated.draft.types
    ]
    useful = _useful_hints(source, name, each[0][2])
    pairs = [(replace(variant, divisible=useful), variant) for *_, variant in each]
    code = iter(compiled(source, name, [variant for pair in pairs for variant in pair]))
    made = []
    for (of, values, _), (by_16, any_) in zip(each, pairs, strict=True):
        told = [str(values[n]) for n, choice in stated.constants.items() if choice.bound]
        called = "_".join([name, *of.values(), *told])
        first = _kernel(f"{called}_by_16", by_16, next(code))
        made.append(_Made(of, values, first, _kernel(called, any_, next(code))))
    return made


def _text(stated: _Stated, made: Sequence[_Made]) -> str:
    """The file: its kernels, and a launcher that chooses among them."""
    kernel, draft = stated.kernel, stated.draft
    kernels = [one for m in made for one in m.kernels]
    written = [tensor.name for tensor in draft.tensors if tensor.written]
    lines = [
        f"// {kernel.name}, a Triton kernel: the machine code that Triton makes of it for compute",
        f"// capability {ARCH // 10}.{ARCH % 10}.",
        "//",
        *(f"// {line}".rstrip() for line in ast.unparse(kernel).splitlines()),
        "",
        "#include <algorithm>",
        "#include <cstdint>",
        "#include <cuda_runtime.h>",
        "",
        *(
            ["extern __shared__ __align__(16) unsigned char " + SHARED + "[];", ""]
            if any(k.entry.shared for k in kernels)
            else []
        ),
        "namespace {",
        "",
        *itertools.chain.from_iterable(_defined(k, stated.parameters, written) for k in kernels),
        HELPERS,
        LAUNCH,
        "}  // namespace",
        "",
        *head(f'extern "C" cudaError_t {draft.entry}', draft.parameters, " {"),
        *_choices(stated, made),
        f"  return {INVALID};",
        "}",
        "",
    ]
    return "\n".join(lines)


def _with_defaults(kernel: ast.FunctionDef, launch: TritonLaunch) -> dict[str, Choice]:
    """Every constant of the kernel. Raises BadInput where one has no value."""
    given = [*kernel.args.posonlyargs, *kernel.args.args]
    defaults = dict(zip([a.arg for a in given][::-1], kernel.args.defaults[::-1], strict=False))
    defaults |= {
        a.arg: value
        for a, value in zip(kernel.args.kwonlyargs, kernel.args.kw_defaults, strict=True)
        if value is not None
    }
    names = constants_of(kernel)
    if unknown := [name for name in launch.constants if name not in names]:
        raise BadInput(
            f"--constant {unknown[0]}: the constants of {kernel.name} are:"
            f" {', '.join(names) or 'none'}"
        )
    found: dict[str, Choice] = {}
    for name in names:
        if name in launch.constants:
            found[name] = launch.constants[name]
            continue
        try:
            found[name] = Choice((ast.literal_eval(defaults[name]),))
        except (KeyError, ValueError):
            raise BadInput(f"{kernel.name} needs --constant {name}=VALUE") from None
    return found


def constants_of(kernel: ast.FunctionDef) -> list[str]:
    """Parameters that are tl.constexpr."""
    arguments = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    return [a.arg for a in arguments if a.annotation and "constexpr" in ast.unparse(a.annotation)]


def _require_names(draft: Draft, launch: TritonLaunch) -> None:
    known = {*draft.dims, *(s.name for s in draft.scalars)}
    texts = [("--grid", axis, known | set(launch.constants)) for axis in launch.grid]
    texts += [("--constant", c.bound, known) for c in launch.constants.values() if c.bound]
    for option, text, names in texts:
        if unknown := sorted(parse(text).names - names):
            offered = ", ".join(sorted(names))
            raise BadInput(f"{option} '{text}': {unknown[0]} does not exist; use {offered}")


def _variant(
    stated: _Stated, types: Mapping[str, DTypeName], constants: Mapping[str, Constant]
) -> Variant:
    """The kernel for these dtypes and values, as Triton is asked for it."""
    by_name = {p.name: p for p in stated.parameters}
    dtypes = {t.name: types.get(t.dtype, t.dtype) for t in stated.draft.tensors}
    signature, fixed = dict[str, str](), dict(constants)
    for name in stated.order:
        match by_name.get(name):
            case None:
                signature[name] = "constexpr"
            case TritonParameter(kind="one"):
                signature[name], fixed[name] = "constexpr", 1
            case TritonParameter(kind="tensor", argument=argument):
                signature[name] = "*" + _triton_type(argument, dtypes[argument])
            case TritonParameter(kind=kind):
                signature[name] = "i32" if kind == "int" else "fp32"
    return Variant(signature, fixed, stated.launch.warps, stated.launch.stages)


def _triton_type(argument: str, dtype: str) -> str:
    for name, called in TYPES.items():
        if name == dtype:
            return called
    raise BadInput(f"{argument}: Triton does not support {dtype}")


def _useful_hints(source: str, kernel: str, variant: Variant) -> tuple[str, ...]:
    """Parameters of which Triton's code is another where they are multiples of 16."""
    kinds = ((name, variant.signature[name]) for name in variant.given)
    hints = [name for name, kind in kinds if kind == "i32" or kind.startswith("*")]
    without = [tuple(h for h in hints if h != name) for name in hints]
    tried = [replace(variant, divisible=some) for some in (tuple(hints), *without)]
    whole, *others = (_body(one.ptx) for one in compiled(source, kernel, tried))
    return tuple(name for name, other in zip(hints, others, strict=True) if other != whole)


def _body(ptx: str) -> tuple[str, ...]:
    return entry_of(ptx, 10**6).body


def _kernel(name: str, variant: Variant, made: Compiled) -> _Kernel:
    return _Kernel(name, variant, entry_of(made.ptx, len(variant.given)), made.shared_bytes)


def _defined(
    kernel: _Kernel, parameters: Sequence[TritonParameter], written: Sequence[str]
) -> list[str]:
    types = {"tensor": "const void*", "int": "int", "float": "float"}
    types |= {name: "void*" for name in written}
    given = [p for p in parameters if p.kind != "one"]
    declared = [f"{types.get(p.argument, types[p.kind])} {p.argument}" for p in given]
    threads = 32 * kernel.variant.warps
    return [
        f"__global__ void __launch_bounds__({threads})",
        *head(kernel.name, declared, " {"),
        *asm_statement(kernel.entry, [p.argument for p in given], "  "),
        "}",
        "",
    ]


def _choices(stated: _Stated, made: Sequence[_Made]) -> list[str]:
    """The launcher's body: the first variant whose tests hold."""
    draft, parameters, launch = stated.draft, stated.parameters, stated.launch
    whole = [p.argument for p in parameters if p.kind == "int"]
    hints = {p.name: p.argument for p in parameters}
    multiples = [f"by_16({hints[name]})" for name in made[0].by_16.variant.divisible]
    given = [p.argument for p in parameters if p.kind != "one"]
    lines = [
        f"  if (!({' && '.join(f'narrow({name})' for name in whole)})) return {INVALID};",
        f"  const bool multiples = {' && '.join(multiples) or 'false'};",
    ]
    for one in made:
        tests = [f"{draft.code_name(v)} == {DTYPE_CODES[d]}" for v, d in one.types.items()]
        tests += [
            f"{_cpp(parse(c.bound).tree, {})} <= {one.constants[name]}"
            for name, c in stated.constants.items()
            if c.bound
        ]
        numbers = {n: v for n, v in one.constants.items() if isinstance(v, int)}
        axes = [_cpp(parse(axis).tree, numbers) for axis in launch.grid]
        same = one.by_16.entry == one.any.entry
        kernel = one.any.name if same else f"multiples ? {one.by_16.name} : {one.any.name}"
        shared_bytes = max(one.by_16.shared_bytes, one.any.shared_bytes)
        call = [
            kernel,
            f"{{{', '.join([*axes, '1', '1'][:3])}}}",
            str(32 * launch.warps),
            str(shared_bytes),
            "stream",
            *given,
        ]
        lines += [
            f"  if ({' && '.join(tests) or 'true'}) {{",
            *head("    return launch", call, ";"),
        ]
        lines.append("  }")
    return lines


def _cpp(node: ast.expr, numbers: Mapping[str, int]) -> str:
    """An expression of the contract in C++, with these values for constants."""
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.Name(id=name):
            return str(int(numbers[name])) if name in numbers else name
        case ast.UnaryOp(operand=operand):
            return f"-{_cpp(operand, numbers)}"
        case ast.BinOp(left=left, op=operator, right=right):
            sign = _OPERATORS[type(operator)]
            return f"({_cpp(left, numbers)} {sign} {_cpp(right, numbers)})"
        case ast.Call(func=ast.Name(id=name), args=given):
            called = name if name == "ceil_div" else f"std::{name}<int64_t>"
            first, *others = (_cpp(one, numbers) for one in given)
            for other in others:
                first = f"{called}({first}, {other})"
            return first
    raise AssertionError(ast.dump(node))
