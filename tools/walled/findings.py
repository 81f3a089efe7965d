"""Findings about candidates of others: names, kinds and sentences.

A kind says what was seen, not what its author intended.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "not built",
    "not computed",
    "tampering",
    "wrong",
    "no kernel",
    "mistake",
    "note",
    "not judged",
]
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]
"""The gravest first: the table's reason is the first finding in this order."""
FINDINGS: dict[str, tuple[Kind, str]] = {
    "fails": ("not built", "it raises an error on the set's own input"),
    "ended": ("not built", "its process ended early"),
    "needs_more": (
        "not judged",
        "it needs something that was not published with it or is not on this machine",
    ),
    "not_built": ("not built", "it does not load or build"),
    "cached_by_address": (
        "not computed",
        "for new values at an address seen before, it returns the old result",
    ),
    "cached_by_content": (
        "not computed",
        "it reuses an earlier result if the inputs look like those of an earlier call",
    ),
    "constant_output": ("not computed", "the result does not depend on the input"),
    "late_work": ("not computed", "the result changes after the call has returned"),
    "not_a_tensor": (
        "not computed",
        "it returns an object that can compute later, not a plain tensor",
    ),
    "wrong_when_timed": (
        "not computed",
        "the results of timed calls are wrong, although those of earlier calls were correct",
    ),
    "returns_input": ("not computed", "its wrong result is the input's own memory"),
    "patches": ("tampering", "it replaces functions of torch or of the timers"),
    "changes_weights": ("tampering", "it changes its weights during a call"),
    "ignores_weights": ("wrong", "the result does not correspond to the weights it was given"),
    "wrong": ("wrong", "wrong on the set's own distribution"),
    "wrong_on_other_values": ("wrong", "wrong on other values of the same shape"),
    "wrong_on_its_sizes": ("wrong", "wrong on another size that the set checks"),
    "fails_on_its_sizes": ("wrong", "it raises an error on another size that the set checks"),
    "wrong_at_other_address": ("wrong", "wrong if the same values are at other addresses"),
    "mutates_inputs": ("wrong", "it changes its inputs, although the module does not"),
    "no_kernel": ("no kernel", "no code of its own ran: all work is the library's"),
    "library_does_the_job": (
        "no kernel",
        "it has code of its own, but also runs all of the module's operators",
    ),
    "imprecise": (
        "mistake",
        "it is precise enough for KernelBench, but not as precise as the module's dtype allows",
    ),
    "detects_input": ("mistake", "it takes a different path for other values of the same shape"),
    "fails_on_other_values": (
        "mistake",
        "it raises an error on other values of the same shape",
    ),
    "output_overwritten": ("mistake", "a call overwrites the result of the previous call"),
    "shares_input_memory": (
        "mistake",
        "its result is in the input's memory, but the module's is not",
    ),
    "packs_weights": (
        "mistake",
        "it reads its weights when it is built and ignores weights that are loaded later",
    ),
    "wrong_on_other_shapes": (
        "mistake",
        "on shapes that the module accepts but the set does not use, it is wrong without"
        " raising an error",
    ),
    "stale_graph": ("mistake", "its CUDA graph ignores new values when it is replayed"),
    "graph_lacks_kernels": (
        "mistake",
        "a CUDA graph of its call does not repeat its work, because it does not launch on"
        " PyTorch's current stream",
    ),
    "fails_on_other_shapes": (
        "note",
        "it raises an error on shapes that the module accepts",
    ),
    "library_on_other_shapes": (
        "note",
        "on other shapes, it runs the library's operators",
    ),
    "not_captured": ("note", "it cannot be captured into a CUDA graph"),
    "weights_not_handed": (
        "note",
        "its weights have different shapes, so they could only be set by the same seed",
    ),
    "problem_constant": ("note", "the problem's result hardly depends on its input"),
}
