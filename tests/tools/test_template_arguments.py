"""Template arguments as nvcc mangles them; the mangled names are nvcc's own."""

from __future__ import annotations

import pytest

from astra_chat.tools.template_arguments import template_arguments


@pytest.mark.parametrize(
    ("mangled", "arguments"),
    [
        ("_Z11silu_kernelI6__halfLi4EEvPKT_PS1_i", "<__half, 4>"),
        ("_ZN4mine4siluI6__halfEEvPKT_", "<__half>"),
        (
            "_ZN29_GLOBAL__N__cbd7da05_4_t_cu_f1kIfLi4ELb1E6__halfNS_1VIS1_Li4EEEEEvPT_NS2_IT2_XT0_EEE"
            "T3_",
            "<float, 4, true, __half, V<__half, 4>>",
        ),
        (
            "_ZN29_GLOBAL__N__cbd7da05_4_t_cu_f1kI13__nv_bfloat16Li8ELb0ES1_iEEvPT_NS_1VIT2_XT0_EEET3_",
            "<__nv_bfloat16, 8, false, __nv_bfloat16, int>",
        ),
        ("_ZN1q1mINS_1zEPKfEEvPT_T0_", "<z, float const*>"),
        (
            "_ZN1q1mI6__halfN29_GLOBAL__N__cbd7da05_4_t_cu_f1VIS1_Li2EEEEEvPT_T0_",
            "<__half, V<__half, 2>>",
        ),
        ("_ZN12_GLOBAL__N_14siluI13__nv_bfloat16Lb1ELin2EEEvPT_", "<__nv_bfloat16, true, -2>"),
        ("_Z1kI6__halfS0_EvPT_PT0_", "<__half, __half>"),
        ("_ZN1a1kI6__halfS1_EEvPT_PT0_", "<__half, __half>"),
        ("_Z1kIf6VectorI6__halfLi8EES2_EvT_", "<float, Vector<__half, 8>, Vector<__half, 8>>"),
        ("_Z1kIPKfN1b1cEEvT_", "<float const*, c>"),
        ("_Z4siluPf", ""),
        ("silu", ""),
        ("_Z1kIDF16_Evv", ""),
        ("_Z1kI", ""),
        ("_Z1kIS9_EvT_", ""),
        ("_Z1kI" + "P" * 50 + "fEvv", ""),
        ("_Z" + "1" * 5000, ""),
    ],
)
def test_arguments_stand_as_the_source_has_them(mangled: str, arguments: str) -> None:
    assert template_arguments(mangled) == arguments
