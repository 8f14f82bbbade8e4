-- Computes 500,000 sums of 8x8 tensors. For Lua's collector, each tensor counts as only 16 bytes.

local measure = dofile("spec/memory/measure.lua")
local torch = require "tlua"

local a, b = torch.ones(8, 8), torch.ones(8, 8)
local c = a + b
measure.grows_at_most(20, function()
   for _ = 1, 500000 do c = a + b end
end)
assert(c[{8, 8}]:item() == 2)
