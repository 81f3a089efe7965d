"""A user's own step, captured twice and run: by test_inside.py, which names the function. Without a
GPU, replays of a graph are counted."""

import contextlib
import sys

import torch
from astra_step.called_step import CalledStep, NoStep

running = []


class Graph:
    def replay(self):
        self.replays = getattr(self, "replays", 0) + 1


@contextlib.contextmanager
def graph(one):
    running.append(one)
    yield


class Stream:
    def wait_stream(self, other):
        assert isinstance(other, Stream)


torch.cuda.CUDAGraph, torch.cuda.graph = Graph, graph
torch.cuda.synchronize = lambda: None
torch.cuda.Stream = torch.cuda.current_stream = Stream
torch.cuda.stream = lambda stream: contextlib.nullcontext()
try:
    step = CalledStep(sys.argv[1], [1, 8])
    finished = []
    first, second = (step.capture(finished.append) for _ in range(2))
    assert finished == [1, 8, 1, 8] and len(running) == 4
    for logits in step.run(first, 8):
        print(tuple(logits.shape), logits.dtype)
    assert step.graph(first, 8).replays == 1 and not hasattr(step.graph(second, 8), "replays")
    assert isinstance(step.reference(1), str) and step.graph(first, 1) is running[0]
except NoStep as error:
    print(error)
