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
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median_high
from typing import Any

import torch

from astra_chat.tools.runners.modules import why
from astra_chat.tools.system.gpu_lock import lease
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.walled.inside import exact, timed
from astra_chat.tools.walled.inside.exact import GRADES, ExactCall, Grade, ProblemModule
from astra_chat.tools.walled.inside.handover import CandidateEnded, Handover
from astra_chat.tools.walled.inside.operators import counted, families, own_kernels

CALLS, SETS = 40, 4
MOST_SHAPES = 4
BASELINES = "timing the module"
STEPS = {
    "_values": "calls of other values",
    "_weights": "calls with other weights",
    "_kernels": "its kernels",
    "_sizes": "calls of the set's other sizes",
    "_times": "timing",
    "_end": "the end",
    "_eager": BASELINES,
    "_graph": "timing its calls as a graph",
    "_shapes": "calls of other shapes",
    "_by_compiler": f"{BASELINES} by torch.compile",
}
NOT_FINISHED = "not finished in"
"""How the end of a candidate's process begins that ran into its limit."""
Answer = Mapping[str, Any]


class Questions:
    """What a candidate is asked, and what was found."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self._asked, self._device = asked, asked["device"]
        self.found: dict[str, Any] = {"findings": [], "grades": {}, "times_us": {}}
        self.found |= {"kernels": [], "notes": []}
        self._draws = random.Random(asked["seed"])
        self._problem = ProblemModule(Path(asked["problem"]), self._device)
        self._line = Handover(Path(asked["exchange"]), Path(asked["answer"]).parent)
        self._lock = asked.get("turns")
        self._begun("loading the problem")
        self._seed = self._drawn()
        self._model, self._init = self._problem.made(self._seed)
        self._called, self._shared = False, False
        """Whether the last result lay in an input's memory."""
        self._first = [self._problem.inputs(self._drawn()) for _ in range(2)]
        self._sets = [self._problem.inputs(self._drawn()) for _ in range(SETS)]
        with self._on_gpu():
            self._rights = [self._problem.called(self._model, one) for one in self._first]
            again = self._problem.called(self._model, self._first[0])
        if self._rights[0].grade(again.own)[1]:
            raise ValueError("its module returns different results on each call")

    def all(self) -> dict[str, Any]:
        """Asks everything; a step that returns False is the last one."""
        try:
            self._begun("building and its first calls")
            if self._built():
                for step in self._steps():
                    self._begun(STEPS.get(getattr(step, "__name__", ""), "its first calls"))
                    if step() is False:
                        break
        except CandidateEnded as error:
            self._add("ended", str(error))
            if str(error).startswith(NOT_FINISHED):
                self.found["unfinished"] += f": {error}"
                return self.found
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            self._add("ended", f"an answer is malformed: {error!r}"[:200])
        del self.found["unfinished"]
        return self.found

    def _steps(self) -> list[Callable[[], Any]]:
        """What is asked, in order. An error of a kernel ends all later calls: what weighs least
        comes last."""
        first: list[Callable[[], Any]] = [self._set, self._values, self._weights, self._kernels]
        timed: list[Callable[[], Any]] = [self._sizes, self._times, self._end, self._eager]
        return [*first, *timed, self._graph, self._shapes, self._by_compiler]

    def _begun(self, step: str) -> None:
        """What is known so far is kept, and that this step did not end."""
        self.found["unfinished"] = step
        put(Path(self._asked["answer"]), self.found)

    @contextmanager
    def _on_gpu(self, alone: bool = False) -> Iterator[None]:
        """Processes that share a GPU take turns: a measurement has it alone."""
        if self._lock is None:
            yield
            return
        with lease("walled", "", alone, Stop(), folder=Path(self._lock)):
            yield
            if self._device.startswith("cuda"):
                torch.cuda.synchronize()

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
            self._add("needs_more" if answer.get("needs") else "not_built", answer["failed"])
            return False
        if not answer["handed"]:
            self._add("weights_not_handed")
        self._handed = answer["handed"]
        return True

    def _call(self, inputs: Sequence[Any], slot: int, watch: bool = False) -> Answer:
        """One call; whether it left the result before it alone is asked, too."""
        # The first one may compile for minutes.
        with self._on_gpu() if self._called else nullcontext():
            answer = self._line.ask(do="call", inputs=list(inputs), slot=slot, watch=watch)
        self._called = True
        if "failed" not in answer:
            if not self._shared and answer["earlier"] is not None:
                self._add("output_overwritten")
            self._shared = answer["alias"]
        return answer

    def _graded(self, answer: Answer, right: ExactCall, inputs: Sequence[Any]) -> tuple[Grade, str]:
        """The grade of a call's results when it returned; and what else is to be seen in it."""
        grade, why = right.grade(answer["out"])
        if not answer["plain"]:
            self._add("not_a_tensor")
        if answer["late"] is not None:
            self._add("late_work", f"30 ms later it is {right.grade(answer['late'])[0]}")
        if answer["after"] is not None and not right.changed:
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
                self._add("needs_more" if answer.get("needs") else "fails", answer["failed"])
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
        with self._on_gpu():
            expected = self._problem.called(self._model, like)
        answer = self._call(like, 1)
        if "failed" not in answer and expected.grade(right.own)[0] != "right":
            grade, why = self._graded(answer, expected, like)
            self._note("set", grade)
            if grade == "wrong" and right.grade(answer["out"])[0] == "right":
                self._add("cached_by_content", "it ignores values that change in the middle")
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
        usual_values = self._problem.inputs(self._drawn())
        kinds = list(self._problem.other_values(usual_values, self._drawn()))
        self._draws.shuffle(kinds)
        usual = families(self._fresh["ops"])
        for name, values in kinds:
            answer = self._other("values", name, values, 0)
            if answer and (other := families(answer["ops"]) ^ usual):
                self._add("detects_input", f"{name}: {', '.join(sorted(other))}")

    def _expected(self, model: torch.nn.Module, inputs: Sequence[Any]) -> ExactCall | None:
        """None where the module does not take such inputs, or is not right itself."""
        try:
            with self._on_gpu():
                right = self._problem.called(model, inputs)
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):
            return None
        return right if right.finite() and right.agrees() else None

    def _weights(self) -> None:
        """Other weights in a new instance; if they are not seen, those of another seed."""
        if not self._model.state_dict():
            return
        other = copy.deepcopy(self._model)
        drawn = self._problem.made(self._drawn())[0].state_dict()
        other.load_state_dict(exact.other_weights(other, self._drawn(), drawn))
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

    def _sizes(self) -> bool:
        """Other sizes that the problem's authors check with, each with a new instance; whether
        none raises an error, which may end all later calls."""
        init = self._init
        for size in self._problem.sizes:
            self._problem.use(size)
            seed = self._drawn()
            model, self._init = self._problem.made(seed)
            inputs = self._problem.inputs(self._drawn())
            if right := self._expected(model, inputs):
                answer = self._make(model, seed)
                answer = answer if "failed" in answer else self._call(inputs, 3)
                if "failed" in answer:
                    self._add("fails_on_its_sizes", f"{size}: {answer['failed']}")
                    return False
                grade, why = self._graded(answer, right, inputs)
                self._note("shapes", grade)
                if grade == "wrong":
                    self._add("wrong_on_its_sizes", f"{size}: {why}")
        if self._problem.sizes:
            self._init = init
            self._make(self._model, self._seed)
        return True

    def _shapes(self) -> None:
        if self._problem.sizes:
            return
        whole = families(self._rights[1].operators)
        shapes = exact.other_shapes(self._problem.inputs(self._drawn()))
        tried = (one for one in shapes if self._expected(self._model, one[1]))
        for slot, (name, values) in enumerate(islice(tried, MOST_SHAPES), 10):
            answer = self._other("shapes", name, values, slot)
            if answer and whole <= families(answer["ops"]) - families(self._fresh["ops"]):
                self._add("library_on_other_shapes", name)

    def _times(self) -> None:
        with self._on_gpu():
            rights = [self._problem.called(self._model, one) for one in self._sets]
            self._line.ask(do="place", sets=self._sets)
        self._expects = rights
        if not (answer := self._timed_calls("time", "wrong_when_timed")):
            return
        for number, grade, text in self._kept(rights):
            if grade == "wrong" and not self._has("wrong") and not self._has("mutates_inputs"):
                self._add("wrong_when_timed", f"set {number}: {text}")
        if self._asked["timing"]:
            self.found["times_us"]["candidate"] = _median_us(answer)

    def _graph(self) -> None:
        wanted = self._asked.get("graph", self._asked["timing"])
        if not wanted or not self._device.startswith("cuda"):
            return
        if not (answer := self._timed_calls("graph", "not_captured")):
            return
        if all(grade != "wrong" for _, grade, _ in self._kept(self._expects)):
            self.found["times_us"]["candidate graph"] = _median_us(answer)
            return
        # The time of such a graph is that of less than the call's work.
        lacking = set(own_kernels(self._fresh["kernels"])) - set(answer["kernels"])
        outside = lacking and (answer["untouched"] or answer["kernels"])
        self._add("graph_lacks_kernels" if outside else "stale_graph")

    def _timed_calls(self, do: str, failing: str) -> Answer | None:
        """The times of the candidate's calls; None, and a finding, if they fail."""
        with self._on_gpu(alone=self._asked["timing"]):
            answer = self._line.ask(do=do, calls=CALLS)
        if "failed" in answer:
            self._add(failing, answer["failed"])
            return None
        return answer

    def _kept(self, rights: Sequence[ExactCall]) -> Iterator[tuple[int, Grade, str]]:
        """Set of inputs and grade of the results that were kept while calls were timed."""
        answer = self._line.ask(do="kept")
        for number, out in zip(answer["which"], answer["out"], strict=True):
            yield number, *rights[number].grade(out)

    def _eager(self) -> None:
        """The module itself, also as a CUDA graph."""
        if self._asked["timing"]:
            self._baseline("eager", self._model, self._given())

    def _given(self) -> list[list[Any]]:
        return [exact.on_device(one, self._device) for one in self._sets]

    def _by_compiler(self) -> None:
        """The module by torch.compile, also as a CUDA graph. Of several compilations, each with
        nothing in the compiler's caches, the fastest counts; a single one may use what those of
        other problems left there."""
        if not self._asked["timing"] or not self._asked["compile"]:
            return
        given = self._given()
        count = self._asked.get("compilations", 1)
        for number in range(count):
            self._begun(f"{STEPS['_by_compiler']}, compilation {number + 1} of {count}")
            try:
                call = compiled(self._model, given[0], fresh=count > 1)
            except Exception as error:  # of the compiler: the figure is missing
                self.found["notes"].append(f"compile: {why(error)}"[:200])
                return
            self._baseline("compile", call, given)

    def _baseline(self, name: str, call: Callable[..., Any], sets: Sequence[Sequence[Any]]) -> None:
        """Keeps the shortest time of those with this name."""
        with self._on_gpu(alone=True), torch.no_grad():
            try:
                self._time(name, partial(_one_of, call, sets))
                if self._device.startswith("cuda"):
                    name = f"{name} graph"
                    self._time(name, timed.captured(call, sets[0]))
            except Exception as error:  # of capturing: the figure is missing
                note = f"{name}: {why(error)}"[:200]
                self.found["notes"] += [note] if note not in self.found["notes"] else []

    def _time(self, name: str, call: Callable[[int], Any]) -> None:
        us = median_high(timed.times_us(call, CALLS, self._device, _nothing))
        known = self.found["times_us"].get(name, us)
        self.found["times_us"][name] = min(us, known)

    def _end(self) -> None:
        answer = self._line.ask(do="end")
        if "failed" in answer:
            return self._add("patches", answer["failed"])
        if answer["patched"]:
            self._add("patches", ", ".join(answer["patched"])[:200])
        parameters = [p.cpu() for p in self._model.parameters()]
        if self._handed and parameters and not _holds(answer["weights"], parameters):
            self._add("changes_weights")
        return None

    def _kernels(self) -> None:
        """Whether code of its own runs, and what beside it."""
        answer = self._line.ask(do="end")
        if "failed" in answer:
            return self._add("patches", answer["failed"])
        seen, on_gpu = self._fresh["kernels"], self._device.startswith("cuda")
        own = own_kernels(seen) if on_gpu else self._own_libraries(answer)
        whole, ran = counted(self._rights[1].operators), counted(self._fresh["ops"])
        self.found["kernels"] = own
        if on_gpu and not seen:
            self.found["notes"].append(
                "the profiler reported no kernels, so their names are unknown"
            )
        elif not own:
            built = "".join(f"its build fails: {one}; " for one in answer["failed_builds"][:1])
            self._add("no_kernel", f"{built}operators: {', '.join(sorted(ran)) or 'none'}")
        elif whole and whole <= ran:  # each operator of the module's as often
            self._add(
                "library_does_the_job",
                f"{', '.join(sorted(whole))} beside {own[0][:60]}",
            )
        return None

    def _own_libraries(self, answer: Answer) -> list[str]:
        """What it has of its own where there are no kernels: libraries that it built."""
        found: list[str] = answer["libraries"]
        return found


