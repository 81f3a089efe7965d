"""Tokens of a CUDA C++ source as its preprocessor reads them: splices, raw strings, digraphs.

Follows [lex] of the C++17 standard and GCC's libcpp where they differ (a backslash, blanks and a
newline are a splice too); nothing is expanded and no branch of #if is left out.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["name", "number", "string", "char", "punct", "directive", "header", "text", "bad"]


@dataclass(frozen=True)
class Token:
    """One token outside comments."""

    kind: Kind
    text: str
    """Literals with prefix and quotes; digraphs as what they stand for; bad: the reason;
    directive: its name ("include", "define"), standing for the # too."""
    line: int
    directive: str = ""
    """The directive that the token stands in; "" in code."""
    at: int = field(default=-1, compare=False)
    """Index of its first character in the source; of names, numbers and punctuation."""


@dataclass(frozen=True)
class WrittenToken:
    """A token as it is written for the compiler, and where it stands in the spliced text."""

    kind: Kind
    text: str
    start: int
    end: int
    """Index behind the token's last character."""


_SPLICE = re.compile(r"\\[ \t\f\v]*\r?\n")
_RAW_START = re.compile(r'(?:u8|[uUL])?R"')
_RAW_DELIMITER = re.compile(r'([^()\\\s"]{0,16})\(')
_DIGRAPHS = {"<%": "{", "%>": "}", "<:": "[", ":>": "]", "%:": "#", "%:%:": "##"}
_BLANK = re.compile(r"(?:[ \t\r]+|//[^\n]*|/\*.*?\*/|(?P<open>/\*.*))+", re.DOTALL)
_TOKEN = re.compile(
    r"""
    (?P<string>(?:u8|[uUL])?"(?:\\[^\n]|[^"\\\n])*(?P<string_end>"?))
  | (?P<char>(?:u8|[uUL])?'(?:\\[^\n]|[^'\\\n])*(?P<char_end>'?))
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z_]|[0-9A-Za-z_.])*)
  | (?P<name>[A-Za-z_$][\w$]*)
  | (?P<bad>\\|\?\?)
  | (?P<punct>%:%:|\#\#|<%|%>|<:(?!:[^:>])|:>|%:|::|->|<<<|>>>|&&|\|\||[!-/:-@\[-`{-~])
    """,
    re.VERBOSE | re.ASCII,
)
_DIRECTIVE = re.compile(r"\w+", re.ASCII)
_SUFFIX = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_CONTROL = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
_HEADER = re.compile(r'<[^>\n]*>|"[^"\n]*"')
_TEXT_DIRECTIVES = ("error", "warning")
_HEADER_DIRECTIVES = ("include", "include_next", "import", "embed")
_FORBIDDEN_TEXT = (
    (re.compile(r"\?\?/"), "the trigraph for a backslash, which compilers treat differently"),
    (re.compile(r"\r(?!\n)"), "a carriage return in the middle of a line"),
    (re.compile("\0"), "a NUL character"),
    (
        re.compile("^\ufeff"),
        "a byte-order mark: a compiler drops it, and then reads a different line",
    ),
    (re.compile("[\ud800-\udfff]"), "half of a UTF-16 surrogate pair"),
    (
        re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"),
        "a character that changes the text direction: a reader would see different code",
    ),
)


