"""On the PYTHONPATH of a captured program: what its own Python loads, without Astra.

sitecustomize    starts the recorder, then the program's own sitecustomize
astra_recorder/  the recorder: it needs torch and nothing else
"""
