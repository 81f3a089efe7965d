"""reference.py draws what the judge does not, in the dtypes of the contract."""

from __future__ import annotations

import ast

from astra_chat.tools.new.reference_file import reference_py
from tests.tools.new.samples import draft


def test_index_arguments_are_left_to_the_judge() -> None:
    text = reference_py("mine", draft("rotary_torch.cu"))
    made = text[: text.index("def reference")]
    assert '"positions"' not in made and '"query": case.draw(' in made
    assert 'positions = inputs["positions"].long()' in text
    assert (
        'query = inputs["query"].double()' in text and 'is_neox = bool(inputs["is_neox"])' in text
    )
    assert '"query": ...,  # float64, [num_tokens, head_size*num_heads]' in text


def test_every_dtype_is_drawn() -> None:
    masks = reference_py("mine", draft("penalties_torch.cu"))
    assert "torch.rand((num_seqs, vocab_size), generator=generator) < 0.5" in masks
    packed = reference_py("mine", draft("awq_dequant_torch.cu"))
    assert ".to(torch.int32)" in packed and "out_features // 8" in packed
    codes = reference_py("mine", draft("fp8_quant_torch.cu"))
    assert "case.draw(generator, (num_tokens, hidden_size)).to(torch.float32)" in codes
    for text in (masks, packed, codes):
        ast.parse(text)
