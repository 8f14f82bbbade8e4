-- reach.lua - finds the tensors that a function of the script can reach through its variables, so
-- that an export can undo changes of tensors that are not in its options.

local torch = require "tlua"
local class = require "tlua.class"

local M = {}

-- Limits: the number of values that are looked at, and the number of elements of all tensors that
-- require no gradient, such as a data set.
local MOST_VALUES <const>, MOST_ELEMENTS <const> = 1 << 17, 1 << 24

-- Calls fn with each table and tensor that can be reached from `start`.
local function each(start, fn)
   local library = require "tlua.compile.library"
   local tables = library.refresh().tables
   local list, seen = {start}, {[package.loaded] = true}
   local function add(value)
      local kind = type(value)
      if kind ~= "table" and kind ~= "function" and kind ~= "userdata" then return end
      if seen[value] or tables[value] or #list >= MOST_VALUES then return end
      seen[value] = true
      list[#list + 1] = value
   end
   local i = 0
   while i < #list do
      i = i + 1
      local value = list[i]
      if type(value) == "table" then
         for _, item in next, value do add(item) end
         fn(value)
      elseif torch.is_tensor(value) then
         fn(value)
      elseif type(value) == "function" and not library.owns(value) then
         for n = 1, 255 do
            local name, item = debug.getupvalue(value, n)
            if not name then break end
            add(item)
         end
      end
   end
end

local function can_keep(tensor)
   return not torch._sparse_parts(tensor) and not tensor:is_inference()
      and tensor.device.type ~= "meta"
end

local function is_optimizer(value)
   if not getmetatable(value) or type(rawget(value, "state")) ~= "table" then return false end
   -- the metamethod __index of an object may raise an error
   local fine, result = pcall(class.isinstance, value, require "tlua.optim.Optimizer")
   return fine and result
end

--- Saves the values and gradients of the tensors, and the states of the optimizers, that a function
--- can reach. Returns a function that restores those that have changed. Without the library debug,
--- nothing is saved.
---@param fn function
---@param named table[]  tensors to leave out, as the second item of each entry
---@param optimizers optim.Optimizer[]  optimizers whose state is left out
---@return function
function M.keep(fn, named, optimizers)
   local skipped, kept, gradients, states, elements = {}, {}, {}, {}, 0
   for _, entry in ipairs(named) do skipped[entry[2]] = true end
   for _, optimizer in ipairs(optimizers) do skipped[optimizer] = true end
   local _ <close> = torch.no_grad()
   local function keep(tensor)
      kept[#kept + 1] = {tensor, tensor._version, tensor:detach():clone()}
   end
   if not debug then return function() end end
   each(fn, function(value)
      if skipped[value] then return end
      if torch.is_tensor(value) then
         local more = value.requires_grad and 0 or value:numel()
         if not can_keep(value) or elements + more > MOST_ELEMENTS then return end
         elements = elements + more
         keep(value)
         local grad = value.is_leaf and value.grad
         if grad and can_keep(grad) then keep(grad) end
         if value.requires_grad and value.is_leaf then gradients[#gradients + 1] = {value, grad} end
      elseif is_optimizer(value) then
         local copy = {}
         for key, item in next, value.state do copy[key] = item end
         states[#states + 1] = {value.state, copy}
      end
   end)
   return function()
      local _ <close> = torch.no_grad()
      for _, entry in ipairs(kept) do
         if entry[1]._version ~= entry[2] then
            -- a tensor whose elements overlap, such as an expanded one, is a view of another
            pcall(entry[1].copy_, entry[1]:detach(), entry[3])
            entry[2] = entry[1]._version
         end
      end
      for _, entry in ipairs(gradients) do
         if not rawequal(entry[1].grad, entry[2]) then entry[1].grad = entry[2] end
      end
      for _, entry in ipairs(states) do
         for key in next, entry[1] do entry[1][key] = entry[2][key] end
      end
   end
end

return M
