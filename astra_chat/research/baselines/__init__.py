"""Kernels of others beside ours: SGLang's as compiled, FlashInfer's headers, what SGLang compiles
at run time today, and a kernel that only streams. Their code stays where the user has it; here are
thin launchers round it. The guard, which is for candidates, is not asked: the user brings them."""
