"""The body of one PTX function: scopes, registers, labels, instructions and their source lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from astra_chat.tools.virtual_gpu.cursor import Cursor
from astra_chat.tools.virtual_gpu.modifiers import is_type
from astra_chat.tools.virtual_gpu.syntax import (
    Address,
    Function,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
    rename,
)

_VARIABLES = frozenset({".local", ".shared", ".param", ".const", ".global"})
_MOST_REGISTERS = 1 << 20
"""Of one name: nvcc comes nowhere near."""
_Place = tuple[int, int, int]


@dataclass
class _Scope:
    first: int
    """Index of its first statement."""
    registers: dict[str, Register] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


class BodyParser:
    """Fills a Function from the tokens after its opening brace."""

    def __init__(self, cursor: Cursor, function: Function, files: dict[int, str]) -> None:
        self._cursor, self._function, self._files = cursor, function, files
        self._scopes = [_Scope(0)]
        self._used: dict[str, int] = {}
        self._parents: dict[_Place, _Place] = {}
        self._source = ""

    def parse(self) -> None:
        cursor = self._cursor
        while self._scopes:
            if cursor.accept("{"):
                self._scopes.append(_Scope(len(self._function.body)))
            elif cursor.accept("}"):
                self._close()
            elif cursor.peek.kind == "directive":
                self._directive()
            elif cursor.peek.kind == "name" and cursor.ahead(1).text == ":":
                self._label()
            else:
                self._function.body.append(self._instruction())

    def _close(self) -> None:
        """End a scope. Labels of an inner one get unique names, also where they are used."""
        scope = self._scopes.pop()
        if not (scope.labels and self._scopes):
            return
        body = self._function.body
        for index in range(scope.first, len(body)):
            statement = body[index]
            if isinstance(statement, Label):
                name = scope.labels.get(statement.name, statement.name)
                body[index] = replace(statement, name=name)
            else:
                operands = tuple(rename(o, {}, scope.labels) for o in statement.operands)
                body[index] = replace(statement, operands=operands)

    def _unique(self, name: str) -> str:
        count = self._used.get(name, 0)
        self._used[name] = count + 1
        return f"{name}#{count}" if count else name

    def _directive(self) -> None:
        cursor = self._cursor
        token = cursor.next()
        if token.text == ".reg":
            self._registers()
        elif token.text == ".loc":
            self._location()
        elif token.text in _VARIABLES:
            for variable in cursor.variables(token.text[1:]):
                if variable.size == 0 and token.text != ".shared":
                    raise cursor.error(f"{variable.name} has no size", token)
                self._variable(variable)
        elif token.text == ".pragma":
            self._pragma()
        elif token.text in (".callprototype", ".calltargets"):
            cursor.skip_past(";")
        else:
            raise cursor.error(f"{token.text!r} in a function", token)

    def _pragma(self) -> None:
        body = self._function.body
        if "nounroll" in self._cursor.peek.text and body and isinstance(body[-1], Label):
            body[-1] = replace(body[-1], nounroll=True)
        self._cursor.skip_past(";")

    def _variable(self, variable: Variable) -> None:
        unique = self._unique(variable.name)
        self._scopes[-1].variables[variable.name] = unique
        self._function.variables[unique] = replace(variable, name=unique)

    def _registers(self) -> None:
        """.reg .b32 %r<5>; or .reg .b16 low, high;"""
        cursor = self._cursor
        type_name = cursor.next().text[1:]
        if not is_type(type_name) and type_name != "b128":
            raise cursor.error(f"registers of type {type_name!r}")
        scope = self._scopes[-1]
        while True:
            name = cursor.name()
            names = [name]
            if cursor.accept("<"):
                count = cursor.number().value
                if not 0 < count <= _MOST_REGISTERS:
                    raise cursor.error(f"{count} registers")
                names = [f"{name}{number}" for number in range(count)]
                cursor.expect(">")
            for each in names:
                if each in scope.registers or each in scope.variables:
                    raise cursor.error(f"{each} is declared twice")
                scope.registers[each] = Register(self._unique(each), type_name)
            if not cursor.accept(","):
                break
        cursor.expect(";")

    def _location(self) -> None:
        """.loc 2 608 5, function_name $L, inlined_at 1 8 73: remembers the innermost .cu line."""
        cursor = self._cursor
        place = self._place()
        while cursor.accept(","):
            if cursor.name() == "inlined_at":
                self._parents[place] = self._place()
            else:
                cursor.next()
                if cursor.accept("+"):
                    cursor.number()
        self._source = self._describe(place)

    def _place(self) -> _Place:
        cursor = self._cursor
        return cursor.number().value, cursor.number().value, cursor.number().value

    def _describe(self, place: _Place) -> str:
        seen: list[_Place] = []
        at: _Place | None = place
        while at is not None and at not in seen:
            seen.append(at)
            at = self._parents.get(at)
        own = [p for p in seen if self._files.get(p[0], "").endswith(".cu")]
        file, line, _ = (own or seen[-1:])[0]
        return f"{self._files.get(file, '?')}:{line}"

    def _label(self) -> None:
        cursor = self._cursor
        name = cursor.name()
        cursor.expect(":")
        if cursor.at(".branchtargets"):
            cursor.next()
            targets = [cursor.name()]
            while cursor.accept(","):
                targets.append(cursor.name())
            cursor.expect(";")
            self._function.targets[name] = tuple(targets)
        elif cursor.at(".callprototype") or cursor.at(".calltargets"):
            cursor.skip_past(";")
        else:
            scope = self._scopes[-1]
            if name in scope.labels:
                raise cursor.error(f"label {name} a second time")
            scope.labels[name] = self._unique(name) if len(self._scopes) > 1 else name
            self._function.body.append(Label(name))

    def _instruction(self) -> Instruction:
        cursor = self._cursor
        start = cursor.peek
        guard = None
        if cursor.accept("@"):
            negated = cursor.accept("!")
            register = self._named(cursor.name())
            if not isinstance(register, Register) or register.type != "pred":
                raise cursor.error("a guard that is not a predicate register", start)
            guard = Guard(register, negated)
        opcode = cursor.name()
        operands: list[Operand] = []
        while not cursor.at(";") if not operands else cursor.accept(","):
            operands.append(self._operand())
        end = cursor.peek
        cursor.expect(";")
        text = " ".join(cursor.text[start.at : end.at].split())
        return Instruction(opcode, tuple(operands), guard, start.line, self._source, text)

    def _operand(self) -> Operand:
        first = self._single()
        if self._cursor.accept("|"):
            return Pair(first, self._single())
        return first

    def _single(self) -> Operand:
        cursor = self._cursor
        if cursor.accept("{"):
            return Vector(self._list("}"))
        if cursor.accept("("):
            return Group(self._list(")"))
        if cursor.accept("["):
            return self._address()
        if cursor.accept("!"):
            register = self._named(cursor.name())
            if not isinstance(register, Register):
                raise cursor.error("! before what is not a predicate")
            return Negated(register)
        if cursor.peek.kind == "number" or cursor.at("-"):
            return cursor.number()
        named = self._named(cursor.name())
        if isinstance(named, Symbol) and cursor.accept("+"):
            return Symbol(named.name, cursor.integer())
        return named

    def _list(self, end: str) -> tuple[Operand, ...]:
        items: list[Operand] = []
        if self._cursor.accept(end):
            return ()
        while not items or self._cursor.accept(","):
            items.append(self._single())
        self._cursor.expect(end)
        return tuple(items)

    def _address(self) -> Operand:
        cursor = self._cursor
        base = self._single()
        if not isinstance(base, Register | Symbol | Immediate):
            raise cursor.error("an address without a base")
        offset = 0
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset
        if cursor.accept("+"):
            offset += cursor.integer()
        if cursor.accept(","):
            rest: tuple[Operand, ...] = (Address(base, offset), self._single())
            while cursor.accept(","):
                rest = (*rest, self._single())
            cursor.expect("]")
            return Vector(rest)
        cursor.expect("]")
        return Address(base, offset)

    def _named(self, name: str) -> Operand:
        if name == "_":
            return Sink()
        for scope in reversed(self._scopes):
            if name in scope.registers:
                return scope.registers[name]
            if name in scope.variables:
                return Symbol(scope.variables[name])
        if name == "WARP_SZ":
            return Immediate(32)
        return Special(name) if name.startswith("%") else Symbol(name)
