"""Prompts of a recorded run: rebuilt word for word, bounded, with the stable part first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage

from astra_chat.agents.prompt import MAX_CHARACTERS, ChatContext, turn_prompt
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turns import MODEL_ROLES, RoleName, Turn
from astra_chat.models.run_models import RunModels
from astra_chat.models.script import load_script
from astra_chat.models.scripted import ScriptedClient, ScriptedModels
from astra_chat.models.spec import ROLES, Role
from astra_chat.replay.prompts import prompts
from astra_chat.replay.show import show_prompts
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.commands import Command
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import (
    VECTOR,
    FixedJudge,
    analysis,
    baseline_turns,
    coded,
    evaluation,
    plan,
    run_options,
    timed,
)


class Listening(ScriptedModels):
    """The script's models, and all that they were told."""

    def __init__(self, task: Task) -> None:
        self.script = load_script(task)
        super().__init__(self.script)
        self.told: list[tuple[Role, str, str]] = []

    def client(self, role: Role) -> ChatCompletionClient:
        told, script = self.told, self.script

        class Client(ScriptedClient):
            async def create(self, messages: Sequence[LLMMessage], **rest: Any) -> CreateResult:
                *system, user = messages
                told.append((role, "".join(str(m.content) for m in system), str(user.content)))
                return await super().create(messages, **rest)

        return Client(script, role)


def test_they_are_what_the_models_were_told(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge
) -> None:
    models = Listening(task)
    played = RunModels("scripted", dict.fromkeys(ROLES, models))
    options = run_options().model_copy(update={"budget": "tokens=1000,evaluations=50"})
    request = chat_request(task, tmp_path / "out", models=played, options=options)
    result = run_request(request, judge=fixed_judge)
    found = list(prompts(read(result.transcript)))
    assert "budget left: 1,000 of 1,000 tokens, 49 of 50 evaluations" in found[1].user
    assert [(p.role, p.system, p.user) for p in found] == models.told
    assert len(found) > 8 and "selector" in [p.role for p in found]


def test_what_was_said_about_replies_is_shown(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script whose plan names an anchor that the source lacks is asked once more."""
    path = task.folder / "script" / "script.toml"
    path.write_text(path.read_text().replace("anchor = ", 'anchor = "no such line" #', 1))
    other = load_task(task.folder)
    request = chat_request(other, tmp_path / "out")
    transcript = read(run_request(request, judge=fixed_judge).transcript)
    found = [p for p in prompts(transcript) if p.again]
    assert [p.role for p in found] == ["planner"] and len(found[0].again) == 1
    assert "`no such line` is not in the source to change" in found[0].again[0]
    show_prompts(transcript, found[0].turn, as_json=False)
    assert (
        f"--- turn {found[0].turn}, planner, why a reply was sent back:" in capsys.readouterr().out
    )


def test_one_turns_prompt(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[3])
    example = Path("transcripts/examples/silu_and_mul-h200.jsonl.xz")
    speakers = [turn.speaker for turn in turns_of(read(example).records)]
    turn = str(speakers.index("planner") + 1)
    said = command("replay", example, "--prompts", "--turn", turn, "--json")
    assert not said.code
    found = json.loads(said.out)
    assert [one["role"] for one in found] == ["planner"]
    assert "# Planner" in found[0]["system"] and "## Task silu_and_mul" in found[0]["user"]


@pytest.mark.parametrize(
    ("turn", "words"), [(3, "the executor is not a model"), (99, "turns 1 to")]
)
def test_a_turn_without_a_prompt_is_refused(turn: int, words: str) -> None:
    folder = Path(__file__).resolve().parents[3] / "transcripts" / "examples"
    with pytest.raises(BadInput, match=words):
        list(prompts(read(folder / "silu_and_mul-h200.jsonl.xz"), turn))


def long_chat(rounds: int) -> list[Turn]:
    """Rounds with kernels of 400 lines, each a little faster."""
    turns = baseline_turns()
    for number in range(rounds):
        source = f"// {number}\n{VECTOR}" + "// a line as long as lines of kernels are\n" * 380
        turns += [
            Turn("planner", plan(f"Idea {number}")),
            *coded(source),
            Turn("executor", evaluation(source, timed(1.1 + number / 10))),
            Turn("profiler", analysis()),
        ]
    return turns


@pytest.mark.parametrize("role", MODEL_ROLES)
def test_prompts_stay_bounded_and_share_their_beginning(task: Task, role: RoleName) -> None:
    context = ChatContext(task, task.baseline, "sglang", "virtual")
    chat = long_chat(20)
    made = [turn_prompt(role, context, state_of(chat[: 3 + 5 * number])) for number in range(1, 21)]
    assert max(map(len, made)) <= MAX_CHARACTERS
    assert max(map(len, made[10:])) <= 1.25 * max(map(len, made[:10])), "it does not grow on"
    for before, after in pairwise(made[5:]):
        first = before[: before.index("\n## ")]
        assert after.startswith(first), "what does not change comes first"
    if role in ("coder", "fixer"):
        stable = made[0][: made[0].index("## The source" if role == "coder" else "## The plan")]
        assert all(prompt.startswith(stable) for prompt in made) and "## The launcher" in stable
