"""PyTorch modules in KernelBench's form, written for these tests: no problem of a benchmark."""

from __future__ import annotations

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
"""

MODULES = {
    "swish": """
batch_size, dim = 64, 512
class Model(nn.Module):
    '''x times the sigmoid of x, clamped.'''
    def forward(self, x): return torch.clamp(x * torch.sigmoid(x), -1.0, 3.0)
def get_inputs(): return [torch.randn(batch_size, dim)]
def get_init_inputs(): return []
""",
    "row_means": """
class Model(nn.Module):
    '''Mean and maximum over the middle axis.'''
    def __init__(self, axis): super().__init__(); self.axis = axis
    def forward(self, x): return x.mean(self.axis), torch.amax(x, dim=self.axis)
def get_inputs(): return [torch.randn(8, 40, 24)]
def get_init_inputs(): return [1]
""",
    "extremes": """
class Model(nn.Module):
    '''Least of an axis and largest of all.'''
    def forward(self, x): return torch.min(x, dim=1)[0], torch.max(x).reshape(1)
def get_inputs(): return [torch.randn(8, 20, 24)]
def get_init_inputs(): return []
""",
    "rms_norm": """
class Model(nn.Module):
    '''RMS norm with a weight.'''
    def __init__(self, n):
        super().__init__(); self.weight = nn.Parameter(torch.ones(n)); self.eps = 1e-6
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight
def get_inputs(): return [torch.randn(32, 96)]
def get_init_inputs(): return [96]
""",
    "tempered": """
class Model(nn.Module):
    '''Softmax of rows, with a temperature.'''
    def forward(self, logits, temperature): return torch.softmax(logits / temperature, dim=-1)
def get_inputs(): return [torch.randn(16, 200), 0.7]
def get_init_inputs(): return []
""",
    "product": """
M, K, N = 24, 64, 40
class Model(nn.Module):
    '''A times the transpose of B.'''
    def forward(self, A, B): return A @ B.T
def get_inputs(): return [torch.rand(M, K), torch.rand(N, K)]
def get_init_inputs(): return []
""",
    "mlp": """
class Model(nn.Module):
    '''Two linear layers with GELU between, and a residual.'''
    def __init__(self, d, h):
        super().__init__(); self.up = nn.Linear(d, h); self.down = nn.Linear(h, d, bias=False)
    def forward(self, x): return x + self.down(F.gelu(self.up(x)))
def get_inputs(): return [torch.randn(4, 6, 32)]
def get_init_inputs(): return [32, 64]
""",
    "conv_block": """
class Model(nn.Module):
    '''Convolution, batch norm, ReLU and max pooling.'''
    def __init__(self, c, o):
        super().__init__()
        self.conv = nn.Conv2d(c, o, 3, stride=1, padding=1)
        self.bn = nn.BatchNorm2d(o)
        self.eval()
    def forward(self, x): return F.max_pool2d(F.relu(self.bn(self.conv(x)), inplace=True), 2)
def get_inputs(): return [torch.rand(2, 3, 16, 12)]
def get_init_inputs(): return [3, 5]
""",
    "attention": """
class Model(nn.Module):
    '''Attention of one head, causal.'''
    def forward(self, q, k, v):
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril()
        return torch.softmax(s.masked_fill(~mask, float("-inf")), -1) @ v
def get_inputs(): return [torch.randn(3, 20, 16) for _ in range(3)]
def get_init_inputs(): return []
""",
    "gated_norm": """
class Model(nn.Module):
    '''Layer norm of bfloat16 rows, then a gate.'''
    def __init__(self, n): super().__init__(); self.norm = nn.LayerNorm(n).bfloat16()
    def forward(self, x, gate): return self.norm(x) * torch.tanh(gate)
def get_inputs(): return [torch.randn(16, 64).bfloat16() for _ in range(2)]
def get_init_inputs(): return [64]
""",
    "smooth_l1": """
class Model(nn.Module):
    '''Mean of a smooth L1 loss.'''
    def forward(self, a, b): return F.smooth_l1_loss(a, b)
def get_inputs(): return [torch.randn(32, 50), torch.randn(32, 50)]
def get_init_inputs(): return []
""",
    "cumulated": """
class Model(nn.Module):
    '''Logarithm of positive numbers, cumulative sum, and halves swapped.'''
    def forward(self, x):
        y = torch.log(x).cumsum(1)
        a, b = y.chunk(2, dim=1)
        return torch.cat([b, a], dim=1)
def get_inputs(): return [torch.rand(12, 30) + 0.5]
def get_init_inputs(): return []
""",
}
"""Texts of the files below HEAD, by the names of their tasks."""

REFUSED = {
    "its forward changes bn.running_mean": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm1d(6)
    def forward(self, x): return self.bn(x)
def get_inputs(): return [torch.randn(8, 6)]
def get_init_inputs(): return []
""",
    "its forward draws random numbers": """
class Model(nn.Module):
    def forward(self, x): return F.dropout(x, 0.5)
def get_inputs(): return [torch.randn(8, 6)]
def get_init_inputs(): return []
""",
    "its forward changes its input x in place": """
class Model(nn.Module):
    def forward(self, x): return x.relu_() + 1
def get_inputs(): return [torch.randn(8, 6)]
def get_init_inputs(): return []
""",
    "depend on the values of a tensor": """
class Model(nn.Module):
    def forward(self, x): return x[x > 0]
def get_inputs(): return [torch.randn(8, 6)]
def get_init_inputs(): return []
""",
    "its input ids is of int64": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)
    def forward(self, ids): return self.table(ids)
def get_inputs(): return [torch.randint(0, 10, (3,))]
def get_init_inputs(): return []
""",
    "not an input, a parameter or a buffer": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.arange(6.0)
    def forward(self, x): return x * self.scale
def get_inputs(): return [torch.randn(8, 6)]
def get_init_inputs(): return []
""",
    "its input parts is a list": """
class Model(nn.Module):
    def forward(self, parts): return torch.cat(parts)
def get_inputs(): return [[torch.randn(8, 6), torch.randn(2, 6)]]
def get_init_inputs(): return []
""",
    "get_inputs() do not match the arguments of forward()": """
class Model(nn.Module):
    def forward(self, x): return x + 1
def get_inputs(): return [torch.randn(8, 6), torch.randn(8, 6)]
def get_init_inputs(): return []
""",
    "defines no function get_init_inputs()": """
class Model(nn.Module):
    def forward(self, x): return x + 1
def get_inputs(): return [torch.randn(8, 6)]
""",
    "is of float64, which no contract supports": """
class Model(nn.Module):
    def forward(self, x): return x.double() + 1
def get_inputs(): return [torch.randn(8, 6)]
def get_init_inputs(): return []
""",
}
"""What is refused, by what is said of it."""
