"""Recorded runs and measurements in one compressed archive, and how anything reads them.

reading   a file, or a member of an archive by its path: live.tar.xz/further/NAME.jsonl
archive   many files as one tar.xz, and back
samples   packed samples of a case as the whole numbers that a clock counted
"""
