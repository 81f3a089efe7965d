"""The source guard: reads a candidate as tokens and refuses what the policy forbids (rules.py)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise, takewhile
from types import MappingProxyType

from astra_chat.tools.build.extension_headers import HEADERS
from astra_chat.tools.cpp_tokens import Code, Token, content, tokens
from astra_chat.tools.policy import rules
from astra_chat.tools.policy.misnamed import misnamed
from astra_chat.tools.policy.open_names import open_names
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Finding
from astra_chat.tools.wording import did_you_mean

_KIND = ["cudaMemcpyDeviceToDevice"]
_ATTRIBUTE = ("__attribute__", "__attribute")
MOST_FINDINGS, WHAT_CHARACTERS = 20, 300
"""A source of half a megabyte could otherwise fill a chat with what is wrong with it."""
_FRAMEWORK = re.compile(rf"#include {HEADERS.pattern}: .*|TORCH_EXTENSION_NAME: .*")


def guard(
    source: str, entry: str, headers: Mapping[str, str] = MappingProxyType({})
) -> tuple[Finding, ...]:
    """Every place of `source` that breaks the policy, by line; empty if there is none.

    `entry` is the launcher that must be defined as extern "C"; `headers` are the texts of the
    task's own files by name, the only ones that may be included in quotes. Nothing is preprocessed:
    text in a branch of #if that is not taken counts too.
    """
    return in_short(all_findings(source, entry, headers))


def guard_beside(
    source: str, task: Task, baseline: str, most_bytes: int = rules.SOURCE_BYTES
) -> tuple[Finding, ...]:
    """Findings of a candidate that may keep some of what its baseline has.

    The file of a task with a [binding] is compiled unmodified and trusted as the task is: it is
    held to the walls of the recorder and to launch plans. A candidate starts from it, so only what
    differs is held to the policy. Of any other task's baseline, a candidate may keep the tests of
    macros that are another platform's, and the functions that it exports beside the launcher
    (binary_audit.audit_beside).
    """
    headers = task.header_texts()
    if task.binding is None:
        found = all_findings(source, task.entry, headers, most_bytes)
        kept = {finding.what for finding in open_names(Code(tokens(baseline)), headers)}
        return in_short(finding for finding in found if finding.what not in kept)
    if source == baseline:
        return ()
    if missing := misnamed(task, source):
        return (Finding(line=1, what=missing),)
    own, known = (all_findings(text, task.entry, headers) for text in (source, baseline))
    return new_findings(own, known)


def new_findings(findings: Iterable[Finding], known: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that are not known, without those of what a framework brings."""
    said = {finding.what for finding in known}
    return in_short(f for f in findings if f.what not in said and not _FRAMEWORK.fullmatch(f.what))


def all_findings(
    source: str, entry: str, headers: Mapping[str, str], most_bytes: int = rules.SOURCE_BYTES
) -> list[Finding]:
    """What `guard` finds, however much it is."""
    found = common_findings(source, headers, most_bytes)
    code = Code(token for token in tokens(source) if not token.directive)
    return found if _too_long(source, most_bytes) else [*found, *_entry(code, entry)]


def _too_long(source: str, most_bytes: int) -> bool:
    return len(source.encode(errors="replace")) > most_bytes


def common_findings(
    source: str,
    headers: Mapping[str, str],
    most_bytes: int = rules.SOURCE_BYTES,
    further: re.Pattern[str] | None = None,
) -> list[Finding]:
    """What breaks the policy in any file of a candidate, whatever it exports. `further`: headers
    that it may include beside those of a kernel."""
    if _too_long(source, most_bytes):
        return [Finding(line=1, what=f"the source is longer than {most_bytes} bytes")]
    read = Code(tokens(source))
    code = Code(token for token in read if not token.directive)
    return [
        *(Finding(line=t.line, what=t.text) for t in read if t.kind == "bad"),
        *_directives(read, headers, further),
        *open_names(read, headers),
        *_names(read),
        *literal_operators(read),
        *file_names(read),
        *assembly(read),
        *assembly_places(code),
        *_attributes(read),
        *_false_markers(read),
        *_pasting(read),
        *_macros_for_headers(read),
    ]


