"""Source policy: reads a candidate as tokens and refuses what it may not say (tools/policy.py)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise, takewhile

from astra_chat.tools import policy
from astra_chat.tools.cpp_tokens import Token, tokens
from astra_chat.tools.types import Finding

_ASM = ("asm", "__asm__", "__asm")
_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")


def guard(source: str, entry: str, headers: Collection[str] = ()) -> tuple[Finding, ...]:
    """Every place of `source` that breaks the policy, by line; empty if there is none.

    `entry` is the launcher that must be defined as extern "C"; `headers` are the task's own files,
    the only ones that may be included in quotes. Nothing is preprocessed: text in a
    branch of #if that is not taken counts too.
    """
    if len(source.encode(errors="replace")) > policy.SOURCE_BYTES:
        return (Finding(line=1, what=f"the source is longer than {policy.SOURCE_BYTES} bytes"),)
    found = list(tokens(source))
    code = [token for token in found if not token.directive]
    findings = [
        *(Finding(line=t.line, what=t.text) for t in found if t.kind == "bad"),
        *_directives(found, headers),
        *_names(found),
        *_assembly(found),
        *_assembly_places(code),
        *_attributes(found),
        *_pasting(found),
        *_entry(code, entry),
    ]
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: finding.line))


def _directives(found: list[Token], headers: Collection[str]) -> Iterator[Finding]:
    for index, token in enumerate(found):
        if token.kind != "directive":
            continue
        rest = list(takewhile(_inside_directive, found[index + 1 :]))
        words = " ".join(t.text for t in rest)
        refused: str | None = None
        if token.text in ("include", "include_next", "import", "embed"):
            refused = _include(token.text, rest[0] if rest else None, headers)
        elif token.text == "pragma" and not policy.PRAGMAS.match(words):
            refused = f"#pragma {words}: only unroll and diagnostics"
        elif token.text in ("line", "ident", "sccs", "assert") or token.text.isdigit():
            refused = f"#{token.text}: it has no place in a kernel"
        if refused:
            yield Finding(line=token.line, what=refused)


def _inside_directive(token: Token) -> bool:
    return bool(token.directive) and token.kind != "directive"


def _include(directive: str, header: Token | None, headers: Collection[str]) -> str | None:
    if directive != "include":
        return f"#{directive}: only #include"
    if header is None or header.kind != "header":
        return "#include of a macro: name the header in <>"
    if header.text.startswith('"'):
        if header.text.strip('"') in headers:
            return None
        own = f"in quotes stand {', '.join(headers)}" if headers else "a candidate is one file"
        return f"#include {header.text}: {own}; system headers stand in <>"
    if not policy.HEADERS.fullmatch(header.text):
        return f"#include {header.text}: not among the headers that kernels need"
    return None


def _names(found: list[Token]) -> Iterator[Finding]:
    own = _defined_functions(found)
    for index, token in enumerate(found):
        if token.kind != "name":
            continue
        before = [t.text for t in found[max(0, index - 2) : index]]
        if reason := _std_name(token.text, before) or policy.refusal(
            token.text, token.text not in own and _called(found, index)
        ):
            yield Finding(line=token.line, what=f"{token.text}: {reason}")
        if token.text == "_Pragma":
            words = "".join(t.text for t in found[index + 1 : index + 3]).lstrip('("')
            if not policy.PRAGMAS.match(words):
                yield Finding(line=token.line, what="_Pragma: only unroll and diagnostics")


def _std_name(name: str, before: list[str]) -> str | None:
    return policy.STD_NAMES.get(name) if before == ["std", "::"] else None


def _called(found: list[Token], index: int) -> bool:
    """f(...) or ::f, but neither a.f(...), a->f(...) nor scope::f(...)."""
    before = found[index - 1].text if index else ""
    if before in (".", "->"):
        return False
    if before == "::":
        return index < 2 or found[index - 2].kind != "name" or found[index - 2].text == "return"
    after = found[index + 1].text if index + 1 < len(found) else ""
    return after == "("


def _defined_functions(found: list[Token]) -> frozenset[str]:
    """Names that the source itself gives a body: name(...) {."""
    own = set()
    for index, (token, after) in enumerate(pairwise(found)):
        if token.kind == "name" and after.text == "(":
            end = _closing(found, index + 1)
            if end + 1 < len(found) and found[end + 1].text == "{" and index:
                own.add(token.text)
    return frozenset(own - {"if", "for", "while", "switch"})


def _closing(found: list[Token], start: int) -> int:
    """Index of the bracket that closes the one at `start`; the end if none does."""
    depth = 0
    for index in range(start, len(found)):
        token = found[index]
        if token.kind == "punct":
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
        if depth == 0:
            return index
    return len(found)


def _assembly(found: list[Token]) -> Iterator[Finding]:
    """Inline PTX is welcome; assembly of the host is not, wherever it stands."""
    for index, token in enumerate(found):
        if token.kind == "name" and token.text in _ASM:
            body = found[index : _closing(found, _next_bracket(found, index)) + 1]
            text = "\n".join(t.text for t in body if t.kind == "string").replace('"', "")
            if policy.HOST_ASSEMBLY.search(text):
                yield Finding(line=token.line, what="asm: this is assembly of the host, not PTX")
            if clock := policy.DEVICE_CLOCK.search(text):
                what = f"{clock[0]}: what a kernel does must not depend on time or chance"
                yield Finding(line=token.line, what=what)


def _assembly_places(code: list[Token]) -> Iterator[Finding]:
    """asm may stand inside a body whose head says __device__ or __global__, or in a macro."""
    device = False
    stack: list[bool] = []
    for token in code:
        if token.text in ("__device__", "__global__"):
            device = True
        elif token.text == "{":
            stack.append(device or (bool(stack) and stack[-1]))
        elif token.text == "}":
            stack = stack[:-1]
        elif token.text in _ASM and not (stack and stack[-1]):
            yield Finding(line=token.line, what="asm: only in a __device__ or __global__ function")
        if token.text in ("{", "}", ";"):
            device = False


def _next_bracket(found: list[Token], index: int) -> int:
    while index < len(found) - 1 and found[index].text not in _OPEN:
        index += 1
    return index


def _attributes(found: list[Token]) -> Iterator[Finding]:
    """Attributes of GCC: __attribute__((a, b(1))), [[gnu::a]], [[using gnu: a]]."""
    for index, token in enumerate(found):
        named: list[Token] = []
        if token.text in ("__attribute__", "__attribute"):
            inner = found[index + 2 : _closing(found, index + 1)]
            named = [t for i, t in enumerate(inner) if t.kind == "name" and _depth(inner[:i]) == 1]
        elif token.text in ("gnu", "__gnu__") and _texts(found, index + 1, 1) in (["::"], [":"]):
            named = list(takewhile(lambda t: t.text not in ("]", "("), found[index + 2 :]))
        for name in (t for t in named if t.kind == "name"):
            if name.text.strip("_") not in (*policy.ATTRIBUTES, "gnu"):
                yield Finding(line=name.line, what=f"attribute {name.text}: not for a kernel")


def _depth(before: list[Token]) -> int:
    texts = [t.text for t in before if t.kind == "punct"]
    return texts.count("(") - texts.count(")")


def _texts(found: list[Token], start: int, count: int) -> list[str]:
    return [token.text for token in found[start : start + count]]


def _pasting(found: list[Token]) -> Iterator[Finding]:
    pastes = [token for token in found if token.text == "##" and token.kind == "punct"]
    if pastes:
        fragments = frozenset(t.text for t in found if t.kind in ("name", "number"))
        if name := policy.pasted(fragments):
            yield Finding(line=pastes[0].line, what=f"## can paste the forbidden name {name}")


def _entry(code: list[Token], entry: str) -> Iterator[Finding]:
    """The launcher must be defined with C linkage, outside functions and namespaces."""
    linkage: list[bool] = []
    single = False
    for index, token in enumerate(code):
        if (
            token.kind == "string"
            and token.text == '"C"'
            and _texts(code, index - 1, 1) == ["extern"]
        ):
            single = True
        elif token.text == "{":
            linkage.append(single and code[index - 1].text == '"C"')
            single = False
        elif token.text == "}":
            linkage = linkage[:-1]
            single = False
        elif token.text == ";":
            single = False
        elif token.text == entry and _texts(code, index + 1, 1) == ["("]:
            body = _texts(code, _closing(code, index + 1) + 1, 1) == ["{"]
            if body and (single or (linkage and all(linkage))):
                return
    what = f'no launcher: extern "C" cudaError_t {entry}(...) is not defined'
    yield Finding(line=1, what=what)
