"""PyTorch modules of our own, in KernelBench's form: as tasks, and timed beside PyTorch on a GPU.

    python -m lab.module_problems FOLDER [NAME...] [--compilations N]

Each module's file NAME.py is written to FOLDER, and its task to FOLDER/NAME, as `astra-chat new`
does. On a GPU, the plain kernels of each task are then timed beside eager and torch.compile, as
`astra-chat torch` does; FOLDER/NAME.json has the figures. Without a GPU, the reason is printed.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from astra_chat.cli.beside_torch import lines
from astra_chat.tools.build.nvcc import build
from astra_chat.tools.judge import Judge
from astra_chat.tools.new.create import new_task
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.timing.module_times import BesideModule
from astra_chat.tools.types import Device
from lab.commands import one_line_errors


@dataclass(frozen=True)
class Problem:
    """A module: its file is `text`."""

    what: str
    sizes: str
    """Numbers that its inputs and its constructor take, as Python."""
    result: str
    """What forward returns."""
    inputs: dict[str, str]
    """Parameters of forward, with the shape of each."""
    taken: str = ""
    """Arguments of the constructor."""
    made: Sequence[str] = ()
    """Statements of the constructor."""

    @property
    def text(self) -> str:
        made = ["def __init__(self, *sizes):", "    super().__init__()"]
        if self.taken:
            made.append(f"    {self.taken} = sizes")
        made += [f"    {line}" for line in self.made]
        forward = [f"def forward(self, {', '.join(self.inputs)}):", f"    return {self.result}"]
        given = ", ".join(f"torch.randn({shape})" for shape in self.inputs.values())
        body = textwrap.indent("\n".join([f'"""{self.what}"""', *made, *forward]), "    ")
        return (
            f"import torch\nfrom torch import nn\n\n{self.sizes}\n\n\nclass Model(nn.Module):\n"
            f"{body}\n\n\ndef get_inputs():\n    return [{given}]\n\n\n"
            f"def get_init_inputs():\n    return [{self.taken.rstrip(',')}]\n"
        )


PROBLEMS = {
    "bias_gelu": Problem(
        "GELU of rows plus a bias.",
        "rows, columns = 4096, 4096",
        "nn.functional.gelu(x + self.bias)",
        {"x": "rows, columns"},
        "columns,",
        ["self.bias = nn.Parameter(torch.randn(columns))"],
    ),
    "softmax_dim1": Problem(
        "Softmax over the middle axis.",
        "batch, channels, width = 64, 256, 512",
        "torch.softmax(x, dim=1)",
        {"x": "batch, channels, width"},
    ),
    "matmul_relu": Problem(
        "Product, then leaky ReLU.",
        "m, k, n = 1024, 2048, 1536",
        "nn.functional.leaky_relu(a @ b, 0.1)",
        {"a": "m, k", "b": "k, n"},
    ),
    "layer_norm": Problem(
        "Layer norm with weight and bias.",
        "tokens, hidden = 4096, 2048",
        "self.norm(x)",
        {"x": "tokens, hidden"},
        "hidden,",
        ["self.norm = nn.LayerNorm(hidden)"],
    ),
    "conv_relu": Problem(
        "Convolution of 3 x 3, then ReLU.",
        "batch, channels, size, wider = 16, 32, 64, 48",
        "torch.relu(self.conv(x))",
        {"x": "batch, channels, size, size"},
        "channels, wider",
        ["self.conv = nn.Conv2d(channels, wider, 3, padding=1)"],
    ),
    "mlp": Problem(
        "Two linear layers with SiLU between.",
        "rows, wide, hidden = 256, 1024, 4096",
        "self.down(nn.functional.silu(self.up(x)))",
        {"x": "rows, wide"},
        "wide, hidden",
        ["self.up = nn.Linear(wide, hidden)", "self.down = nn.Linear(hidden, wide)"],
    ),
    "cumsum": Problem(
        "Cumulative sum of rows.",
        "rows, columns = 2048, 4096",
        "torch.cumsum(x, dim=1)",
        {"x": "rows, columns"},
    ),
}


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", choices=[[], *PROBLEMS], metavar="NAME")
    parser.add_argument("--compilations", type=int, default=3)
    asked = parser.parse_args()
    names, device = asked.names or [*PROBLEMS], pick_device("auto")
    asked.folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(len(names) if device.kind == "cuda" else 1) as pool:
        made = pool.map(lambda name: prepared(asked.folder, name, device), names)
        for name, task in zip(names, made, strict=True):
            print("\n".join(measured(task, asked.folder / f"{name}.json", asked.compilations)))


def prepared(folder: Path, name: str, device: Device) -> Path:
    """The task of a problem; on a GPU its baseline is built already."""
    file, task = folder / f"{name}.py", folder / name
    if not task.exists():
        file.write_text(PROBLEMS[name].text)
        new_task(name, [file], folder=task)
    if device.kind == "cuda":
        build(load_task(task), load_task(task).baseline, device, Stop())
    return task


def measured(folder: Path, file: Path, compilations: int) -> list[str]:
    """Lines about the plain kernels of a task beside PyTorch; the figures go to the file."""
    task = load_task(folder)
    with Judge(task, pick_device("auto"), trust=True) as judge:
        found = judge.beside_module(judge.baseline, task.bench, compilations, "default")
    if not isinstance(found, BesideModule):
        return [f"{task.name}: not run: {found}"]
    file.write_text(found.model_dump_json(indent=2) + "\n")
    return list(lines(found))


if __name__ == "__main__":
    main()
