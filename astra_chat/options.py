"""The options of the judge and of a run, each declared once: type, default, limits, help.

The signatures of the command line, of Python and of MCP are made of these, and so is
docs/options.md: `python -m astra_chat.options` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)


class Option(NamedTuple):
    """What is known of an option besides its name and its type."""

    default: Any
    """What holds where it is not given."""
    words: str
    """Its help; {default} stands for the default."""
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    """How the command line spells it, where that is not its name."""
    least: float | None = None
    most: float | None = None
    setting: bool = False
    """Whether the settings file may say it: astra_chat/settings.py."""

    @property
    def help(self) -> str:
        return self.words.format(default=self.default)


ON_PATH = str | Path | None


class JudgeOptions(TypedDict, total=False):
    """Options of whatever opens a judge."""

    device: Annotated[
        str, Option("auto", "Device to run kernels on: auto, cuda, cuda:N or virtual.")
    ]
    gpu: Annotated[str | None, Option(None, "GPU model to estimate for: h200, h100, a100, ...")]
    cases: Annotated[str | None, Option(None, "Cases to time: demo or bench.")]
    baseline: Annotated[str, Option("sglang", "Baseline to compare with: sglang or paper.")]
    trust: Annotated[bool, Option(False, "Run untrusted code even if it cannot be isolated.")]
    engine: Annotated[
        str, Option("auto", "Engine of the virtual GPU: numpy, c or auto (c for large launches).")
    ]
    seed: Annotated[
        str | None,
        Option(
            None,
            "Seed for the cases and inputs: an evaluation's seed as printed, or up to 32 hex"
            " digits. Fresh by default.",
            "HEX",
        ),
    ]


class EvaluateOptions(JudgeOptions, total=False):
    """Options of an evaluation."""

    more_cases: Annotated[
        list[str] | None,
        Option(
            None,
            "An additional case, as in task.toml: '{{ tokens = 3, d = 24, dtype = \"float16\" }}'.",
            "CASE",
            ("--case",),
        ),
    ]
    final: Annotated[
        bool,
        Option(False, "Apply the checks that confirm a winner: sanitizers, then fresh inputs."),
    ]


class RunArguments(TypedDict, total=False):
    """Options of a run. None is what was not given: a resumed run keeps what it was begun with."""

    models: Annotated[
        str | None,
        Option(
            "scripted",
            "Model backend: PROVIDER:MODEL[,ROLE=PROVIDER:MODEL...], where PROVIDER is"
            " openai, anthropic, google, openrouter, ollama or vllm; or mailbox:DIR,"
            " scripted, transcript[:FILE], record:FILE:..., auto:FILE:... or replay:FILE."
            " Default: transcript (the recorded run in the task's folder, with that run's options"
            " if you give none), or {default} if no recorded run fits.",
            setting=True,
        ),
    ]
    base_url: Annotated[
        str | None,
        Option(None, "URL of a server with an OpenAI-compatible API: http://HOST:PORT/v1.", "URL"),
    ]
    device: Annotated[
        str | None,
        Option(
            "auto",
            "Device to run kernels on: {default} (default), cuda, cuda:N or virtual.",
            setting=True,
        ),
    ]
    gpu: Annotated[
        str | None,
        Option(None, "GPU model to estimate for on the virtual GPU: h200, h100, ...", setting=True),
    ]
    out: Annotated[
        ON_PATH,
        Option(None, "Output folder; default: a new one in transcripts/.", None, ("-o", "--out")),
    ]
    rounds: Annotated[
        int | None,
        Option(
            5,
            "Maximum number of plans to try; default: {default}.",
            least=1,
            most=10_000,
            setting=True,
        ),
    ]
    cases: Annotated[str | None, Option(None, "Cases to time: demo or bench.", setting=True)]
    baseline: Annotated[
        str | None,
        Option("sglang", "Baseline to compare with: {default} (default) or paper."),
    ]
    approver: Annotated[
        str | None,
        Option(
            None,
            "Who approves: ask (in the terminal, like --approve), detached (you decide later"
            " with astra-chat approve), a FILE.toml of decisions, a recorded run, or none.",
            "WHO",
            setting=True,
        ),
    ]
    budget: Annotated[
        str | None,
        Option(
            "",
            "Limits for the run, separated by commas: tokens=N, usd=N, wall_s=N,"
            " evaluations=N, gpu_s=N; none: no limits.",
            setting=True,
        ),
    ]
    strategy: Annotated[
        str | None,
        Option(
            "best",
            "Search strategy: {default} (default), paper, beam:K, beam:KxN, tree or single.",
            setting=True,
        ),
    ]
    judge: Annotated[
        str | None,
        Option(
            "local",
            "Where kernels are judged: {default} (default); ssh:HOST; ray[:ADDRESS], on the"
            " GPUs of a Ray cluster; or detached, by `astra-chat judge work` on another"
            " machine while the run waits.",
            "WHERE",
            setting=True,
        ),
    ]
    stop_at: Annotated[
        float | None,
        Option(
            None,
            "Stop when a kernel reaches this share of the physical limit; 0: never.",
            "PERCENT",
            least=0,
            most=100,
            setting=True,
        ),
    ]
    patience: Annotated[
        int | None,
        Option(
            None,
            "Stop after this many rounds in a row without a gain; 0: never.",
            least=0,
            setting=True,
        ),
    ]
    mutants: Annotated[
        int | None,
        Option(
            12,
            "Number of seeded bugs used to score the tester's cases; default: {default}; 0: none.",
            least=0,
            most=1000,
            setting=True,
        ),
    ]
    tune: Annotated[
        int | None,
        Option(
            0,
            "Tune the constants that the coder marks: rank up to POINTS combinations for"
            " each correct candidate and judge the best; default: {default}, no tuning.",
            "POINTS",
            least=0,
            most=1000,
            setting=True,
        ),
    ]
    languages: Annotated[
        str | None,
        Option(
            "cuda",
            "Languages that the coder may write kernels in: {default} (default), cuda,triton or"
            " triton; for tasks made from a PyTorch module also torch, for torch extensions:"
            " cuda,torch.",
            setting=True,
        ),
    ]
    seed: Annotated[
        str | None,
        Option(
            None,
            "Seed for all of the judge's random choices: up to 32 hex digits. By default, a fresh"
            " seed is used and printed at the end of the run.",
            "HEX",
        ),
    ]
    memory: Annotated[
        ON_PATH,
        Option(
            None,
            "From round 2 on, show the planner what the runs in this memory file found (see"
            " astra-chat memory); off (default): no memory.",
            "FILE",
            setting=True,
        ),
    ]
    trust: Annotated[bool, Option(False, "Run untrusted code even if it cannot be isolated.")]
    no_wait: Annotated[
        bool,
        Option(
            False, "With mailbox:DIR: stop if an answer is missing; the run can be resumed later."
        ),
    ]
    resume: Annotated[
        ON_PATH,
        Option(None, "Continue a run that was interrupted, failed, or reached its budget.", "FILE"),
    ]
    branch: Annotated[
        ON_PATH,
        Option(
            None,
            "Start a new run from a recorded one: from its end, or from a round given by --from.",
            "FILE",
        ),
    ]
    after_round: Annotated[
        int | None,
        Option(
            None,
            "Go back to the end of this round and continue in a new folder; 0: back to the"
            " baseline.",
            "ROUND",
            ("--from", "--rewind"),
        ),
    ]
    accept_recorded_options: Annotated[
        bool,
        Option(
            False,
            "With --resume and --branch: use the models, addresses, key variables and budgets"
            " recorded in FILE.",
        ),
    ]


class Declared(NamedTuple):
    """An option with its name and its type."""

    name: str
    kind: Any
    option: Option

    @property
    def flags(self) -> tuple[str, ...]:
        """How the command line spells it."""
        return self.option.flags or (f"--{self.name.replace('_', '-')}",)

    @property
    def default(self) -> Any:
        """The default of a parameter: None, "not given", where the type has it."""
        return None if type(None) in get_args(self.kind) else self.option.default


@cache
def declared(options: type) -> dict[str, Declared]:
    """The options of one of the classes above, in their order."""
    hints = get_type_hints(options, include_extras=True)
    split = {name: get_args(hint) for name, hint in hints.items()}
    return {name: Declared(name, kind, option) for name, (kind, option) in split.items()}


def settable() -> dict[str, Declared]:
    """The options that the settings file may say."""
    return {name: one for name, one in declared(RunArguments).items() if one.option.setting}


Function = TypeVar("Function", bound=Callable[..., Any])
Form = Callable[[Declared], Any]


def takes(
    options: type, names: Sequence[str] = (), form: Form = lambda one: one.kind
) -> Callable[[Function], Function]:
    """Gives a function with `**options` these as parameters, each with its default.

    `names`: which, and their order beside the function's own parameters, of which one with a form
    of its own keeps it; without names all of them, last. They are keyword-only if another is.
    `form` makes an option's annotation.
    """
    there = declared(options)

    def given(function: Function) -> Function:
        written = signature(function, eval_str=True)
        own = {n: p for n, p in written.parameters.items() if p.kind is not Parameter.VAR_KEYWORD}
        formed = {name for name, one in own.items() if get_origin(one.annotation) is Annotated}
        kind = max(one.kind for one in own.values())
        made = dict(own)
        for name in names or [name for name in there if name not in own]:
            made.pop(name, None)
            if name in formed or name not in there:
                made[name] = own[name]
                continue
            one = there[name]
            made[name] = Parameter(name, kind, default=one.default, annotation=form(one))
        public = written.replace(parameters=sorted(made.values(), key=lambda one: one.kind))

        @wraps(function)
        def called(*args: Any, **words: Any) -> Any:
            bound = public.bind(*args, **words)
            bound.apply_defaults()
            return function(**bound.arguments)

        called.__signature__ = public  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in made.values()}
        return called  # type: ignore[return-value]

    return given


def page() -> str:
    """docs/options.md, of what is declared here."""
    return "\n".join(
        (
            "# Options\n",
            "This page is written by `python -m astra_chat.options > docs/options.md`; do"
            " not edit it.\n",
            "## A run: `astra-chat run`, `from astra_chat import run`\n",
            "If you omit an option, its default applies or, in a resumed run, the value that the"
            " run was started with.\n",
            *_table(RunArguments),
            "\n## A judge: `check`, `time`, `profile`, `evaluate`, `tune`, `from astra_chat import"
            " evaluate`\n",
            *_table(EvaluateOptions),
            "\n## Settings\n",
            "astra.toml may contain these options, by their names in Python"
            f" ([settings.md](settings.md)): {', '.join(f'`{name}`' for name in settable())}.",
        )
    )


def _table(options: type) -> Iterator[str]:
    yield "| option | in Python | values | default | meaning |"
    yield "|---|---|---|---|---|"
    for one in declared(options).values():
        option = one.option
        default = "" if option.default in (None, False, "") else f"`{option.default}`"
        words = option.help.replace("|", "\\|")
        flags = ", ".join(f"`{flag}`" for flag in one.flags)
        yield f"| {flags} | `{one.name}` | {_values(one)} | {default} | {words} |"


def _values(one: Declared) -> str:
    if one.kind is bool:
        return "a switch"
    least, most = one.option.least, one.option.most
    limits = f" {least or 0:g} to {most:g}" if most is not None else ""
    limits = limits or (f" from {least:g}" if least is not None else "")
    return f"{one.option.metavar or _word(one.kind)}{limits}"


def _word(kind: Any) -> str:
    """A type as a reader's word."""
    inner = [part for part in get_args(kind) if part is not type(None)]
    first = inner[0] if get_origin(kind) in (Union, UnionType) else kind
    return {int: "number", float: "number", str: "text"}.get(first, "text")


if __name__ == "__main__":
    print(page())
