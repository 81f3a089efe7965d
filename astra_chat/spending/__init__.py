"""Limits on what a run may spend. What it has spent is transcript/ledger.py.

budget  --budget
meter   counts tokens, evaluations and time, and stops a run in time
prices  of tokens
"""
