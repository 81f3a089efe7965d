"""A place in the tokens of a PTX text, and the forms that modules and bodies share."""

from __future__ import annotations

import re
import struct

from astra_chat.tools.virtual_gpu.lexer import PtxSyntaxError, Token
from astra_chat.tools.virtual_gpu.syntax import Immediate, Relocation, Variable, type_bits

_NONE: tuple[Relocation, ...] = ()
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_ALIGNMENTS = frozenset(1 << power for power in range(13))
_LARGEST_BYTES = 1 << 32
"""Of a variable in a module: no GPU's kernel has as much."""
_LARGEST_INITIAL_BYTES = 1 << 26
_SPACES = frozenset({".global", ".const", ".shared", ".local", ".param"})


class Cursor:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text, self.tokens, self._index = text, tokens, 0

    @property
    def peek(self) -> Token:
        return self.tokens[self._index]

    @property
    def ended(self) -> bool:
        return self.peek.kind == "end"

    def ahead(self, count: int) -> Token:
        return self.tokens[min(self._index + count, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.peek
        if token.kind == "end":
            raise self.error("the text ends in the middle of a declaration")
        self._index += 1
        return token

    def at(self, text: str) -> bool:
        return self.peek.text == text and self.peek.kind != "string"

    def accept(self, text: str) -> bool:
        if self.at(text):
            self._index += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.peek.text!r}")

    def name(self) -> str:
        token = self.next()
        if token.kind != "name":
            raise self.error(f"expected a name, found {token.text!r}", token)
        return token.text

    def identifier(self) -> str:
        """A name of the program's own: no opcode and no register of the machine."""
        token = self.peek
        name = self.name()
        if not _IDENTIFIER.fullmatch(name):
            raise self.error(f"{name!r} as a name", token)
        return name

    def error(self, what: str, token: Token | None = None) -> PtxSyntaxError:
        return PtxSyntaxError(f"line {(token or self.peek).line}: {what}")

    def skip_line(self, line: int) -> None:
        while self.peek.line == line and not self.ended:
            self._index += 1

    def skip_past(self, text: str) -> None:
        while self.next().text != text:
            pass

    def number(self) -> Immediate:
        """An integer or a float in its hexadecimal form; with a sign if there is one."""
        negative = self.accept("-")
        token = self.next()
        if token.kind != "number":
            raise self.error(f"expected a number, found {token.text!r}", token)
        text = token.text
        if text[:2] in ("0f", "0F"):
            return Immediate(int(text[2:], 16) ^ (negative << 31), "f32")
        if text[:2] in ("0d", "0D"):
            return Immediate(int(text[2:], 16) ^ (negative << 63), "f64")
        if "." in text:
            value = struct.unpack("<I", struct.pack("<f", float(text)))[0]
            return Immediate(value ^ (negative << 31), "f32")
        try:
            value = int(text.rstrip("U"), 0)
        except ValueError as error:
            raise self.error(f"number {text!r}", token) from error
        return Immediate(-value if negative else value)

    def integer(self) -> int:
        found = self.number()
        if found.kind != "int":
            raise self.error("expected a whole number")
        return found.value

    def params(self) -> list[Variable]:
        """(.param .u64 a, .param .align 8 .b8 b[24]): of a function."""
        found: list[Variable] = []
        self.expect("(")
        if self.accept(")"):
            return found
        while not found or self.accept(","):
            space = self.next().text
            if space not in (".param", ".reg"):
                raise self.error(f"expected .param, found {space!r}")
            found.append(self._declarator(*self._type(), space[1:]))
        self.expect(")")
        return found

    def variables(self, space: str, external: bool = False) -> list[Variable]:
        """What follows .global, .shared, .local, ...: up to and with the semicolon."""
        align, type_name = self._type()
        found = [self._declarator(align, type_name, space, external)]
        while self.accept(","):
            found.append(self._declarator(align, type_name, space, external))
        self.expect(";")
        return found

    def _type(self) -> tuple[int, str]:
        """Alignment (0: natural) and type. `.ptr .global .align 16` of a parameter says nothing
        about where the parameter itself lies."""
        align, type_name, pointee = 0, "", False
        while self.peek.kind == "directive":
            word = self.next().text
            if word == ".align":
                number = self._alignment()
                align = align if pointee else number
            elif word == ".ptr":
                pointee = True
            elif word == ".attribute":
                self.skip_past(")")
            elif word not in _SPACES or not pointee:
                if type_name:
                    raise self.error(f"both .{type_name} and {word} of a variable")
                type_name = word[1:]
        if not type_name or not type_name.lstrip("busf").removesuffix("x2").isdigit():
            raise self.error(f"type {type_name!r} of a variable")
        return align, type_name

    def _alignment(self) -> int:
        alignment = self.integer()
        if alignment not in _ALIGNMENTS:
            raise self.error(f"an alignment of {alignment}")
        return alignment

    def _declarator(
        self, align: int, type_name: str, space: str, external: bool = False
    ) -> Variable:
        name = self.identifier()
        width = type_bits(type_name) // 8
        size = width
        unsized = False
        while self.accept("["):
            if self.accept("]"):
                unsized = True
            else:
                size *= self._extent()
                self.expect("]")
        if size > _LARGEST_BYTES:
            raise self.error(f"{name} of {size} bytes")
        initial, relocations = b"", _NONE
        if self.accept("="):
            items = self._initial_items(type_name)
            if unsized:
                size, unsized = width * len(items), False
            if size > _LARGEST_INITIAL_BYTES:
                raise self.error(f"initial values of {size} bytes")
            initial, relocations = _packed(items, width, size)
        return Variable(
            name,
            space,
            0 if unsized else size,
            align or width,
            initial,
            relocations,
            external=external or unsized,
        )

    def _extent(self) -> int:
        extent = self.integer()
        if extent < 0:
            raise self.error(f"an array of {extent} elements")
        return extent

    def _initial_items(self, type_name: str) -> list[int | tuple[str, int]]:
        """Numbers, or (symbol, addend) where an address is wanted."""
        if not self.accept("{"):
            return [self._initial_item()]
        items: list[int | tuple[str, int]] = []
        while not items or self.accept(","):
            items += self._initial_items(type_name) if self.at("{") else [self._initial_item()]
        self.expect("}")
        return items

    def _initial_item(self) -> int | tuple[str, int]:
        if self.peek.kind == "number" or self.at("-"):
            return self.number().value
        name = self.identifier()
        if name == "generic":
            self.expect("(")
            name = self.identifier()
            self.expect(")")
        return name, self.number().value if self.accept("+") else 0


def _packed(
    items: list[int | tuple[str, int]], width: int, size: int
) -> tuple[bytes, tuple[Relocation, ...]]:
    data = bytearray(size)
    relocations: list[Relocation] = []
    for index, item in enumerate(items):
        at = index * width
        if isinstance(item, tuple):
            relocations.append(Relocation(at, *item))
        else:
            data[at : at + width] = (item % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(data), tuple(relocations)
