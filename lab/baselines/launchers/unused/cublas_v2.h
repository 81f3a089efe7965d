// Empty: FlashInfer's norm.cuh includes cuBLAS and cuRAND and uses nothing of them.
