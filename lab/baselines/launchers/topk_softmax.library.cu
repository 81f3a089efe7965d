// topk_softmax of a compiled SGLang library, of 2025 or of today, launched as its host code launches
// it: four warps a block where the library has a kernel for so many experts, else the softmax and the
// choice in two kernels of a block a token, with the workspace between them. Kernels of today take soft
// capping and a bias as well, so their names are others; and their choice finds two experts at a time.

#include <string>

namespace {

constexpr int kWarp = 32, kWarps = 4, kThreads = 256, kVectorBytes = 16;
constexpr int kElementBytes[kDtypes] = {4, 2, 2};
const char* const kElements[kDtypes] = {"f", "6__half", "13__nv_bfloat16"};
const char* const kChoice2025 = "_Z7moeTopKILi256EEvPKfPKbPfPiiiiib";
const char* const kChoiceToday = "_Z7moeTopKILi256EEvPfPKbS0_Piiiiib";
const char* const kChoiceOfTwo = "_Z11moeTopKFastILi256EEvPfPKbS0_Piiiiib";

bool holds(const char* name, const void** function) {
  if (kernel_named(name, function) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

// How upstream lays a row of a power of two in the registers of lanes.
struct Layout {
  int bytes, each, rows_of_warp;

  Layout(int experts, int element_bytes) {
    const int row_bytes = experts * element_bytes;
    bytes = row_bytes < kVectorBytes ? row_bytes : kVectorBytes;
    const int vector = bytes / element_bytes, vectors = experts / (vector * kWarp);
    each = vector * (vectors > 1 ? vectors : 1);
    rows_of_warp = kWarp / (experts / each);
  }

  std::string name(const char* element, int experts) const {
    return std::string("_Z17topkGatingSoftmaxI") + element + "Li" + std::to_string(each) + "ELi" +
           std::to_string(experts) + "ELi4ELi" + std::to_string(bytes) + "EEvPKT_PKbPfiPiiiib";
  }
};

}  // namespace

extern "C" cudaError_t topk_softmax(void* topk_weights, void* topk_ids, const void* gating,
                                    const void* correction_bias, void* workspace, int64_t tokens,
                                    int64_t topk, int64_t experts, bool renormalize,
                                    float moe_softcapping, int dtype, cudaStream_t stream) {
  if (dtype < 0 || dtype >= kDtypes) return cudaErrorInvalidValue;
  const void* function;
  const bool today = holds(kChoiceOfTwo, &function);
  if (!today && (correction_bias != nullptr || moe_softcapping != 0.0f)) {
    return cudaErrorNotSupported;
  }
  const std::string more = today ? "fPKf" : "";
  const void* finished = nullptr;
  int rows = static_cast<int>(tokens), count = static_cast<int>(topk), first = 0;
  int columns = static_cast<int>(experts);
  if ((columns & (columns - 1)) == 0) {
    const Layout layout(columns, kElementBytes[dtype]);
    if (holds((layout.name(kElements[dtype], columns) + more).c_str(), &function)) {
      const int warps = (rows + layout.rows_of_warp - 1) / layout.rows_of_warp;
      void* arguments[] = {&gating,      &finished,        &topk_weights,   &rows,
                           &topk_ids,    &count,           &first,          &columns,
                           &renormalize, &moe_softcapping, &correction_bias};
      return cudaLaunchKernel(function, dim3(static_cast<unsigned>((warps + kWarps - 1) / kWarps)),
                              dim3(kWarp, kWarps), arguments, 0, stream);
    }
  }
  const std::string softmax = std::string("_Z10moeSoftmaxI") + kElements[dtype] +
                              "Li256EEvPKT_PKbPfi" + more;
  cudaError_t error = kernel_named(softmax.c_str(), &function);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(tokens)), block(kThreads);
  void* of_softmax[] = {&gating, &finished, &workspace, &columns, &moe_softcapping, &correction_bias};
  error = cudaLaunchKernel(function, grid, block, of_softmax, 0, stream);
  if (error != cudaSuccess) return error;
  const char* choice = !today ? kChoice2025 : topk == 1 ? kChoiceToday : kChoiceOfTwo;
  if ((error = kernel_named(choice, &function)) != cudaSuccess) return error;
  void* of_choice[] = {&workspace, &finished, &topk_weights, &topk_ids,   &columns,
                       &count,     &first,    &columns,      &renormalize};
  return cudaLaunchKernel(function, grid, block, of_choice, 0, stream);
}
