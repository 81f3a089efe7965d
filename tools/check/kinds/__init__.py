"""Judgement kinds: how an argument is compared with what the oracle says.

elements      floats within a tolerance, what must be exact, and codes (`quantized`) that may be off
              by one step in a stated share
distribution  draws, by their frequencies
accepted      outputs of which many are legal: accept and canonical of reference.py
"""
