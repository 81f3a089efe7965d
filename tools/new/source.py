"""A kernel file's tokens with their places, and the functions that it defines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from astra_chat.tools.cpp_tokens import Token, tokens
from astra_vgpu.ground.errors import BadInput

_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_BETWEEN = re.compile(r"(?:\s|\\[ \t\f\v]*\r?\n|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")
_DIGRAPHS = {"{": "<%", "}": "%>", "[": "<:", "]": ":>", "#": "%:", "##": "%:%:"}
_OWN_SUFFIX = re.compile(r"""(["'])(_[A-Za-z]\w*)\b(?!["'])""")
_ATTRIBUTES = ("__launch_bounds__", "__attribute__", "__cluster_dims__", "__declspec", "alignas")
_NO_FUNCTIONS = ("if", "for", "while", "switch", "return", "sizeof", "decltype", "requires")


class BadSource(BadInput):
    """What a source has in a line cannot be used."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


@dataclass(frozen=True)
class Piece:
    """A token and where it stands: source[start:end]."""

    token: Token
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.token.text


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function, as words."""

    type: str
    """Without its name: "const __half *"."""
    name: str
    default: str = ""
    line: int = 0
    end: int = 0
    """Where it ends in the source, its default included."""


@dataclass(frozen=True)
class Function:
    """A function that the source gives a body."""

    name: str
    returns: str
    """The words before the name: `extern "C"`, templates and attributes included."""
    parameters: tuple[Parameter, ...]
    c_linkage: bool
    line: int
    start: int
    """Where its head starts in the source, `template <...>` included."""
    body: int
    """Index of the piece that opens its body."""
    close: int
    """Index of the piece that closes it."""
    end: int = 0
    """Where its body ends in the source."""
    namespaces: tuple[str, ...] = ()
    """Those that have names, then classes, from the outermost; none matters to extern "C"."""

    @property
    def template(self) -> tuple[tuple[str, str, str], ...]:
        """Kind, name and default of each template parameter: ("typename", "T", "")."""
        return template_parameters(self.returns)

    @property
    def type_parameters(self) -> tuple[str, ...]:
        return tuple(n for kind, n, _ in self.template if kind in ("typename", "class"))

    @property
    def is_method(self) -> bool:
        """Whether it is defined outside of its class: void Matrix::fill()."""
        return self.returns.endswith("::")

    @property
    def on_device(self) -> bool:
        return "__global__" in self.returns or "__device__" in self.returns


_ALONE = re.compile(r"^[ \t]*([A-Z]\w+)(?=[ \t]*(?://.*)?$)", re.MULTILINE)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:.*\\\n)*.*)", re.MULTILINE)
_SPACES = re.compile(r"(?:(?:inline )?namespace \w*(?: : : \w+)* ?\{|\}| )+")
_MOST_DEEP = 4


def readable(source: str) -> str:
    """The source with a blank before suffixes of the user's own, "..."_name: only our reader, which
    looks for functions and names, cannot do with these."""
    return _OWN_SUFFIX.sub(r"\1 \2", source)


def with_namespaces(source: str, headers: Iterable[str]) -> str:
    """The source with macros that open or close namespaces expanded, as the reader needs them."""
    alone = set(_ALONE.findall(source))
    bodies: dict[str, list[str]] = {}
    for text in (source, *headers) if alone else ():
        for name, body in _DEFINED.findall(text):
            bare = re.sub(r"/\*.*?\*/|//.*|\\\n", " ", body, flags=re.DOTALL)
            bodies.setdefault(name, re.findall(r"\w+|\S", bare))

    def expanded(name: str, deep: int = 0) -> str:
        words = bodies[name] if deep < _MOST_DEEP else []
        return " ".join(expanded(w, deep + 1) if w in bodies else w for w in words)

    spaces = {name: expanded(name) for name in alone & bodies.keys()}
    spaces = {name: text for name, text in spaces.items() if _SPACES.fullmatch(text)}
    return _ALONE.sub(lambda found: spaces.get(found[1], found[1]), source)


