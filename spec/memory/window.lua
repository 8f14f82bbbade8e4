-- Makes a thousand 4 MB tensors. At any time, only the last eight are in use.

local measure = dofile("spec/memory/measure.lua")
local torch = require "tlua"

local window = {}
measure.grows_at_most(128, function()
   for i = 1, 1000 do window[i % 8 + 1] = torch.ones(1024, 1024) end
end)
for i = 1, 8 do assert(window[i][{1024, 1024}]:item() == 1) end
