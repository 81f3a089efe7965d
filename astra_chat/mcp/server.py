"""The tools of the server: each calls what the command line calls, and fails in the same words."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, Unpack

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field, ValidationError

from astra_chat.arguments import require_folder
from astra_chat.mailbox.questions import Question, find
from astra_chat.mailbox.runs import NoRunLeft, Waiting
from astra_chat.mcp.jobs import ENDED, Jobs, JobStatus
from astra_chat.options import Declared, EvaluateOptions, JudgeOptions, takes
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.task.shipped import task_folder
from astra_chat.tools.types import Value
from astra_chat.tools.wording import invalid
from astra_chat.transcript.reader import read
from astra_chat.transcript.summary import summarize
from astra_chat.version import __version__
from astra_chat.viewer.runs import RunRow, Runs
from astra_vgpu.ground.errors import failure

INSTRUCTIONS = (
    "Astra judges and optimizes CUDA kernels. `tasks` and `task` describe what a kernel has to do;"
    " `evaluate` checks, times and profiles one, and `evaluation` polls one that is still running."
    " `mailbox_next` and `mailbox_answer` answer the questions of a run that was started with"
    " --models mailbox:DIR. `runs` and `transcript` show what runs found. Times marked 'estimated'"
    " were not measured."
)
LOOK_S = 0.2
"""Between two looks at an evaluation or a mailbox."""
MAX_WAIT_S = 600.0

P = ParamSpec("P")
T = TypeVar("T")
Wait = Annotated[
    float,
    Field(ge=0, le=MAX_WAIT_S, description="Seconds to wait for the result before returning."),
]
Box = Annotated[str, Field(description="The folder of --models mailbox:DIR.")]
TaskName = Annotated[
    str, Field(description="The name of a shipped task, or the path of a task folder.")
]


class TaskRow(Value):
    """A shipped task."""

    name: str
    summary: str
    dtypes: list[str]


class TaskContract(Value):
    """What a kernel has to do."""

    name: str
    prototype: str
    """The launcher that the source has to export."""
    contract: dict[str, Any]
    """task.toml as values: arguments, legal dims, cases, tolerance."""
    baseline: str
    """Source of the kernel to beat."""


class QuestionText(Value):
    """A question of a run; all of `id` empty where none waits."""

    id: str = ""
    run: str = ""
    role: str = ""
    prompt: str = ""
    """All that a model would be sent."""
    reply: dict[str, Any] = Field(default_factory=dict)
    """JSON schema of the reply."""
    kernel: bool = False
    """`mailbox_answer` also takes a kernel's source, with `words`."""
    doing: str = ""
    """What runs are busy with while none asks: what the judge does, and how much of it is done."""
    ended: str = ""
    """Why no question will come: no run that asks here is under way."""


class Given(Value):
    """An answer that was taken."""

    id: str
    checked: str
    """Against what."""


