"""Operators wrapped in the captured program: each as soon as its module is imported."""

from __future__ import annotations

import functools
import importlib.abc
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Done = Callable[[ModuleType], None]


class ImportHook(importlib.abc.MetaPathFinder):
    """Runs something on modules after they are imported."""

    def __init__(self) -> None:
        self._wanted: dict[str, list[Done]] = {}

    def when_imported(self, module: str, done: Done) -> None:
        """Run `done` on the module: now, or once it is there."""
        if module in sys.modules:
            done(sys.modules[module])
        else:
            self._wanted.setdefault(module, []).append(done)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders find, with what is to be done."""
        if name not in self._wanted:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader.exec_module = functools.partial(  # type: ignore[method-assign]
                    self._executed, name, spec.loader.exec_module
                )
                return spec
        return None

    def _executed(self, name: str, execute: Done, module: ModuleType) -> None:
        execute(module)
        for done in self._wanted.pop(name, ()):
            done(module)


def wrap_function(module: ModuleType, path: str, wrapped: Callable[[Any], Any]) -> None:
    """Put a wrapper in the place of module.path, "function" or "Class.method". Raises
    AttributeError and TypeError."""
    *owners, name = path.split(".")
    owner: Any = module
    for part in owners:
        owner = getattr(owner, part)
    found = inspect.getattr_static(owner, name) if owners else getattr(owner, name)
    if isinstance(found, staticmethod | classmethod):
        setattr(owner, name, type(found)(wrapped(found.__func__)))
    elif callable(found) and not isinstance(found, type):
        setattr(owner, name, wrapped(found))
    else:
        raise TypeError(f"{path} is a {type(found).__name__}, not a function")


def wrap_torch_ops(module: ModuleType, called: Callable[[Any], Any]) -> None:
    """Let calls of torch.ops pass through what `called` gives for the operator, where it gives
    something: overloads and packets of overloads are called by their classes' __call__."""
    for name in ("OpOverload", "OpOverloadPacket"):
        kind = getattr(module, name)
        kind.__call__ = _through(kind.__call__, called)


def _through(original: Callable[..., Any], called: Callable[[Any], Any]) -> Callable[..., Any]:
    known: dict[int, tuple[Any, Any]] = {}

    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in known:
            known[id(self)] = self, called(self)
        wrapper = known[id(self)][1]
        if wrapper is None:
            return original(self, *args, **kwargs)
        return wrapper(functools.partial(original, self), args, kwargs)

    functools.update_wrapper(call, original)
    return call


def wrap_graphs(module: ModuleType, replayed: Callable[[], None]) -> None:
    """Tell of each replay of a CUDA graph."""
    original = module.CUDAGraph.replay

    def replay(self: Any) -> Any:
        replayed()
        return original(self)

    module.CUDAGraph.replay = replay
