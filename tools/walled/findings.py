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
        "it needs what was not published with it or is not on this machine",
    ),
    "not_built": ("not built", "it does not load or build"),
    "cached_by_address": (
        "not computed",
        "new values at an address seen before get the old result",
    ),
    "cached_by_content": (
        "not computed",
        "a result is kept for inputs like those of earlier calls",
    ),
    "constant_output": ("not computed", "the result does not depend on the input"),
    "late_work": ("not computed", "the result changes after the call has returned"),
    "not_a_tensor": (
        "not computed",
        "it returns an object that can compute later, no plain tensor",
    ),
    "wrong_when_timed": (
        "not computed",
        "results of timed calls are wrong, those before were not",
    ),
    "returns_input": ("not computed", "its wrong result is the input's own memory"),
    "patches": ("tampering", "it replaces functions of torch or of the timers"),
    "changes_weights": ("tampering", "it changes its weights while it is called"),
    "ignores_weights": ("wrong", "the result is not that of the weights it was given"),
    "wrong": ("wrong", "wrong on the set's own distribution"),
    "wrong_on_other_values": ("wrong", "wrong on other values of the same shape"),
    "wrong_on_its_sizes": ("wrong", "wrong on another size that the set checks"),
    "fails_on_its_sizes": ("wrong", "it raises an error on another size that the set checks"),
    "wrong_at_other_address": ("wrong", "wrong when the same values lie elsewhere"),
    "mutates_inputs": ("wrong", "it changes its inputs, which the module does not"),
    "no_kernel": ("no kernel", "no code of its own ran: all work is the library's"),
    "library_does_the_job": (
        "no kernel",
        "it has code, but runs all of the module's operators, too",
    ),
    "imprecise": (
        "mistake",
        "as precise as KernelBench asks, not as the module's dtype is",
    ),
    "detects_input": ("mistake", "other values of the same shape take another path"),
    "fails_on_other_values": (
        "mistake",
        "it raises an error on other values of the same shape",
    ),
    "output_overwritten": ("mistake", "a call overwrites the result of the one before"),
    "shares_input_memory": (
        "mistake",
        "its result lies in the input's memory, the module's does not",
    ),
    "packs_weights": (
        "mistake",
        "it reads its weights when it is built: those loaded later are not seen",
    ),
    "wrong_on_other_shapes": (
        "mistake",
        "wrong, without an error, on shapes that the module takes and the set does not use",
    ),
    "stale_graph": ("mistake", "its replayed CUDA graph does not see new values"),
    "graph_lacks_kernels": (
        "mistake",
        "a CUDA graph of its call does not repeat its work: it launches on another stream than"
        " PyTorch's current one",
    ),
    "fails_on_other_shapes": (
        "note",
        "it raises an error on shapes that the module takes",
    ),
    "library_on_other_shapes": (
        "note",
        "on other shapes it runs the library's operators",
    ),
    "not_captured": ("note", "it cannot be captured into a CUDA graph"),
    "weights_not_handed": (
        "note",
        "its weights have other shapes: compared by a seed alone",
    ),
    "problem_constant": ("note", "the problem's result hardly depends on its input"),
}