def in_short(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings by line, each once, no more than can be read."""
    ordered = sorted(dict.fromkeys(findings), key=lambda finding: finding.line)
    short = [
        f.model_copy(update={"what": f"{f.what[:WHAT_CHARACTERS]} ..."})
        if len(f.what) > WHAT_CHARACTERS
        else f
        for f in ordered[:MOST_FINDINGS]
    ]
    if rest := ordered[MOST_FINDINGS:]:
        short.append(Finding(line=rest[0].line, what=f"and {len(rest):,} more below this line"))
    return tuple(short)


def guard_expanded(text: str, *, host: bool) -> tuple[Finding, ...]:
    """Every place of a text whose macros are expanded (build/preprocessed.py) that breaks the
    policy: no name hides in pieces there.

    `host`: it is what the host's compiler reads, so that assembly in a function that is __host__
    too is the host's.
    """
    read = Code(tokens(text))
    code = Code(token for token in read if not token.directive)
    findings = [
        *(Finding(line=t.line, what=t.text) for t in read if t.kind == "bad"),
        *_names(without_those_of_assert(read)),
        *literal_operators(read),
        *assembly(read, registers=False),
        *(assembly_places(code, host_too=not host)),
        *_attributes(read, rules.ATTRIBUTES | rules.CUDA_ATTRIBUTES),
        *(_standard_streams(code) if host else ()),
        *(_copies(code) if host else ()),
    ]
    return tuple(findings)


def literal_operators(code: Code) -> Iterator[Finding]:
    """Where a suffix of literals is declared: with it a literal would be a call."""
    for token, after in pairwise(code):
        if token.text == "operator" and after.kind == "string":
            what = 'operator"": user-defined literal suffixes are not allowed'
            yield Finding(line=token.line, what=what)


def _directives(
    tokens: list[Token], headers: Collection[str], further: re.Pattern[str] | None
) -> Iterator[Finding]:
    for index, token in enumerate(tokens):
        if token.kind != "directive":
            continue
        rest = list(takewhile(_inside_directive, tokens[index + 1 :]))
        text = " ".join(t.text for t in rest)
        refused: str | None = None
        if token.text in ("include", "include_next", "import", "embed"):
            refused = _include(token.text, rest[0] if rest else None, headers, further)
        elif token.text == "pragma" and not rules.PRAGMAS.match(text):
            refused = f"#pragma {text}: only unroll and diagnostic pragmas are allowed"
        elif token.text not in rules.DIRECTIVES:
            refused = f"#{token.text}: this directive is not allowed in a kernel"
        if refused:
            yield Finding(line=token.line, what=refused)


def _inside_directive(token: Token) -> bool:
    return bool(token.directive) and token.kind != "directive"


def _include(
    directive: str,
    header: Token | None,
    headers: Collection[str],
    further: re.Pattern[str] | None,
) -> str | None:
    if directive != "include":
        return f"#{directive}: use #include"
    if header is None or header.kind != "header":
        return "#include with a macro: write the header in <>"
    if header.text.startswith('"'):
        if header.text.strip('"') in headers:
            return None
        own = (
            f"quotes are allowed only for {', '.join(headers)}"
            if headers
            else "a candidate is one file"
        )
        return f"#include {header.text}: {own}; system headers need <>"
    if further and further.fullmatch(header.text):
        return None
    if not rules.HEADERS.fullmatch(header.text):
        named = f"#include {header.text}: a kernel may not include this header"
        return f"{named}, only {rules.HEADERS_TEXT}"
    return None


def _names(code: Code) -> Iterator[Finding]:
    own = _defined_functions(code)
    for index, token in enumerate(code):
        if token.kind != "name":
            continue
        before = [t.text for t in code[max(0, index - 2) : index]]
        if reason := _std_name(token.text, before) or rules.refusal(
            token.text, token.text not in own and _called(code, index)
        ):
            yield Finding(line=token.line, what=f"{token.text}: {reason}")
        if token.text == "_Pragma":
            words = "".join(t.text for t in code[index + 1 : index + 3]).lstrip('("')
            if not rules.PRAGMAS.match(words):
                yield Finding(
                    line=token.line,
                    what=("_Pragma: only unroll and diagnostic pragmas are allowed"),
                )


def _std_name(name: str, before: list[str]) -> str | None:
    return rules.STD_NAMES.get(name) if before == ["std", "::"] else None


def _called(tokens: list[Token], index: int) -> bool:
    """Whether a name is called, f(...) or ::f, but neither a.f(...), a->f(...) nor
    scope::f(...)."""
    before = tokens[index - 1].text if index else ""
    if before in (".", "->"):
        return False
    if before == "::":
        return index < 2 or tokens[index - 2].kind != "name" or tokens[index - 2].text == "return"
    after = tokens[index + 1].text if index + 1 < len(tokens) else ""
    return after == "("


def _defined_functions(code: Code) -> frozenset[str]:
    """Names that the source itself gives a body: name(...) { or name = [."""
    own = set()
    for index, (token, after) in enumerate(pairwise(code)):
        if token.kind == "name" and _texts(code, index + 1, 2) == ["=", "["]:
            own.add(token.text)
        if token.kind == "name" and after.text == "(":
            end = code.closing(index + 1)
            if end + 1 < len(code) and code[end + 1].text == "{" and index:
                own.add(token.text)
    return frozenset(own - {"if", "for", "while", "switch"})


def _standard_streams(code: Code) -> Iterator[Finding]:
    """An error may be printed by fprintf(stderr, ...). Nothing else is done with a stream of C: its
    fields say which file it writes to, the judge's pipe for one, and keep what is put there."""
    for index, token in enumerate(code):
        if token.text in ("fprintf", "vfprintf", "fputs", "fputc", "fwrite"):
            if _texts(code, index + 1, 3) != ["(", "stderr", ","] or not _is_statement(code, index):
                yield Finding(line=token.line, what=f"{token.text}: use only fprintf(stderr, ...)")
        elif token.text == "stderr" and _texts(code, index - 2, 2) != ["fprintf", "("]:
            yield Finding(line=token.line, what="stderr: allowed only in fprintf(stderr, ...)")


def _copies(code: Code) -> Iterator[Finding]:
    """Copies that are not within the device, in so many words: a copy that reaches the host waits
    or not as the stream is recorded or not, and what a graph replays then is a stack that is
    gone."""
    for index, token in enumerate(code):
        if token.text == "cudaMemcpyAsync":
            end = code.closing(index + 1) if _texts(code, index + 1, 1) == ["("] else index
            kind = [t.text for one in code.arguments(index + 1, end)[3:4] for t in one]
            if kind not in (_KIND, ["::", *_KIND]):
                what = (
                    "cudaMemcpyAsync: it may only be called, and only with cudaMemcpyDeviceToDevice"
                )
                yield Finding(line=token.line, what=what)


def _is_statement(code: Code, index: int) -> bool:
    """Whether it is a call by itself, no declaration of a variable of that name."""
    if _texts(code, index - 2, 2) == ["std", "::"]:
        index -= 2
    elif _texts(code, index - 1, 1) == ["::"]:
        index -= 1
    before = code[index - 1].text if index else ""
    if before in (")", "}"):
        opening = code.opening(index - 1)
        if before == "}":
            heads = {t.text for t in code[code.head(opening) : opening]}
            return not heads & {"struct", "class", "union", "enum"}
        cast = _texts(code, opening + 1, 2) == ["void", ")"]
        return cast or code[opening - 1].text in ("if", "for", "while", "switch", "constexpr")
    return before in (";", "{", "(", "else", "do", "&&", "||", "?", ":")


def _attributes(code: Code, allowed: Collection[str] = rules.ATTRIBUTES) -> Iterator[Finding]:
    """Attributes of GCC: __attribute__((a, b(1))), [[gnu::a]], [[using gnu: a]]."""
    end = 0
    for index, token in enumerate(code):
        named: list[Token] = []
        after = "".join(_texts(code, index + 1, 1))
        if token.text in _ATTRIBUTE and (after != "(" or index < end):
            yield Finding(
                line=token.line,
                what=f"{token.text}: write the attribute out in full, not through a macro",
            )
        elif token.text in _ATTRIBUTE:
            end = code.closing(index + 1)
            named = _outer_names(code[index + 2 : end])
        elif token.directive and token.text in ("gnu", "__gnu__") and after not in ("::", ":"):
            yield Finding(
                line=token.line,
                what=f"{token.text}: write the attribute out in full, not through a macro",
            )
        elif token.text in ("gnu", "__gnu__") and _texts(code, index + 1, 1) in (["::"], [":"]):
            named = list(
                takewhile(lambda t: t.text not in ("]", "("), code[index + 2 : index + 99])
            )
        for name in (t for t in named if t.kind == "name"):
            if name.text.strip("_") not in (*allowed, "gnu"):
                yield Finding(
                    line=name.line, what=(f"attribute {name.text}: not allowed in a kernel")
                )


def _outer_names(inner: list[Token]) -> list[Token]:
    """Names within one bracket: of attributes, not of their arguments."""
    depth, names = 0, []
    for token in inner:
        if token.kind == "punct":
            depth += (token.text == "(") - (token.text == ")")
        elif token.kind == "name" and depth == 1:
            names.append(token)
    return names


def _texts(tokens: list[Token], start: int, count: int) -> list[str]:
    return [token.text for token in tokens[start : start + count]]


def _false_markers(tokens: list[Token]) -> Iterator[Finding]:
    """What the preprocessor leaves of a raw string may not read as a marker of its own."""
    for token in tokens:
        if token.kind == "string" and rules.LINE_MARKER.search(token.text):
            yield Finding(
                line=token.line,
                what='a line in a string literal that looks like a line marker (# 1 "file")',
            )


def _pasting(tokens: list[Token]) -> Iterator[Finding]:
    pastes = [token for token in tokens if token.text == "##" and token.kind == "punct"]
    if pastes:
        words = (t.text for t in tokens if t.kind in ("name", "number"))
        fragments = frozenset(word for word in words if word not in rules.KEYWORDS)
        if name := rules.pasted(fragments):
            yield Finding(line=pastes[0].line, what=f"## can paste the forbidden name {name}")


def _macros_for_headers(code: Code) -> Iterator[Finding]:
    """What a macro puts into a header's lines is nobody's line: so before a header a macro may
    stand for a name, a number or nothing, and no text can be made there that is not read here."""
    includes = [i for i, t in enumerate(code) if t.kind == "directive" and t.text == "include"]
    for index in range(includes[-1] if includes else 0):
        token = code[index]
        if token.kind == "directive" and token.text == "define":
            body = list(takewhile(_inside_directive, code[index + 2 : index + 9]))
            if len(body) > 1 or any(t.kind not in ("name", "number") for t in body):
                what = (
                    "#define before #include: the value may only be a name, a number or nothing;"
                    " move other definitions below"
                )
                yield Finding(line=token.line, what=what)


def _entry(code: Code, entry: str) -> Iterator[Finding]:
    """The launcher must be defined with C linkage, outside functions and namespaces."""
    linkage: list[bool] = []
    single, inside = False, 0
    for index, token in enumerate(code):
        if (
            token.kind == "string"
            and token.text == '"C"'
            and _texts(code, index - 1, 1) == ["extern"]
        ):
            single = True
        elif token.text == "{":
            linkage.append(single and code[index - 1].text == '"C"')
            inside += not linkage[-1]
            single = False
        elif token.text == "}":
            inside -= bool(linkage) and not linkage.pop()
            single = False
        elif token.text == ";":
            single = False
        elif token.text == entry and _texts(code, index + 1, 1) == ["("]:
            body = _texts(code, code.closing(index + 1) + 1, 1) == ["{"]
            if body and (single or (linkage and not inside)):
                return
    names = [name for name in code.defined_names() if name != entry]
    what = f'no launcher: extern "C" cudaError_t {entry}(...) is not defined'
    what += did_you_mean(entry, names)
    yield Finding(line=1, what=what)


# Inline assembly of a candidate: PTX alone, in device functions, and what it may hold.

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


# Where a source asks for its own file's name: it may print it, and nothing else.
#
# A source is judged under one name and used under others, so nothing may depend on __FILE__. Error
# checks print it: in fprintf itself, or through a macro or a function of the source's own, such as
# check(error, __FILE__, __LINE__).

PRINTING = frozenset("printf fprintf __assert_fail".split())
DEEPEST = 4
"""Calls through which the name may go before it is printed."""
_WHAT = "__FILE__: it may only be printed, because its text differs from build to build"


def file_names(code: Code) -> Iterator[Finding]:
    """Every __FILE__ that does more than to be printed."""
    places = [index for index, token in enumerate(code) if token.text == "__FILE__"]
    if not places:
        return
    calls = _Calls(code)
    for index in places:
        if not calls.only_printed(index, DEEPEST):
            yield Finding(line=code[index].line, what=_WHAT)


def without_those_of_assert(code: Code) -> Code:
    """The expanded text less the `__builtin_FILE()` that assert of newer C libraries prints.

    Older ones say __FILE__ there. No source may name either function itself (rules.py).
    """
    mine = [
        index
        for index, token in enumerate(code)
        if token.text == "__builtin_FILE"
        and [after.text for after in code[index + 1 : index + 3]] == ["(", ")"]
        and code[index - 1].text == ","
        and code[code.around(index) - 1].text == "__assert_fail"
    ]
    if not mine:
        return code
    left_out = {place for index in mine for place in (index, index + 1, index + 2)}
    return Code(token for place, token in enumerate(code) if place not in left_out)


class _Calls:
    """Which call a token is a whole argument of, and what becomes of arguments."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def only_printed(self, index: int, depth: int) -> bool:
        """Whether the token at `index` is a whole argument, and is printed."""
        before, after = self._text(index - 1), self._text(index + 1)
        opening = self._code.around(index)
        if before not in ("(", ",") or after not in (")", ",") or self._text(opening) != "(":
            return False
        callee = self._code[opening - 1] if opening > 0 else None
        if callee is None or callee.kind != "name" or depth == 0:
            return False
        if callee.text in PRINTING:
            return True
        which = self._position(opening, index)
        bodies = list(self._definitions(callee.text))
        return bool(bodies) and all(self._printed_in(*body, which, depth) for body in bodies)

    def _text(self, index: int) -> str:
        return self._code[index].text if 0 <= index < len(self._code) else ""

    def _position(self, opening: int, index: int) -> int:
        """Which argument of the call it is, from 0."""
        return len(self._code.arguments(opening, index)) - 1

    def _definitions(self, name: str) -> Iterator[tuple[list[str], int, int]]:
        """Yields for every macro and function of that name its parameters, and where its body
        begins and ends."""
        for index, token in enumerate(self._code):
            if token.text != name or self._text(index + 1) != "(":
                continue
            close = self._code.closing(index + 1)
            names = [
                next((t.text for t in reversed(words) if t.kind == "name"), "...")
                for words in self._code.arguments(index + 1, close)
            ]
            if self._code[index - 1].kind == "directive" and self._text(index - 1) == "define":
                end = close
                while end + 1 < len(self._code) and self._inside(end + 1, token.line):
                    end += 1
                yield names, close + 1, end + 1
            elif self._text(close + 1) == "{" and not token.directive:
                yield names, close + 2, self._code.closing(close + 1)

    def _inside(self, index: int, line: int) -> bool:
        """Whether it belongs to the directive that stands before it."""
        token = self._code[index]
        return bool(token.directive) and token.kind != "directive" and token.line >= line

    def _printed_in(self, names: list[str], start: int, end: int, which: int, depth: int) -> bool:
        """Whether this body does nothing with its parameter `which` but print it."""
        if which >= len(names):
            which = len(names) - 1
        name = "__VA_ARGS__" if names[which] == "..." else names[which]
        uses = [i for i in range(start, end) if self._code[i].text == name]
        return all(self.only_printed(index, depth - 1) for index in uses)
