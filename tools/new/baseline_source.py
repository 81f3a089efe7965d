"""baseline.cu from a framework's file: the host function becomes a launcher."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from astra_chat.tools.new.draft import MARK, Draft, dtype_switch, head
from astra_chat.tools.new.host_function import Facts
from astra_chat.tools.new.source import Function, Piece, closing, code
from astra_chat.tools.new.translation import FOREIGN, halves, needs_framework, words

NEEDED = ("<cstdint>", "<cuda_bf16.h>", "<cuda_fp16.h>", "<cuda_runtime.h>")
USED = {
    "<algorithm>": r"std::(min|max)\b",
    "<type_traits>": r"std::is_same_v",
    "<string>": r"std::string\b",
    "<cuda_fp8.h>": r"__nv_fp8",
}
CUT_BLOCKS = re.compile(r"(PYBIND11|TORCH_LIBRARY|TVM_FFI|TORCH_EXTENSION)\w*")
_CHECKS = re.compile(
    r"\s*(TORCH_(INTERNAL_ASSERT|CHECK|WARN)\w*|CHECK\w*|AT_(ASSERT|CUDA_CHECK|ERROR)\w*"
    r"|C10_CUDA\w+|TVM_FFI_(ICHECK|CHECK|THROW)\w*|AT_CHECK|RuntimeCheck)\s*\("
)
_GUARDS = re.compile(r"\b(Optional)?(CUDA|Device)Guard\b|\bDeviceGuard\b")
_RETURN = re.compile(r"\breturn\b[^;]*;$")
_LAUNCH = re.compile(r"<<<(.*?)>>>", re.DOTALL)
_UNUSED = re.compile(r"\s*(?:const\s+|constexpr\s+)*DL(DataType|Device)\b")
_STREAM_MADE = re.compile(r"^\s*(const\s+)?(auto|cudaStream_t|at::cuda::CUDAStream)\s+\w+\s*=")
_DISPATCH = re.compile(r"\b(?:AT|VLLM|DISPATCH)\w*\s*\($")


def baseline(
    draft: Draft,
    function: Function,
    facts: Facts,
    source: str,
    pieces: Sequence[Piece],
    defined: Sequence[Function],
) -> str:
    """Device code as it stood, then the launcher. Raises nothing: doubts become marks."""
    plain = code(pieces)
    cuts = sorted(_cuts(draft, facts, source, pieces, plain, defined, function))
    kept, at = [], 0
    for start, end, left in cuts:
        kept += [source[at : max(at, start)], left]
        at = max(at, end)
    device = halves("".join([*kept, source[at:]]))
    device = re.sub(r"\n{3,}", "\n\n", device).strip()
    launcher = _launcher(draft, function, facts, source, plain)
    needed = [h for h, name in USED.items() if re.search(name, launcher)] + [*NEEDED]
    includes = "".join(f"#include {h}\n" for h in needed if f"#include {h}" not in device)
    return f"{includes}\n{device}\n\n{launcher}"


def _cuts(
    draft: Draft,
    facts: Facts,
    source: str,
    pieces: Sequence[Piece],
    plain: Sequence[Piece],
    defined: Sequence[Function],
    exported: Function,
) -> Iterator[tuple[int, int, str]]:
    """Places that only the framework needs, and what is put there: headers, macros, modules, host
    functions, names."""
    used = {piece.text for piece in plain[exported.body : exported.close]}
    yield from _directive_cuts(draft, facts, source, pieces, used)
    directives = [(pieces[a].start, pieces[b].end) for a, b in _directives(pieces)]
    for start, end in _statement_cuts(source, plain, defined):
        yield from _around(directives, start, end, "")
    for function in defined:
        end = plain[function.close].end
        foreign = not function.on_device and FOREIGN.search(source[function.start : end])
        if foreign or CUT_BLOCKS.fullmatch(function.name):
            comment = (
                f"// {MARK}: {function.name} used the framework and was cut; it is called below.\n"
            )
            called = function.name in used and function != exported
            yield from _around(directives, function.start, end, comment if called else "")


def _around(
    directives: Sequence[tuple[int, int]], start: int, end: int, left: str
) -> Iterator[tuple[int, int, str]]:
    """A cut without the directives in it: an #if and its #endif stand or fall together."""
    for first, last in directives:
        if start < first and last < end:
            yield start, first, f"{left}\n"
            start, left = last, ""
    yield start, end, left


