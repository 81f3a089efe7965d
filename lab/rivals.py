"""What engines launch today for our tasks on sm_90, as data: `python -m lab.rivals`.

    list               every rival by task: its package, its kernel, how it is measured or why not
    check PACKAGE...   whether a wheel, or a folder of installed packages, matches lab/rivals.toml:
                       files, names near their lines, conditions word for word

The registry names kernels of other projects, and the places in their code that decide when they are
launched; it contains none of their code. A check of another version says what to examine again, and
exits with 1 if something is gone.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors

REGISTRY = Path(__file__).with_suffix(".toml")
NEAR = 20
"""Lines by which a name may have moved without being worth a word."""
MACHINE_CODE = ".so"
State = Literal["as written", "moved", "gone"]


class DispatchPlace(Value):
    """Where a package says what it launches, or has the kernel."""

    file: str
    name: str = ""
    """A function, class or kernel in it; of machine code a part of the kernel's symbol."""
    line: int = 0
    """Line of the name; 0: none, as in machine code."""
    text: str = ""
    """A condition or a call, word for word but for white space."""
    package: str = ""
    """The package of the file, where that is not the kernel's."""


class Rival(Value):
    """A kernel that an engine launches on sm_90."""

    task: str = ""
    """Empty: no shipped task can be compared with it."""
    package: str
    kernel: str
    calls: str
    """Which calls of the engine take it."""
    places: tuple[DispatchPlace, ...] = Field(min_length=1)
    measured: tuple[str, ...] = ()
    """Names of lab/baselines under which it is timed."""
    not_run: str = ""
    pdl: bool = False
    """Whether the engine launches it with programmatic stream serialization."""

    @model_validator(mode="after")
    def _measured_or_not(self) -> Rival:
        if bool(self.measured) == bool(self.not_run):
            raise ValueError(f"{self.kernel} needs either `measured` or `not_run`")
        return self


