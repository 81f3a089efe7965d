"""Recorded runs as data for other programs: `astra-chat export`.

filters          which evaluations are taken
chats            chat examples for fine-tuning (sft), and steps with a reward (rl)
flashinfer_bench Definition, Solution and Trace of flashinfer-bench
arrow            rows as a Parquet file
writing          output files, whole or not at all
command          the command
"""
