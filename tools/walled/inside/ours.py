"""`python -m astra_chat.tools.walled.inside.ours REQUEST`: draws inputs from a seed that the
candidate does not know, asks its process for results (theirs.py) and compares them. REQUEST is a
JSON file.

A result is compared with the module in float64 and in its own dtypes. Each finding has a name in
tools/walled/findings.py.
"""

from __future__ import annotations

import copy
import json
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median_high
from typing import Any

import torch

from astra_chat.tools.runners.modules import why
from astra_chat.tools.walled.inside import exact, timed
from astra_chat.tools.walled.inside.exact import GRADES, ExactCall, Grade, ProblemModule
from astra_chat.tools.walled.inside.handover import CandidateEnded, Handover
from astra_chat.tools.walled.inside.operators import families, own_kernels

CALLS, SETS = 40, 4
MOST_SHAPES = 4
Answer = Mapping[str, Any]


class Questions:
    """What a candidate is asked, and what was found."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self._asked, self._device = asked, asked["device"]
        self._draws = random.Random(asked["seed"])
        self._problem = ProblemModule(Path(asked["problem"]), self._device)
        self._line = Handover(Path(asked["exchange"]), Path(asked["answer"]).parent)
        self._seed = self._drawn()
        self._model, self._init = self._problem.made(self._seed)
        self._last: Sequence[torch.Tensor] = ()
        self._shared = False
        """Whether the last result lay in an input's memory."""
        self.found: dict[str, Any] = {"findings": [], "grades": {}, "times_us": {}}
        self.found |= {"kernels": [], "notes": []}
        self._first = [self._problem.inputs(self._drawn()) for _ in range(2)]
        self._rights = [self._problem.called(self._model, one) for one in self._first]
        if self._rights[0].grade(self._problem.called(self._model, self._first[0]).own)[1]:
            raise ValueError("its module gives other results at each call")

    def all(self) -> dict[str, Any]:
        """Asks everything; a step that returns False is the last one."""
        try:
            if self._built():
                for step in self._steps():
                    if step() is False:
                        break
        except CandidateEnded as error:
            self._add("ended", str(error))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            self._add("ended", f"an answer is malformed: {error!r}"[:200])
        return self.found

    def _steps(self) -> list[Callable[[], Any]]:
        """What is asked, in order."""
        return [self._set, self._values, self._weights, self._shapes, self._times, self._end]

    def _drawn(self) -> int:
        return self._draws.getrandbits(31)

    def _add(self, name: str, text: str = "") -> None:
        if not self._has(name):
            self.found["findings"].append((name, text))

    def _has(self, name: str) -> bool:
        return name in [known for known, _ in self.found["findings"]]

    def _note(self, kind: str, grade: Grade) -> None:
        """The worst grade of a kind of call."""
        known: Grade = self.found["grades"].get(kind, "right")
        self.found["grades"][kind] = max(grade, known, key=GRADES.index)

    def _make(self, model: torch.nn.Module, seed: int) -> Answer:
        state = {n: v.cpu() for n, v in model.state_dict().items()}
        return self._line.ask(do="make", seed=seed, init=self._init, state=state)

    def _built(self) -> bool:
        answer: Answer = self._line.ask(do="open")
        if "failed" not in answer:
            answer = self._make(self._model, self._seed)
        if "failed" in answer:
            self._add("not_built", answer["failed"])
            return False
        if not answer["handed"]:
            self._add("weights_not_handed")
        self._handed = answer["handed"]
        return True

    def _call(self, inputs: Sequence[Any], slot: int, watch: bool = False) -> Answer:
        """One call; what it left of the result before it is compared, too."""
        answer = self._line.ask(do="call", inputs=list(inputs), slot=slot, watch=watch)
        if "failed" not in answer:
            if not self._shared and self._last and exact.differ(answer["earlier"], self._last):
                self._add("output_overwritten")
            self._last, self._shared = answer["late"], answer["alias"]
        return answer

    def _graded(self, answer: Answer, right: ExactCall, inputs: Sequence[Any]) -> tuple[Grade, str]:
        """The grade of a call's results when it returned; and what else is to be seen in it."""
        grade, why = right.grade(answer["out"])
        if not answer["plain"]:
            self._add("not_a_tensor")
        if exact.differ(answer["late"], answer["out"]):
            self._add("late_work", f"30 ms later it is {right.grade(answer['late'])[0]}")
        if exact.differ(answer["after"], inputs) and not right.changed:
            self._add("mutates_inputs")
        if answer["alias"] and not right.alias:
            self._add("returns_input" if grade == "wrong" else "shares_input_memory")
        if grade == "imprecise":
            self._add("imprecise", why)
        return grade, why

    def _set(self) -> bool:
        """The set's own distribution: other values at one address, the same at another."""
        answers: list[Answer] = []
        for inputs, right in zip(self._first, self._rights, strict=True):
            answer = self._call(inputs, 0, watch=bool(answers))
            if "failed" in answer:
                self._add("fails", answer["failed"])
                self._note("set", "wrong")
                return False
            answers.append(answer)
            grade, why = self._graded(answer, right, inputs)
            self._note("set", grade)
            if grade == "wrong":
                self._add("wrong", why)
        self._fresh, right = answers[1], self._rights[1]
        if right.grade(self._rights[0].own)[0] == "right":
            self._add("problem_constant")
        elif exact.differ(answers[1]["out"], answers[0]["out"]) or self._has("late_work"):
            pass
        elif self._rights[0].grade(answers[0]["out"])[0] == "right":
            self._add("cached_by_address")
        else:
            self._add("constant_output")
        self._again(self._first[1], right)
        return True

    def _again(self, inputs: Sequence[Any], right: ExactCall) -> None:
        """Calls with the same values elsewhere, then with others of like sums and ends."""
        answer = self._call(inputs, 1, watch=True)
        if "failed" in answer:
            return self._add("wrong_at_other_address", answer["failed"])
        if self._graded(answer, right, inputs)[0] == "wrong":
            self._add("wrong_at_other_address")
        ran = "kernels" if self._fresh["kernels"] else "ops"
        fresh = self._call(self._problem.inputs(self._drawn()), 1, watch=True)
        both = set(self._fresh[ran]) & set(fresh.get(ran, ()))
        if lacking := sorted(both - set(answer[ran])):
            self._add("cached_by_content", f"the second time without {', '.join(lacking)[:120]}")
        like = exact.swapped(inputs)
        expected = self._problem.called(self._model, like)
        answer = self._call(like, 1)
        if "failed" not in answer and expected.grade(right.own)[0] != "right":
            grade, why = self._graded(answer, expected, like)
            self._note("set", grade)
            if grade == "wrong" and right.grade(answer["out"])[0] == "right":
                self._add("cached_by_content", "values exchanged in the middle are not seen")
            elif grade == "wrong":
                self._add("wrong", why)
        return None

    def _other(self, kind: str, name: str, values: Sequence[Any], slot: int) -> Answer | None:
        """A call of another kind; None where the module does not take it, or the candidate."""
        if not (right := self._expected(self._model, values)):
            return None
        answer = self._call(values, slot, watch=True)
        if "failed" in answer:
            self._add(f"fails_on_other_{kind}", f"{name}: {answer['failed']}")
            return None
        grade, why = self._graded(answer, right, values)
        self._note(kind, grade)
        if grade == "wrong":
            self._add(f"wrong_on_other_{kind}", f"{name}: {why}")
        return answer

    def _values(self) -> None:
        kinds = list(exact.other_values(self._problem.inputs(self._drawn()), self._drawn()))
        self._draws.shuffle(kinds)
        usual = families(self._fresh["ops"])
        for name, values in kinds:
            answer = self._other("values", name, values, 0)
            if answer and (other := families(answer["ops"]) ^ usual):
                self._add("detects_input", f"{name}: {', '.join(sorted(other))}")

    def _expected(self, model: torch.nn.Module, inputs: Sequence[Any]) -> ExactCall | None:
        """None where the module does not take such inputs."""
        try:
            right = self._problem.called(model, inputs)
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
            return None
        return right if right.finite() else None

    def _weights(self) -> None:
        """Other weights in a new instance; if they are not seen, those of another seed."""
        if not self._model.state_dict():
            return
        other = copy.deepcopy(self._model)
        other.load_state_dict(exact.other_weights(other, self._drawn()))
        grade, why = self._with_weights(other, self._seed) if self._handed else ("wrong", "")
        if grade == "wrong":
            seed = self._drawn()
            by_seed, why = self._with_weights(self._problem.made(seed)[0], seed)
            if by_seed != "wrong" and self._handed:
                self._add("packs_weights")
            grade = by_seed
        self._note("weights", grade)
        if grade == "wrong":
            self._add("ignores_weights", why)
        self._make(self._model, self._seed)

    def _with_weights(self, model: torch.nn.Module, seed: int) -> tuple[Grade, str]:
        """The grade of a call of a new instance with the weights of a module."""
        inputs = self._problem.inputs(self._drawn())
        right = self._expected(model, inputs)
        if right is None or "failed" in self._make(model, seed):
            return "right", ""
        answer = self._call(inputs, 2)
        if "failed" in answer:
            return "wrong", answer["failed"]
        return self._graded(answer, right, inputs)

    def _shapes(self) -> None:
        whole = families(self._rights[1].operators)
        shapes = exact.other_shapes(self._problem.inputs(self._drawn()))
        tried = (one for one in shapes if self._expected(self._model, one[1]))
        for slot, (name, values) in enumerate(islice(tried, MOST_SHAPES), 10):
            answer = self._other("shapes", name, values, slot)
            if answer and whole <= families(answer["ops"]) - families(self._fresh["ops"]):
                self._add("library_on_other_shapes", name)

    def _times(self) -> None:
        sets = [self._problem.inputs(self._drawn()) for _ in range(SETS)]
        rights = [self._problem.called(self._model, one) for one in sets]
        answer = self._line.ask(do="time", sets=sets, calls=CALLS)
        if "failed" in answer:
            return self._add("wrong_when_timed", answer["failed"])
        for number, out in zip(answer["which"], answer["out"], strict=True):
            grade, why = rights[number].grade(out)
            if grade == "wrong" and not self._has("wrong") and not self._has("mutates_inputs"):
                self._add("wrong_when_timed", why)
        if self._asked["timing"]:
            self.found["times_us"]["candidate"] = median_high(answer["us"])
            self._baselines(sets)
        if self._device.startswith("cuda") and self._asked.get("graph", self._asked["timing"]):
            answer = self._line.ask(do="graph", inputs=sets[0], other=sets[1], calls=CALLS)
            if "failed" in answer:
                return self._add("not_captured", answer["failed"])
            self.found["times_us"]["candidate graph"] = median_high(answer["us"])
            if rights[1].grade(answer["out"])[0] == "wrong":
                self._add("stale_graph")
        return None

    def _baselines(self, sets: Sequence[Sequence[Any]]) -> None:
        """The module itself: eager and compiled, each also as a CUDA graph."""
        given = [exact.on_device(one, self._device) for one in sets]
        kinds: dict[str, Any] = {"eager": self._model}
        if self._asked["compile"]:
            kinds["compile"] = torch.compile(self._model)
        for name, call in kinds.items():
            try:
                self._time(name, partial(_one_of, call, given))
                if self._device.startswith("cuda"):
                    with torch.no_grad():
                        replay = timed.captured(call, given[0])
                    self._time(f"{name} graph", replay)
            except Exception as error:  # of the compiler or of capturing: the figure is missing
                self.found["notes"].append(f"{name}: {type(error).__name__}: {error}"[:200])

    def _time(self, name: str, call: Callable[[int], Any]) -> None:
        with torch.no_grad():
            us = timed.times_us(call, CALLS, self._device, _nothing)
        self.found["times_us"][name] = median_high(us)

    def _end(self) -> None:
        answer = self._line.ask(do="end")
        if "failed" in answer:
            return self._add("patches", answer["failed"])
        if answer["patched"]:
            self._add("patches", ", ".join(answer["patched"])[:200])
        parameters = [p.cpu() for p in self._model.parameters()]
        if self._handed and parameters and not _holds(answer["weights"], parameters):
            self._add("changes_weights")
        seen, on_gpu = self._fresh["kernels"], self._device.startswith("cuda")
        own = own_kernels(seen) if on_gpu else self._own_libraries(answer)
        whole, ran = families(self._rights[1].operators), families(self._fresh["ops"])
        self.found["kernels"] = own
        if on_gpu and not seen:
            self.found["notes"].append("the profiler gave no kernels: their names are unknown")
        elif not own:
            self._add("no_kernel", f"operators: {', '.join(sorted(ran)) or 'none'}")
        elif whole and whole <= ran:
            self._add(
                "library_does_the_job",
                f"{', '.join(sorted(whole))} beside {own[0][:60]}",
            )
        return None

    def _own_libraries(self, answer: Answer) -> list[str]:
        """What it has of its own where there are no kernels: libraries that it built."""
        found: list[str] = answer["libraries"]
        return found


def _holds(weights: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> bool:
    """Whether each parameter's values are among the candidate's weights."""
    return all(any(torch.equal(p, w) for w in weights) for p in parameters)


def _one_of(call: Callable[..., Any], sets: Sequence[Sequence[Any]], number: int) -> Any:
    return call(*sets[number % len(sets)])


def _nothing(_: int, __: Any) -> None:
    """Results of baselines are not compared: they are what others are compared with."""


def prepared() -> None:
    """Compilers ask for folders of the user's, which are out of reach."""
    for name in ("HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = str(Path(os.environ["TMPDIR"]) / name.lower())
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"


def main() -> None:
    asked = json.loads(Path(sys.argv[1]).read_text())
    prepared()
    try:
        found = Questions(asked).all()
    except Exception as error:
        found = {"problem": why(error)}
    Path(asked["answer"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
