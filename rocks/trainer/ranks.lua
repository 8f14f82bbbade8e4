-- ranks.lua - collects values, which may contain tensors, from all ranks for checkpoints.

local torch = require "tlua"

local M = {}

local MARK <const> = "trainer.tensor"

-- Copies a value. In the copy, a description replaces each tensor, and the tensors are appended to
-- the list `tensors`. Descriptions can be sent as text, and tensors by collectives.
local function take_out(value, tensors)
   if torch.is_tensor(value) then
      tensors[#tensors + 1] = value:detach():to("cpu"):contiguous()
      return {[MARK] = #tensors, dtype = value.dtype, shape = {table.unpack(value.shape)}}
   end
   if type(value) ~= "table" then return value end
   local copy = {}
   for key, item in pairs(value) do copy[key] = take_out(item, tensors) end
   return copy
end

-- Returns the descriptions in a value as a list, which has the order of their tensors.
local function descriptions(value, list)
   if type(value) ~= "table" then return list end
   if value[MARK] then
      list[value[MARK]] = value
   else
      for _, item in pairs(value) do descriptions(item, list) end
   end
   return list
end

-- Replaces the descriptions in a value by their tensors. Changes the value itself.
local function put_in(value, tensors)
   if type(value) ~= "table" then return value end
   if value[MARK] then return tensors[value[MARK]] end
   for key, item in pairs(value) do value[key] = put_in(item, tensors) end
   return value
end

--- Collects the values of all ranks. On the first rank, returns them in the order of the ranks; on
--- all other ranks, returns nil. All ranks must call the function.
---@param self trainer.Trainer
---@param value any  numbers, strings, booleans, tensors and tables of these
---@return any[]?
function M.gather(self, value)
   if self.world_size == 1 then return {value} end
   local dist, tensors = torch.distributed, {}
   local plain, list = take_out(value, tensors), {}
   dist.gather_object(plain, self.is_global_zero and list or nil, 0)
   if not self.is_global_zero then
      for _, tensor in ipairs(tensors) do dist.send(tensor, 0) end
      return nil
   end
   list[1] = value
   for rank = 1, self.world_size - 1 do
      local arrived = {}
      for i, entry in ipairs(descriptions(list[rank + 1], {})) do
         arrived[i] = torch.empty(entry.shape, {dtype = entry.dtype})
         dist.recv(arrived[i], rank)
      end
      list[rank + 1] = put_in(list[rank + 1], arrived)
   end
   return list
end

return M
