"""`python -m astra_step REQUEST.json`: samples of a step, written to the file that the request
names."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

SCHEMA = "astra-chat/step-samples/1"


def main() -> int:
    request = json.loads(Path(sys.argv[1]).read_text())
    os.environ["ASTRA_WINNERS_TRIAL"] = "1"
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        os.environ.setdefault(name, "1")
    import torch

    if not torch.cuda.is_available():
        print("there is no GPU here", file=sys.stderr)
        return 3
    from astra_step.called_step import NoStep

    try:
        measure_all(request)
        code = 0
    except NoStep as error:
        print(error, file=sys.stderr)
        code = 2
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads and process groups of an engine can keep Python from ending


def measure_all(request: dict[str, Any]) -> None:
    """Write the samples after each number of requests: a program that is stopped leaves some."""
    from astra_step.measuring import measure

    load(request)
    from astra_winners import operators, plugin

    hooks = [fit.words for fit in plugin.FITS]
    print("\n".join(hooks), flush=True)
    hooked = [name for name, one in operators.OPERATORS.items() if one.hooked]
    head = {
        "schema": SCHEMA,
        "request": request,
        **machine(request["engine"]),
        "hooks": hooks,
        "packaged": {
            name: {"candidate": one["candidate"], "kernels": one["kernels"]}
            for name, one in operators.PACKAGED["operators"].items()
        },
    }
    out = Path(request["out"])

    def write(found: dict[str, Any]) -> None:
        scratch = out.with_name(out.name + ".part")
        scratch.write_text(json.dumps(head | found))
        scratch.replace(out)

    measure(made(request), {**request, "operators": hooked}, operators, write)


def load(request: dict[str, Any]) -> None:
    """The engine's plugins, as it loads them itself."""
    if request["engine"] == "sglang":
        if request["call"] is None:
            from astra_step.sglang_step import replace_dummy_weights

            replace_dummy_weights()
        from sglang.srt.plugins import load_plugins

        load_plugins()
    else:
        from vllm.plugins import load_general_plugins

        load_general_plugins()


def made(request: dict[str, Any]) -> Any:
    if request["call"] is not None:
        from astra_step.called_step import CalledStep

        return CalledStep(request["call"], request["batches"])
    from astra_step.sglang_step import SglangStep

    return SglangStep(request)


def machine(engine: str) -> dict[str, Any]:
    import torch
    from astra_winners.operators import gpu, ranks

    name, arch = gpu()
    return {
        "engine": engine,
        "version": importlib.metadata.version(engine),
        "torch": torch.__version__,
        "gpu": name,
        "arch": arch,
        "ranks": ranks(),
    }


if __name__ == "__main__":
    sys.exit(main())
