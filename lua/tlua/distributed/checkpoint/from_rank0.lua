-- from_rank0.lua - a state that rank 0 alone has: the others get its structure at once, and its
-- tensors one by one as they ask for them, so that none but rank 0 ever has all of it.

local torch = require "tlua"
local groups = require "tlua.distributed.group"
local objects = require "tlua.distributed.objects"

local M = {}

local mark <const> = "tlua.tensor" -- the key of a tensor's number, in its place in the structure

-- The structure of a value, whose tensors are appended to a list.
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

--- The structure of rank 0's state, with a note in each tensor's place, and a function that gives a
--- part of it with its tensors. All ranks call that function for the same parts in one order.
---@param state table  of other ranks it is not read
---@param device torch.device  of the tensors that come
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
