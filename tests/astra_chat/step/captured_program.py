"""SGLang's runner captures a graph for each number of requests; run by test_inside.py with a
module instead of SGLang's hooks."""

import sys
import types

registry = types.ModuleType("sglang.srt.plugins.hook_registry")
registry.HookRegistry = registry.HookType = None
for name in ("sglang", "sglang.srt", "sglang.srt.plugins"):
    sys.modules[name] = types.ModuleType(name)
sys.modules[registry.__name__] = registry

from astra_step.sglang_step import _each_capture  # noqa: E402


class Runner:
    def capture_one_shape(self, size, forward, stream=None):
        if size > 64:
            raise RuntimeError("out of memory")
        return forward, stream


original, finished = Runner.capture_one_shape, []
with _each_capture(Runner, finished.append):
    assert [Runner().capture_one_shape(n, n + 1, stream=n) for n in (64, 1)] == [(65, 64), (2, 1)]
assert finished == [64, 1] and Runner.capture_one_shape is original
try:
    with _each_capture(Runner, finished.append):
        Runner().capture_one_shape(128, None)
except RuntimeError:
    pass
assert finished == [64, 1] and Runner.capture_one_shape is original
with _each_capture(int, finished.append):
    print("as before")
