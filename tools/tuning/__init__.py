"""Tuning: constants of a kernel are chosen without a model.

space    what a source leaves open: constants with their values, and what they must meet
ranking  the virtual GPU's estimate of many candidates, unchecked
halving  many candidates on few cases, the better half of them on more
halving_rounds  what that did, as values
shapes   choice by shape: the rule, and shapes that it must gain on
by_shape  a table that is fitted, held against other shapes, and taken or not
tuned    what tuning a candidate of a run found
tuning_judge  a judge that tunes, for the executor of a run
search   rank the points of a space, judge the first of them, confirm the best
"""
