"""Names that another build defines: what is compiled must not depend on them.

A source is judged in one build and used in others. A test of a macro that neither the source nor
the task's headers settle, and that is no documented macro of a compiler or of CUDA, has one answer
here and may have another one there (TORCH_EXTENSION_NAME, NDEBUG).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile

from astra_chat.tools.cpp_tokens import Code, Token, tokens
from astra_chat.tools.types import Finding

DOCUMENTED = re.compile(
    r"""__CUDA_ARCH(_LIST|_SPECIFIC|_FAMILY_SPECIFIC|_FEAT_SM\w+|_HAS_FEATURE)?_{0,2}
    | __CUDACC__
    | __CUDACC_VER(_MAJOR|_MINOR|_BUILD)?__ | __CUDACC_RTC__
    | __NVCC__ | __NVCOMPILER\w* | __CUDA__ | CUDA_VERSION | (__)?CUDART_(API_)?VERSION
    | __CUDA_(BF16|FP16|FP8|FP6|FP4)_TYPES_EXIST__ | __CUDA_FP8_ENABLE__ | CUDART_\w+_(F|HF|BF16)
    | (CUB|THRUST|CCCL|LIBCUDACXX)_(\w+_)?VERSION | _CCCL_\w+
    | __cplusplus | __cpp_(?!exceptions|rtti)\w+ | __STDC\w*__
    | __has_(attribute|cpp_attribute|builtin)
    | __VA_OPT__ | __VA_ARGS__
    | __GNUC(_MINOR|_PATCHLEVEL)?__ | __GNU[GC]__ | __GLIBC(_MINOR)?__
    | __GLIBCXX__ | _GLIBCXX_RELEASE
    | __clang(_m\w+)?__ | __clang_patchlevel__ | _LIBCPP_VERSION | _MSC_(FULL_)?VER | _MSVC_LANG
    | __(INTEL_COMPILER|INTEL_LLVM_COMPILER|MINGW\w*|CYGWIN|EDG|EDG_VERSION)(__)? | __ICC
    | _WIN(32|64) | __linux(__)? | linux | __unix(__)? | __APPLE__ | __ANDROID__
    | __(x86_64|amd64|i386|aarch64|arm|powerpc64|riscv)__ | _M_(X64|IX86|ARM64)
    | __HIP(CC|_PLATFORM_\w+|_DEVICE_COMPILE_*)?(__)? | __HIPCC__ | USE_ROCM | __MUSA\w*
    | __(SIZEOF|ALIGNOF)_\w+__ | __(BYTE|FLOAT_WORD)_ORDER__ | __ORDER_\w+__ | __CHAR_BIT__
    | __(FLT|DBL|LDBL|INT|LONG|SHRT|SCHAR|WCHAR|SIZE|PTRDIFF|INTMAX|UINTPTR)\w*__
    | (U?INT(8|16|32|64|MAX|PTR)?|U?S?CHAR|U?SHRT|U?L?LONG|SIZE|PTRDIFF)_(MAX|MIN)
    | (FLT|DBL|LDBL)_\w+ | CHAR_BIT | M_[A-Z0-9_]+ | INFINITY | NAN | HUGE_VALF? | NULL | __LINE__
    """,
    re.VERBOSE,
)
"""What compilers, CUDA's headers and the C library document. They say which compiler, language,
architecture and CUDA it is, not who builds."""
FOREIGN = re.compile(
    r"NDEBUG|TORCH_\w+|C10_\w+|ATEN?_\w+|PYBIND11_\w+|P[yY]_\w+|SGL\w*_\w+|VLLM_\w+|FLASHINFER_\w+"
    r"|_GLIBCXX_\w+|__CUDA_NO_\w+|ENABLE_\w*(FP|BF)\d\w*"
)
"""What builds are known to define on the command line: only what the source itself says before, and
under no condition, settles them."""
WORDS = frozenset("defined true false and or not xor bitand bitor compl not_eq".split())
OPERATORS = re.compile(r"__has_\w+")
REASON = (
    "another build may define it, and would then compile different code: #define or #undef it"
    " first, or test a macro of the compiler or of CUDA"
)


@dataclass
class _Group:
    """What stands between an #if and its #endif."""

    start: int
    """Place of its directive among all."""
    settled: list[set[str]] = field(default_factory=lambda: [set()])
    """Names that each branch so far defines or undefines."""
    otherwise: bool = False
    """Whether there is an #else."""
    varies: bool = False
    """Whether a documented macro decides, so that the branch is for some compiler or GPU."""


