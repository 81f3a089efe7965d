"""Exported functions become contracts: shapes, strides, dtypes and access as the file states."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.create import draft_of
from astra_chat.tools.new.draft import Draft
from astra_vgpu.ground.errors import BadInput
from tests.tools.new.samples import KERNELS, draft

BODY = "void f(at::Tensor x, int64_t n) {}\nvoid g(at::Tensor x, int64_t n) {}\n"


def rows(found: Draft) -> list[tuple[str, str, str, str]]:
    return [(t.name, t.dtype, ", ".join(t.shape), t.access) for t in found.tensors]


def test_rotary_embedding() -> None:
    """int64 positions, strided query and key of different head counts, in place."""
    found = draft("rotary_torch.cu")
    assert rows(found) == [
        ("positions", "int64", "num_tokens", "read"),
        ("query", "T", "num_tokens, head_size*num_heads", "readwrite"),
        ("key", "T", "num_tokens, num_kv_heads*head_size", "readwrite"),
        ("cos_sin_cache", "T", "max_position, rot_dim", "read"),
    ]
    assert [t.strides for t in found.tensors] == [(), ("free", "1"), ("free", "1"), ()]
    assert [t.optional for t in found.tensors] == [False, False, True, False]
    assert found.require == ("rot_dim <= head_size",) and found.multiples == {"rot_dim": 2}
    assert [(s.name, s.type) for s in found.scalars] == [("is_neox", "bool")]
    assert found.binding == {
        "operator": "rotary_embedding",
        "args": ["positions", "query", "key", "head_size", "cos_sin_cache", "is_neox"],
    }
    assert found.baseline == (KERNELS / "rotary_torch.cu").read_text()


def test_codes_and_scales() -> None:
    found = draft("fp8_quant_torch.cu")
    assert rows(found) == [
        ("out", "float8_e4m3fn", "num_tokens, hidden_size", "write"),
        ("input", "T", "num_tokens, hidden_size", "read"),
        ("scales", "float32", "num_tokens, 1", "write"),
        ("scale_ub", "float32", "", "read"),
    ]
    assert found.tensors[0].doubts[1:] == found.tensors[1].doubts != (), "first extents are open"


def test_pages_of_a_cache() -> None:
    """Shapes in comments of the kernel, strides, a macro with launches, a string parameter."""
    found = draft("kv_cache_torch.cu")
    assert rows(found)[2] == (
        "key_cache",
        "T",
        "num_blocks, num_heads, head_size//x, block_size, x",
        "readwrite",
    )
    assert found.tensors[0].strides == ("free", "head_size", "1")
    assert found.dtypes == ("float16", "bfloat16") and found.variables_known
    assert {"text": "auto"} in found.binding["args"]  # type: ignore[operator]
    assert found.unbound == ("the text that callers pass for const std::string & kv_cache_dtype",)


def test_integers_only() -> None:
    found = draft("moe_align_torch.cu")
    assert rows(found)[0] == ("topk_ids", "T", "num_tokens, topk", "read")
    assert rows(found)[3] == ("num_tokens_post_pad", "int32", "1", "read")
    assert found.tensors[3].doubts, "the kernel calls it otherwise: a launch shows what it is"
    assert found.tensors[4].shape == ("num_experts+1",) and found.dtypes == ("int32", "int64")
    (block_size,) = found.scalars
    assert (block_size.name, block_size.type) == ("block_size", "int64_t") and block_size.doubt


def test_checks_tell_ranks_sizes_and_dtypes() -> None:
    found = draft("merge_tvm.cu")
    assert {t.name: t.shape for t in found.tensors}["s_b"] == ("seq_len", "num_heads")
    assert not [t for t in found.tensors if any("shape" in doubt for doubt in t.doubts)]
    found = draft("topk_softmax_torch.cu")
    assert found.require == ("topk <= num_experts",)
    assert [t.dtype for t in found.tensors] == ["T", "int32", "T"]


def test_a_number_is_no_size_and_a_dispatched_name_is_kept() -> None:
    found = draft("sampling_tvm.cu")
    assert [s.name for s in found.scalars] == ["philox_seed", "deterministic"]
    assert found.dtypes == ("int32", "int64")


def test_quotients_and_masks() -> None:
    found = draft("awq_dequant_torch.cu")
    assert found.tensors[3].shape == ("in_features//group_size", "out_features//8")
    assert found.multiples == {"out_features": 8}
    assert [t.dtype for t in draft("penalties_torch.cu").tensors] == ["T", "bool", "bool", "T"]


def test_the_line_of_a_parameter_is_told() -> None:
    source = "#include <torch/all.h>\nvoid f(at::Tensor x,\n       std::vector<float> n) {}\n"
    with pytest.raises(BadInput, match="line 3: f takes 'std::vector<float> n'"):
        draft_of(f'{source}PYBIND11_MODULE(x, m) {{ m.def("a", &f); }}', "mine", None)


def test_a_torch_extension_is_understood() -> None:
    found = draft("rms_norm_torch.cu")
    assert [(t.name, t.written, t.shape) for t in found.tensors] == [
        ("out", True, ("rows", "hidden")),
        ("input", False, ("rows", "hidden")),
        ("weight", False, ()),
    ]
    assert found.dims == ("rows", "hidden") and found.variables_known
    assert found.dtypes == ("float16", "bfloat16", "float32")
    assert [(s.name, s.value) for s in found.scalars] == [("eps", "1e-6")]


def test_an_operator_of_a_library_is_understood() -> None:
    found = draft("gate_library.cu")
    assert [(t.name, t.written, t.shape, t.dtype) for t in found.tensors] == [
        ("out", True, (), "T"),
        ("input", False, ("tokens", "2*d"), "T"),
        ("scale", False, (), "float32"),
    ]
    assert [(s.name, s.type, s.value) for s in found.scalars] == [("fast", "bool", "False")]


def test_second_names_checks_and_gradients_give_shapes() -> None:
    """`sizes` is x.sizes(), `bias` the optional bias_, and dx is like x."""
    found = draft("short_conv_torch.cu")
    whole = ("batch", "dim", "seqlen")
    assert {t.name: t.shape for t in found.tensors} == {
        "x": whole,
        "bias_": ("dim",),
        "dout": whole,
        "dx": whole,
        "dbias_": ("dim",),
    }
    assert found.dtypes == ("float32",)
    doubtful = [t.name for t in found.tensors if any("its shape" in d for d in t.doubts)]
    assert doubtful == ["dx", "dbias_"]


def test_a_tvm_ffi_file_is_understood() -> None:
    found = draft("add_tvm.cu")
    assert [(t.name, t.written) for t in found.tensors] == [
        ("x", False),
        ("y", False),
        ("out", True),
    ]
    assert found.dims == ("n",) and found.dtypes == ("float16",)


def test_a_count_of_known_sizes_is_no_dim_and_one_line_declares_several() -> None:
    found = draft("gelu_library.cu")
    assert found.dims == ("rows", "cols") and found.dtypes == ("float16", "bfloat16")
    assert [(t.name, t.written, t.shape) for t in found.tensors] == [
        ("x", True, ("rows", "cols")),
        ("bias", False, ("cols",)),
    ]


def test_a_registration_block_of_tvm_ffi() -> None:
    found = draft("rope_tvm_block.cu")
    assert found.dims == ("tokens", "heads", "d") and found.dtypes == ("bfloat16",)
    assert [(t.name, t.written, t.shape, t.dtype) for t in found.tensors] == [
        ("q", False, ("tokens", "heads", "d"), "T"),
        ("turns", False, (), "float32"),
        ("out", True, (), "T"),
    ]


def test_copies_and_variables_are_seen_through() -> None:
    found = draft("muladd_library.cu")
    assert [(t.name, t.written, t.shape) for t in found.tensors] == [
        ("result", True, ()),
        ("a", False, ("count",)),
        ("b", False, ("count",)),
    ]
    assert found.dtypes == ("float32",)
    assert found.binding["returns"] == ["result"]


def test_the_schema_says_what_is_written_where_no_launch_shows_it() -> None:
    source = (
        "void f(at::Tensor x, at::Tensor z, int64_t n) { go(x, z); }\n"
        'TORCH_LIBRARY(l, m) { m.def("f(Tensor x, Tensor(a!) z, int n) -> ()", &f); }'
    )
    assert [t.written for t in draft_of(source, "mine", None).tensors] == [False, True]


def test_lists_of_numbers_and_of_tensors_are_passed() -> None:
    """A number or two of each, and the user says how many callers pass."""
    source = (
        "void f(at::Tensor flag, std::vector<std::vector<at::Tensor>> all,\n"
        "       const std::vector<torch::Tensor>& some, c10::IntArrayRef sizes,\n"
        "       int64_t chunk) {\n"
        "  multi_tensor_apply<2>(all, flag); }\n"
        'PYBIND11_MODULE(x, m) { m.def("f", &f); }'
    )
    draft = draft_of(source, "mine", None)
    assert draft.binding["args"] == [
        "flag",
        {"tensors": [["all_0"], ["all_1"]]},
        {"tensors": ["some_0", "some_1"]},
        {"list": [1]},
        "chunk",
    ]
    assert draft.dims == ("numel",) and [s.name for s in draft.scalars] == ["chunk"]
    assert [t.shape for t in draft.tensors if t.name != "flag"] == [("numel",)] * 4
    assert len(draft.unbound) == 3


def test_names_in_capitals_are_small_in_the_contract() -> None:
    source = (
        "void f(at::Tensor A, at::Tensor a, at::Tensor out, int64_t numHeads) {\n"
        "  const int N = A.size(0), D = A.size(1);\n"
        "  TORCH_CHECK(D % 8 == 0 && N <= D); TORCH_CHECK(out.size(0) == N && out.size(1) == D);\n"
        "  k<<<N, D>>>(A.data_ptr<float>(), a.data_ptr<float>(), numHeads); }\n"
        'PYBIND11_MODULE(x, m) { m.def("f", &f); }'
    )
    draft = draft_of(source, "mine", None)
    assert draft.binding["args"] == ["a_", "a", "out", "num_heads"]
    assert {t.name: t.shape for t in draft.tensors if t.name != "a"} == {
        "a_": ("n", "d"),
        "out": ("n", "d"),
    }
    assert draft.require == ("n <= d",) and draft.multiples == {"d": 8}


def test_sizes_in_a_macro_of_the_file_are_read() -> None:
    source = (
        "#define LAUNCH(KERNEL, x) \\\n"
        "  int d = x.size(-1) / 2; \\\n"
        "  int64_t rows = x.numel() / x.size(-1); \\\n"
        "  DISPATCH_FLOATING(x.scalar_type(), KERNEL, [&] { \\\n"
        "    k<scalar_t><<<rows, d>>>(out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>()); });\n"
        "void f(at::Tensor& out,  // [..., d]\n"
        "       at::Tensor& all)  // [..., 2 * d]\n"
        '{ LAUNCH("gated", all) }\n'
        'PYBIND11_MODULE(x, m) { m.def("f", &f); }'
    )
    assert {t.name: t.shape for t in draft_of(source, "mine", None).tensors} == {
        "out": ("rows", "d"),
        "all": ("rows", "2*d"),
    }


def test_other_parameters_are_refused() -> None:
    source = BODY.replace("int64_t n", "std::vector<double> n", 1)
    with pytest.raises(BadInput, match="'std::vector<double> n'"):
        draft_of(f'{source}PYBIND11_MODULE(x, m) {{ m.def("a", &f); }}', "mine", None)


CODES = """template <typename in_t>
void inner(at::Tensor& out, const at::Tensor& x, double const eps) {
  const int d = x.size(-1); const int rows = x.numel() / d;
  VLLM_DISPATCH_QUANT_TYPES(out.scalar_type(), "inner", [&] {
    k<in_t, scalar_t><<<rows, 32>>>(out.data_ptr<scalar_t>(), x.data_ptr<in_t>(), d); }); }
void outer(at::Tensor& out, at::Tensor const& x, double const eps) {  // out: [..., d]
  TORCH_CHECK(x.stride(-1) == 1);
  VLLM_DISPATCH_HALF_TYPES(x.scalar_type(), "outer", [&] { inner<scalar_t>(out, x, eps); }); }
"""


def test_two_dispatched_types_of_one_name() -> None:
    """The callee's scalar_t is another type than its caller's, which it gets as an argument."""
    found = draft_of(CODES, "mine", "outer")
    assert [(t.dtype, t.shape) for t in found.tensors] == [
        ("Q", ("rows", "d")),
        ("T", ("rows", "d")),
    ]
    assert found.variables == {"T": ("float16", "bfloat16"), "Q": ("float8_e4m3fn", "int8")}
    assert [(s.name, s.type) for s in found.scalars] == [("eps", "float")]
