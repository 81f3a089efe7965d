"""Inlines device functions into a kernel: the engines see one body without calls.

Recursive functions stand once, after the body (recursion.py). A call's .param slots are in local
memory, so a structure may be read at another width than it was written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from astra_vgpu.lowering.clusters import of_one_block
from astra_vgpu.lowering.function_pointers import (
    candidates,
    choice,
    with_addresses,
)
from astra_vgpu.lowering.recursion import (
    MACHINE_FUNCTIONS,
    ROOM,
    STACK,
    STACK_BYTES,
    TOP,
    Call,
    FrameLayout,
    allocation,
    beginning,
    frame_of,
    on_frame,
    one,
    recursive,
)
from astra_vgpu.lowering.vector_atomics import scalars
from astra_vgpu.ptx.syntax import (
    Function,
    Group,
    Guard,
    Instruction,
    Kernel,
    Label,
    Module,
    Operand,
    Param,
    Register,
    Statement,
    Symbol,
    Variable,
    registers_of,
    rename,
)
from astra_vgpu.types import PtxUnsupported


@dataclass(frozen=True)
class FlatKernel:
    """A kernel without calls."""

    body: list[Statement]
    variables: dict[str, Variable]
    """Variables of the kernel and, under unique names, of everything inlined."""
    targets: dict[str, tuple[str, ...]]


def inline(module: Module, kernel: Kernel) -> FlatKernel:
    """The kernel without calls. Raises PtxUnsupported for external functions, and recursion through
    pointers."""
    return _Inliner(module, kernel).run()


@dataclass
class _Outlined:
    """A recursive function, as it stands behind the kernel's body."""

    function: Function
    names: dict[str, str]
    body: list[Statement]
    frame: FrameLayout
    entry: str
    returns: str
    """The table of the labels behind its calls."""


_ALLOCATIONS = ("alloca", "stacksave", "stackrestore")


