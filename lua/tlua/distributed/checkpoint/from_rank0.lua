-- from_rank0.lua - distributes a state that only rank 0 has. The other ranks get the structure of
-- the state at once, and its tensors one at a time, so that only rank 0 ever holds the whole state.

local torch = require "tlua"
local groups = require "tlua.distributed.group"
local objects = require "tlua.distributed.objects"

local M = {}

-- the key in a placeholder under which a tensor's number is stored
local mark <const> = "tlua.tensor"

-- Returns a copy of a value in which placeholders with number, shape and dtype replace the tensors.
-- Appends the tensors to a list.
local function outline(value, tensors)
   if torch.is_tensor(value) then
      tensors[#tensors + 1] = value
      local shape = table.move(value.shape, 1, value:dim(), 1, {})
      return {[mark] = #tensors, shape = shape, dtype = value.dtype}
   end
   if type(value) ~= "table" then return value end
   local copy = {}
   for key, item in pairs(value) do copy[key] = outline(item, tensors) end
   return copy
end

--- Returns rank 0's state with a placeholder for each tensor, and a function that takes a part of
--- this structure and returns a copy with tensors in place of the placeholders. All ranks must call
--- that function for the same parts in the same order.
---@param state table  read on rank 0 only
---@param device torch.device  the device on which received tensors are created
---@return table structure
---@return fun(part: any): any fetch
function M.share(state, device)
   local group, tensors = groups.resolve("broadcast_from_rank0"), {}
   local first = group.group_rank == 0
   local list = {first and outline(state, tensors) or false}
   objects.broadcast_object_list(list)
   local function fetch(part)
      if type(part) ~= "table" then return part end
      local number, copy = part[mark], {}
      if number then
         local tensor = first and tensors[number]:detach():to(device):contiguous()
            or torch.empty(part.shape, {dtype = part.dtype, device = device})
         group:run("broadcast", {outputs = tensor})
         return tensor
      end
      local keys = {}
      for key in pairs(part) do keys[#keys + 1] = key end
      table.sort(keys, function(x, y) return tostring(x) < tostring(y) end)
      for _, key in ipairs(keys) do copy[key] = fetch(part[key]) end
      return copy
   end
   return list[1], fetch
end

return M
