"""Kernels over several GPUs.
"""