class _Inliner:
    def __init__(self, module: Module, kernel: Kernel) -> None:
        self._module, self._kernel = module, kernel
        self._flat = FlatKernel([], dict(kernel.variables), dict(kernel.targets))
        self._copies = 0
        self._recursive = recursive(module)
        self._outlined: dict[str, _Outlined] = {}
        self._inside: _Outlined | None = None
        self._needs_room = False

    def run(self) -> FlatKernel:
        self._expand(self._kernel.body, (self._kernel.name,))
        done: set[str] = set()
        while rest := [name for name in self._outlined if name not in done]:
            self._add_outlined(self._outlined[rest[0]])
            done.add(rest[0])
        first = next((s for s in self._flat.body if isinstance(s, Instruction)), None)
        if first is not None and (done or self._needs_room):
            start = beginning(first, bool(done), self._needs_room or bool(done))
            self._flat.body[:0] = start
            for name in (ROOM, STACK)[: 1 + bool(done)]:
                self._flat.variables[name] = Variable(name, "local", STACK_BYTES, 16)
        return self._flat

    def _add_outlined(self, outlined: _Outlined) -> None:
        """Appends a recursive function; `ret` of what stands before must not run into it."""
        begin = len(self._flat.body)
        self._inside = outlined
        self._expand(outlined.body, (self._kernel.name,))
        body = self._flat.body[begin:]
        last = next((s for s in reversed(body) if isinstance(s, Instruction)), None)
        assert last is not None
        try:
            moved = list(on_frame(body, outlined.frame, outlined.returns))
        except ValueError as found:
            raise self._refuse(found.args[0], "this address in a recursive function") from None
        self._flat.body[begin:] = [one(last, "exit"), Label(outlined.entry), *moved]

    def _outline(self, callee: str, call: Instruction) -> _Outlined:
        if callee not in self._outlined:
            function = self._module.functions[callee]
            self._copies += 1
            names = self._fresh_names(function)
            names |= {
                p.name: f"{p.name}${self._copies}" for p in (*function.returns, *function.params)
            }
            body = self._renamed(function, call, names, None)
            self._declare(function, names)
            frame = frame_of(function, body, names)
            self._outlined[callee] = _Outlined(
                function, names, body, frame, f"$entry${callee}", f"$returns${callee}"
            )
            self._flat.targets[f"$returns${callee}"] = ()
        return self._outlined[callee]

    def _call_recursive(
        self, call: Instruction, callee: str, results: Group, arguments: Group
    ) -> None:
        to = self._outline(callee, call)
        formal = (*to.function.returns, *to.function.params)
        self._bind(call, formal, (*results.items, *arguments.items))
        places = self._flat.targets[to.returns]
        back = f"$back${callee}${len(places)}"
        self._flat.targets[to.returns] = (*places, back)
        inside = self._inside
        saves = inside is not None and (
            self._recursive[inside.function.name] == self._recursive[callee]
        )
        made = Call(
            call,
            to.function,
            to.frame,
            to.names,
            results.items,
            arguments.items,
            inside.frame if inside else None,
            saves,
        )
        self._flat.body.extend(made.text(to.entry, len(places), back))

    def _declare(self, function: Function, symbols: dict[str, str]) -> None:
        """A copy's variables and tables, under their new names."""
        self._flat.variables.update(
            {
                symbols[n]: dataclasses.replace(v, name=symbols[n])
                for n, v in function.variables.items()
            }
        )
        self._flat.targets.update(
            {
                symbols[n]: tuple(symbols[t] for t in targets)
                for n, targets in function.targets.items()
            }
        )

    def _expand(self, body: list[Statement], stack: tuple[str, ...]) -> None:
        for statement in body:
            if isinstance(statement, Instruction) and statement.family == "call":
                self._call(statement, stack)
            elif isinstance(statement, Instruction) and statement.family in _ALLOCATIONS:
                self._needs_room = True
                self._flat.body.extend(allocation(statement))
            elif isinstance(statement, Instruction):
                for each in of_one_block(statement):
                    self._flat.body.extend(scalars(with_addresses(self._module, each)))
            else:
                self._flat.body.append(statement)

    def _refuse(self, call: Instruction, what: str) -> PtxUnsupported:
        source = f", {call.source}," if call.source else ""
        return PtxUnsupported(
            what + source, kernel=self._kernel.name, opcode=call.opcode, line=call.line
        )

    def _call(self, call: Instruction, stack: tuple[str, ...]) -> None:
        pointer = next((o for o in call.operands[:2] if isinstance(o, Register)), None)
        if pointer is not None:
            self._indirect_call(call, pointer, stack)
            return
        results, callee, arguments = self._parts(call)
        if callee in MACHINE_FUNCTIONS:
            machine = dataclasses.replace(call, opcode=callee, operands=(results, arguments))
            self._flat.body.append(machine)
            return
        function = self._module.functions.get(callee)
        if function is None or not function.defined:
            raise self._refuse(call, f"a call of the external function {callee}")
        if call.guard is not None:
            raise self._refuse(call, "a guarded call")
        if callee in self._recursive:
            self._call_recursive(call, callee, results, arguments)
            return
        if callee in stack:
            raise self._refuse(call, f"recursion through a pointer ({callee})")
        self._copies += 1
        after = f"$after${self._copies}"
        formal = (*function.returns, *function.params)
        actual = (*results.items, *arguments.items)
        symbols = self._bind(call, formal, actual) | self._fresh_names(function)
        copy = self._renamed(function, call, symbols, after)
        self._declare(function, symbols)
        saved = Register(f"$top${self._copies}", "b64")
        allocates = any(
            isinstance(s, Instruction) and s.family in _ALLOCATIONS for s in function.body
        )
        if allocates:
            self._flat.body.append(one(call, "mov.b64", saved, TOP))
        self._expand(copy, (*stack, callee))
        self._flat.body.append(Label(after))
        if allocates:
            self._flat.body.append(one(call, "mov.b64", TOP, saved))

    def _indirect_call(self, call: Instruction, pointer: Register, stack: tuple[str, ...]) -> None:
        functions = candidates(self._module, call, self._flat.variables)
        if not functions:
            raise self._refuse(call, "an indirect call that no function here fits")
        self._copies += 1
        self._expand(list(choice(self._module, call, pointer, functions, self._copies)), stack)

    def _parts(self, call: Instruction) -> tuple[Group, str, Group]:
        operands = list(call.operands)
        results = operands.pop(0) if isinstance(operands[0], Group) else Group(())
        callee = operands.pop(0) if operands else None
        if not isinstance(callee, Symbol) or len(operands) > 1:
            raise self._refuse(call, "an indirect call")
        arguments = operands[0] if operands else Group(())
        if not (isinstance(results, Group) and isinstance(arguments, Group)):
            raise self._refuse(call, "this form of call")
        return results, callee.name, arguments

    def _bind(
        self, call: Instruction, formal: tuple[Param, ...], actual: tuple[Operand, ...]
    ) -> dict[str, str]:
        if len(formal) != len(actual):
            raise self._refuse(call, "a call with another number of arguments")
        bound: dict[str, str] = {}
        for param, argument in zip(formal, actual, strict=True):
            if not isinstance(argument, Symbol):
                raise self._refuse(call, "a call that passes registers")
            bound[param.name] = argument.name
        return bound

    def _fresh_names(self, function: Function) -> dict[str, str]:
        """Unique names for what a copy declares. Shared variables stay one."""
        labels = {s.name for s in function.body if isinstance(s, Label)}
        own = {n for n, v in function.variables.items() if v.space != "shared"}
        shared = {n: n for n, v in function.variables.items() if v.space == "shared"}
        renamed = labels | own | set(function.targets)
        return shared | {name: f"{name}${self._copies}" for name in renamed}

    def _renamed(
        self, function: Function, call: Instruction, symbols: dict[str, str], after: str | None
    ) -> list[Statement]:
        """The next copy of the body; `ret` jumps to `after`, or stays. What is no line of the
        program's own files gets the call's."""
        suffix = f"${self._copies}"
        registers: dict[str, Register] = {}
        body: list[Statement] = []
        for statement in function.body:
            if isinstance(statement, Label):
                body.append(dataclasses.replace(statement, name=symbols[statement.name]))
                continue
            for register in _mentioned(statement):
                fresh = Register(register.name + suffix, register.type)
                registers.setdefault(register.name, fresh)
            guard = statement.guard
            if guard is not None:
                guard = Guard(registers[guard.register.name], guard.negated)
            if statement.family == "ret" and after is not None:
                operands: tuple[Operand, ...] = (Symbol(after),)
                statement = dataclasses.replace(statement, opcode="bra")
            else:
                operands = tuple(rename(o, registers, symbols) for o in statement.operands)
            own = statement.source.partition(":")[0] in self._module.sources
            source = statement.source if own else call.source
            own_lines = statement.own_lines or call.own_lines
            body.append(
                dataclasses.replace(
                    statement, operands=operands, guard=guard, source=source, own_lines=own_lines
                )
            )
        return body


def _mentioned(instruction: Instruction) -> Iterator[Register]:
    for operand in instruction.operands:
        yield from registers_of(operand)
    if instruction.guard is not None:
        yield instruction.guard.register
