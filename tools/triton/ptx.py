"""PTX that Triton made of a kernel, as a CUDA kernel: its body in one asm statement.

nvcc compiles CUDA only, so Triton's instructions stand in an asm statement of a kernel with the
same parameters. nvcc passes them on as they are, and ptxas makes machine code of them as it does
for Triton. What that statement cannot hold is refused: functions that are called, constant arrays,
parameters of other widths.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from astra_vgpu.ground.errors import BadInput

SHARED = "global_smem"
"""Triton's name of its dynamic shared memory."""
_COMMENT = re.compile(r"//[^\n]*")
_ENTRY = re.compile(
    r"\.visible \.entry (?P<name>[\w$]+)\((?P<parameters>[^)]*)\)(?P<directives>[^{]*)\{\n"
    r"(?P<body>.*?)\n\}",
    re.DOTALL,
)
_PARAMETER = re.compile(r"\.param \.(\w+)")
_LOADED = re.compile(
    r"ld\.param\.(?P<kind>[busf])(?P<bits>\d+)(?P<to> %\w+), \[(?P<name>[\w$]+)\];"
)
_WIDE = re.compile(r" %(triton_)?rd\d+")
"""A register of 64 bits."""
_REGISTER = re.compile(r"%([a-z]+(?=\d|<\d))")
_DROPPED = re.compile(r"\.(loc|file|pragma)\b")
_LABEL = re.compile(r"(?P<name>\$[\w$]+):")
_ARRAY = re.compile(
    r"^\s*(?:\.visible |\.extern )?\.(?:global|const)\b.*? (?P<name>[\w$]+)\[", re.MULTILINE
)
OPERANDS = {"u64": "l", "u32": "r", "s32": "r", "b32": "r", "b64": "l", "f32": "f", "f64": "d"}
"""asm's letter for a parameter's type."""


@dataclass(frozen=True)
class PtxEntry:
    """The kernel of a PTX file."""

    body: tuple[str, ...]
    """Lines of the asm statement: operand %i is parameter i, the one after them shared memory."""
    operands: tuple[str, ...]
    """asm's letter of each parameter that the caller gives."""
    shared: bool
    """Whether it uses dynamic shared memory."""


def entry_of(ptx: str, given: int) -> PtxEntry:
    """The kernel in Triton's PTX, of whose parameters the caller gives the first `given`; those
    that follow are Triton's own. Raises BadInput for what an asm statement cannot hold."""
    text = _COMMENT.sub("", ptx)
    found = _ENTRY.search(text)
    if found is None:
        raise BadInput("Triton produced no kernel from it")
    name, body = found["name"], found["body"]
    if ".func" in text:
        raise BadInput(f"the PTX of {name} calls a function, which an asm statement cannot contain")
    for array in _ARRAY.findall(text):
        if array in body:
            raise BadInput(
                f"the PTX of {name} reads the array {array}: only shared memory is supported"
            )
    types = _PARAMETER.findall(found["parameters"])[:given]
    for index, kind in enumerate(types):
        if kind not in OPERANDS:
            raise BadInput(
                f"parameter {index} of {name} is .{kind}: only 32 and 64 bits can be passed"
            )
    lines = [" ".join(line.split()) for line in body.splitlines()]
    lines = [line for line in lines if line and not _DROPPED.match(line)]
    lines = _without_idle_labels(lines)
    lines = [_own_registers(line) for line in lines]
    lines = [_with_operands(line, name, given) for line in lines]
    uses = any(SHARED in line for line in lines)
    lines = [line.replace(SHARED, f"%{given}").replace("$", "") for line in lines]
    return PtxEntry(tuple(lines), tuple(OPERANDS[kind] for kind in types), uses)


def _without_idle_labels(lines: Sequence[str]) -> list[str]:
    """Without those that debuggers use."""
    named = " ".join(line for line in lines if not _LABEL.fullmatch(line))
    targets = set(re.findall(r"\$[\w$]+", named))
    return [line for line in lines if not (m := _LABEL.fullmatch(line)) or m["name"] in targets]


def _own_registers(line: str) -> str:
    """With names that nvcc does not give: an operand's register would be taken for one of them."""
    return _REGISTER.sub(r"%triton_\1", line)


def _with_operands(line: str, kernel: str, given: int) -> str:
    """`%` doubled, as asm wants it, and a parameter that is loaded as its operand."""
    loaded = _LOADED.fullmatch(line)
    if loaded is None:
        if f"{kernel}_param_" in line:
            raise BadInput(
                f"{kernel} reads its parameters with something other than scalar loads: {line}"
            )
        return line.replace("%", "%%")
    index = int(loaded["name"].rpartition("_")[2])
    if index >= given:
        raise BadInput(f"{kernel} uses scratch memory that Triton's own launcher allocates")
    to, bits = loaded["to"].replace("%", "%%"), loaded["bits"]
    if bits == "32" and _WIDE.fullmatch(loaded["to"]):
        kind = "s" if loaded["kind"] == "s" else "u"
        return f"cvt.{kind}64.{kind}32{to}, %{index};"
    return f"mov.b{bits}{to}, %{index};"


def asm_statement(entry: PtxEntry, operands: Sequence[str], margin: str) -> list[str]:
    """Lines of C++; `operands` are the expressions that go with the entry's letters."""
    pairs = [f'"{kind}"({what})' for kind, what in zip(entry.operands, operands, strict=True)]
    if entry.shared:
        pairs.append(f'"r"((unsigned)__cvta_generic_to_shared({SHARED}))')
    quoted = [f'{margin}    "{line}\\n"' for line in ("{", *entry.body, "}")]
    return [f"{margin}asm volatile(", *quoted, f'{margin}    :: {", ".join(pairs)} : "memory");']