@dataclass
class _Macro:
    parameters: frozenset[str]
    body: list[Token]


def open_names(read: Code, headers: Mapping[str, str]) -> Iterator[Finding]:
    """Every test of a name that this source leaves to whoever builds it. `headers` are the texts of
    the task's own headers: what those define is settled."""
    yield from _Reader(read, headers).findings()


def _directives(read: list[Token]) -> Iterator[tuple[int, Token, list[Token]]]:
    """Index of each directive, itself, and the tokens after its name."""
    for index, token in enumerate(read):
        if token.kind == "directive":
            rest = takewhile(lambda t: t.directive and t.kind != "directive", read[index + 1 :])
            yield index, token, list(rest)


def _macro(rest: list[Token]) -> _Macro:
    """A macro after its #define; a bracket that touches the name begins its parameters."""
    name, *body = rest
    if body and body[0].text == "(" and body[0].at == name.at + len(name.text):
        end = next((i for i, t in enumerate(body) if t.text == ")"), len(body))
        names = frozenset(t.text for t in body[:end] if t.kind == "name")
        return _Macro(names, body[end + 1 :])
    return _Macro(frozenset(), body)


class _Reader:
    """Reads the directives in order and keeps which names are settled."""

    def __init__(self, read: Code, headers: Mapping[str, str]) -> None:
        self._code = read
        self._directives = list(_directives(read))
        self._settled: set[str] = set()
        self._macros: dict[str, _Macro] = {}
        self._groups: list[_Group] = []
        for text in headers.values():
            for _, token, rest in _directives(list(tokens(text))):
                if token.text in ("define", "undef") and rest:
                    self._settled.add(rest[0].text)

    def findings(self) -> Iterator[Finding]:
        for place, (_, token, rest) in enumerate(self._directives):
            if token.text in ("ifdef", "ifndef", "elifdef", "elifndef", "if", "elif"):
                tested = self._tested(token.text, rest)
                if not self._may_ask(place):
                    yield from self._open(tested)
                self._enter(token.text, place, tested)
            elif token.text == "else" and self._groups:
                self._groups[-1].otherwise = True
                self._groups[-1].settled.append(set())
            elif token.text == "endif" and self._groups:
                self._leave(self._groups.pop())
            elif token.text in ("define", "undef") and rest:
                if token.text == "define":
                    self._macros[rest[0].text] = macro = _macro(rest)
                    yield from self._open(list(_after_defined(macro.body)))
                self._settle({rest[0].text})

    def _tested(self, directive: str, rest: list[Token]) -> list[Token]:
        """The names on which a condition depends, those in the macros that it uses too."""
        if directive not in ("if", "elif"):
            return [t for t in rest[:1] if t.kind == "name"]
        found, seen = [], set[str]()
        waiting = _words(rest)
        known = {id(t) for t in _after_defined(rest)}
        while waiting:
            token = waiting.pop(0)
            found.append(token)
            macro = self._macros.get(token.text)
            if macro and id(token) not in known and token.text not in seen:
                seen.add(token.text)
                inner = [t for t in _words(macro.body) if t.text not in macro.parameters]
                known |= {id(t) for t in _after_defined(macro.body)}
                waiting += inner
        return found

    def _open(self, tested: list[Token]) -> Iterator[Finding]:
        for token in tested:
            if not self._is_settled(token.text):
                yield Finding(line=token.line, what=f"{token.text}: {REASON}")

    def _is_settled(self, name: str) -> bool:
        inside = any(name in group.settled[-1] for group in self._groups)
        return inside or name in self._settled or bool(DOCUMENTED.fullmatch(name))

    def _enter(self, directive: str, place: int, tested: list[Token]) -> None:
        varies = any(DOCUMENTED.fullmatch(token.text) for token in tested)
        if directive.startswith("el"):
            if self._groups:
                self._groups[-1].settled.append(set())
                self._groups[-1].varies &= varies
            return
        self._groups.append(_Group(place, varies=varies))

    def _leave(self, group: _Group) -> None:
        """What every branch settles is settled; so is what some branch does that is for some
        compiler or GPU, and the name for which a value is given where there is none."""
        common = set.intersection(*group.settled) if group.otherwise else set()
        some = set.union(*group.settled)
        if group.varies or self._gives_value(group.start):
            common |= {name for name in some if not FOREIGN.fullmatch(name)}
        self._settle(common)

    def _settle(self, names: set[str]) -> None:
        (self._groups[-1].settled[-1] if self._groups else self._settled).update(names)

    def _may_ask(self, place: int) -> bool:
        return self._gives_value(place) or self._takes_away(place) or self._whole_file(place)

    def _gives_value(self, place: int) -> bool:
        """#ifndef X, #define X 1, #endif: a value that may be set from outside, and no more."""
        return self._is_idiom(place, "ifndef", "define")

    def _takes_away(self, place: int) -> bool:
        """#ifdef X, #undef X, #endif."""
        return self._is_idiom(place, "ifdef", "undef")

    def _is_idiom(self, place: int, first: str, second: str) -> bool:
        three = self._directives[place : place + 3]
        if [token.text for _, token, _ in three] != [first, second, "endif"]:
            return False
        (start, _, asked), (_, _, told), (end, _, _) = three
        inside = [t for t in self._code[start + 1 : end] if not t.directive]
        same = bool(asked and told) and asked[0].text == told[0].text
        return same and not inside and (second == "undef" or not FOREIGN.fullmatch(asked[0].text))

    def _whole_file(self, place: int) -> bool:
        """An include guard around all the code: who defines its name gets no launcher at all."""
        first, _, asked = self._directives[place]
        second, _, told = self._directives[min(place + 1, len(self._directives) - 1)]
        last = self._directives[-1][0]
        names = [t.text for _, t, _ in (*self._directives[place : place + 2], self._directives[-1])]
        same = bool(asked and told) and asked[0].text == told[0].text
        outside = [*self._code[:first], *self._code[first + 1 + len(asked) : second]]
        bare = all(token.directive for token in outside) and last == len(self._code) - 1
        guards = names == ["ifndef", "define", "endif"]
        return guards and same and bare and self._closes_last(place)

    def _closes_last(self, first: int) -> bool:
        """Whether the last #endif of all closes this group, and it has no other branch."""
        depth = 0
        for place, (_, token, _) in enumerate(self._directives[first:], start=first):
            depth += token.text in ("if", "ifdef", "ifndef")
            depth -= token.text == "endif"
            if depth == 0:
                return place == len(self._directives) - 1
            if depth == 1 and token.text in ("else", "elif", "elifdef", "elifndef"):
                return False
        return False


def _words(expression: list[Token]) -> list[Token]:
    """Names of a condition that stand for macros; the arguments of __has_attribute do not."""
    found: list[Token] = []
    skipped = 0
    for index, token in enumerate(expression):
        if index < skipped:
            continue
        if token.kind == "name" and OPERATORS.fullmatch(token.text):
            rest = expression[index + 1 :]
            length = next((i for i, t in enumerate(rest) if t.text == ")"), len(rest))
            skipped = index + 2 + length if rest and rest[0].text == "(" else index
            found.append(token)
        elif token.kind == "name" and token.text not in WORDS:
            found.append(token)
    return found


def _after_defined(expression: list[Token]) -> Iterator[Token]:
    """The names that `defined X` and `defined(X)` ask about."""
    for index, token in enumerate(expression):
        if token.text == "defined":
            after = [t for t in expression[index + 1 : index + 3] if t.text != "("]
            yield from (t for t in after[:1] if t.kind == "name")
