"""Programs whose calls are captured, as files of a folder; and the folder as where they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from astra_chat.tools.capture.calls import Calls
from astra_chat.tools.capture.program import capture

OPS = """
import torch

def rms(x, w, eps=1e-6, bias=None):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w

def attend(q, k, v, out):
    out.copy_(q + k + v)
    return out

def tiny(x, number):
    return None

def total(parts):
    return sum(parts)

class Norm:
    @staticmethod
    def apply(x):
        return x / x.norm()

@torch.library.custom_op("mine::gather", mutates_args=("out",))
def gather(out: torch.Tensor, table: torch.Tensor, idx: torch.Tensor, scale: float) -> None:
    out.copy_(table[idx] * scale)

library = torch.library.Library("liar", "DEF")
library.define("fill(Tensor x) -> ()")
library.impl("fill", lambda x: x.data.fill_(1) is None or None, "CPU")
library.define("same(Tensor x) -> Tensor")
library.impl("same", lambda x: x, "CPU")
"""


class Program:
    """A folder with ops.py, in which programs are run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        (folder / "ops.py").write_text(OPS)
        monkeypatch.chdir(folder)
        root = str(Path(__file__).parents[3])
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), root]))

    def calls(
        self,
        text: str,
        names: Sequence[str],
        *,
        options: Sequence[str] = (),
        contents: Path | None = None,
    ) -> Calls:
        """What the recorder sees of these operators while a program of this text runs."""
        (self.folder / "main.py").write_text(text)
        return capture([sys.executable, *options, "main.py"], names, contents)
