"""Template arguments of a mangled kernel name: "<__half, 8>", so that instantiations have names.

Source: the Itanium C++ ABI, section 5.1 (mangling): the part that arguments of kernels use. Names
come from a candidate's build: what is not understood gives no arguments, and nothing fails.
"""

from __future__ import annotations

import re

MAX_NAME = 2000
"""Characters of a mangled name that are read."""
MAX_DEPTH = 8
BUILTIN = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
}
QUALIFIERS = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile"}
_LENGTH, _VALUE = re.compile(r"\d{1,4}"), re.compile(r"(n?)(\d{1,20})E")
_PLACE = re.compile(r"S([0-9A-Z]?)_")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class _Unknown(ValueError):
    """A construct that is not read here."""


def template_arguments(mangled: str) -> str:
    """ "<__half, 8>" of _Z6kernelI6__halfLi8EEvPT_i; "" without arguments or where they are not
    understood."""
    try:
        reader = _Reader(mangled)
        return reader.of_function()
    except (_Unknown, IndexError):
        return ""


class _Reader:
    def __init__(self, mangled: str) -> None:
        if not mangled.startswith("_Z") or len(mangled) > MAX_NAME:
            raise _Unknown
        self._text, self._at, self._depth = mangled, 2, 0
        self._known: list[str] = []
        """Substitution candidates, in the ABI's order."""

    def of_function(self) -> str:
        """The arguments behind the function's own name."""
        nested = self._take("N")
        while self._here in "VK" and nested:
            self._at += 1
        while True:
            self._take("L")
            name = self._name()
            if self._here == "I":
                self._known.append(name)
                arguments = self._arguments()
                if not nested or self._here == "E":
                    return arguments
                name += arguments
            elif not nested or self._here == "E":
                return ""
            self._known.append(name)

    @property
    def _here(self) -> str:
        return self._text[self._at]

    def _take(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _Unknown
        self._at = found.end()
        return found

    def _name(self) -> str:
        length = int(self._match(_LENGTH)[0])
        name = self._text[self._at : self._at + length]
        if len(name) < length or not name.isidentifier():
            raise _Unknown
        self._at += length
        return name

    def _arguments(self) -> str:
        self._at += 1  # I
        found = []
        while not self._take("E"):
            found.append(self._argument())
        return f"<{', '.join(found)}>"

    def _argument(self) -> str:
        if self._take("L"):
            kind = self._type()
            sign, digits = self._match(_VALUE).groups()
            return str(bool(int(digits))).lower() if kind == "bool" else "-" * bool(sign) + digits
        return self._type()

    def _type(self) -> str:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Unknown
        found = self._any_type()
        self._depth -= 1
        return found

    def _any_type(self) -> str:
        here = self._here
        if here in BUILTIN:
            self._at += 1
            return BUILTIN[here]
        if here == "S":
            return self._substitution()
        if here in QUALIFIERS:
            self._at += 1
            found = self._type() + QUALIFIERS[here]
        elif self._take("N"):
            while not self._take("E"):
                found = self._substitution() if self._here == "S" else self._class()
            return found
        else:
            return self._class()
        self._known.append(found)
        return found

    def _class(self) -> str:
        """A name with its arguments; each is a candidate."""
        name = self._name()
        self._known.append(name)
        if self._here == "I":
            name += self._arguments()
            self._known.append(name)
        return name

    def _substitution(self) -> str:
        digit = self._match(_PLACE)[1]
        return self._known[_DIGITS.index(digit) + 1 if digit else 0]
