-- init.lua - torch.ao: quantization.

local lazy = require "tlua.lazy"

--- Functions that make models smaller: torch.ao.quantization has observers of ranges, modules that
--- round as quantized tensors do, and quantize_dynamic.
local M = {}

return lazy.load(M, lazy.modules("tlua.ao", {quantization = "quantization"}))
