"""The settings file: which one is read, what it may say, and that the command line wins."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from astra_chat.options import settable
from astra_chat.settings import project_file, read_settings, user_file, write_setting
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.commands import Command


@dataclass(frozen=True)
class Place:
    """A user's configuration folder and a repository of theirs."""

    user: Path
    project: Path

    def say(self, text: str, folder: Path | None = None) -> Path:
        file = (folder or self.project) / "astra.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The working directory is two folders below the repository's root."""
    found = Place(tmp_path / "config" / "astra", tmp_path / "project")
    (found.project / ".git").mkdir(parents=True)
    (found.project / "a" / "b").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(found.project / "a" / "b")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return found


def test_the_nearest_file_of_the_project_wins_over_the_users(place: Place) -> None:
    place.say('models = "openai:mine"\nrounds = 2\nmemory = "cards.toml"\n', place.user)
    place.say("rounds = 3\ntune = 4\n")
    place.say("rounds = 9\n", place.project.parent)  # above the repository: nobody's
    found = {name: one.value for name, one in read_settings().items()}
    cards = str(place.user / "cards.toml")
    assert found == {"models": "openai:mine", "rounds": 3, "tune": 4, "memory": cards}
    nearest = place.say("rounds = 4\n", place.project / "a")
    assert {n: s.value for n, s in read_settings().items()} == {
        "models": "openai:mine",
        "rounds": 4,
        "memory": cards,
    }
    assert project_file() == nearest and user_file() == place.user / "astra.toml"


@pytest.mark.parametrize("name", ["task.toml", "transcript.jsonl", "transcript.jsonl.xz"])
def test_a_tasks_and_a_runs_folder_say_nothing(place: Place, command: Command, name: str) -> None:
    here = Path.cwd()
    (here / name).write_text("")
    file = place.say("rounds = 7\n", here)
    assert project_file() is None and read_settings() == {}
    code, out, err = command("config")
    assert code == 0 and "(default)" in out and f"{file} is not read" in err
    with pytest.raises(BadInput, match="no settings are read from it"):
        file.unlink()
        write_setting(file, "rounds", 3)


