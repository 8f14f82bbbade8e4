-- init.lua - torch.ao: quantization.

local lazy = require "tlua.lazy"

--- Functions that make models smaller. torch.ao.quantization has observers that record the ranges
--- of values, modules that round as quantized tensors do, and the functions prepare, convert,
--- quantize_dynamic and quantize_. torch.ao.nn.quantized has modules such as FloatFunctional, which
--- replace + and * in models that are to be quantized.
local M = {}

return lazy.load(M, lazy.modules("tlua.ao", {quantization = "quantization", nn = "nn"}))