def _directives(pieces: Sequence[Piece]) -> Iterator[tuple[int, int]]:
    """The first and the last piece of each."""
    for index, piece in enumerate(pieces):
        if piece.token.kind != "directive":
            continue
        last = index
        while last + 1 < len(pieces) and pieces[last + 1].token.directive:
            if pieces[last + 1].token.kind == "directive":
                break
            last += 1
        yield index, last


def _directive_cuts(
    draft: Draft, facts: Facts, source: str, pieces: Sequence[Piece], used: set[str]
) -> Iterator[tuple[int, int, str]]:
    """Includes of the framework, and macros that name it; one that the function calls is put in
    the launcher's words."""
    for index, last in _directives(pieces):
        piece = pieces[index]
        end = pieces[last].end
        text = source[piece.start : end]
        foreign = re.search(r'["<](torch|ATen|c10|pybind11|tvm|dlpack|Python\.h|caffe2)\b', text)
        if piece.text == "include" and foreign:
            yield piece.start, end, ""
        elif piece.text == "define" and FOREIGN.search(text):
            plain = words(draft, facts, text) if pieces[index + 1].text in used else ""
            yield piece.start, end, "" if needs_framework(draft, plain) else plain


def _statement_cuts(
    source: str, plain: Sequence[Piece], defined: Sequence[Function]
) -> Iterator[tuple[int, int]]:
    """Declarations and macro calls outside of functions that name the framework."""
    bodies = [(f.start, plain[f.close].end) for f in defined]
    start = 0
    for index, piece in enumerate(plain):
        if any(low <= piece.start < high for low, high in bodies):
            start = index + 1
        elif piece.text in ("{", "}"):
            start = index + 1
        elif piece.text == ";":
            text = source[plain[start].start : piece.end] if start < index else ""
            if text and (
                FOREIGN.search(text) or re.search(r"using\s+namespace\s+(torch|at)", text)
            ):
                yield plain[start].start, piece.end
            start = index + 1


def _launcher(
    draft: Draft, function: Function, facts: Facts, source: str, plain: Sequence[Piece]
) -> str:
    """A template over the dispatched types from the host function, and the contract's launcher."""
    body = "\n".join(_body(draft, facts, source, plain, function.body + 1, function.close, 1))
    codes = len(draft.variables) + 1
    parameters = draft.parameters[:-codes]
    typed = [_typed(parameter, facts) for parameter in parameters]
    given = ", ".join(p.rsplit(" ", 1)[1] for p in [*parameters, "cudaStream_t stream"])
    names = facts.type_names(draft)
    template = ", ".join(f"typename {name}" for name in names.values())
    start = [
        *(f"using namespace {name};" for name in _namespaces(plain)),
        f"// {MARK}: compare with {function.name}: its checks, allocations and guards were cut.",
        *([f"template <{template}>"] if names else []),
        *head(f"cudaError_t launch_{draft.entry}", [*typed, "cudaStream_t stream"], " {"),
        *(f"  {line}" for line in facts.constants),
        body,
        "  return cudaGetLastError();",
        "}",
        "",
        *head(f'extern "C" cudaError_t {draft.entry}', draft.parameters, " {"),
    ]
    types = ", ".join(f"{{{variable}}}" for variable in names)
    end = dtype_switch(
        draft, f"return launch_{draft.entry}{f'<{types}>' if names else ''}({given});"
    )
    return "\n".join([*start, *end, "}", ""])


def _namespaces(plain: Sequence[Piece]) -> list[str]:
    """Named ones, in order: the launcher stands outside of them."""
    names: dict[str, None] = {}
    for index, piece in enumerate(plain[:-1]):
        if piece.text == "namespace" and plain[index - 1].text != "using":
            end = next((i for i in range(index, len(plain)) if plain[i].text in "{=;"), index)
            if plain[end].text != "{":  # an alias
                continue
            if name := "".join(p.text for p in plain[index + 1 : end]):
                names[name] = None
    return list(names)


def _typed(parameter: str, facts: Facts) -> str:
    """A dim keeps the type that the host function gave it: std::min and the like depend on it."""
    kind, name = parameter.rsplit(" ", 1)
    statement = facts.declared.get(name, "")
    if kind == "int64_t" and re.match(r"(const )?(int|unsigned|int32_t) ", statement):
        return f"int {name}"
    return parameter


