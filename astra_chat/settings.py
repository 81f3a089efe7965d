"""Settings: options that a file says where the command line does not.

Two files are read: astra.toml in the user's configuration folder and, before it, the nearest one
from the working directory up to the root of its repository. A project may be anybody's: its file
names no address and no key variable, and what it says is announced. A task's or a run's folder is
data: a file there is not read.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from astra_chat.options import Declared, settable
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.wording import nearest
from astra_vgpu.ground.errors import BadInput, reading

FILE = "astra.toml"
DATA = ("task.toml", *(f"transcript.jsonl{ending}" for ending in ("", ".xz", ".gz")))
"""Files by which a folder is a task's or a run's."""
KEY_NAMES = re.compile(r"(?i)^\s*[\w.\"'-]*(api_?key|secret|password|auth_?token)\b[\"']?\s*=")
KEY_TEXTS = re.compile(r"\b(sk-[\w-]{8,}|AIza[\w-]{16,}|gsk_\w{16,}|hf_\w{16,}|xai-\w{16,})")
"""How keys of model providers begin."""
ADDRESS = re.compile(r"(^|[,.])\s*(base_url|key_env)\s*=")


@dataclass(frozen=True)
class Setting:
    """What a file says of one option."""

    value: str | int | float
    file: Path


def user_file() -> Path:
    """The user's own file, by the XDG base directory specification."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(given) if Path(given).is_absolute() else Path.home() / ".config"
    return folder / "astra" / FILE


def project_folders() -> list[Path]:
    """The working directory and those above it, up to the root of its repository; without a
    repository the working directory alone."""
    here = Path.cwd()
    upwards = [here, *here.parents]
    root = next((n for n, folder in enumerate(upwards) if (folder / ".git").exists()), 0)
    return upwards[: root + 1]


def project_file() -> Path | None:
    """The nearest file of the project; None where there is none."""
    found = (folder / FILE for folder in project_folders() if not is_data(folder))
    return next((file for file in found if file.is_file()), None)


def unread_files() -> list[Path]:
    """Files of the project that lie in a task's or a run's folder."""
    found = (folder / FILE for folder in project_folders() if is_data(folder))
    return [file for file in found if file.is_file()]


def is_data(folder: Path) -> bool:
    return any((folder / name).exists() for name in DATA)


def read_settings() -> dict[str, Setting]:
    """What holds, by the option's name in Python. Raises BadInput naming file and key."""
    project, user = project_file(), user_file()
    found: dict[str, Setting] = {}
    if user.is_file():
        found |= _placed(read_file(user), user)
    if project is not None and project != user:
        values = read_file(project)
        _require_no_address(values, project, user)
        found |= _placed(values, project)
    return {name: found[name] for name in settable() if name in found}


def _placed(values: dict[str, str | int | float], file: Path) -> dict[str, Setting]:
    """What a file says, a path in it as from the file's folder."""
    memory = values.get("memory")
    if memory is not None and memory != "off":
        values = {**values, "memory": str(file.parent / Path(str(memory)).expanduser())}
    return {name: Setting(value, file) for name, value in values.items()}


def read_file(file: Path) -> dict[str, str | int | float]:
    """The settings of one file. Raises BadInput."""
    with reading(file):
        text = file.read_text(encoding="utf-8")
    require_no_key(text, file)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{file}: {error}") from None
    return {name: checked(name, value, str(file)) for name, value in values.items()}


def require_no_key(text: str, file: Path) -> None:
    """Raises BadInput, which does not repeat the key."""
    for number, line in enumerate(text.splitlines(), 1):
        if KEY_NAMES.search(line) or KEY_TEXTS.search(line) or _holds_a_known_key(line):
            raise BadInput(
                f"{file}, line {number}: this is an API key: remove it from here and set"
                " it in the environment (docs/models.md names each provider's variable)"
            )


def _holds_a_known_key(line: str) -> bool:
    """Whether a line holds the value of a key that stands in the environment."""
    keys = (value.strip() for name, value in os.environ.items() if name.endswith("_API_KEY"))
    return any(len(key) >= 16 and key in line for key in keys)


def _require_no_address(values: dict[str, str | int | float], file: Path, user: Path) -> None:
    if ADDRESS.search(str(values.get("models", ""))):
        raise BadInput(
            f"{file}: models: a project's file may not name an address or a key variable,"
            f" because your key would be sent there: put base_url and key_env in {user} or"
            " on the command line"
        )


def checked(name: str, value: object, where: str) -> str | int | float:
    """A setting's value, of the option's type and within its limits. Raises BadInput."""
    one = settable().get(name)
    if one is None:
        raise BadInput(f"{where}: {_unknown(name)}")
    kinds = [kind for kind in get_args(one.kind) if kind is not type(None)]
    fits = isinstance(value, str) if str in kinds else _is_number(value, whole=kinds == [int])
    if not fits or not isinstance(value, str | int | float):
        raise BadInput(f"{where}: {name} must be {_what(one)}, not {value!r}")
    least, most = one.option.least, one.option.most
    if not isinstance(value, str) and (
        (least is not None and value < least) or (most is not None and value > most)
    ):
        raise BadInput(f"{where}: {name} must be {_what(one)}, not {value:g}")
    return value


def _is_number(value: object, whole: bool) -> bool:
    return isinstance(value, int if whole else int | float) and not isinstance(value, bool)


def _what(one: Declared) -> str:
    if str in get_args(one.kind):
        return "a string in quotes"
    least, most = one.option.least, one.option.most
    whole = "a whole number" if get_args(one.kind)[0] is int else "a number"
    if least is None:
        return whole
    return (
        f"{whole} from {least:g} to {most:g}"
        if most is not None
        else f"{whole} of at least {least:g}"
    )


def _unknown(name: str) -> str:
    near = nearest(name.replace("-", "_"), settable())
    hint = f"did you mean {near}?" if near else f"there is {', '.join(settable())}"
    return f"there is no setting '{name}'; {hint}"


def from_text(name: str, text: str) -> str | int | float:
    """A setting's value from the command line. Raises BadInput."""
    one = settable().get(name)
    if one is None:
        raise BadInput(_unknown(name))
    value: Any = text
    if str not in get_args(one.kind):
        try:
            value = int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
        except ValueError:
            raise BadInput(f"{name} must be {_what(one)}, not '{text}'") from None
    return checked(name, value, "config set")


def write_setting(file: Path, name: str, value: str | int | float | None) -> None:
    """Put one setting into a file, or take it out; all other lines stay. Raises BadInput."""
    old = ""
    if file.is_file():
        read_file(file)
        old = file.read_text(encoding="utf-8")
    elif is_data(file.parent):
        raise BadInput(
            f"{file.parent} is the folder of a task or a run: no settings are read from it"
        )
    text = "".join(_lines(old, name, value))
    require_no_key(text, file)
    written = tomllib.loads(text)
    if (written.get(name) if value is not None else None) != value:
        raise BadInput(
            f"{file}: {name} is written in a form that config cannot change; edit the file by hand"
        )
    if file == project_file():
        _require_no_address(written, file, user_file())
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot create {file.parent}: {error.strerror}") from None
    write_whole(file, text.encode())


def _lines(text: str, name: str, value: str | int | float | None) -> Iterator[str]:
    """The file's lines with the setting's own replaced, or added."""
    new = "" if value is None else f"{name} = {json.dumps(value, ensure_ascii=False)}\n"
    own = re.compile(rf"\s*[\"']?{name}[\"']?\s*=")
    for line in text.splitlines():
        if own.match(line):
            yield new
            new = ""
        else:
            yield f"{line}\n"
    yield new
