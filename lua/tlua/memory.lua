-- memory.lua - statistics of the memory in use on the CPU and, by calling the functions of
-- torch.cuda and torch.sim, on devices.

local torch = require "tlua"
local args = require "tlua.args"
local text = require "tlua.profiler.text"

local M = {}

-- Returns the module for a device's kind, such as torch.cuda; nil for the CPU.
local function module_of(name, device)
   if device == nil then return nil end
   local known = torch._to_device(device)
   if not known then args.refuse(name, "device", 'a device such as "cpu" or "cuda:0"', device) end
   return known.type ~= "cpu" and torch[known.type] or nil
end

function M.memory_stats(device)
   local module = module_of("memory_stats", device)
   if module then return module.memory_stats(device) end
   return torch._memory_stats()
end

function M.memory_allocated(device)
   return M.memory_stats(device)["allocated_bytes.all.current"]
end

function M.max_memory_allocated(device)
   return M.memory_stats(device)["allocated_bytes.all.peak"]
end

function M.reset_peak_memory_stats(device)
   local module = module_of("reset_peak_memory_stats", device)
   if module then return module.reset_peak_memory_stats(device) end
   torch._reset_peak()
end

function M.record_memory_history(on)
   if on ~= nil and type(on) ~= "boolean" then
      args.refuse("record_memory_history", "on", "true or false", on)
   end
   torch._record_live(on ~= false)
end

function M.memory_snapshot(device)
   module_of("memory_snapshot", device)
   if not torch._record_live() then
      torch.raise("memory_snapshot: nothing was recorded yet; "
         .. "call torch.record_memory_history() first")
   end
   local groups, wanted = {}, torch.device(device or "cpu")
   for _, group in ipairs(torch._live()) do
      local own = group.device
      if own and own.type == wanted.type and (wanted.index or own.index) == own.index then
         groups[#groups + 1] = group
      end
   end
   return groups
end

--- Formats the groups of tensors in a snapshot of memory as a table.
---@param groups table[]
---@param most integer  the largest number of rows
---@return string
function M.table(groups, most)
   local lines = {}
   for i = 1, math.min(most, #groups) do
      local g = groups[i]
      lines[i] = {text.bytes(g.bytes), tostring(g.count), text.bytes(g.size), g.dtype, g.line,
         g.operator}
   end
   return text.columns({{"Bytes"}, {"Tensors"}, {"Each"}, {"dtype", left = true},
      {"Line", left = true}, {"Operator", left = true}}, lines)
end

function M.memory_summary(device)
   local module = module_of("memory_summary", device)
   if module then return module.memory_summary(device) end
   local s = torch._memory_stats()
   local lines = {
      "memory of the CPU",
      ("in use    %12s, at most %s"):format(text.bytes(s.used),
         text.bytes(s["allocated_bytes.all.peak"])),
      ("cached    %12s"):format(text.bytes(s.cached)),
      ("kept alive by this Lua state %s"):format(text.bytes(s.live)),
   }
   if torch._record_live() then
      lines[#lines + 1] = M.table(M.memory_snapshot(), 20)
   end
   return table.concat(lines, "\n")
end

return M
