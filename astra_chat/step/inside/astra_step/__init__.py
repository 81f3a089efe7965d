"""Measures one captured step of an engine with and without a package's winners. It runs in the
engine's Python, and needs torch, the package and the engine, and nothing of Astra.

__main__     the program: from a request in JSON to samples in JSON
turns        which variants there are, and blocks of replays by turns
measuring    one model: captures, parity, blocks, profiles
sglang_step  SGLang's model runner with dummy weights
called_step  a user's own callable
serving      tokens per second of the engine and its HTTP server, by starts
models       dimensions of models that are measured
weights      dummy weights that results can be told apart by
fp32         a forward pass in float32 with the same weights
"""
