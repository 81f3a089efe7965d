"""Progress messages of the judge for the live view."""

from __future__ import annotations

from dataclasses import dataclass, field

from astra_chat.tools.types import StepName, Value

ORACLE = "computing inputs and expected results"
"""What is done while these are made, as text."""


class Progress(Value):
    """Sent while the judge works, for the live view; never part of a verdict."""

    step: StepName
    done: int
    total: int
    text: str
    remark: str = ""
    """What is known before the verdict; to be shown until it comes."""

    @property
    def line(self) -> str:
        """ "check, 31 of 58: comparing the candidate with the oracle"."""
        counted = f", {self.done} of {self.total}" if self.total > 1 else ""
        return f"{self.step}{counted}: {self.text}"


@dataclass
class StepCount:
    """Counts a step that counts each of its phases from the beginning, so that what is shown of it
    never goes back."""

    _shown: int = 0
    _total: int = 0
    _before: int = 0
    """What had been shown when this phase began."""
    _phase: str = ""
    _first: int = 0
    """What the phase had counted before it was continued."""
    _done: dict[str, int] = field(default_factory=dict)
    """What each phase has counted."""

    def shown(self, done: int, total: int, phase: str) -> tuple[int, int]:
        """Returns what is done and the total, over this phase and those before it."""
        known = self._done.get(phase, 0)
        if phase != self._phase or done < known:
            self._phase, self._before = phase, self._shown
            self._first = known if done > known else 0
        self._done[phase] = done
        self._shown = max(self._shown, self._before + done - self._first)
        self._total = max(self._total, self._before + total - self._first)
        return self._shown, self._total
