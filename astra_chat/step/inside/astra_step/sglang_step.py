"""A decode step of SGLang's own model runner, with dummy weights and without a server."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from astra_step import fp32, weights
from astra_step.models import MODELS

DUMMY_WEIGHTS = "sglang.srt.model_loader.loader.initialize_dummy_weights"


def replace_dummy_weights() -> None:
    """Before the plugins are loaded, which applies all hooks."""
    HookRegistry.register(DUMMY_WEIGHTS, weights.initialize, HookType.REPLACE)


class SglangStep:
    """A model on this GPU; prompts and tokens are the same for all variants."""

    def __init__(self, request: dict[str, Any]) -> None:
        import sglang.benchmark.one_batch as bench
        from sglang.srt.server_args import PortArgs, prepare_server_args

        self._bench = bench
        self._length, self._steps = request["prompt_tokens"], request["steps"]
        folder, self._config = _model_folder(request["model"])
        server = prepare_server_args(_flags(folder, request))
        bench._set_envs_and_config(server)
        bench.get_tokenizer = lambda *args, **named: None
        bench.initialize_moe_config(server)
        bench.initialize_fp8_gemm_config(server)
        bench.initialize_fp4_gemm_config(server)
        self._wrapped, _ = bench.load_model(server, PortArgs.init_new(server), 0, 0)
        self._runner: Any = self._wrapped.torch_runner
        self._attention = server.attention_backend
        self._tokens: dict[int, list[list[int]]] = {}
        # All captures share one pool of memory, which has to have an owner at all times.
        self._first = self._runner.decode_cuda_graph_runner
        # Every graph reads the attention's buffers of the first capture: a second capture would
        # replace them, and graphs that are kept would read memory of others.
        self._runner.attn_backend.init_cuda_graph_state = lambda *args, **named: None

    def capture(self, finished: Callable[[int], None]) -> Any:
        """Graphs of a step for all numbers of requests, with the winners of now; `finished` gets
        each number."""
        torch.cuda.synchronize()
        with _each_capture(type(self._first), finished):
            self._runner.init_decode_cuda_graph()
        torch.cuda.synchronize()
        return self._runner.decode_cuda_graph_runner

    @torch.no_grad()
    def run(self, captured: Any, batch: int) -> Iterator[torch.Tensor]:
        """Logits of the prompt and of each step. The first run chooses the tokens, the others get
        them, too. Each result holds until the next."""
        self._runner.decode_cuda_graph_runner = captured
        self._wrapped.clear()
        requests = self._bench.prepare_synthetic_inputs_for_latency_test(
            batch, self._length, self._prompts(batch)
        )
        for one in requests:
            one.sampling_params.max_new_tokens = self._steps + 1
        ids, logits, state = self._wrapped.extend(requests)
        known = self._tokens.get(batch)
        chosen = [ids.tolist()]
        yield logits.float()
        for step in range(self._steps):
            if known is not None:
                ids = torch.tensor(known[step], device=ids.device, dtype=ids.dtype)
            ids, logits = self._wrapped.decode(ids, state)
            chosen.append(ids.tolist())
            yield logits.float()
        self._tokens.setdefault(batch, chosen)

    def graph(self, captured: Any, batch: int) -> Any:
        """The graph that `run` replayed last: of this number of requests."""
        return captured.backend._graphs[captured._replay_graph_key]

    def reference(self, batch: int) -> list[torch.Tensor] | str:
        """Logits of the same tokens in float32; or why there are none."""
        architecture = self._config["architectures"][0]
        if architecture not in fp32.ARCHITECTURES:
            return f"Astra has no float32 forward pass for {architecture}"
        chosen = torch.tensor(self._tokens[batch][: self._steps]).T
        tokens = torch.cat([torch.tensor(self._prompts(batch)), chosen], 1)
        model = self._runner.model
        rotation = model.model.layers[0].self_attn.rotary_emb.cos_sin_cache
        positions = range(self._length - 1, self._length + self._steps)
        found: list[torch.Tensor] = fp32.logits(
            model.state_dict(), rotation, self._config, tokens.to(rotation.device), positions
        )
        return found

    def facts(self) -> dict[str, str]:
        """What the baseline is made of here."""
        found = {"attention": str(self._attention)}
        try:
            import flashinfer.norm as norm

            found["norm"] = "FlashInfer, " + ("CUDA source" if norm._USE_CUDA_NORM else "CuTe DSL")
        except (ImportError, AttributeError):
            found["norm"] = "not FlashInfer"
        return found

    def _prompts(self, batch: int) -> list[list[int]]:
        draws = random.Random(11)
        most = self._config["vocab_size"] - 10
        return [[draws.randrange(most) for _ in range(self._length)] for _ in range(batch)]


@contextmanager
def _each_capture(runners: Any, finished: Callable[[int], None]) -> Iterator[None]:
    """Say when each graph is captured; a version of SGLang without this function says nothing."""
    original = getattr(runners, "capture_one_shape", None)
    if original is None:
        yield
        return

    @wraps(original)
    def capture_one_shape(runner: Any, size: int, *args: Any, **named: Any) -> Any:
        result = original(runner, size, *args, **named)
        finished(size)
        return result

    runners.capture_one_shape = capture_one_shape
    try:
        yield
    finally:
        runners.capture_one_shape = original


def _model_folder(model: str) -> tuple[str, dict[str, Any]]:
    """A known model's configuration, written to a folder; or a folder that has one."""
    if model not in MODELS:
        return model, json.loads((Path(model) / "config.json").read_text())
    folder = Path(tempfile.mkdtemp(prefix=f"astra-step-{model}-"))
    (folder / "config.json").write_text(json.dumps(MODELS[model], indent=1))
    (folder / "generation_config.json").write_text("{}")
    return str(folder), MODELS[model]


def _flags(folder: str, request: dict[str, Any]) -> list[str]:
    batches: Sequence[int] = request["batches"]
    graphs = {
        "decode": {"backend": "full", "bs": list(batches), "max_bs": max(batches)},
        "prefill": {"backend": "disabled"},
    }
    flags = {
        "--model-path": folder,
        "--load-format": "dummy",
        "--dtype": "bfloat16",
        "--mem-fraction-static": "0.5",
        "--max-total-tokens": "65536",
        "--max-running-requests": str(max(batches)),
        "--context-length": "4096",
        "--chunked-prefill-size": "4096",
        "--random-seed": "7",
        "--cuda-graph-config": json.dumps(graphs),
    }
    words = [word for pair in flags.items() for word in pair]
    return [*words, "--skip-tokenizer-init", "--disable-radix-cache", *request["arguments"]]
