"""A function of PyTorch's as a new task's reference: its files are copied into the task."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from astra_chat.tools.new.draft import MARK
from astra_chat.tools.task.folder import REFERENCE
from astra_chat.tools.task.toml_edits import with_pair
from astra_vgpu.ground.errors import BadInput, reading


class ReferenceFunction:
    """`module:function`, or `path/to/file.py:function`."""

    def __init__(self, text: str) -> None:
        self.text = text
        file, _, function = text.rpartition(":")
        if file.endswith(".py"):
            self._root, self._module = Path(file).parent, Path(file).stem
            self._path: Path | None = Path(file)
        else:
            self._module = file
            self._root, self._path = _found(file)
        self.name = f"{self._module}:{function}"
        if not re.fullmatch(REFERENCE, self.name):
            raise BadInput(f"--reference {text}: write module:function or path/to/file.py:function")
        if self._path is None:
            self._require_installed()
        else:
            self._require_defined(self._path, function)

    def _require_installed(self) -> None:
        top = self._module.partition(".")[0]
        if PathFinder.find_spec(top) is None:
            raise BadInput(
                f"--reference {self.text}: there is no {self._module.replace('.', '/')}.py here or"
                " on PYTHONPATH, and no such module is installed in Astra's environment"
            )

    def _require_defined(self, path: Path, function: str) -> None:
        defined = {getattr(node, "name", "") for node in ast.walk(_tree(path))}
        if function.rpartition(".")[2] not in defined:
            raise BadInput(f"--reference {self.text}: {path} defines no {function}")

    def files(self) -> dict[str, str]:
        """Texts of its file and of those that it imports from the same root, by their paths there;
        none of an installed module."""
        if self._path is None:
            return {}
        found: dict[str, str] = {}
        left = [self._path]
        while left:
            path = left.pop()
            name = path.relative_to(self._root).as_posix()
            if name not in found:
                with reading(path):
                    found[name] = path.read_text()
                left += _local_imports(path, self._root)
        return found

    def put_into(self, folder: Path) -> None:
        """Let the task of a folder be judged by it: its task.toml names the function, files of the
        user's own lie in the folder, and a reference.py with blanks goes."""
        for name, text in self.files().items():
            path = folder / name
            if path.exists():
                raise BadInput(f"--reference {self.text}: {path} already exists")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        contract, own = folder / "task.toml", folder / "reference.py"
        contract.write_text(with_pair(contract.read_text(), "reference", self.name, "entry"))
        if own.is_file() and MARK in own.read_text():
            own.unlink()


def _found(module: str) -> tuple[Path, Path | None]:
    """The root and the file of a module of the user's own; None: it is no file of theirs."""
    own = [Path.cwd(), *(Path(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)]
    for root in own:
        base = root / module.replace(".", "/")
        for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
            if path.is_file():
                return root, path
    return Path(), None


def _tree(path: Path) -> ast.Module:
    with reading(path):
        text = path.read_text()
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise BadInput(
            f"{path}, line {error.lineno}: it is not valid Python: {error.msg}"
        ) from None


def _local_imports(path: Path, root: Path) -> Iterator[Path]:
    """Files below the root that a file imports, and the __init__.py of its packages."""
    packages = path.relative_to(root).parent
    for folder in (packages, *packages.parents):
        if folder != Path() and (root / folder / "__init__.py").is_file():
            yield root / folder / "__init__.py"
    for name in _imported(_tree(path), ".".join(packages.parts)):
        base = root / name.replace(".", "/")
        for file in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
            if name.partition(".")[0] not in sys.stdlib_module_names and file.is_file():
                yield file


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """Modules that a file may mean, with their packages' names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if package else []
            kept = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*kept, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
