-- init.lua - torch.ao: quantization.

local lazy = require "tlua.lazy"

--- Functions that make models smaller. torch.ao.quantization has observers of ranges, modules that
--- round as quantized tensors do, and the functions prepare, convert, quantize_dynamic and
--- quantize_; torch.ao.nn.quantized has modules for sums and products in such models.
local M = {}

return lazy.load(M, lazy.modules("tlua.ao", {quantization = "quantization", nn = "nn"}))
