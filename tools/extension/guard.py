"""The guard of torch extensions: reads a source as tokens and refuses what is not allowed.

What holds for any kernel (policy/source_guard.py) holds here, but for the launcher: the file
defines `forward`, may call the listed operators and may use torch's headers. It keeps no state on
the host or on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from astra_chat.tools.cpp_tokens import Code, Token, tokens
from astra_chat.tools.extension import rules
from astra_chat.tools.language import FORWARD
from astra_chat.tools.policy.source_guard import common_findings, in_short
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Finding
from astra_chat.tools.wording import did_you_mean

_RECORDS = frozenset(("struct", "class", "union", "enum"))
_HARMLESS = frozenset(("using", "typedef", "static_assert", "friend", "constexpr"))
_FIXED = frozenset(("constexpr", "__constant__", "__shared__"))
_NUMBERS = frozenset(
    "int float double unsigned bool char short long int8_t int16_t int32_t int64_t uint8_t uint16_t"
    " uint32_t uint64_t size_t".split()
)
NO_MODULE = "only a task made from a PyTorch module accepts a torch extension: export the launcher"


def forward_head(task: Task) -> str:
    """The head of the function that a torch extension for this task defines."""
    given = ", ".join(f"torch::Tensor {arg.name}" for arg in task.args if arg.read)
    several = sum(arg.written for arg in task.args) > 1
    results = "std::vector<torch::Tensor>" if several else "torch::Tensor"
    return f"{results} {FORWARD}({given});"


def extension_findings(source: str, task: Task, *, kernels: bool = True) -> tuple[Finding, ...]:
    """Every place of a source that is not allowed in a torch extension for this task, by line.

    Args:
        kernels: whether it has to have a kernel of its own, as all have that run on a GPU.
    """
    if task.reference is None or task.binding is not None:
        return (Finding(line=1, what=NO_MODULE),)
    code = Code(token for token in tokens(source) if not token.directive)
    found = [
        *common_findings(source, task.header_texts(), further=rules.HEADERS),
        *_scoped(code),
        *_names(code),
        *_outside_functions(code),
        *_statics(code),
        *_forward(code, [arg.name for arg in task.args if arg.read]),
    ]
    if kernels and not _launches(code):
        what = "the extension launches no kernel of its own: it needs at least one __global__"
        found.append(Finding(line=1, what=f"{what} function, launched with <<<...>>>"))
    return in_short(found)


def _launches(code: Code) -> bool:
    words = {token.text for token in code}
    return "__global__" in words and bool(words & {"<<<", "cudaLaunchKernelEx", "cudaLaunchKernel"})


def _scoped(code: Code) -> Iterator[Finding]:
    """Names behind at::, torch:: and c10:: that are on no list."""
    for index, token in enumerate(code):
        if token.kind != "name" or index < 2 or code[index - 1].text != "::":
            continue
        root = index - 2
        while root >= 2 and code[root - 1].text == "::" and code[root - 2].kind == "name":
            root -= 2
        if code[root].text not in rules.SCOPES or rules.NAMES.fullmatch(token.text):
            continue
        if token.text in rules.OPERATORS or rules.operator_of(token.text) == token.text.rstrip("_"):
            continue
        what = (
            f"{code[root].text}::{token.text}: not on the list of operators and names that a torch"
            f" extension may use{did_you_mean(token.text, sorted(rules.OPERATORS))}"
        )
        yield Finding(line=token.line, what=what)


def _names(code: Code) -> Iterator[Finding]:
    for index, token in enumerate(code):
        if token.kind != "name":
            continue
        called = index + 1 < len(code) and code[index + 1].text in ("(", "<")
        for rule in rules.RULES:
            named = any(
                token.text.startswith(name[:-1]) if name.endswith("*") else token.text == name
                for name in rule.names.split()
            )
            if named and (called or not rule.called):
                yield Finding(line=token.line, what=f"{token.text}: {rule.reason}")


def _outside_functions(code: Code) -> Iterator[Finding]:
    """Variables outside functions, which keep what one call leaves in them."""
    index = 0
    while index < len(code):
        if code[index].text in (";", "}"):
            index += 1
            continue
        if code[index].text in ("namespace", "extern") and (inner := _opened(code, index)):
            index = inner
            continue
        start, index, variable = index, *_statement(code, index)
        if variable and not _is_fixed(code[start:index]):
            what = "a variable outside functions: every call must compute its results from its"
            what += " arguments alone; use constexpr for constants"
            yield Finding(line=code[start].line, what=what)


def _opened(code: Code, index: int) -> int:
    """The place behind the { of a namespace or of extern "C"; 0 where there is none."""
    head = list(takewhile(lambda t: t.text not in ("{", ";", "("), code[index : index + 12]))
    end = index + len(head)
    return end + 1 if end < len(code) and code[end].text == "{" else 0


def _statement(code: Code, start: int) -> tuple[int, bool]:
    """Where a declaration outside functions ends, and whether it declares a variable."""
    index, bracket, assigned, record = start, False, False, False
    behind = 0
    while index < len(code):
        text = code[index].text
        if text == ";":
            words = {t.text for t in code[start:index]}
            if words & _HARMLESS or (record and index == behind):
                return index + 1, False
            return index + 1, assigned or record or not bracket
        if text == "{":
            close = code.closing(index)
            if bracket and not assigned and not record:
                return close + 1, False
            assigned |= not record
            index = behind = close + 1
            continue
        if text == "(" and code[index - 1].text not in (
            "__align__",
            "alignas",
            "__launch_bounds__",
        ):
            bracket = True
        if text in ("(", "["):
            index = code.closing(index) + 1
            continue
        assigned |= text == "=" and not (index and code[index - 1].text == "operator")
        record |= text in _RECORDS and not _in_template(code, start, index)
        index += 1
    return index, False


def _in_template(code: Code, start: int, index: int) -> bool:
    """Whether `class` or `struct` is a parameter of a template, or names a type of a function."""
    return code[index - 1].text in ("<", ",") and any(
        t.text == "template" for t in code[start:index]
    )


def _is_fixed(statement: list[Token]) -> bool:
    words = {token.text for token in statement}
    return bool(words & _FIXED) or ("const" in words and bool(words & _NUMBERS))


def _statics(code: Code) -> Iterator[Finding]:
    """`static` variables in functions and classes; functions are no state."""
    for index, token in enumerate(code):
        around = code.around(index)
        if token.text != "static" or around < 0 or code[around].text != "{":
            continue
        head = {t.text for t in code[code.head(around) : around]}
        if "namespace" in head or "extern" in head:
            continue
        words = list(takewhile(lambda t: t.text not in ("(", "=", ";", "{"), code[index:]))
        after = code[index + len(words)].text if index + len(words) < len(code) else ""
        if {t.text for t in words} & _FIXED or (head & _RECORDS and after == "("):
            continue
        yield Finding(line=token.line, what=f"static: {rules.KEPT}; use constexpr for constants")


def _forward(code: Code, arguments: list[str]) -> Iterator[Finding]:
    """`forward` must be defined once, with the contract's arguments by their names."""
    line = 1
    for index, token in enumerate(code[:-1]):
        if token.text != FORWARD or code[index + 1].text != "(":
            continue
        end = code.closing(index + 1)
        if end + 1 >= len(code) or code[end + 1].text != "{":
            continue
        line = token.line
        given = [_parameter(one) for one in code.arguments(index + 1, end)]
        if given == arguments:
            return
        what = f"forward takes ({', '.join(given)}), but the contract's arguments are, in this"
        yield Finding(line=line, what=f"{what} order, {', '.join(arguments)}")
        return
    wanted = ", ".join(f"torch::Tensor {name}" for name in arguments)
    yield Finding(line=line, what=f"no function torch::Tensor {FORWARD}({wanted}) is defined")


def _parameter(words: list[Token]) -> str:
    before = list(takewhile(lambda t: t.text != "=", words))
    names = [token.text for token in before if token.kind == "name"]
    return names[-1] if names else ""