class Registry(Value):
    """All rivals, with the versions in which their places were read."""

    read: str
    """The day, as YYYY-MM-DD."""
    versions: Mapping[str, str]
    """The version that was read, by package."""
    rival: tuple[Rival, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _of_known_packages(self) -> Registry:
        named = {one.package for one in self.rival}
        named |= {place.package for one in self.rival for place in one.places if place.package}
        if unknown := sorted(named - set(self.versions)):
            raise ValueError(f"no version of {', '.join(unknown)}")
        return self

    def of_task(self, task: str) -> list[Rival]:
        return [one for one in self.rival if one.task == task]

    def places_of(self, package: str) -> Iterator[tuple[Rival, DispatchPlace]]:
        """Yields what is to be looked at in a package."""
        for one in self.rival:
            for place in one.places:
                if (place.package or one.package) == package:
                    yield one, place


def read_registry(path: Path = REGISTRY) -> Registry:
    """Raises BadInput."""
    try:
        return Registry.model_validate(tomllib.loads(path.read_text()))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{path}: {where}: {first['msg']}") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from None


@dataclass(frozen=True)
class Package:
    """A package as a wheel or as a folder in which it is installed or unpacked."""

    path: Path
    name: str
    version: str

    def content(self, file: str) -> bytes | None:
        """A file of the package; None: it has none of that name."""
        if self._members is None:
            path = self.path / file
            return path.read_bytes() if path.is_file() else None
        if file not in self._members:
            return None
        with zipfile.ZipFile(self.path) as wheel:
            return wheel.read(file)

    @cached_property
    def _members(self) -> frozenset[str] | None:
        if self.path.is_dir():
            return None
        with zipfile.ZipFile(self.path) as wheel:
            return frozenset(wheel.namelist())


def packages(path: Path, known: Iterable[str]) -> list[Package]:
    """The packages of the registry in a wheel or folder. Raises BadInput where there is none."""
    try:
        if path.is_dir():
            metadata = [one.read_text() for one in sorted(path.glob("*.dist-info/METADATA"))]
        else:
            metadata = list(_wheel_metadata(path))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise BadInput(f"{path} is neither a wheel nor a folder of packages: {error}") from None
    found = [_package(path, text) for text in metadata]
    some = [one for one in found if one.name in set(known)]
    if not some:
        names = ", ".join(sorted(known))
        raise BadInput(f"{path} contains none of the registry's packages ({names})")
    return some


def _wheel_metadata(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            inside = PurePosixPath(name)
            if inside.name == "METADATA" and inside.parent.name.endswith(".dist-info"):
                yield wheel.read(name).decode()


def _package(path: Path, metadata: str) -> Package:
    headers = HeaderParser().parsestr(metadata)
    name = re.sub(r"[-_.]+", "-", headers.get("Name", "")).lower()
    return Package(path, name, headers.get("Version", "?"))


@dataclass(frozen=True)
class Finding:
    """What has become of one place."""

    rival: Rival
    place: DispatchPlace
    state: State
    what: str = ""

    def __str__(self) -> str:
        whose = ": ".join(filter(None, (self.rival.task, self.rival.kernel)))
        return f"{whose}: {self.place.file}: {self.what}"


def check(registry: Registry, package: Package) -> list[Finding]:
    """What has become of each place of a package. A file is read once."""
    contents: dict[str, bytes | None] = {}
    found = []
    for rival, place in registry.places_of(package.name):
        if place.file not in contents:
            contents[place.file] = package.content(place.file)
        found.append(_finding(rival, place, contents[place.file]))
    return found


def _finding(rival: Rival, place: DispatchPlace, content: bytes | None) -> Finding:
    if content is None:
        return Finding(rival, place, "gone", "the file is gone")
    if place.file.endswith(MACHINE_CODE):
        if place.name.encode() not in content:
            return Finding(rival, place, "gone", f"{place.name} is gone from the machine code")
        return Finding(rival, place, "as written")
    text = content.decode(errors="replace")
    if place.text and " ".join(place.text.split()) not in " ".join(text.split()):
        return Finding(rival, place, "gone", f"this is gone: {place.text}")
    if not place.name:
        return Finding(rival, place, "as written")
    lines = _lines_with(place.name, text)
    if not lines:
        return Finding(rival, place, "gone", f"{place.name} is gone")
    nearest = min(lines, key=lambda line: abs(line - place.line))
    if place.line and abs(nearest - place.line) > NEAR:
        moved = f"{place.name} moved from line {place.line} to {nearest}"
        return Finding(rival, place, "moved", moved)
    return Finding(rival, place, "as written")


def _lines_with(name: str, text: str) -> list[int]:
    """Numbers of the lines that have a name as a word."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return [number for number, line in enumerate(text.splitlines(), 1) if word.search(line)]


def report(registry: Registry, package: Package, found: Sequence[Finding]) -> Iterator[str]:
    """Lines that say what changed in a package since its places were read."""
    known = registry.versions[package.name]
    same = package.version == known
    yield f"{package.name} {package.version}" + (
        ", the registry's version" if same else f" (registry: {known})"
    )
    yield from (f"  {one.state}: {one}" for one in found if one.state != "as written")
    counts = ", ".join(
        f"{sum(one.state == state for one in found)} {state}"
        for state in ("as written", "moved", "gone")
    )
    rivals = len({id(one.rival) for one in found})
    yield f"  {len(found)} places of {rivals} kernels: {counts}"


def listing(registry: Registry) -> Iterator[str]:
    """Lines that name every rival, by task."""
    for task in dict.fromkeys(one.task for one in registry.rival):
        yield task or "without a task"
        for one in registry.of_task(task):
            how = ", ".join(one.measured) or f"not run: {one.not_run}"
            version = registry.versions[one.package]
            yield f"  {one.package} {version}: {one.kernel} ({one.calls}): {how}"


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.rivals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    checks = commands.add_parser("check")
    checks.add_argument("packages", nargs="+", type=Path, metavar="PACKAGE")
    asked = parser.parse_args()
    registry = read_registry()
    if asked.command == "list":
        print("\n".join(listing(registry)))
        return
    gone = False
    for path in asked.packages:
        for package in packages(path, registry.versions):
            found = check(registry, package)
            gone = gone or any(one.state == "gone" for one in found)
            print("\n".join(report(registry, package, found)))
    sys.exit(int(gone))


if __name__ == "__main__":
    main()
