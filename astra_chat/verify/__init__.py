"""The claims of a recorded run, recomputed: `astra-chat verify` and `astra-chat pack`.

claims           what is claimed, and whether it stands
recorded         a run as the checks read it: its task, its evaluations, its sources
draw_claims      seeds, hidden cases, timed cases
figure_claims    samples, ratios, limits, verdicts
run_claims       winner, confirmation, ledger, hashes of texts, names of candidates, the harness
verify           all checks of a transcript
bundle           a run as one file: its members, its manifest, reading it
bundle_claims    what a bundle holds beside the transcript
pack             makes a bundle
signature        Ed25519 over a bundle's manifest
command          the two commands
"""