class Code(list[Token]):
    """Tokens of a whole text; which brackets belong together is found once."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        super().__init__(tokens)
        self._closing: dict[int, int] = {}
        self._opening: dict[int, int] = {}
        self._around: dict[int, int] = {}
        self._heads: list[int] = []
        head, open_ones = 0, list[int]()
        for index, token in enumerate(self):
            self._heads.append(head)
            if open_ones:
                self._around[index] = open_ones[-1]
            if token.text in (";", "{", "}"):
                head = index + 1
            if token.kind == "punct" and token.text in ("(", "[", "{"):
                open_ones.append(index)
            elif token.kind == "punct" and token.text in (")", "]", "}") and open_ones:
                start = open_ones.pop()
                self._closing[start], self._opening[index] = index, start

    def closing(self, start: int) -> int:
        """Index of the bracket that closes the one at `start`; the end if none does."""
        return self._closing.get(start, len(self))

    def defined_names(self) -> list[str]:
        """Names that are followed by (...) and {: functions, and what reads like one."""
        calls = [i for i, token in enumerate(self[1:]) if token.text == "("]
        ends = ((at, self.closing(at + 1) + 1) for at in calls if self[at].kind == "name")
        return [self[at].text for at, end in ends if end < len(self) and self[end].text == "{"]

    def opening(self, end: int) -> int:
        """Index of the bracket that the one at `end` closes; 0 if it closes none."""
        return self._opening.get(end, 0)

    def around(self, index: int) -> int:
        """Index of the innermost bracket that is open before `index`; -1 if none is."""
        return self._around.get(index, -1)

    def arguments(self, start: int, end: int) -> list[list[Token]]:
        """What the commas divide between a bracket at `start` and `end`; inner brackets stay
        whole."""
        found: list[list[Token]] = [[]]
        index = start + 1
        while index < end:
            close = self.closing(index) if self[index].text in ("(", "[", "{") else index
            if self[index].text == ",":
                found.append([])
            else:
                found[-1] += self[index : close + 1]
            index = close + 1
        return found

    def head(self, index: int) -> int:
        """Where the statement begins that `index` stands in."""
        return self._heads[index]


def tokens(source: str) -> Iterator[Token]:
    """All tokens in order. What cannot be read as C++ comes as kind "bad", its text the reason."""
    return Lexer(source).run()


def content(literal: str) -> str:
    """What a string literal holds: raw or not, escapes undone."""
    if raw := re.match(r'\w*R"([^(]*)\((.*)\)\1"$', literal, re.DOTALL):
        return raw[2]
    inner = literal[literal.index('"') + 1 : -1]
    return _ESCAPE.sub(lambda match: _unescaped(match[0]), inner)


_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]+|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "\a", "b": "\b"}


def _unescaped(escape: str) -> str:
    kind, rest = escape[1], escape[2:]
    if kind in "xuU" and rest:
        return chr(min(int(rest, 16), 0x10FFFF))
    if kind in "01234567":
        return chr(int(escape[1:], 8))
    return _SIMPLE.get(kind, kind)


class Lexer:
    """Scans the spliced text; raw strings, where splices do not count, are read in the source."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.text, self.origin = _spliced(source)
        self.newlines = [i for i, char in enumerate(source) if char == "\n"]
        self.at = 0
        self.directive = ""
        self.fresh_line = True
        self.open_comment: int | None = None
        """Where a comment begins that nothing ends."""
        self.pieces: list[WrittenToken] = []
        """What run() has read so far, "bad" left out; a directive is two pieces, # and its name."""

    def run(self) -> Iterator[Token]:
        """Yields all tokens of the source, as tokens() does; at its end `pieces` are complete."""
        for pattern, reason in _FORBIDDEN_TEXT:
            if match := pattern.search(self.source):
                yield Token("bad", reason, self.source.count("\n", 0, match.start()) + 1)
        while self._skip_blanks():
            if self.text[self.at] == "\n":
                self.at, self.directive, self.fresh_line = self.at + 1, "", True
                continue
            start = self.at
            token = self._next()
            self._keep(token.kind, token.text, start)
            if self.fresh_line and token.text == "#":
                yield from self._directive_start(token.line)
            else:
                yield token
            if token.kind in ("string", "char"):
                yield from self._behind_literal(token)
            self.fresh_line = False
        if self.open_comment is not None:
            self.at = self.open_comment
            yield Token("bad", "an unterminated comment", self._line())

    def _keep(self, kind: Kind, text: str, start: int) -> None:
        if kind != "bad":
            self.pieces.append(WrittenToken(kind, text, start, self.at))

    def _behind_literal(self, literal: Token) -> Iterator[Token]:
        """What is wrong with a literal that is closed."""
        if suffix := _SUFFIX.match(self.text, self.at):
            what = f"{suffix[0]} directly follows a literal: user-defined suffixes are not allowed"
            yield Token("bad", what, self._line(), self.directive)
        if control := _CONTROL.search(literal.text):
            what = f"the control character U+{ord(control[0]):04X} in a literal"
            yield Token("bad", what, literal.line, self.directive)

    def _skip_blanks(self) -> bool:
        if blank := _BLANK.match(self.text, self.at):
            self.at = blank.end()
            if blank["open"]:
                self.open_comment = blank.start("open")
        return self.at < len(self.text)

    def _next(self) -> Token:
        line, start = self._line(), self.origin[self.at]
        if raw := _RAW_START.match(self.text, self.at):
            return self._raw_string(raw.end(), line)
        match = _TOKEN.match(self.text, self.at)
        if match is None or match["bad"]:
            character = self.text[self.at]
            self.at += 1
            return Token("bad", _outside(character), line, self.directive)
        self.at = match.end()
        if "" in (match["string_end"], match["char_end"]):
            return Token("bad", "a literal that does not end on its line", line, self.directive)
        text = _DIGRAPHS.get(match[0], match[0])
        return Token(_kind(match), text, line, self.directive, start)

    def _directive_start(self, line: int) -> Iterator[Token]:
        """Enter a directive: name it, and read what follows as header or free text where it is."""
        self._skip_blanks()
        start = self.at
        name = _DIRECTIVE.match(self.text, start)
        self.directive = name[0] if name else "#"
        if name:
            self.at = name.end()
            self._keep("directive", name[0], start)
        yield Token("directive", self.directive, line, self.directive)
        self._skip_blanks()
        line = self._line()
        if self.directive in _TEXT_DIRECTIVES:
            end = self.text.find("\n", self.at)
            start, self.at = self.at, len(self.text) if end < 0 else end
            yield Token("text", self.text[start : self.at], line, self.directive)
            self._keep("text", self.text[start : self.at], start)
        elif self.directive in _HEADER_DIRECTIVES:
            header = _HEADER.match(self.text, self.at)
            if header:
                start, self.at = self.at, header.end()
                self._keep("header", header[0], start)
                yield Token("header", header[0], line, self.directive)

    def _raw_string(self, content: int, line: int) -> Token:
        """A raw string, in the source itself: its end moves the scan of the spliced text on."""
        start, after_quote = self.origin[self.at], self.origin[content - 1] + 1
        delimiter = _RAW_DELIMITER.match(self.source, after_quote)
        end = -1
        if delimiter:
            closing = f'){delimiter[1]}"'
            end = self.source.find(closing, delimiter.end())
        if end < 0:
            self.at = len(self.text)
            return Token("bad", "an unterminated raw string", line, self.directive)
        end += len(closing)
        self.at = bisect.bisect_left(self.origin, end)
        return Token("string", self.source[start:end], line, self.directive)

    def _line(self) -> int:
        if self.at >= len(self.origin):
            return len(self.newlines) + 1
        return bisect.bisect_left(self.newlines, self.origin[self.at]) + 1


def _outside(character: str) -> str:
    """What is wrong with a character that begins no token."""
    if character in "\\?":
        return "a backslash or a trigraph outside literals"
    what = "the control character" if character < " " or character == "\x7f" else "the character"
    return f"{what} U+{ord(character):04X} outside literals and comments"


def _kind(match: re.Match[str]) -> Kind:
    kinds: tuple[Kind, ...] = ("string", "char", "number", "name")
    return next((kind for kind in kinds if match[kind] is not None), "punct")


def _spliced(source: str) -> tuple[str, list[int]]:
    """The text without line splices, and for each of its characters its index in the source."""
    parts: list[str] = []
    origin: list[int] = []
    start = 0
    for splice in _SPLICE.finditer(source):
        parts.append(source[start : splice.start()])
        origin.extend(range(start, splice.start()))
        start = splice.end()
    parts.append(source[start:])
    origin.extend(range(start, len(source)))
    return "".join(parts), origin
