-- init.lua - torch.ao: quantization.

local lazy = require "tlua.lazy"

--- Functions that make models smaller: torch.ao.quantization has observers of ranges, modules that
--- round as quantized tensors do, prepare and convert, quantize_dynamic and quantize_.
local M = {}

return lazy.load(M, lazy.modules("tlua.ao", {quantization = "quantization"}))
