-- DFIterDataPipe.lua - the base class of pipes whose items are data frames, which have named
-- columns.

local class = require "tlua.class"
local IterDataPipe = require "tlua.datapipes.IterDataPipe"

---     local base = torch.data.DFIterDataPipe
---     local Frames = torch.class("Frames", base)
---     function Frames:iter()
---        local n = 0
---        return function()
---           n = n + 1
---           if n <= 2 then return {x = n, y = n * n} end
---        end
---     end
---     for frame in Frames():iter() do print(frame.x, frame.y) end
---     --> 1	1
---     --> 2	4
---@class data.DFIterDataPipe: data.IterDataPipe
local DFIterDataPipe = class.class("data.DFIterDataPipe", IterDataPipe)

DFIterDataPipe.type = "table"

return DFIterDataPipe