def same_words(tool: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """A failure as the line that the command line prints, with its exit code."""

    @functools.wraps(tool)
    async def told(*args: P.args, **words: P.kwargs) -> T:
        try:
            return await tool(*args, **words)
        except ToolError:
            raise
        except Exception as error:
            line, code = failure(error)
            raise ToolError(f"{line} (exit code {code})") from None

    return told


def serve(trust: bool = False) -> None:
    """Serve a client on stdin and stdout until it is gone; then nothing is left running.

    `trust`: kernels run even where this machine cannot isolate them.
    """
    jobs = Jobs()
    try:
        server(jobs, trust).run("stdio")
    finally:
        jobs.close()


class _Server(MCPServer[Any]):
    """A server whose words for wrong arguments are those of the command line."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(f"{name}: {_wrong(error.__cause__)} (exit code 2)") from None
            raise


def _wrong(error: ValidationError) -> str:
    """ "task is missing; kernel is missing"."""
    problems = error.errors(include_url=False)
    return "; ".join(
        f"{place} is missing" if problem["type"] == "missing" else f"{place}: {invalid(problem)}"
        for problem in problems
        for place in [".".join(map(str, problem["loc"]))]
    )


def server(jobs: Jobs, trust: bool = False) -> MCPServer[Any]:
    """The server with all its tools."""
    made: MCPServer[Any] = _Server(
        "astra-chat", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR"
    )
    for tool in (*_of_tasks(), *_of_evaluations(jobs, trust), *_of_mailboxes(), *_of_runs()):
        made.tool()(same_words(tool))
    return made


Tool = Callable[..., Awaitable[Any]]


def _of_tasks() -> list[Tool]:
    async def tasks() -> list[TaskRow]:
        """List the tasks that ship with Astra."""
        found = map(find_task, task_names())
        return [TaskRow(name=t.name, summary=t.summary, dtypes=list(t.dtypes)) for t in found]

    async def show_task(task: TaskName) -> TaskContract:
        """Show the contract of a task, the launcher's prototype and the baseline's source."""
        from astra_chat.tools.task.launcher import prototype
        from astra_chat.tools.task.tiers import baseline_source

        found = find_task(task)
        return TaskContract(
            name=found.name,
            prototype=prototype(found),
            contract=found.model_dump(mode="json", by_alias=True),
            baseline=baseline_source(found, "sglang"),
        )

    show_task.__name__ = "task"
    return [tasks, show_task]


EVALUATE = "device gpu cases baseline more_cases final seed wait_s".split()
"""What a client may say of an evaluation. Trust is the server's."""


def _described(option: Declared) -> object:
    return Annotated[option.kind, Field(description=option.option.help)]


def _of_evaluations(jobs: Jobs, trust: bool) -> list[Tool]:
    @takes(EvaluateOptions, EVALUATE, _described)
    async def evaluate(
        context: Context[Any, Any],
        task: TaskName,
        kernel: Annotated[str, Field(description="The kernel's source.")],
        more_cases: list[str] | None = None,
        final: bool = False,
        wait_s: Wait = 60.0,
        **options: Unpack[JudgeOptions],
    ) -> JobStatus:
        """Check, time and profile a kernel of a task. Returns when this is done, or after `wait_s`
        seconds with the state `running`; in that case, poll with `evaluation`."""
        options["trust"] = trust
        task_folder(task)
        begun = jobs.begin(kernel, more_cases or [], final, task, **options)
        return await _awaited(jobs, begun.job, wait_s, context)

    async def evaluation(context: Context[Any, Any], job: str, wait_s: Wait = 60.0) -> JobStatus:
        """Return the state of an evaluation, after waiting up to `wait_s` seconds for its end."""
        return await _awaited(jobs, job, wait_s, context)

    async def evaluation_values(job: str) -> dict[str, Any]:
        """Return all values of a finished evaluation: every case, time, metric and step."""
        found = jobs.found(job)
        return {} if found is None else found.model_dump(mode="json")

    async def cancel_evaluation(job: str) -> JobStatus:
        """Stop an evaluation."""
        return jobs.cancel(job)

    return [evaluate, evaluation, evaluation_values, cancel_evaluation]


async def _awaited(jobs: Jobs, job: str, wait_s: float, context: Context[Any, Any]) -> JobStatus:
    """The status at the end, or after `wait_s`; progress is reported on the way."""
    deadline, told, number = time.monotonic() + wait_s, "", 0
    while True:
        status = jobs.status(job)
        if (words := status.progress or status.state) != told:
            told, number = words, number + 1
            await context.report_progress(number, None, told)
        if status.state == "failed":  # the caller's or the machine's fault, not the kernel's
            raise ToolError(f"{status.error} (exit code {status.exit_code})")
        if status.state in ENDED or time.monotonic() >= deadline:
            return status
        await anyio.sleep(LOOK_S)


def _of_mailboxes() -> list[Tool]:
    async def mailbox_next(
        context: Context[Any, Any],
        folder: Box,
        role: str | None = None,
        run: str | None = None,
        wait_s: Wait = 60.0,
    ) -> QuestionText:
        """Return the oldest unanswered question in a mailbox, after waiting up to `wait_s` seconds
        for one."""
        deadline, looking = time.monotonic() + wait_s, Waiting(Path(folder), role, run)
        told, number = "", 0
        try:
            while (question := looking.look()) is None:
                if (words := looking.doing) != told:
                    told, number = words, number + 1
                    await context.report_progress(number, None, told)
                if time.monotonic() >= deadline:
                    looking.require_mailbox()
                    return QuestionText(doing=told)
                await anyio.sleep(LOOK_S)
        except NoRunLeft as ended:
            return QuestionText(ended=str(ended))
        return _text_of(question)

    async def mailbox_answer(
        folder: Box,
        id: str,
        reply: Annotated[
            str, Field(description="The reply as JSON text or, with `words`, a kernel.")
        ],
        words: Annotated[
            str | None, Field(description="What you did, if `reply` is a kernel.")
        ] = None,
        answered_by: Annotated[
            str, Field(description="Your name; the transcript records it.")
        ] = "",
        as_is: Annotated[
            bool, Field(description="Submit the answer even if it contradicts the run's facts.")
        ] = False,
    ) -> Given:
        """Check an answer against the schema and the facts, and pass it to the run."""
        from astra_chat.mailbox.checking import answer

        question = find(Path(folder), id)
        given = functools.partial(
            answer, question, reply, words=words, answered_by=answered_by, as_is=as_is
        )
        return Given(id=id, checked=await anyio.to_thread.run_sync(given))

    return [mailbox_next, mailbox_answer]


def _text_of(question: Question) -> QuestionText:
    meta = question.meta
    return QuestionText(
        id=meta.id,
        run=meta.run,
        role=meta.role,
        prompt=question.prompt,
        reply=question.schema,
        kernel=meta.kernel,
    )


def _of_runs() -> list[Tool]:
    async def runs(
        folder: Annotated[str, Field(description="Folder that contains runs.")] = "transcripts",
    ) -> list[RunRow]:
        """List the runs in a folder and their results, like `astra-chat runs list`."""
        require_folder(Path(folder))
        return await anyio.to_thread.run_sync(Runs(Path(folder)).list)

    async def transcript(
        path: Annotated[str, Field(description="A transcript, or the folder of a run.")],
    ) -> dict[str, Any]:
        """Return the results of a run: rounds, candidates, times, predictions, what was spent. This
        is the document that `astra-chat replay --json` prints."""
        found = await anyio.to_thread.run_sync(read, Path(path))
        return summarize(found.records).model_dump(mode="json")

    return [runs, transcript]