def test_without_a_repository_only_the_working_directory(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.project / ".git").rmdir()
    place.say("rounds = 3\n")
    assert read_settings() == {}
    monkeypatch.chdir(place.project)
    assert read_settings()["rounds"].value == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modles = 'x'", "there is no setting 'modles'; did you mean models?"),
        ("trust = true", "there is no setting 'trust'; there is models, device,"),
        ("out = 'x'", "there is no setting 'out'"),
        ("rounds = 0", "rounds must be a whole number from 1 to 10000, not 0"),
        ("rounds = 'many'", "rounds must be a whole number from 1 to 10000, not 'many'"),
        ("rounds = true", "not True"),
        ("rounds = 2.5", "not 2.5"),
        ("stop_at = 101", "stop_at must be a number from 0 to 100, not 101"),
        ("device = 3", "device must be a string in quotes, not 3"),
        ("[models]\nx = 1", "models must be a string in quotes"),
        ("models =", "Invalid value"),
        ("rounds = 3\nmodels = 'openai:x,key_env=K'", "may not name an address or a key variable"),
        (
            "models = 'openai:x,coder.base_url=http://h/v1'",
            "may not name an address or a key variable",
        ),
        ("rounds = 3\nopenai_api_key = 'k'", "line 2: this is an API key"),
        ("models = 'sk-ant-abcdefghijkl'", "line 1: this is an API key"),
        ("budget = 'a-key-in-the-environment'", "this is an API key"),
    ],
)
def test_what_a_file_may_not_say_is_one_line(
    place: Place, command: Command, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setenv("OTHER_API_KEY", "a-key-in-the-environment")
    file = place.say(text)
    for asked in (["config"], ["run", "silu_and_mul"], ["check", "silu_and_mul", "x.cu"]):
        code, out, err = command(*asked)
        assert code == 2 and not out and len(err.splitlines()) == 1, err
        assert str(file) in err and words in err
        assert "abcdefghijkl" not in err and "in-the-environment" not in err


def test_the_users_own_file_may_name_an_address(place: Place) -> None:
    place.say('models = "openai:x,base_url=http://h/v1,key_env=K"\n', place.user)
    assert "base_url" in str(read_settings()["models"].value)


def test_the_command_line_wins(place: Place, command: Command) -> None:
    """The run fails at the models that it takes: nothing else has to work here."""
    place.say('models = "anthropic:from-file"\nbudget = "usd=1"\n')
    code, _, err = command("run", "silu_and_mul")
    assert code == 3 and "set ANTHROPIC_API_KEY" in err
    said = f"settings of {place.project / 'astra.toml'}: models = anthropic:from-file"
    assert f"{said}, budget = usd=1" in err, "a project's file is announced"
    code, _, err = command("run", "silu_and_mul", "--models", "openai:typed")
    assert code == 3 and "set OPENAI_API_KEY" in err and "models =" not in err
    code, _, err = command("models", "check")
    assert code == 3 and "set ANTHROPIC_API_KEY" in err


def test_what_was_typed_leaves_no_place_for_some(place: Place, command: Command) -> None:
    """The GPU to estimate for beside a real one, and all settings of a resumed run."""
    place.say('gpu = "h100"\napprover = "nobody.toml"\nmodels = "oracle"\n', place.user)
    kernel = place.project / "kernel.cu"
    kernel.write_text("// none\n")
    code, _, err = command("time", "silu_and_mul", kernel, "--device", "cuda:99")
    assert code == 3 and "no CUDA device 99" in err
    code, _, err = command("run", "silu_and_mul", "--models", "scripted", "--device", "cuda:99")
    assert code == 3 and "no CUDA device 99" in err
    transcript = "transcripts/none.jsonl"
    code, _, err = command("run", "--resume", transcript)
    assert code == 2 and "none.jsonl" in err and "oracle" not in err


def test_config_shows_sets_and_unsets(place: Place, command: Command) -> None:
    own = place.say("# mine\nrounds = 2  # few\n", place.user)
    assert command("config", "set", "rounds", "3")[0] == 0
    assert command("config", "set", "models", "anthropic:claude-x,coder.max_tokens=900")[0] == 0
    assert own.read_text() == (
        '# mine\nrounds = 3\nmodels = "anthropic:claude-x,coder.max_tokens=900"\n'
    )
    assert command("config", "set", "rounds", "4", "--project")[0] == 0
    assert (place.project / "astra.toml").read_text() == "rounds = 4\n"
    assert command("config", "get", "rounds")[1] == "4\n"
    code, out, _ = command("config")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0 and list(lines) == list(settable())
    assert lines["rounds"].endswith(f"4  ({place.project / 'astra.toml'})")
    assert lines["models"].endswith(f"({own})") and lines["device"].endswith("auto (default)")
    found = json.loads(command("config", "list", "--json")[1])["settings"]
    assert found["rounds"] == {"value": 4, "file": str(place.project / "astra.toml")}
    assert command("config", "unset", "rounds", "--project")[0] == 0
    assert command("config", "get", "rounds")[1] == "3\n"
    assert command("config", "get", "gpu")[0] == 1
    assert command("config", "path")[1] == f"{own}\n{place.project / 'astra.toml'}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "round", "3"], "did you mean rounds?"),
        (["set", "rounds", "x"], "rounds must be a whole number from 1 to 10000, not 'x'"),
        (["set", "models", "openai:x,coder"], "not of the form name=value"),
        (["set", "models", "sk-abcdefghijkl"], "this is an API key"),
        (
            ["set", "models", "openai:x,base_url=http://h/v1", "--project"],
            "may not name an address or a key variable",
        ),
        (["get", "round"], "did you mean rounds?"),
        (["unset", "rounds"], "does not set rounds"),
    ],
)
def test_config_refuses_in_one_line(
    place: Place, command: Command, words: list[str], said: str
) -> None:
    place.say("tune = 1\n")
    code, out, err = command("config", *words)
    assert code == 2 and said in err and not out and len(err.splitlines()) == 1
    assert not (place.user / "astra.toml").exists()
    assert (place.project / "astra.toml").read_text() == "tune = 1\n"
