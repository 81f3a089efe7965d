"""Faster kernels for an engine that runs: a plugin of SGLang and of vLLM. It needs torch, tvm-ffi
and packaging, and nothing of Astra.

__main__   check, counters and kernels from the command line
plugin     what the engines call: which hooks fit the installed engine, and setting them
operators  each winner: may it run here, did it take a call, and why not
rows       on which rows a winner is faster
counting   counts that outlive a process that is killed
watching   kernels in replayed CUDA graphs
hooks      written by `astra-chat package`: one function for each place of the engine
"""
