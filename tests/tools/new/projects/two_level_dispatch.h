#pragma once
#ifdef USE_ROCM
#include <hip/hip_runtime.h>
#endif
#include <torch/all.h>
#if !defined(CUDA_VERSION) || CUDA_VERSION < 12000
#error "torch's headers bring CUDA_VERSION, by which files choose their kernels"
#endif

#define TEST_LIBRARY_EXPAND(NAME, MODULE) TORCH_LIBRARY(NAME, MODULE)
#define TEST_DISPATCH_CASE_FLOATING_TYPES(...)         \
  AT_DISPATCH_CASE(at::ScalarType::Float, __VA_ARGS__) \
  AT_DISPATCH_CASE(at::ScalarType::Half, __VA_ARGS__)
#define TEST_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, TEST_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
