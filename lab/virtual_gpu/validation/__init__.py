"""Measured times against the estimate, over kernels that the estimate was not fitted to.

points      the kernels and shapes of a set (set.toml)
references  expected outputs of the kernels, in NumPy
measured    times on a real GPU
counted     counters from the virtual GPU
score       errors, pairs in the right order, regret
"""
