-- nn.lua - torch.ao.nn.

local lazy = require "tlua.lazy"

local M = {}

--- Modules for sums and products in models that are to be quantized.
---@names torch.ao.nn.quantized
M.quantized = lazy.load({}, lazy.modules("tlua.ao", {
   functional = "FloatFunctional QFunctional FXFloatFunctional",
}))

return M
