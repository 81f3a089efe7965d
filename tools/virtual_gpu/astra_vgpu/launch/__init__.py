"""Launches: choice of the engine, sampling of blocks, compilation in the background.

engines             NumPy or C engine for a launch
background_compile  blocks on NumPy while the C engine compiles
sampling            which blocks of a large launch run
waiting_blocks      blocks that wait for others: which of a large launch may run
sampled_launches    launches that follow one of which only some blocks ran
"""