def _body(
    draft: Draft, facts: Facts, source: str, plain: Sequence[Piece], start: int, end: int, deep: int
) -> Iterator[str]:
    """Statements from piece `start` up to `end`, translated."""
    first = index = start
    while index < end:
        text = plain[index].text
        if text == "(" and _DISPATCH.search(source[plain[first].start : plain[index].end]):
            last = closing(plain, index)
            inner = next((i for i in range(index, last) if plain[i].text == "{"), last)
            yield from _body(draft, facts, source, plain, inner + 1, closing(plain, inner), deep)
            index = last + (plain[last + 1].text == ";")
            first = index + 1
        elif text in ("(", "["):
            index = closing(plain, index)
        elif text == "{" and _is_block(plain, first, index):
            head = source[plain[first].start : plain[index].end]
            yield from _block_head(draft, words(draft, facts, head), deep)
            last = closing(plain, index)
            yield from _body(draft, facts, source, plain, index + 1, last, deep + 1)
            yield "  " * deep + "}"
            index, first = last, last + 1
        elif text == "{":
            index = closing(plain, index)
        elif text == ";":
            statement = source[plain[first].start : plain[index].end]
            yield from _statement(draft, facts, statement, deep)
            first = index + 1
        index += 1
    if first < end:  # a macro that needs no semicolon
        statement = source[plain[first].start : plain[end - 1].end]
        yield from _statement(draft, facts, statement, deep)


def _block_head(draft: Draft, head: str, deep: int) -> Iterator[str]:
    if needs_framework(draft, head):
        yield f"{'  ' * deep}// {MARK}: before this block stood {' '.join(head[:-1].split())}"
        head = "{"
    yield "  " * deep + head


def _is_block(plain: Sequence[Piece], first: int, index: int) -> bool:
    """A compound statement, if, for or else; no braced initializer and no lambda."""
    return first == index or plain[first].text in ("if", "for", "while", "else", "switch", "do")


def _statement(draft: Draft, facts: Facts, statement: str, deep: int) -> Iterator[str]:
    if _is_dropped(draft, facts, statement, deep):
        return
    if deep > 1 or not statement.startswith("return"):
        statement = _RETURN.sub("return cudaSuccess;", statement)
    text = words(draft, facts, statement)
    margin = "  " * deep
    uses_lost = any(re.search(rf"\b{re.escape(name)}\b", text) for name in facts.lost)
    if uses_lost or needs_framework(draft, text):
        if made := re.match(r"\s*(?:[\w:<>]+[\s&*]+)+(\w+)\s*[=({;]", statement):
            facts.lost.add(made[1])
        yield f"{margin}// {MARK}: this needs the framework; say it in plain CUDA:"
        yield from (f"{margin}// {line.strip()}" for line in statement.splitlines())
        return
    lines = text.splitlines()
    if launch := _LAUNCH.search(text):
        if launch[1].count(",") < 3 and "stream" not in launch[1]:
            yield f"{margin}// {MARK}: launch it on `stream`, the fourth of <<<...>>>"
    yield margin + lines[0]
    yield from (f"{margin}    {line.strip()}" for line in lines[1:])


def _is_dropped(draft: Draft, facts: Facts, statement: str, deep: int) -> bool:
    if any(p.match(statement) for p in (_CHECKS, _UNUSED)) or _GUARDS.search(statement):
        return True
    if deep == 1 and statement.startswith("return"):
        return True
    made = re.search(r"(\w+)\s*=(?!=)", statement)
    if made is None:
        return False
    named = {t.name for t in draft.tensors}
    if made[1] in named and re.search(r"(torch|at)::(empty|zeros)", statement):
        return True
    if re.search(r"TensorOptions|\.options\(\)|=\s*\w+\.device\(\)\s*;", statement):
        return True  # of results that the caller allocates
    if made[1] == "stream" and _STREAM_MADE.match(statement):
        return True
    declared = re.match(r"\s*(const|auto|int|long|unsigned|std::|u?int\d+_t|size_t)\b", statement)
    given = made[1] in facts.declared or f"int64_t {made[1]}" in draft.parameters
    return declared is not None and given
