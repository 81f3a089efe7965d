"""The recorder: it runs in the captured program's own process, and needs torch and nothing else.

start        from the settings to a recorder at work: imports, forks, the end
wrapping     functions, operators of torch.ops and CUDA graphs, wrapped when they are imported
recording    calls of the operators, folded
signatures   what makes two calls equal; tensors and other values as data
observed     ranges of values, and which tensors a call changed
journal      the file that a process appends to
"""
