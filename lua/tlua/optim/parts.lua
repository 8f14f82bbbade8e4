-- parts.lua - functions for optimizers whose parameters are split over ranks by fully_shard or
-- tensor parallelism. Elementwise optimizers just step each rank's parts; other optimizers need
-- these functions.

local torch = require "tlua"

local M = {}

-- Returns the module that records which parameters are parts, or nil if the program has not loaded
-- that module. A host program may lack the table `package`.
local function known() return package and package.loaded["tlua.distributed.placement"] end

local function is_part(place)
   return place ~= nil and (place.flat ~= nil or place.dim_group ~= nil)
end

--- Returns the full shape of a parameter, even if the parameter is split over ranks.
---@param parameter Tensor
---@return integer[]
function M.whole_shape(parameter)
   local placement = known()
   return placement and placement.of(parameter).shape or parameter.shape
end

--- Applies a function to the whole of a tensor that is split like a parameter, and returns this
--- rank's part of the result. All ranks must call the function.
---@param parameter Tensor
---@param tensor Tensor
---@param fn fun(whole: Tensor): Tensor
---@return Tensor
function M.through_whole(parameter, tensor, fn)
   local placement = known()
   if not placement or not is_part(placement.get(parameter)) then return fn(tensor) end
   return placement.part(parameter, fn(placement.full(parameter, tensor)))
end

--- Raises an error if a parameter is a shard and the optimizer's steps need the whole parameter.
---@param optimizer optim.Optimizer
---@param position integer
---@param parameter Tensor
function M.check_parameter(optimizer, position, parameter)
   local placement = known()
   local place = placement and placement.get(parameter)
   if not place or not optimizer.needs_whole then return end
   if optimizer.takes_rows and place.dim == 1 and not place.flat then return end
   if is_part(place) or place.owners and optimizer.needs_all then
      torch.raise(("%s: parameter %d: it is split over ranks, by fully_shard or tensor " ..
         "parallelism, and a step needs the whole of %s; expected an optimizer that steps each " ..
         "element by itself, such as AdamW or SGD"):format(torch.type(optimizer), position,
         optimizer.needs_all and "all parameters" or "it"))
   end
end

-- Raises an error if a parameter's state has another number of elements than the parameter, because
-- it was made before the parameter was split over ranks.
local function check_state(optimizer, position, parameter)
   local found
   for key, value in pairs(optimizer.state[position] or {}) do
      local other = torch.is_tensor(value) and value:dim() > 0 and
         value:numel() ~= parameter:numel()
      if other and (not found or key < found) then found = key end
   end
   if not found then return end
   torch.raise(("%s: parameter %d: its state %s is of shape (%s), but fully_shard has left this " ..
      "rank a part of %d elements; make the optimizer after fully_shard"):format(
      torch.type(optimizer), position, found,
      table.concat(optimizer.state[position][found].shape, ", "), parameter:numel()))
end

--- Before a step, checks all parameters and their existing states, unless no parameter was split
--- since the last check.
---@param optimizer optim.Optimizer
function M.check(optimizer)
   local placement = known()
   if not placement or optimizer.seen_placements == placement.changes then return end
   for position, parameter in optimizer:each() do
      M.check_parameter(optimizer, position, parameter)
      local place = placement.get(parameter)
      if place and place.flat then check_state(optimizer, position, parameter) end
   end
   optimizer.seen_placements = placement.changes
end

return M
