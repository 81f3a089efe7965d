"""The folder of an optimization: the task, its runs, the file as it was, patch and evidence."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from astra_chat.optimize.repository import Place, blob_id, head_of
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Value, sha256_of
from astra_chat.transcript.run_folder import TRANSCRIPT
from astra_vgpu.ground.errors import BadInput, reading

RECORD, ORIGINAL = "optimize.json", "original"
DEFAULT = Path("astra-optimize")
"""Where the folders lie that nobody named."""


class Begun(Value):
    """What was optimized, and how the task was made."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/optimize/1"] = Field("astra-chat/optimize/1", alias="schema")
    file: str
    """Below the top of its repository."""
    mode: str
    """Git's: 100644, or 100755 of an executable file."""
    sha256: str
    blob: str
    """Its content as git names it."""
    commit: str
    """What was checked out; "" for none."""
    made_with: dict[str, tuple[str, ...]]
    """Options that the task was made with."""


class OwnFolder:
    """Paths of it, and what was begun there."""

    def __init__(self, path: Path) -> None:
        self.path, self.task = path, path / "task"
        self.patch, self.evidence = path / "winner.patch", path / "evidence.html"

    @property
    def begun(self) -> Begun | None:
        """None: nothing was. Raises BadInput where the record cannot be read."""
        record = self.path / RECORD
        if not record.is_file():
            return None
        with reading(record):
            text = record.read_text()
        try:
            return Begun.model_validate_json(text)
        except ValidationError as error:
            what = one_line(error.errors()[0]["msg"])
            raise BadInput(f"{record}: {what}: choose another folder with -o") from None

    @property
    def original(self) -> str:
        """The file as it was when the task was made."""
        path = self.path / ORIGINAL
        with reading(path):
            return path.read_bytes().decode()

    @property
    def runs(self) -> list[Path]:
        """Folders of the runs that were begun, in their order."""
        found = [p.parent for p in self.path.glob(f"run-*/{TRANSCRIPT}")]
        return sorted(found, key=lambda run: int(re.sub(r"\D", "", run.name) or 0))

    @property
    def next_run(self) -> Path:
        return self.path / f"run-{len(self.runs) + 1}"

    def begin(
        self, place: Place, made_with: Mapping[str, tuple[str, ...]], make: Callable[[Path], None]
    ) -> None:
        """Make the task by `make`, and the rest: all of it or nothing. Raises BadInput."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise BadInput(
                f"{self.path} exists, but optimize did not create it: choose another folder with -o"
            )
        with reading(place.path):
            content = place.path.read_bytes()
            text = content.decode()
        begun = Begun(
            schema="astra-chat/optimize/1",
            file=place.name,
            mode=place.mode,
            sha256=sha256_of(text),
            blob=blob_id(content),
            commit=head_of(place),
            made_with=dict(made_with),
        )
        above = self.path.parent
        made_above = not above.exists()
        above.mkdir(parents=True, exist_ok=True)
        try:
            self._begin(content, begun, make)
        except BaseException:
            if made_above:
                with contextlib.suppress(OSError):
                    above.rmdir()  # unless somebody put something there
            raise

    def _begin(self, content: bytes, begun: Begun, make: Callable[[Path], None]) -> None:
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=".optimize-") as scratch:
            (Path(scratch) / ".gitignore").write_text("*\n")
            whole = Path(scratch) / "whole"
            whole.mkdir()
            make(whole / "task")
            (whole / ORIGINAL).write_bytes(content)
            (whole / ".gitignore").write_text("*\n")
            (whole / RECORD).write_text(begun.model_dump_json(indent=2) + "\n")
            whole.rename(self.path)

    def require_same(self, place: Place, made_with: Mapping[str, tuple[str, ...]]) -> Begun:
        """What was begun. Raises BadInput where the folder is about another file, or its task was
        made with other options than these."""
        begun = self.begun
        assert begun is not None
        if begun.file != place.name:
            raise BadInput(f"{self.path} belongs to {begun.file}: choose another folder with -o")
        for name, given in made_with.items():
            if given and begun.made_with.get(name, ()) != given:
                was = " ".join(begun.made_with.get(name, ())) or "none"
                raise BadInput(
                    f"{name} {' '.join(given)}: the task in {self.path} was made with {was}:"
                    " choose another folder with -o"
                )
        return begun


def name_of(file: Path, function: str | None) -> str:
    """A task's name for a file, or for the function of it that was chosen."""
    word = (function or file.stem).rpartition("::")[2].lower()
    name = re.sub(r"[^a-z0-9_]", "_", word)
    return name if re.match(r"[a-z_]", name) else f"kernel_{name}"
