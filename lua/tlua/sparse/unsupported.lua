-- unsupported.lua - names of PyTorch's torch.sparse that torch.sparse lacks, and the reasons that
-- error messages give.

local why <const> = "tlua has no matrices of the 2:4 pattern, which PyTorch has on CUDA devices "
   .. "alone; torch.mm takes the dense matrix, or its to_sparse_csr()"

return {
   to_sparse_semi_structured = why, SparseSemiStructuredTensor = why,
   SparseSemiStructuredTensorCUTLASS = why, SparseSemiStructuredTensorCUSPARSELT = why,
}
