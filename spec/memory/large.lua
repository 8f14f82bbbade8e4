-- Computes 5,000 sums of 1 MB tensors. Together they have 5 GB.

local measure = dofile("spec/memory/measure.lua")
local torch = require "tlua"

local a, b = torch.ones(512, 512), torch.ones(512, 512)
local c = a + b
measure.grows_at_most(200, function()
   for _ = 1, 5000 do c = a + b end
end)
assert(c[{512, 512}]:item() == 2)
