"""PTX parser: text to a Module; function bodies are in body.py.

Grammar: PTX ISA 8.x, the part that nvcc writes and inline assembly uses. Unknown opcodes pass; the
engine that translates a kernel refuses them.
"""

from __future__ import annotations

from collections.abc import Iterable

from astra_vgpu.ptx.body import BodyParser
from astra_vgpu.ptx.cursor import Cursor
from astra_vgpu.ptx.debug_lines import Section, SourceFiles, file_entry, section
from astra_vgpu.ptx.declarations import params, variables
from astra_vgpu.ptx.directives import kernel_directives, linkage
from astra_vgpu.ptx.header import head
from astra_vgpu.ptx.lexer import PtxSyntaxError, tokenize
from astra_vgpu.ptx.syntax import (
    Function,
    Instruction,
    Kernel,
    Module,
    Param,
    Symbol,
    Variable,
)

__all__ = ["Kernel", "Module", "PtxSyntaxError", "parse"]

MAX_PARAM_BYTES, MAX_CONST_BYTES, MAX_SHARED_BYTES = 32_764, 65_536, 49_152
"""Most bytes of a kernel's parameters, of a module's constants, and of a kernel's shared memory
without what a launch adds: ptxas takes no more."""


def parse(text: str) -> Module:
    """The module of one PTX text. Raises PtxSyntaxError where it is not PTX: where ptxas would not
    take it either, as far as declarations show."""
    return _ModuleParser(text).parse()


