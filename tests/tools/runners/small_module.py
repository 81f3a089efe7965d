"""The task of a small two-layer MLP, as `astra-chat new` writes it, without tracing it."""

from __future__ import annotations

from pathlib import Path

from lab.module_problems import PROBLEMS


def small_mlp(folder: Path) -> Path:
    """Writes it into a folder, which it returns."""
    small = PROBLEMS["mlp"].text.replace("256, 1024, 4096", "6, 16, 24")
    (folder / "problem.py").write_text(small)
    shapes = {
        "x": '"rows", "16"',
        "up_weight": '"24", "16"',
        "up_bias": '"24"',
        "down_weight": '"16", "24"',
        "down_bias": '"16"',
    }
    args = [
        f'{{ name = "{name}", dtype = "float32", shape = [{shape}], access = "read",'
        f" range = [-1.0, 1.0]{', weight = true' if name != 'x' else ''} }},"
        for name, shape in shapes.items()
    ]
    contract = f"""
schema = 2
name = "mlp"
summary = "x"
entry = "mlp"
reference = "problem:Model"
flops = "rows"
flags = []
args = [
{"".join(args)}
{{ name = "out", dtype = "float32", shape = ["rows", "16"], access = "write" }},
]
check = [{{ rows = 6 }}]
bench = [{{ rows = 6, weight = 1 }}]
demo = [{{ rows = 6 }}]
[dims.rows]
min = 1
max = 8
[tolerance]
float32 = {{ rtol = 1e-5, atol = 1e-5 }}
[provenance]
baseline = "none"
"""
    (folder / "task.toml").write_text(contract)
    (folder / "baseline.cu").write_text("")
    return folder
