"""Fuzzer: mutated PTX against the parser and both translators, which must not crash.

`python -m lab.virtual_gpu fuzz FILE.ptx ... --count N`
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from astra_vgpu import c_engine
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.toolkit import find_toolkit
from astra_vgpu.ptx.lexer import PtxSyntaxError
from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import PtxUnsupported

LIMIT_S = 10.0
"""A text that takes longer counts as a hang."""
PTXAS_LIMIT_S = 60.0
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"\s+|[\w.%$:]+|[^\w\s]")
_FUNCTION = re.compile(r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b", re.MULTILINE)
_TAIL = re.compile(r"^[ \t]*\.(?:file|section)\b", re.MULTILINE)
"""What stands behind all functions: files and names of the lines in them."""
_NUMBERS = ("0", "1", "-1", "31", "32", "4294967295", "9223372036854775808", "0f7FC00000")
Words = list[str]


class Hang(Exception):
    """A text took longer than LIMIT_S."""


def pieces(text: str) -> list[str]:
    """Texts of one kernel each, with what it needs of the module: they are tried faster. Comments
    go: they are no part of PTX to mutate."""
    plain = _COMMENT.sub("", text)
    starts = [match.start() for match in _FUNCTION.finditer(plain)]
    if not starts:
        return [plain]
    tail = _TAIL.search(plain, starts[-1])
    head, end = plain[: starts[0]], tail.start() if tail else len(plain)
    parts = [plain[a:b] for a, b in zip(starts, [*starts[1:], end], strict=True)]
    functions = {_name(part): part for part in parts if ".entry" not in part.partition("(")[0]}
    kernels = [part for part in parts if part not in functions.values()]
    needed = ["".join(_needed(kernel, functions)) for kernel in kernels]
    whole = [head + few + k + plain[end:] for few, k in zip(needed, kernels, strict=True)]
    return whole or [plain]


def _name(function: str) -> str:
    """Behind what it returns."""
    start = function.partition(".func")[2].lstrip()
    if start.startswith("("):
        start = start.partition(")")[2].lstrip()
    return (re.match(r"[\w$]+", start) or [""])[0]


def _needed(kernel: str, functions: dict[str, str]) -> list[str]:
    named: list[str] = []
    texts = [kernel]
    for text in texts:
        for name, function in functions.items():
            if name in text and name not in named:
                named.append(name)
                texts.append(function)
    return [function for name, function in functions.items() if name in named]


def word_list(text: str) -> Words:
    """Words, with the blanks between them."""
    return _WORD.findall(text)


def mutated(text: Words, generator: random.Random) -> str:
    """The text with one to three of its words dropped, doubled, exchanged or replaced."""
    words = list(text)
    places = [place for place, word in enumerate(words) if not word.isspace()]
    for _ in range(generator.randint(1, 3) if places else 0):
        place = generator.choice(places)
        word, other = words[place], words[generator.choice(places)]
        words[place] = {
            0: "",
            1: word * 2,
            2: other,
            3: generator.choice(_NUMBERS),
            4: _with_other_part(word, other, generator),
            5: chr(generator.randint(1, 0x2FF)),
        }[generator.randint(0, 5)]
    return "".join(words)


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


def fuzz(files: Sequence[Path], count: int, seed: int, ptxas: int, refused: int = 0) -> int:
    """Tries `count` mutations, prints what became of them; the number of crashes and hangs.

    Up to `ptxas` of the accepted ones are given to ptxas too, and why it refuses is counted; so are
    up to `refused` of those that are no PTX here, of which it should take none. Raises BadInput
    without a file.
    """
    corpus = [word_list(piece) for text in _read(files) for piece in pieces(text)]
    originals = {"".join(words) for words in corpus}
    generator, outcomes = random.Random(seed), Counter[str]()
    accepted: list[str] = []
    no_ptx: list[str] = []
    began = time.monotonic()
    for _ in range(count):
        text = mutated(generator.choice(corpus), generator)
        outcome = _outcome(text)
        outcomes[outcome] += 1
        if outcome == "accepted" and len(accepted) < ptxas and text not in originals:
            accepted.append(text)
        if outcome == "not_ptx" and len(no_ptx) < refused:
            no_ptx.append(text)
    for outcome, number in outcomes.most_common():
        print(f"{number:8d} {outcome}")
    print(f"{count} texts, seed {seed}, {time.monotonic() - began:.0f} s")
    if accepted:
        reasons = _ask_ptxas(accepted)
        print(f"ptxas takes {reasons.pop('', 0)} of {len(accepted)} accepted texts")
        for why, number in reasons.most_common():
            print(f"{number:8d} {why}")
    if no_ptx:
        print(
            f"ptxas takes {_ask_ptxas(no_ptx)['']} of {len(no_ptx)} texts that are rejected as"
            " PTX here"
        )
    return sum(n for outcome, n in outcomes.items() if outcome.startswith(("crash", "hang")))


def _outcome(text: str) -> str:
    try:
        with _limited():
            return attempt(text)
    except Hang:
        return "hang"
    except Exception as error:
        return f"crash: {_place(error)}"


def _ask_ptxas(texts: list[str]) -> Counter[str]:
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return Counter(pool.map(_ptxas_says, texts))


def _read(files: Sequence[Path]) -> list[str]:
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


def _ptxas_says(text: str) -> str:
    """Its first complaint; empty where it takes the text."""
    tool = find_toolkit().nvcc.parent / "ptxas"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.ptx"
        path.write_text(text)
        command = [
            str(tool),
            f"-arch={_architecture(text)}",
            "-O0",
            "-o",
            str(path.with_suffix(".o")),
            str(path),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PTXAS_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return "no end"
    if not done.returncode:
        return ""
    output = (done.stderr + done.stdout).splitlines()
    lines = [line for line in output if line.strip() and " warning " not in line]
    return _NAMED.sub("'...'", lines[0].partition(";")[2].strip() or lines[0]) if lines else "died"


def _architecture(text: str) -> str:
    """sm_90, or what the text is for where that is newer."""
    target = _TARGET.search(text)
    newer = target is not None and (int(target[1]) > _OLDEST or bool(target[2]))
    return f"sm_{target[1]}{target[2]}" if newer and target else f"sm_{_OLDEST}"


_TARGET, _OLDEST = re.compile(r"\bsm_(\d+)([af]?)"), 90
_NAMED = re.compile(r"'[^']*'")
