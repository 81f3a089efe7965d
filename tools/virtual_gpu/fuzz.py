"""Mutated PTX against the parser and both translators: a refusal in words, or a program; no crash.

`python -m astra_chat.tools.virtual_gpu fuzz FILE.ptx ... --count N`
"""

from __future__ import annotations

import random
import re
import signal
import subprocess
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from astra_chat.tools.errors import BadInput
from astra_chat.tools.toolkit import find_toolkit
from astra_chat.tools.virtual_gpu import c_engine
from astra_chat.tools.virtual_gpu.lexer import PtxSyntaxError
from astra_chat.tools.virtual_gpu.ptx import parse
from astra_chat.tools.virtual_gpu.types import PtxUnsupported

LIMIT_S = 10.0
"""A text that takes longer counts as a hang."""
_WORD = re.compile(r"[\w.%$:]+|[^\w\s]")
_NUMBERS = ("0", "1", "-1", "31", "32", "4294967295", "9223372036854775808", "0f7FC00000")


class Hang(Exception):
    """A text took longer than LIMIT_S."""


def mutated(text: str, generator: random.Random) -> str:
    """The text with one to three of its words dropped, doubled, exchanged or replaced."""
    for _ in range(generator.randint(1, 3)):
        words = [found.span() for found in _WORD.finditer(text)]
        if not words:
            return text
        start, end = generator.choice(words)
        other = generator.choice(words)
        new = {
            0: "",
            1: text[start:end] * 2,
            2: text[slice(*other)],
            3: generator.choice(_NUMBERS),
            4: _with_other_part(text[start:end], text[slice(*other)], generator),
            5: chr(generator.randint(1, 0x2FF)),
        }[generator.randint(0, 5)]
        text = text[:start] + new + text[end:]
    return text


def _with_other_part(word: str, donor: str, generator: random.Random) -> str:
    """An opcode with a modifier of another."""
    parts, donated = word.split("."), donor.split(".")
    parts[generator.randrange(len(parts))] = generator.choice(donated)
    return ".".join(parts)


def attempt(text: str) -> str:
    """What becomes of a text: not_ptx, unsupported or accepted. Any other exception is a bug."""
    try:
        module = parse(text)
    except PtxSyntaxError:
        return "not_ptx"
    try:
        for kernel in module.kernels:
            c_engine.translate(module, kernel)
    except PtxUnsupported:
        return "unsupported"
    return "accepted"


def fuzz(files: Sequence[Path], count: int, seed: int, ptxas: int) -> int:
    """Tries `count` mutations, prints what became of them; the number of crashes and hangs.

    Up to `ptxas` of the accepted ones are given to ptxas too. Raises BadInput without a file.
    """
    corpus = _corpus(files)
    generator, found = random.Random(seed), Counter[str]()
    accepted: list[str] = []
    began = time.monotonic()
    for _ in range(count):
        text = mutated(generator.choice(corpus), generator)
        try:
            with _limited():
                outcome = attempt(text)
        except Hang:
            outcome = "hang"
        except Exception as error:
            outcome = f"crash: {_place(error)}"
        found[outcome] += 1
        if outcome == "accepted" and len(accepted) < ptxas:
            accepted.append(text)
    for outcome, number in found.most_common():
        print(f"{number:8d} {outcome}")
    print(f"{count} texts, seed {seed}, {time.monotonic() - began:.0f} s")
    if accepted:
        agreed = sum(_ptxas_takes(text) for text in accepted)
        print(f"ptxas takes {agreed} of {len(accepted)} accepted texts")
    return sum(n for outcome, n in found.items() if outcome.startswith(("crash", "hang")))


def _corpus(files: Sequence[Path]) -> list[str]:
    try:
        return [path.read_text() for path in files]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"no PTX to mutate: {error}") from None


def _place(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno} {error}"[:160]


@contextmanager
def _limited() -> Iterator[None]:
    def late(_: int, __: FrameType | None) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _ptxas_takes(text: str) -> bool:
    tool = find_toolkit().nvcc.parent / "ptxas"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.ptx"
        path.write_text(text)
        command = [str(tool), "-arch=sm_90", "-O0", "-o", str(path.with_suffix(".o")), str(path)]
        return not subprocess.run(command, capture_output=True, check=False).returncode
