"""Judgement kinds: how an argument is compared with what the oracle says.

elements      which kind looks at an argument's elements; comparison is what it finds
close         floats within a tolerance
exact         integers, bools and copies
quantized     codes that may be off by one step in a stated share
distribution  draws, by their frequencies; chi_square is the tail of that distribution
accepted      outputs of which many are legal: accept and canonical of reference.py
"""
