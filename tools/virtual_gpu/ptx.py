"""PTX text to a Module: declarations here, function bodies in body.py.

Grammar: PTX ISA 8.x, the part that nvcc writes and inline assembly uses. Unknown opcodes pass; the
engine that translates a kernel refuses them.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from astra_chat.tools.virtual_gpu.body import BodyParser
from astra_chat.tools.virtual_gpu.cursor import Cursor
from astra_chat.tools.virtual_gpu.lexer import PtxSyntaxError, tokenize
from astra_chat.tools.virtual_gpu.syntax import (
    Function,
    Instruction,
    Kernel,
    Module,
    Param,
    Symbol,
    Variable,
)

__all__ = ["Kernel", "Module", "PtxSyntaxError", "parse"]

_LINKING = frozenset({".visible", ".weak", ".extern", ".common"})
_TARGET = re.compile(r"sm_\d+[af]?|texmode_(unified|independent)|debug|map_f64_to_f32")


def parse(text: str) -> Module:
    """The module of one PTX text. Raises PtxSyntaxError where it is not PTX."""
    return _ModuleParser(text).parse()


class _ModuleParser:
    def __init__(self, text: str) -> None:
        self._cursor = Cursor(text, tokenize(text))
        self._module = Module("", {}, {}, {}, {})
        self._files: dict[int, str] = {}

    def parse(self) -> Module:
        cursor = self._cursor
        self._head()
        self._scan_files()
        while not cursor.ended:
            self._declaration()
        self._check_initial_values()
        for kernel in self._module.kernels.values():
            kernel.shared = _shared_bytes(self._module, kernel)
        return self._module

    def _check_initial_values(self) -> None:
        module = self._module
        known = {*module.globals, *module.shared, *module.functions, *module.kernels}
        for variable in module.globals.values():
            for relocation in variable.relocations:
                if relocation.symbol not in known:
                    raise PtxSyntaxError(f"{variable.name}: no variable {relocation.symbol}")

    def _head(self) -> None:
        """.version 9.0, .target sm_90, .address_size 64, of which nvcc writes no other."""
        cursor = self._cursor
        if not cursor.accept(".version"):
            raise cursor.error("a PTX text begins with .version")
        version = cursor.next().text
        if not re.fullmatch(r"\d+\.\d+", version):
            raise cursor.error(f"{version!r} as a version")
        cursor.expect(".target")
        self._module.target = cursor.peek.text
        while _TARGET.fullmatch(cursor.peek.text):
            cursor.next()
            if not cursor.accept(","):
                break
        else:
            raise cursor.error(f"{cursor.peek.text!r} as a target")
        cursor.expect(".address_size")
        if cursor.next().text != "64":
            raise cursor.error("only addresses of 64 bits are known")

    def _scan_files(self) -> None:
        """`.file` stands at the end of the text; the lines of instructions need it before."""
        tokens = self._cursor.tokens
        for index, token in enumerate(tokens):
            if token.text == ".file" and token.kind == "directive":
                number, path = tokens[index + 1], tokens[index + 2]
                self._files[int(number.text)] = PurePosixPath(path.text.strip('"')).name

    def _declaration(self) -> None:
        cursor = self._cursor
        linking = cursor.next().text if cursor.peek.text in _LINKING else ""
        external = linking == ".extern"
        token = cursor.next()
        match token.text:
            case ".entry" | ".func":
                self._function(entry=token.text == ".entry")
            case ".global" | ".const" | ".shared":
                self._module_variable(token.text[1:], external)
            case ".file":
                cursor.skip_line(token.line)
            case ".section":
                cursor.skip_past("}")
            case ".pragma" | ".alias":
                cursor.skip_past(";")
            case _:
                raise cursor.error(f"{token.text!r} at module scope", token)

    def _module_variable(self, space: str, external: bool) -> None:
        table = self._module.shared if space == "shared" else self._module.globals
        for variable in self._cursor.variables(space, external):
            if variable.size == 0 and not external:
                raise self._cursor.error(f"{variable.name} has no size")
            table[variable.name] = variable

    def _function(self, *, entry: bool) -> None:
        cursor = self._cursor
        returns: tuple[Param, ...] = ()
        if cursor.accept(".attribute"):
            cursor.skip_past(")")
        if cursor.at("("):
            returns = _layout(cursor.params())
        name = cursor.identifier()
        params = _layout(cursor.params()) if cursor.at("(") else ()
        directives = self._directives()
        function = (Kernel if entry else Function)(name, params, returns, directives=directives)
        if cursor.accept(";"):
            function.defined = False
            if name in self._module.functions:
                return
        else:
            cursor.expect("{")
            BodyParser(cursor, function, self._files).parse()
        if isinstance(function, Kernel):
            self._module.kernels[name] = function
        else:
            self._module.functions[name] = function

    def _directives(self) -> dict[str, tuple[int, ...]]:
        """.maxntid 512, 1, 1 and its like, up to the body."""
        cursor = self._cursor
        found: dict[str, tuple[int, ...]] = {}
        while cursor.peek.kind == "directive":
            name = cursor.next().text[1:]
            numbers: list[int] = []
            while cursor.peek.kind in ("number", "string") or cursor.at(","):
                token = cursor.next()
                if token.kind == "number":
                    if not token.text.isdigit():
                        raise cursor.error(f"{token.text!r} after .{name}", token)
                    numbers.append(int(token.text))
            found[name] = tuple(numbers)
        return found


def _layout(params: list[Variable]) -> tuple[Param, ...]:
    """Offsets of parameters, each at its alignment, as the CUDA ABI packs them."""
    laid: list[Param] = []
    offset = 0
    for param in params:
        offset = -(-offset // param.align) * param.align
        laid.append(Param(param.name, offset, param.size, param.align))
        offset += param.size
    return tuple(laid)


def shared_layout(module: Module, kernel: Kernel) -> tuple[dict[str, int], int]:
    """Offset of each shared variable that the kernel or what it calls uses, and the static size.

    `extern __shared__` arrays begin where the static ones end, at their alignment.
    """
    static: dict[str, Variable] = {}
    dynamic: dict[str, Variable] = {}
    for function in _reachable(module, kernel):
        own = {n: v for n, v in function.variables.items() if v.space == "shared"}
        named = {n: module.shared[n] for n in _symbols(function) if n in module.shared}
        for name, variable in (own | named).items():
            (dynamic if variable.external else static)[name] = variable
    offsets: dict[str, int] = {}
    size = 0
    for name, variable in sorted(static.items(), key=lambda item: -item[1].align):
        size = -(-size // variable.align) * variable.align
        offsets[name] = size
        size += variable.size
    for name, variable in dynamic.items():
        offsets[name] = -(-size // variable.align) * variable.align
    return offsets, size


def _shared_bytes(module: Module, kernel: Kernel) -> int:
    return shared_layout(module, kernel)[1]


def _reachable(module: Module, function: Function) -> list[Function]:
    found = [function]
    for caller in found:
        callees = (module.functions.get(name) for name in _symbols(caller))
        found += {c.name: c for c in callees if c is not None and c not in found}.values()
    return found


def _symbols(function: Function) -> dict[str, None]:
    """Names of all symbols that a body mentions, in order."""
    names: dict[str, None] = {}
    for statement in function.body:
        if isinstance(statement, Instruction):
            for operand in statement.operands:
                names.update(dict.fromkeys(_names(operand)))
    return names


def _names(operand: object) -> list[str]:
    if isinstance(operand, Symbol):
        return [operand.name]
    parts = getattr(operand, "items", None) or (getattr(operand, "base", None),)
    return [name for part in parts if part is not None for name in _names(part)]