def pieces(source: str) -> list[Piece]:
    """All tokens with their places. Raises BadSource where it is no C++."""
    result: list[Piece] = []
    at = 0
    for token in tokens(source):
        if token.kind == "bad":
            raise BadSource(token.line, token.text)
        at = _skip(source, at)
        if token.kind == "directive":
            start, at = at, _skip(source, at + 1)
            length = len(token.text) if token.text != "#" else 0
            result.append(Piece(token, start, at + length))
        else:
            text = token.text
            if not source.startswith(text, at):
                text = _DIGRAPHS.get(text, text)
            result.append(Piece(token, at, _end(source, at, token, text)))
        at = result[-1].end
    return result


def _end(source: str, at: int, token: Token, text: str) -> int:
    """Where a token ends that begins here; lines may end in a backslash within it."""
    for letter in text:
        while spliced := _SPLICE.match(source, at):
            at = spliced.end()
        if not source.startswith(letter, at):
            raise BadSource(token.line, f"'{text}' is not where it was expected")
        at += 1
    return at


def _skip(source: str, at: int) -> int:
    between = _BETWEEN.match(source, at)
    return between.end() if between else at


def code(pieces: Sequence[Piece]) -> list[Piece]:
    """Without directives."""
    return [piece for piece in pieces if not piece.token.directive]


def macros_of(all_pieces: Sequence[Piece]) -> dict[str, list[str]]:
    """Tokens of each #define, without its name."""
    found: dict[str, list[str]] = {}
    name, fresh = "", False
    for piece in all_pieces:
        if piece.token.kind == "directive":
            name, fresh = "", piece.text == "define"
        elif piece.token.directive == "define":
            if fresh:
                name, fresh = piece.text, False
                found[name] = []
            else:
                found[name].append(piece.text)
    return found


def closing(pieces: Sequence[Piece], start: int) -> int:
    """Index of the bracket that closes the one at `start`; the last piece's if none does."""
    depth = 0
    for index in range(start, len(pieces)):
        if pieces[index].token.kind == "punct":
            depth += (pieces[index].text in _OPEN) - (pieces[index].text in _CLOSE)
        if depth == 0:
            return index
    return len(pieces) - 1


def template_parameters(head: str) -> tuple[tuple[str, str, str], ...]:
    """Kind, name and default of each template parameter in words such as "template < int N >"."""
    words = head.replace(">>>", "> > >").split()
    if words[:2] != ["template", "<"]:
        return ()
    parts, depth = [list[str]()], 1
    for word in words[2:]:
        depth += (word == "<") - (word == ">")
        if depth == 0:
            break
        if word == "," and depth == 1:
            parts.append([])
        else:
            parts[-1].append(word)
    found = (re.fullmatch(r"(.*?) ?(\w+)(?: = (.*))?", " ".join(part)) for part in parts)
    return tuple((m[1], m[2], m[3] or "") for m in found if m)


def functions(pieces: Sequence[Piece], classes: bool = False) -> list[Function]:
    """Functions defined at namespace level, in order, and those in `classes` if wanted; `pieces` is
    code without directives."""
    done: list[Function] = []
    index, head, c_blocks, spaces = 0, 0, [False], list[str]()
    while index < len(pieces):
        text = pieces[index].text
        if text == "{":
            head_words = [p.text for p in pieces[head:index]]
            name = class_name(head_words) if classes else ""
            if name or opens_scope(head_words):
                c_blocks.append(head_words[-2:] == ["extern", '"C"'] or c_blocks[-1])
                named = "".join(word for word in head_words if word not in ("extern", '"C"'))
                spaces.append(name or named.rpartition("namespace")[2])
                index, head = index + 1, index + 1
                continue
            if function := _function(pieces, head, index, c_blocks[-1], spaces):
                done.append(function)
            index = closing(pieces, index)
            if index + 1 < len(pieces) and pieces[index + 1].text != ";":
                head = index + 1
        elif text == "(":
            index = closing(pieces, index)
        elif text in (";", "}"):
            if text == "}" and len(c_blocks) > 1:
                c_blocks.pop()
                spaces.pop()
            head = index + 1
        elif text == ":" and pieces[index - 1].text in ("public", "private", "protected"):
            head = index + 1
        index += 1
    return done


