"""Inline assembly of a candidate: PTX alone, in device functions, and what it may hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from astra_chat.tools.cpp_tokens import Code, Token, content
from astra_chat.tools.policy import rules
from astra_chat.tools.types import Finding

_ASM = ("asm", "__asm__", "__asm")


def assembly(code: Code, *, registers: bool = True) -> Iterator[Finding]:
    """Inline PTX is welcome; assembly of the host is not, wherever it stands.

    `registers`: whether special registers are looked for; in what is built, binary_audit.py does.
    """
    end = 0
    for index, token in enumerate(code):
        if token.kind != "name" or token.text not in _ASM:
            continue
        if index < end:  # and so that no text is read twice
            yield Finding(line=token.line, what=f"{token.text}: nested in another asm statement")
            return
        end = code.closing(_next_bracket(code, index))
        text = _spelt(code[index : end + 1])
        if rules.HOST_ASSEMBLY.search(text):
            yield Finding(line=token.line, what="asm: this is host assembly, not PTX")
        if registers and (register := rules.SPECIAL_REGISTERS.search(text)):
            what = f"{register[0]}: a kernel's behaviour may depend only on its arguments"
            yield Finding(line=token.line, what=what)
        if any(_is_text_constraint(t, after) for t, after in pairwise(code[index : end + 1])):
            what = (
                'asm: the constraint "C" is not allowed: write the text in the asm statement itself'
            )
            yield Finding(line=token.line, what=what)
        if directive := rules.PTX_DIRECTIVE.search(text):
            what = (
                f"asm: {directive[0]}: only instructions, registers and shared memory are allowed"
            )
            yield Finding(line=token.line, what=what)


def _is_text_constraint(token: Token, after: Token) -> bool:
    """A constraint by which a constant array of characters becomes part of the text."""
    return token.kind == "string" and after.text == "(" and "C" in content(token.text)


def _spelt(body: list[Token]) -> str:
    """The strings of an asm statement; those that follow each other are one, as in C++."""
    parts: list[str] = []
    for before, token in pairwise(body):
        if token.kind == "string":
            parts.append(("" if before.kind == "string" else "\n") + content(token.text))
    return "".join(parts)


def assembly_places(code: list[Token], *, host_too: bool = True) -> Iterator[Finding]:
    """asm may stand inside a body whose head says __device__ or __global__, or in a macro.

    Without `host_too`, a head that says __host__ as well does not do.
    """
    device = host = False
    stack: list[bool] = []
    for token in code:
        if token.text in ("__device__", "__global__"):
            device = True
        elif token.text == "__host__":
            host = not host_too
        elif token.text == "{":
            stack.append((device and not host) or (bool(stack) and stack[-1]))
        elif token.text == "}":
            del stack[-1:]
        elif token.text in _ASM and not (stack and stack[-1]):
            yield Finding(
                line=token.line, what=("asm: allowed only in a __device__ or __global__ function")
            )
        if token.text in ("{", "}", ";"):
            device = host = False


def _next_bracket(tokens: list[Token], index: int) -> int:
    while index < len(tokens) - 1 and tokens[index].text not in ("(", "[", "{"):
        index += 1
    return index
