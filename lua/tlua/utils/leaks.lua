-- leaks.lua - torch.utils.leaks: finds lines whose tensors stay alive from one call of a function
-- to the next.

local torch = require "tlua"
local args = require "tlua.args"
local memory = require "tlua.memory"

local take = args.signature "utils.leaks(fn: callable, steps: count = 4, warmup: count = 2)"

local running = false

local Report = {}
Report.__index = Report

function Report:__tostring()
   if #self == 0 then return "no tensors stay from call to call" end
   return ("in %d calls these stayed:\n%s"):format(self.steps, memory.table(self, 20))
end

local function counts()
   collectgarbage()
   collectgarbage()
   local found = {}
   for _, group in ipairs(torch._live()) do
      local key = table.concat({group.line, group.operator, group.dtype, tostring(group.device),
         group.size}, "\0")
      found[key] = group
   end
   return found
end

--- Calls fn a few times, and finds lines of code whose tensors increase in number from call to
--- call, because they stay alive. Returns a list of {line =, operator =, dtype =, count =, bytes =,
--- size =}, sorted by bytes, largest first; printing it shows a table. The first calls (`warmup`)
--- are not counted, since they may fill caches.
---@param fn function  the body of a loop
---@param options? {steps: integer, warmup: integer}  steps: the calls that are counted, 4 by
--- default; warmup: 2 by default
---@return table[]
return function(...)
   local a = take(...)
   if running then torch.raise "utils.leaks: called by the function that it calls" end
   if a.steps < 1 then args.refuse("utils.leaks", "steps", "an integer of at least 1", a.steps) end
   local was = torch._record_live()
   running = true
   local ok, message = pcall(function()
      for _ = 1, a.warmup do a.fn() end
      torch._record_live(true)
      for _ = 1, a.steps do a.fn() end
   end)
   running = false
   local report = setmetatable({steps = a.steps}, Report)
   for _, group in pairs(ok and counts() or {}) do
      if group.count >= a.steps then report[#report + 1] = group end
   end
   torch._record_live(was)
   if not ok then error(message, 0) end
   table.sort(report, function(x, y)
      if x.bytes ~= y.bytes then return x.bytes > y.bytes end
      return x.line < y.line
   end)
   return report
end
