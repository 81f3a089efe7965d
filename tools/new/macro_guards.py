"""Macros that a project's build defines, found by what is missing without them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from astra_chat.tools.new.project import Project

_MISSED = re.compile(r'has no member "(\w+)"|identifier "(\w+)" is undefined')
_DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b\s*(.*)")
_MACRO = re.compile(r"(?:!?\s*defined\s*\(?\s*)?([A-Za-z_]\w*)\)?\s*(?://.*|/\*.*)?")


@dataclass(frozen=True)
class Guard:
    """A macro without which a name is not there."""

    name: str
    macro: str
    file: str

    @property
    def hint(self) -> str:
        """The message for the user."""
        return (
            f"{self.name} is defined under #ifdef {self.macro} in {self.file}: your project's build"
            f" probably defines that macro; here, use -D {self.macro}"
        )


def guarding_macro(notes: Sequence[str], project: Project) -> Guard | None:
    """The macro under which the first name that notes of a build miss is defined, if none of the
    project's files and no -D defines it."""
    texts = {"the file": project.source, **project.headers}
    given = {flag.removeprefix("-D").partition("=")[0] for flag in project.defines}
    for found in _MISSED.finditer("\n".join(notes)):
        name = found[1] or found[2]
        for file, text in texts.items():
            for macro in _guards(name, text):
                made = re.compile(rf"#\s*define\s+{macro}\b")
                if macro not in given and not any(map(made.search, texts.values())):
                    return Guard(name, macro, file)
    return None


_OF_DTYPES = re.compile(
    r"(?=\w*(?:ENABLE|AVAILABLE|SUPPORT|HAS|HAVE|USE|WITH))\w*(?:HALF|B?F(?:LOAT|P)?16|E4M3|E5M2|FP8|CUDA$)\w*"
)
"""Names of macros with which a project's build includes an element type, or CUDA."""
_OTHER_PLATFORM = re.compile(r"ROCM|HIP|AMD|MUSA|XPU|CPU|FNUZ")


def dtype_macros(project: Project) -> tuple[str, ...]:
    """Macros for element types and for CUDA that files test, and neither they nor a -D define."""
    texts = [project.source, *project.headers.values()]
    defined = {flag.removeprefix("-D").partition("=")[0] for flag in project.defines}
    tested = list[str]()
    for line in (line for text in texts for line in text.splitlines()):
        directive = _DIRECTIVE.match(line)
        if directive and directive[1] in ("if", "ifdef", "elif"):
            tested += re.findall(r"(?<!!)\bdefined\s*\(?\s*(\w+)", directive[2])
            tested += [directive[2].split()[0]] if directive[1] == "ifdef" else []
        elif made := re.match(r"\s*#\s*define\s+(\w+)", line):
            defined.add(made[1])
    named = (n for n in dict.fromkeys(tested) if n not in defined and n.isupper())
    return tuple(n for n in named if _OF_DTYPES.fullmatch(n) and not _OTHER_PLATFORM.search(n))


def dtype_hint(macros: Sequence[str]) -> str:
    """The message for the user."""
    flags = " ".join(f"-D {name}" for name in macros)
    return f"your project's build likely defines macros that its files test, as {flags} does here"


def _guards(name: str, text: str) -> Iterator[str]:
    """Macros that have to be defined where a text defines a name, the innermost first."""
    defines = re.compile(rf"\b{name}\s*\(|\b(struct|class|enum|using)\s+{name}\b")
    open_: list[str] = []
    for line in text.splitlines():
        if directive := _DIRECTIVE.match(line):
            kind, macro = directive[1], _MACRO.fullmatch(directive[2])
            if kind in ("if", "ifdef", "ifndef"):
                positive = macro and kind != "ifndef" and "!" not in directive[2]
                open_.append(macro[1] if macro and positive else "")
            elif open_ and kind == "endif":
                open_.pop()
            elif open_:
                open_[-1] = ""
        elif defines.search(line):
            yield from (macro for macro in reversed(open_) if macro)
