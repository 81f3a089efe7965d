"""The entry points of both engines: hooks that fit the installed engine are set, and the others
are named in a log line each. Nothing here may stop a server: where something is wrong, the original
runs."""

from __future__ import annotations

import importlib.metadata
import inspect
import logging
import pkgutil
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import torch
from packaging.specifiers import SpecifierSet

from astra_winners import watching
from astra_winners.hooks import HOOKS
from astra_winners.operators import OPERATORS, PACKAGED, switched_on

Function = Callable[..., Any]
log = logging.getLogger("astra_winners")


@dataclass(frozen=True)
class Hook:
    """One place of an engine, and the function that stands before it."""

    engine: str
    target: str
    """module:function, or module:Class.method."""
    versions: str
    """Versions of the engine whose code it was written for."""
    parameters: tuple[str, ...]
    operators: tuple[str, ...]
    function: Function
    """It is called with the original first, then with the call's arguments."""


@dataclass(frozen=True)
class Fit:
    """A hook beside the installed engine."""

    hook: Hook
    why_not: str
    """Empty: it is set."""

    @property
    def words(self) -> str:
        names = ", ".join(self.hook.operators)
        state = f"original runs: {self.why_not}" if self.why_not else "hooked"
        return f"{names}: {self.hook.target}: {state}"


FITS: list[Fit] = []
"""What the plugin did in this process."""


def sglang_plugin() -> None:
    """Called by SGLang in each of its processes, by the entry point group sglang.srt.plugins."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for fit in fits("sglang"):
        if not fit.why_not:
            path = dotted(fit.hook.target)
            HookRegistry.register(path, fit.hook.function, HookType.AROUND)
            begin(fit.hook, partial(_hooks_of_others, HookRegistry, path))


def vllm_plugin() -> None:
    """Called by vLLM in each of its processes, by the entry point group vllm.general_plugins;
    perhaps more than once."""
    for fit in fits("vllm") if not FITS else ():
        if not fit.why_not:
            set_hook(fit.hook)
            begin(fit.hook)


def begin(hook: Hook, others: Callable[[], str] | None = None) -> None:
    """Its operators may take calls from now on, unless another plugin has a hook there."""
    for name in set(hook.operators) & switched_on():
        OPERATORS[name].hooked = OPERATORS[name].wanted = True
        OPERATORS[name].others += [others] if others else []


def fits(engine: str) -> Iterator[Fit]:
    """Each hook of an engine, with a log line for what does not fit."""
    watching.begin(engine)
    wanted = switched_on()
    for made in HOOKS:
        hook = Hook(**made)
        if hook.engine == engine and set(hook.operators) & wanted:
            fit = Fit(hook, why_not(hook))
            (log.warning if fit.why_not else log.info)("astra: %s", fit.words)
            FITS.append(fit)
            yield fit


def why_not(hook: Hook) -> str:
    """Why a hook is not set; empty: it fits."""
    try:
        installed = importlib.metadata.version(hook.engine)
        if not SpecifierSet(hook.versions).contains(installed, prereleases=True):
            return f"{hook.engine} {installed} is not {hook.versions}"
        proved = PACKAGED["versions"]
        if proved and installed not in proved:
            return f"it was proved with {hook.engine} {', '.join(proved)}, but this is {installed}"
        found = parameters(pkgutil.resolve_name(hook.target))
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    if found != hook.parameters:
        return f"it takes ({', '.join(found)}), not ({', '.join(hook.parameters)})"
    return ""


def parameters(function: Any) -> tuple[str, ...]:
    """Names of a function's parameters; those of an operator of PyTorch stand in its schema."""
    if isinstance(function, torch._ops.OpOverloadPacket):
        packet: Any = function
        schema = getattr(packet, packet.overloads()[0])._schema
        return tuple(argument.name for argument in schema.arguments)
    return tuple(inspect.signature(function).parameters)


def set_hook(hook: Hook) -> None:
    """Put the hook in the place of its target, and of every name that modules have for it."""
    owner, _, name = hook.target.replace(":", ".").rpartition(".")
    place = pkgutil.resolve_name(owner)
    original = getattr(place, name)

    @wraps(original)
    def hooked(*args: Any, **named: Any) -> Any:
        return hook.function(original, *args, **named)

    setattr(place, name, hooked)
    for module in [m for m in sys.modules.values() if isinstance(m, types.ModuleType)]:
        for alias, value in list(vars(module).items()):
            if value is original:
                setattr(module, alias, hooked)


def dotted(target: str) -> str:
    return target.replace(":", ".")


def _hooks_of_others(registry: Any, path: str) -> str:
    """Other plugins' hooks on one target: what they do to a call is not known here."""
    ours = {hook["function"] for hook in HOOKS}
    others = [source for _, function, source in registry._hooks[path] if function not in ours]
    names = ", ".join(str(getattr(source, "plugin_name", source)) for source in others)
    return f"plugin {names} also hooks {path}" if others else ""
