"""The body of one PTX function: scopes, registers, labels, instructions and their source lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from astra_vgpu.ptx.constants import constant, decimal, starts, whole
from astra_vgpu.ptx.cursor import Cursor
from astra_vgpu.ptx.debug_lines import Place, SourceFiles
from astra_vgpu.ptx.declarations import params, variables
from astra_vgpu.ptx.modifiers import is_type
from astra_vgpu.ptx.syntax import (
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
_REGISTER_TYPES = frozenset(
    "pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64".split()
)
_MAX_REGISTERS = 1 << 20
"""Most registers of one name: nvcc comes nowhere near."""


@dataclass
class _Scope:
    first: int
    """Index of its first statement."""
    registers: dict[str, Register] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """All that it declares."""
    tables: list[str] = field(default_factory=list)
    """Labels of its .branchtargets."""


class BodyParser:
    """Fills a Function from the tokens after its opening brace.

    Raises PtxSyntaxError for text that is not a function body; for names that a scope declares
    twice, too.
    """

    def __init__(self, cursor: Cursor, function: Function, files: SourceFiles) -> None:
        self._cursor, self._function, self._files = cursor, function, files
        self._scopes = [_Scope(0)]
        self._scopes[0].names.update(p.name for p in (*function.params, *function.returns))
        self._used: dict[str, int] = {}
        self._calls = False
        self._parents: dict[Place, Place] = {}
        self._places: set[Place] = set()
        self.named_lines: set[str] = set()
        """Labels of the debug section that .loc names."""
        self._source = self._own_lines = ""

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
        body, tables = self._function.body, self._function.targets
        if not self._scopes:
            self._check_tables()
            return
        for table in scope.tables:
            tables[table] = tuple(scope.labels.get(name, name) for name in tables[table])
        if not scope.labels:
            return
        for index in range(scope.first, len(body)):
            statement = body[index]
            if isinstance(statement, Label):
                name = scope.labels.get(statement.name, statement.name)
                body[index] = replace(statement, name=name)
            else:
                operands = tuple(rename(o, {}, scope.labels) for o in statement.operands)
                body[index] = replace(statement, operands=operands)

    def _check_tables(self) -> None:
        labels = {s.name for s in self._function.body if isinstance(s, Label)}
        for targets in self._function.targets.values():
            for name in targets:
                if name not in labels:
                    raise self._cursor.error(f"label {name} is not defined")

    def _declare(self, name: str) -> None:
        scope = self._scopes[-1]
        if name in scope.names:
            raise self._cursor.error(f"{name} is declared twice")
        scope.names.add(name)

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
            for variable in variables(cursor, token.text[1:]):
                self._variable(variable)
        elif token.text == ".pragma":
            self._pragma()
        else:
            raise cursor.error(f"unexpected {token.text!r} in a function", token)

    def _pragma(self) -> None:
        body = self._function.body
        pragmas = self._cursor.strings()
        if "nounroll" in pragmas and body and isinstance(body[-1], Label):
            body[-1] = replace(body[-1], nounroll=True)

    def _variable(self, variable: Variable) -> None:
        self._declare(variable.name)
        unique = self._unique(variable.name)
        self._scopes[-1].variables[variable.name] = unique
        self._function.variables[unique] = replace(variable, name=unique)

    def _registers(self) -> None:
        """.reg .b32 %r<5>; or .reg .b16 low, high;"""
        cursor = self._cursor
        type_name = cursor.next().text[1:]
        if type_name not in _REGISTER_TYPES:
            raise cursor.error(f"registers cannot have type {type_name!r}")
        scope = self._scopes[-1]
        while True:
            name = cursor.identifier()
            names = [name]
            if cursor.accept("<"):
                count = cursor.natural()
                if count > _MAX_REGISTERS:
                    raise cursor.error(f"{count} registers")
                names = [f"{name}{number}" for number in range(count)]
                cursor.expect(">")
            for each in names:
                self._declare(each)
                scope.registers[each] = Register(self._unique(each), type_name)
            if not cursor.accept(","):
                break
        cursor.expect(";")

    def _location(self) -> None:
        """.loc 2 608 5, function_name $L, inlined_at 1 8 73: remembers the line."""
        cursor = self._cursor
        place = self._place()
        while cursor.accept(","):
            token = cursor.next()
            if token.text == "inlined_at":
                caller = self._place()
                if caller not in self._places:
                    raise cursor.error(
                        "inlined_at refers to a place that no earlier .loc names", token
                    )
                self._parents[place] = caller
            elif token.text == "function_name":
                self.named_lines.add(cursor.identifier())
                if cursor.accept("+"):
                    cursor.natural()
            else:
                raise cursor.error(f"unexpected {token.text!r} in a .loc", token)
        self._places.add(place)
        chain: list[Place] = []
        at: Place | None = place
        while at is not None and at not in chain:
            chain.append(at)
            at = self._parents.get(at)
        self._source = self._files.describe(chain)
        self._own_lines = self._files.own_lines(chain)

    def _place(self) -> Place:
        cursor = self._cursor
        return cursor.natural(), cursor.natural(), cursor.natural()

    def _label(self) -> None:
        cursor = self._cursor
        name = cursor.identifier()
        cursor.expect(":")
        self._declare(name)
        if cursor.accept(".branchtargets"):
            self._function.targets[name] = self._names()
            self._scopes[-1].tables.append(name)
        elif cursor.accept(".calltargets"):
            self._function.call_targets[name] = self._names()
        elif cursor.accept(".callprototype"):
            self._function.prototypes[name] = self._prototype()
        else:
            inner = len(self._scopes) > 1
            self._scopes[-1].labels[name] = f"{name}#{self._unique(name)}" if inner else name
            self._function.body.append(Label(name))

    def _names(self) -> tuple[str, ...]:
        cursor = self._cursor
        names = [cursor.identifier()]
        while cursor.accept(","):
            names.append(cursor.identifier())
        cursor.expect(";")
        return tuple(names)

    def _prototype(self) -> tuple[Variable, ...]:
        """(.param .b32 _) _ (.param .b64 _): results, then parameters."""
        cursor = self._cursor
        formals = params(cursor, unnamed=True) if cursor.at("(") else []
        if not cursor.accept("_"):
            cursor.identifier()
        if cursor.at("("):
            formals += params(cursor, unnamed=True)
        cursor.accept(".noreturn")
        cursor.expect(";")
        return tuple(formals)

    def _instruction(self) -> Instruction:
        cursor = self._cursor
        start = cursor.peek
        guard = None
        if cursor.accept("@"):
            negated = cursor.accept("!")
            register = self._named(cursor.name())
            if not isinstance(register, Register) or register.type != "pred":
                raise cursor.error("the guard is not a predicate register", start)
            guard = Guard(register, negated)
        opcode = cursor.name()
        self._calls = opcode.startswith("call")
        operands: list[Operand] = []
        while not cursor.at(";") if not operands else cursor.accept(","):
            operands.append(_with_decimals(self._operand(), opcode))
        end = cursor.peek
        cursor.expect(";")
        text = " ".join(cursor.text[start.at : end.at].split())
        return Instruction(
            opcode, tuple(operands), guard, start.line, self._source, text, self._own_lines
        )

    def _operand(self) -> Operand:
        first = self._single()
        if self._cursor.accept("|"):
            return Pair(first, self._single())
        return first

    def _single(self) -> Operand:
        cursor = self._cursor
        if cursor.accept("{"):
            return Vector(self._list("}"))
        if self._calls and cursor.accept("("):
            return Group(self._list(")"))
        if cursor.accept("["):
            return self._address()
        if cursor.at("!") and not starts(cursor.ahead(1)):
            cursor.next()
            register = self._named(cursor.name())
            if not isinstance(register, Register):
                raise cursor.error("'!' is written before an operand that is not a predicate")
            return Negated(register)
        if starts(cursor.peek):
            return constant(cursor)
        named = self._named(cursor.name())
        if isinstance(named, Symbol) and cursor.accept("+"):
            return Symbol(named.name, whole(cursor))
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
            raise cursor.error("the address has no base")
        offset = 0
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset
        if cursor.accept("+"):
            offset += whole(cursor)
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
        if "." in name and not name.startswith("%"):
            raise self._cursor.error(f"{name!r} is not a valid operand")
        return Special(name) if name.startswith("%") else Symbol(name)


def _with_decimals(operand: Operand, opcode: str) -> Operand:
    """1.5 is a float of the instruction's type."""
    if isinstance(operand, Immediate) and operand.kind == "decimal":
        types = [part for part in opcode.split(".") if is_type(part)]
        return decimal(operand, types[-1] if types else "")
    if isinstance(operand, Vector):
        return Vector(tuple(_with_decimals(item, opcode) for item in operand.items))
    return operand
