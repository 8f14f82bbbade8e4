-- Join.lua - lets ranks whose numbers of batches differ train together.

local torch = require "tlua"
local args = require "tlua.args"
local coalesce = require "tlua.distributed.coalesce"
local DDP = require "tlua.distributed.DistributedDataParallel"

local M = {}

-- Tells all ranks whether this rank still has batches (`active`). Returns the number of ranks that
-- do, and the first such rank.
local function count(ddp, active)
   local group = ddp.group
   local flags = torch.zeros({#group.ranks}, {dtype = "int32", device = "cpu"})
   if active then flags[group.group_rank + 1] = 1 end
   group:run("all_reduce", {outputs = flags, op = "max"})
   local n, first = 0, nil
   for rank, flag in ipairs(flags:tolist()) do
      n = n + flag
      if flag == 1 and not first then first = rank - 1 end
   end
   return n, first
end

--- Runs fn, in which each rank calls a DistributedDataParallel model once for each of its batches.
--- A rank that has no batches left contributes zeros to the averages of the other ranks until all
--- ranks are done. Then all ranks get the parameters and buffers of the last active rank. Averages
--- always divide by the number of all ranks.
---@param model nn.parallel.DistributedDataParallel
---@param fn function
---@return any ...  the results of fn
function M.Join(model, fn, ...)
   if not torch.isinstance(model, DDP) then
      args.refuse("Join", "model", "a DistributedDataParallel", model)
   end
   if type(fn) ~= "function" then args.refuse("Join", "fn", "a function", fn) end
   local last = model.group.group_rank
   rawset(model, "joining", function(self)
      if not self.sync or not torch.is_grad_enabled() then return 0 end
      local _, first = count(self, true)
      last = first
      return first
   end)
   local results = table.pack(pcall(fn, ...))
   rawset(model, "joining", nil)
   if not results[1] then error(results[2], 0) end
   local n, first = count(model, false)
   local _ <close> = torch.no_grad()
   while n > 0 do
      last = first
      model:_shadow(first)
      n, first = count(model, false)
   end
   -- All ranks agree on `last`, the last rank that had batches.
   for _, tensors in ipairs {model.module:parameters(), model.module:buffers()} do
      coalesce.each(tensors, function(flat)
         model.group:run("broadcast", {outputs = flat, root = last})
      end)
   end
   return table.unpack(results, 2, results.n)
end

return M
