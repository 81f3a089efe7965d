"""Limits on what a run may spend. What it has spent is transcript/ledger.py.

budget  --budget
"""
