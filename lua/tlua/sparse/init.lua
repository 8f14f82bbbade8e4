-- init.lua - torch.sparse: functions of sparse tensors; README.md beside this file describes them.

local lazy = require "tlua.lazy"

local M = lazy.load({}, lazy.modules("tlua.sparse", {
   products = "mm addmm sampled_addmm spsolve",
   reductions = "sum softmax log_softmax",
   diagonals = "spdiags",
   invariants = "check_sparse_tensor_invariants",
}))
return lazy.entitle(M, "torch.sparse", "tlua.sparse.unsupported")
