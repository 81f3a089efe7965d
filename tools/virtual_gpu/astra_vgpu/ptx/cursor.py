"""A position in the tokens of a PTX text."""

from __future__ import annotations

import re

from astra_vgpu.ptx.lexer import PtxSyntaxError, Token

_IDENTIFIER = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+", re.ASCII)


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
        """A name of the program's own."""
        token = self.peek
        name = self.name()
        if not _IDENTIFIER.fullmatch(name):
            raise self.error(f"{name!r} is not a valid name", token)
        return name

    def error(self, what: str, token: Token | None = None) -> PtxSyntaxError:
        return PtxSyntaxError(f"line {(token or self.peek).line}: {what}")

    def natural(self) -> int:
        """Digits: a count, an extent, a line; never an expression.

        Raises PtxSyntaxError for anything else, and for more than 64 bits.
        """
        token = self.next()
        digits = token.text.rstrip("U")
        if token.kind != "number" or not re.fullmatch(r"\d+|0[xX][\da-fA-F]+|0[bB][01]+", digits):
            raise self.error(f"expected a number, found {token.text!r}", token)
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        value = int(digits, 8 if octal else 0)
        if value > 1 << 64:
            raise self.error(f"{digits} does not fit in 64 bits", token)
        return value

    def string(self) -> str:
        """What stands between quotes."""
        token = self.next()
        if token.kind != "string":
            raise self.error(f"expected a string, found {token.text!r}", token)
        return token.text[1:-1]

    def strings(self) -> list[str]:
        """ "a", "b";: of .pragma."""
        strings = [self.string()]
        while self.accept(","):
            strings.append(self.string())
        self.expect(";")
        return strings
