"""Entropy: the one source of everything that the judge draws at random.

A root of 128 bits is given (`--seed`, or the variable ASTRA_SEED) or else asked of the operating
system, and nothing else in tools/ asks there. Everything drawn derives from the root by keyed
BLAKE2b, which cannot be computed backwards: from a seed follow the seeds below it, but neither
those beside it nor the root. Processes get their seeds from the judge and never draw their own.

An evaluation's seed may be shown while a run continues: it reproduces this evaluation
(`astra-chat check --seed`) and says nothing of later ones. The root, which gives all of them away,
is shown when the run has ended.
"""

from __future__ import annotations

import os
import random
import re
import threading
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b

from astra_vgpu.ground.errors import BadInput

VARIABLE = "ASTRA_SEED"
"""The root where none is given: makes a whole test suite or script reproducible."""
ROOT_BYTES, CASES_BYTES, EVALUATION_BYTES = 16, 6, 8
ROOT = re.compile(r"[0-9a-f]{1,32}")
EVALUATION = re.compile(rf"[0-9a-f]{{{2 * CASES_BYTES}}}-[0-9a-f]{{{2 * EVALUATION_BYTES}}}")


@dataclass(frozen=True)
class Seed:
    """A seed for one purpose, and the root of the seeds below it."""

    text: str = ""

    def of(self, *purpose: object) -> Seed:
        """The seed below this one for a purpose; it does not give this one away."""
        return Seed(_derived(self.text, purpose, ROOT_BYTES))

    def random(self) -> random.Random:
        """A generator that starts from this seed."""
        return random.Random(self.text)

    def bits(self, count: int) -> int:
        """An integer of at most so many bits, at most 128."""
        return int(_derived(self.text, ("bits",), ROOT_BYTES), 16) & ((1 << count) - 1)


NO_SEED = Seed()
"""Where nothing is drawn."""


class Entropy:
    """The root of a judge's seeds. Safe to use from several threads."""

    def __init__(self, seed: str | None = None) -> None:
        """`seed`: up to 32 hex digits, or an evaluation's seed, which makes the next evaluation
        that one again. None: ASTRA_SEED, else 128 bits of the operating system's.

        Raises BadInput where it is neither.
        """
        text = seed or os.environ.get(VARIABLE) or os.urandom(ROOT_BYTES).hex()
        text = text.strip().lower()
        self._again = text if EVALUATION.fullmatch(text) else None
        if self._again is None and not ROOT.fullmatch(text):
            raise BadInput(
                f"'{text}' is not a seed: use up to 32 hex digits, or an evaluation's"
                " seed as printed (12 hex digits, '-', 16 hex digits)"
            )
        self.root = text if self._again else text.zfill(2 * ROOT_BYTES)
        cases = _derived(self.root, ("cases",), CASES_BYTES)
        self._cases = self._again.split("-")[0] if self._again else cases
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def after(self, evaluations: int) -> Entropy:
        """That of a session which continues a run after so many evaluations: with a root that was
        given again, none of them is made on the same seed once more."""
        return Entropy(Seed(self.root).of("after", evaluations).text) if evaluations else self

    def again(self, seed: str) -> None:
        """Make the next evaluation this one again, and draw what follows as an Entropy of this seed
        does. Raises BadInput where it is no seed of an evaluation on the same cases."""
        if not EVALUATION.fullmatch(seed) or seed.split("-")[0] != self._cases:
            raise BadInput(f"'{seed}' is not the seed of an evaluation on the cases {self._cases}")
        with self._lock:
            self.root = self._again = seed
            self._counts.clear()

    @property
    def cases(self) -> Seed:
        """What all evaluations of a judge share: the seeds of the task's own cases. Each
        evaluation's seed begins with it."""
        return Seed(self._cases)

    def evaluation(self, candidate: str) -> Seed:
        """The seed of the next evaluation of this candidate: it depends on how many of this
        candidate came before, not on what else was evaluated."""
        with self._lock:
            number, self._counts[candidate] = self._counts[candidate], self._counts[candidate] + 1
            again, self._again = self._again, None
        return Seed(again) if again else self._own("evaluation", candidate, number)

    def timing(self, candidate: str) -> Seed:
        """The seed of the next timing of this candidate that leads to no verdict: evaluations keep
        theirs, whatever was timed before."""
        with self._lock:
            name = f"timing {candidate}"
            number, self._counts[name] = self._counts[name], self._counts[name] + 1
        return self._own("timing", candidate, number)

    def _own(self, *purpose: object) -> Seed:
        return Seed(f"{self._cases}-{_derived(self.root, purpose, EVALUATION_BYTES)}")


def nonce() -> str:
    """128 bits in hex that nobody can foresee and that decide nothing: for marks in a protocol."""
    return os.urandom(ROOT_BYTES).hex()


def _derived(key: str, purpose: tuple[object, ...], size: int) -> str:
    """Hex digits of keyed BLAKE2b over the parts of a purpose."""
    parts = "\0".join(map(str, purpose))
    return blake2b(parts.encode(), digest_size=size, key=key.encode()).hexdigest()
