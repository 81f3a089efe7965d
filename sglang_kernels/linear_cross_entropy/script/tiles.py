"""Cross-entropy of a linear layer by tiles of its logits, of which two numbers a token remain."""

import triton
import triton.language as tl


@triton.jit
def tiles_kernel(
    hidden_ptr,
    weight_ptr,
    target_ptr,
    scratch_ptr,
    tokens,
    d,
    vocab,
    parts,
    wanted_at,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    logits = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    of_rows = rows.to(tl.int64)[:, None] * d
    of_columns = columns.to(tl.int64)[None, :] * d
    for start in range(0, d, STEP):
        at = start + tl.arange(0, STEP)
        a_mask = (rows < tokens)[:, None] & (at < d)[None, :]
        a = tl.load(hidden_ptr + of_rows + at[None, :], mask=a_mask, other=0.0)
        b_mask = (at < d)[:, None] & (columns < vocab)[None, :]
        b = tl.load(weight_ptr + of_columns + at[:, None], mask=b_mask, other=0.0)
        logits = tl.dot(a, b, logits)
    logits = tl.where((columns < vocab)[None, :], logits, -3.0e38)
    largest = tl.max(logits, axis=1)
    total = tl.sum(tl.exp(logits - largest[:, None]), axis=1)
    target = tl.load(target_ptr + rows, mask=rows < tokens, other=-100)
    here = target[:, None] == columns[None, :]
    wanted = tl.sum(tl.where(here, logits, 0.0), axis=1)
    first = tl.program_id(1) * COLUMNS
    inside = (target >= first) & (target < first + COLUMNS)
    place = rows.to(tl.int64) * parts + tl.program_id(1)
    tl.store(scratch_ptr + place * 2, largest, mask=rows < tokens)
    tl.store(scratch_ptr + place * 2 + 1, total, mask=rows < tokens)
    tl.store(scratch_ptr + wanted_at + rows, wanted, mask=(rows < tokens) & inside)


@triton.jit
def finish_kernel(loss_ptr, target_ptr, scratch_ptr, parts, wanted_at, PARTS: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, PARTS)
    row = scratch_ptr + (token * parts + part) * 2
    largest = tl.load(row, mask=part < parts, other=-3.0e38)
    total = tl.load(row + 1, mask=part < parts, other=0.0)
    top = tl.max(largest, axis=0)
    total = tl.sum(total * tl.exp(largest - top), axis=0)
    used = tl.load(target_ptr + token) != -100
    wanted = tl.load(scratch_ptr + wanted_at + token, mask=used, other=0.0)
    tl.store(loss_ptr + token, tl.where(used, top + tl.log(total) - wanted, 0.0))


def linear_cross_entropy(loss, hidden, weight, target, scratch, tokens, d, vocab):
    ROWS = 128 if tokens > 64 else 64 if tokens > 16 else 16
    parts = triton.cdiv(vocab, 128)
    wanted_at = 2 * tokens * parts
    PARTS = triton.next_power_of_2(parts)
    tiles_kernel[(triton.cdiv(tokens, ROWS), parts)](
        hidden,
        weight,
        target,
        scratch,
        tokens,
        d,
        vocab,
        parts,
        wanted_at,
        ROWS=ROWS,
        COLUMNS=128,
        STEP=64,
        num_warps=8 if ROWS == 128 else 4,
        num_stages=3,
    )
    finish_kernel[(tokens,)](loss, target, scratch, parts, wanted_at, PARTS=PARTS, num_warps=4)