class _ModuleParser:
    def __init__(self, text: str) -> None:
        self._cursor = Cursor(text, tokenize(text))
        self._module = Module("", {}, {}, {}, {})
        self._files = SourceFiles(self._cursor.tokens)
        self._known_files: set[int] = set()
        self._sections: dict[str, Section] = {}
        self._named_lines: set[str] = set()

    def parse(self) -> Module:
        cursor = self._cursor
        self._module.target, options = head(cursor)
        while not cursor.ended:
            self._declaration()
        if "debug" in options and ".debug_info" not in self._sections:
            raise PtxSyntaxError("the target is debug, but there is no .debug_info")
        self._check_names()
        self._check_sizes()
        self._module.sources.update(self._files.own)
        return self._module

    def _check_names(self) -> None:
        """Everything that is named is there."""
        labels = {label for section in self._sections.values() for label in section.labels}
        if missing := self._named_lines - labels:
            raise PtxSyntaxError(f".loc names {min(missing)}, which is not defined")
        bodies = (*self._module.functions.values(), *self._module.kernels.values())
        tables = (table for body in bodies for table in body.call_targets.values())
        for target in (target for table in tables for target in table):
            if target not in self._module.functions:
                raise PtxSyntaxError(f".calltargets names {target}, which is not a function")
        for name, function in self._module.functions.items():
            if not function.defined and not function.external:
                raise PtxSyntaxError(f"function {name} is declared but not defined")

    def _check_sizes(self) -> None:
        module = self._module
        const = sum(v.size for v in module.globals.values() if v.space == "const")
        if const > MAX_CONST_BYTES:
            raise PtxSyntaxError(f"{const} bytes in .const; there are {MAX_CONST_BYTES}")
        for name, kernel in module.kernels.items():
            kernel.shared = _shared_bytes(module, kernel)
            if kernel.shared > MAX_SHARED_BYTES:
                raise PtxSyntaxError(
                    f"kernel {name}: {kernel.shared} bytes of static shared memory;"
                    f" there are {MAX_SHARED_BYTES}"
                )
            if kernel.param_bytes > MAX_PARAM_BYTES:
                raise PtxSyntaxError(
                    f"kernel {name}: {kernel.param_bytes} bytes of parameters;"
                    f" there are {MAX_PARAM_BYTES}"
                )

    def _declaration(self) -> None:
        cursor = self._cursor
        linked = linkage(cursor)
        token = cursor.next()
        match token.text:
            case ".entry" | ".func":
                self._function(token.text == ".entry", linked)
            case ".global" | ".const" | ".shared":
                self._module_variable(token.text[1:], linked == ".extern")
            case ".file" if not linked:
                file_entry(cursor, self._known_files)
            case ".section" if not linked:
                self._sections.update([section(cursor)])
            case ".pragma" if not linked:
                cursor.strings()
            case ".alias" if not linked:
                self._alias()
            case _:
                raise cursor.error(f"unexpected {token.text!r} at module scope", token)

    def _alias(self) -> None:
        """.alias f, g; of two functions."""
        cursor = self._cursor
        for end in (",", ";"):
            name = cursor.identifier()
            if name not in self._module.functions:
                raise cursor.error(f"{name}, which the alias names, is not a function")
            cursor.expect(end)

    def _module_variable(self, space: str, external: bool) -> None:
        module, cursor = self._module, self._cursor
        table = module.shared if space == "shared" else module.globals
        for variable in variables(cursor, space, external):
            if external and space != "shared":
                raise cursor.error(f"{variable.name} is defined elsewhere, but nothing is linked")
            for each in variable.relocations:
                if each.symbol not in {*module.globals, *module.shared, *module.functions}:
                    raise cursor.error(f"{variable.name}: there is no variable {each.symbol}")
            self._check_new(variable.name, {**module.functions, **module.kernels})
            self._check_new(variable.name, {**module.globals, **module.shared})
            table[variable.name] = variable

    def _check_new(self, name: str, known: Iterable[str]) -> None:
        if name in known:
            raise self._cursor.error(f"{name} is declared twice")

    def _function(self, entry: bool, linked: str) -> None:
        cursor = self._cursor
        returned = params(cursor) if not entry and cursor.at("(") else []
        name = cursor.identifier()
        taken = params(cursor) if cursor.at("(") else []
        self._check_params(entry, returned, taken)
        directives = kernel_directives(cursor, entry=entry)
        function = (Kernel if entry else Function)(
            name, _layout(taken), _layout(returned), directives=directives
        )
        self._check_prototype(function, entry)
        if not entry and cursor.accept(";"):
            function.defined, function.external = False, linked == ".extern"
            self._module.functions.setdefault(name, function)
            return
        if linked == ".extern":
            raise cursor.error(f"{name} is declared .extern, so it must not have a body")
        cursor.expect("{")
        body = BodyParser(cursor, function, self._files)
        body.parse()
        self._named_lines |= body.named_lines
        if isinstance(function, Kernel):
            self._module.kernels[name] = function
        else:
            self._module.functions[name] = function

    def _check_params(self, entry: bool, returned: list[Variable], taken: list[Variable]) -> None:
        cursor, names = self._cursor, [v.name for v in (*returned, *taken)]
        if len(set(names)) < len(names):
            raise cursor.error("two parameters have the same name")
        if entry and any(v.space != "param" for v in taken):
            raise cursor.error("a kernel's parameters must be in .param")
        if len(returned) > 1 and any(v.space == "param" for v in returned):
            raise cursor.error("there is more than one result in .param")
        if any(v.external for v in (*returned, *(taken if entry else taken[:-1]))):
            raise cursor.error("a parameter has no size")

    def _check_prototype(self, function: Function, entry: bool) -> None:
        """One definition, after declarations that are like it."""
        module, name = self._module, function.name
        self._check_new(name, {**module.kernels, **module.globals, **module.shared})
        known = module.functions.get(name)
        if known is None:
            return
        if entry or known.defined:
            raise self._cursor.error(f"{name} is declared twice")
        for a, b in ((known.params, function.params), (known.returns, function.returns)):
            if [(p.type, p.size) for p in a] != [(p.type, p.size) for p in b]:
                raise self._cursor.error(f"{name} is declared with other parameters")


def _layout(params: list[Variable]) -> tuple[Param, ...]:
    """Offsets of parameters, each at its alignment, as the CUDA ABI packs them."""
    laid: list[Param] = []
    offset = 0
    for param in params:
        offset = -(-offset // param.align) * param.align
        laid.append(Param(param.name, offset, param.size, param.align, param.type))
        offset += param.size
    return tuple(laid)


def shared_layout(module: Module, kernel: Kernel) -> tuple[dict[str, int], int]:
    """Offset of each shared variable that the kernel or what it calls uses, and the static size.

    `extern __shared__` arrays begin where the static ones end, at the largest alignment of those of
    the module; what lies between counts as static (seen of ptxas 13.0).
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
    if dynamic:
        align = max(v.align for v in [*dynamic.values(), *module.shared.values()] if v.external)
        size = -(-size // align) * align
        offsets |= dict.fromkeys(dynamic, size)
    return offsets, size


def _shared_bytes(module: Module, kernel: Kernel) -> int:
    return shared_layout(module, kernel)[1]


def _reachable(module: Module, function: Function) -> list[Function]:
    functions = [function]
    for caller in functions:
        callees = (module.functions.get(name) for name in _symbols(caller))
        functions += {c.name: c for c in callees if c is not None and c not in functions}.values()
    return functions


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