def compiled(
    model: torch.nn.Module, inputs: Sequence[Any], *, fresh: bool = True
) -> Callable[..., Any]:
    """The module by torch.compile, called once; if `fresh`, with nothing in its caches. Raises what
    it does."""
    from torch._inductor import config, utils

    torch._dynamo.reset()
    config.compile_threads = 1
    caches = utils.fresh_cache(dir=tempfile.gettempdir(), delete=False) if fresh else nullcontext()
    with caches, torch.no_grad():
        found: Callable[..., Any] = torch.compile(model, dynamic=False)
        found(*inputs)
    return found


def put(path: Path, found: Mapping[str, Any]) -> None:
    """Writes an answer so that whoever looks sees a whole one."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(found))
    part.replace(path)


def _holds(weights: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> bool:
    """Whether each parameter's values are among the candidate's weights."""
    return all(any(torch.equal(p, w) for w in weights) for p in parameters)


def _one_of(call: Callable[..., Any], sets: Sequence[Sequence[Any]], number: int) -> Any:
    return call(*sets[number % len(sets)])


def _median_us(answer: Answer) -> float:
    return float(median_high(answer["us"]))


def _nothing(_: int, __: Any) -> None:
    """Results of baselines are not compared: they are what others are compared with."""


def prepared(shared: str | None = None) -> None:
    """Compilers ask for folders of the user's, which are out of reach. `shared`: a folder for their
    caches that outlives this process."""
    for name in ("HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        place = os.environ["TMPDIR"] if shared is None or name == "HOME" else shared
        os.environ[name] = str(Path(place) / name.lower())
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"


def main() -> None:
    asked = json.loads(Path(sys.argv[1]).read_text())
    prepared(asked.get("turns"))
    questions: Questions | None = None
    try:
        questions = Questions(asked)
        found = questions.all()
    except Exception as error:
        found = {"problem": why(error)}
        if questions:
            found = {
                **questions.found,
                "problem": why(error),
                "unfinished": f"{questions.found['unfinished']}: {why(error)}",
            }
    put(Path(asked["answer"]), found)


if __name__ == "__main__":
    main()