def class_name(words: Sequence[str]) -> str:
    """The name of the class whose body follows these words; "" if none does."""
    found = re.search(r"(?<!< )(?<!, )\b(?:struct|class) (\w+)( final)?( :.*)?$", " ".join(words))
    return found[1] if found and "(" not in words else ""


def opens_scope(words: Sequence[str]) -> bool:
    """Whether a brace behind these words opens a namespace or an extern "C" block."""
    return "(" not in words and ("namespace" in words or words[-2:] == ["extern", '"C"'])


def _function(
    pieces: Sequence[Piece], head: int, body: int, in_c: bool, spaces: Sequence[str]
) -> Function | None:
    name = _name(pieces, head, body)
    if name is None:
        return None
    end = closing(pieces, name + 1)
    before = [p.text for p in pieces[head:name]]
    return Function(
        name=pieces[name].text,
        returns=" ".join(before),
        parameters=tuple(_parameters(pieces[name + 2 : end])),
        c_linkage=in_c or _has_linkage(before),
        line=pieces[name].token.line,
        start=pieces[head].start,
        body=body,
        close=closing(pieces, body),
        end=pieces[closing(pieces, body)].end,
        namespaces=tuple(name for name in spaces if name),
    )


def _name(pieces: Sequence[Piece], head: int, body: int) -> int | None:
    """Index of the name before the parameters; attributes and template heads are passed over."""
    index = head
    while index + 1 < body:
        text, followed = pieces[index].text, pieces[index + 1].text == "("
        if text == "template":
            index = _template_end(pieces, index + 1)
        elif followed and text in _ATTRIBUTES:
            index = closing(pieces, index + 1)
        elif followed and pieces[index].token.kind == "name" and text not in _NO_FUNCTIONS:
            return index
        index += 1
    return None


def _template_end(pieces: Sequence[Piece], start: int) -> int:
    depth = 0
    for index in range(start, len(pieces)):
        depth += (pieces[index].text == "<") - (pieces[index].text == ">")
        if depth <= 0:
            return index
    return len(pieces) - 1


def _has_linkage(before: Sequence[str]) -> bool:
    return ("extern", '"C"') in list(pairwise(before))


def _parameters(inner: Sequence[Piece]) -> Iterator[Parameter]:
    for part in split(inner):
        words = [p.text for p in part]
        default = ""
        if "=" in words:
            at = words.index("=")
            words, default = words[:at], "".join(words[at + 1 :])
        if words and words != ["void"]:
            named = len(words) > 1 and re.fullmatch(r"\w+", words[-1]) is not None
            yield Parameter(
                type=spaced(words[:-1] if named else words),
                name=words[-1] if named else "",
                default=default,
                line=part[0].token.line,
                end=part[-1].end,
            )


def split(inner: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The parts between commas that stand in no bracket, angle brackets included."""
    part: list[Piece] = []
    depth = 0
    for piece in inner:
        if piece.token.kind == "punct":
            depth += (piece.text in (*_OPEN, "<")) - (piece.text in (*_CLOSE, ">"))
        if piece.text == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(piece)
    if part:
        yield part


def spaced(words: Sequence[str]) -> str:
    """Words of a type: "const", "at", "::", "Tensor", "&" as "const at::Tensor &"."""
    return re.sub(r"\s*(::|<|>)\s*", r"\1", " ".join(words)).strip()
