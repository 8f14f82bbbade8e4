-- placement.lua - records which part of a split parameter this rank has. Tensor parallelism splits
-- a parameter along one dimension; this rank's part is called its box. fully_shard splits the box
-- again: this rank then has a range of the box's elements, counted in row-major order. A parameter
-- that tensor parallelism has not split has one box, the whole parameter. The code that computes
-- norms, whole states and checkpoints uses these records.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- The placement of a split parameter: this rank's part of the parameter, and the groups of ranks
--- that have the remaining parts.
---@class distributed.Placement
---@field shape integer[]  the shape of the whole parameter
---@field offset integer[]  the first element of the box, from 0, in each dimension
---@field size integer[]  the size of the box
---@field dim integer?  the dimension split by tensor parallelism
---@field dim_group distributed.ProcessGroup?  the ranks that have the parts along `dim`, in order
---@field owners distributed.ProcessGroup?  ranks that have different parameters
---@field first integer?  the first element of the range within the box, from 0
---@field count integer?  the number of elements in the range
---@field flat table?  {group, per, at}: the ranks among which fully_shard has divided the box, and
--- the other arguments of M.flatten

local placements = setmetatable({}, {__mode = "k"})

--- Counts the changes to placements. Code that has computed something from placements compares this
--- number to learn whether a placement has changed.
M.changes = 0

local function set(parameter, place)
   placements[parameter] = place
   M.changes = M.changes + 1
end

local function whole(parameter)
   local shape, offset = table.move(parameter.shape, 1, parameter:dim(), 1, {}), {}
   for d = 1, #shape do offset[d] = 0 end
   return {shape = shape, offset = offset, size = table.move(shape, 1, #shape, 1, {})}
end

--- Returns a parameter's placement, or nil if the parameter is not split.
---@param parameter Tensor
---@return distributed.Placement?
function M.get(parameter)
   return placements[parameter]
end

--- Records that a tensor has the same placement as a parameter. The tensor is a copy or a view of
--- the parameter, or part of its optimizer's state.
---@param tensor Tensor
---@param parameter Tensor
---@return Tensor tensor
function M.inherit(tensor, parameter)
   placements[tensor] = placements[parameter]
   return tensor
end

--- Returns a parameter's placement, even if every rank has the whole parameter.
---@param parameter Tensor
---@return distributed.Placement
function M.of(parameter)
   return placements[parameter] or whole(parameter)
end

--- Records that a parameter is part `index` (from 0) of `count` equal parts along a dimension.
function M.split(parameter, dim, index, count, group)
   local place = whole(parameter)
   place.shape[dim] = place.size[dim] * count
   place.offset[dim] = place.size[dim] * index
   place.dim, place.dim_group = dim, group
   set(parameter, place)
end

--- Records that only this rank of a group has a parameter.
function M.own(parameter, group)
   local place = placements[parameter] or whole(parameter)
   place.owners = group
   set(parameter, place)
end

--- Records that this rank has a range of a parameter's elements. fully_shard writes the elements of
--- several parameters one after another into a list. The first `per` elements of the list belong to
--- the first rank of the group, the next `per` elements to the second rank, and so on. The elements
--- of this parameter begin at position `at` of the list, from 0.
function M.flatten(parameter, at, per, group)
   local place = placements[parameter] or whole(parameter)
   place.flat = {group = group, per = per, at = at}
   place.first, place.count = M.range(place, group.group_rank)
   set(parameter, place)
end

local function product(list)
   local n = 1
   for _, size in ipairs(list) do n = n * size end
   return n
end
M.product = product

--- Returns which of the box's elements a rank has: the first element, from 0, and the number of
--- elements. `rank` is the rank's number within place.flat.group, from 0.
---@return integer first
---@return integer count
function M.range(place, rank)
   local flat, n = place.flat, product(place.size)
   local from = math.min(math.max(rank * flat.per - flat.at, 0), n)
   local to = math.min(math.max((rank + 1) * flat.per - flat.at, 0), n)
   return from, to - from
end

--- Returns the groups whose ranks have different parts of a parameter, or different parameters.
---@return distributed.ProcessGroup[]
function M.groups(parameter)
   local place = placements[parameter]
   local list = {}
   if not place then return list end
   if place.dim_group then list[1] = place.dim_group end
   if place.flat then list[#list + 1] = place.flat.group end
   if place.owners then list[#list + 1] = place.owners end
   return list
end

--- Raises an error if one of the parameters is split over ranks of the group. All ranks of the
--- group must have the whole parameters.
---@param name string  the function's name, for the message
---@param parameters Tensor[]
---@param group distributed.ProcessGroup
function M.refuse_split(name, parameters, group)
   for i, parameter in ipairs(parameters) do
      for _, other in ipairs(M.groups(parameter)) do
         for _, rank in ipairs(other.ranks) do
            if group.position[rank] and rank ~= torch.distributed.get_rank() then
               torch.raise(("%s: parameter %d: expected one that all ranks have whole, but it " ..
                  "is split over ranks of this group, by fully_shard or a parallel layer")
                  :format(name, i))
            end
         end
      end
   end
end

--- Raises the error of reset_parameters for a module with a parameter that tensor parallelism has
--- split: initial weights depend on the whole shape, which the module no longer has.
---@param name string  the name of the module or the parameter
function M.refuse_reset(name)
   torch.raise(("reset_parameters: %s is split by tensor parallelism; call reset_parameters before "
      .. "parallelize_module, or load a state, such as by distributed.checkpoint"):format(name))
end

-- Gathers the ranges of a box's elements, into which fully_shard has divided the box, from the
-- ranks. Returns the whole box.
local function gather_range(place, tensor)
   local group, parts = place.flat.group, {}
   for rank = 0, #group.ranks - 1 do
      local _, count = M.range(place, rank)
      parts[rank + 1] = tensor:new_empty({count})
   end
   group:run("all_gather", {inputs = tensor:detach():reshape(-1), outputs = parts})
   return torch.cat(parts):view(place.size)
end

-- Gathers the boxes of all ranks, into which tensor parallelism has split a parameter. Returns the
-- whole parameter.
local function gather_dim(place, tensor)
   local group, parts = place.dim_group, {}
   for i = 1, #group.ranks do parts[i] = tensor:new_empty(place.size) end
   group:run("all_gather", {inputs = tensor:detach():contiguous(), outputs = parts})
   return torch.cat(parts, place.dim)
end

local take_full = args.signature "full_tensor(parameter: tensor, tensor: tensor?)"

--- Returns the whole of a tensor that is split like a parameter: the parameter itself, its gradient
--- or an optimizer's state. All ranks that have parts must call the function.
---@param parameter Tensor
---@param tensor? Tensor  the parameter by default
---@return Tensor
function M.full(parameter, tensor)
   local a = take_full(parameter, tensor)
   local place = placements[parameter]
   tensor = (a.tensor or parameter):detach()
   if not place then return tensor end
   local _ <close> = torch.no_grad()
   if place.flat then tensor = gather_range(place, tensor) end
   if place.dim_group then tensor = gather_dim(place, tensor) end
   return tensor
end

--- Returns this rank's part of a whole tensor.
---@param parameter Tensor
---@param tensor Tensor  a tensor of the whole parameter's shape
---@return Tensor
function M.part(parameter, tensor)
   local place = placements[parameter]
   tensor = tensor:detach()
   if not place then return tensor end
   for d, size in ipairs(place.size) do
      if size ~= tensor:size(d) then tensor = tensor:narrow(d, place.offset[d] + 1, size) end
   end
   if place.flat then tensor = tensor:reshape(-1):narrow(1, place.first + 1, place.count) end
   return tensor
end

-- Norms ----------------------------------------------------------------------------------------

-- Reduces a value over the ranks of one group after another by the reduction `op`: "sum" or "max",
-- which the infinity norm needs. Changes the value in place.
local function combine(value, groups, op)
   for _, group in ipairs(groups) do group:run("all_reduce", {outputs = value, op = op}) end
   return value
end

local function key_of(groups)
   local names = {}
   for i, group in ipairs(groups) do names[i] = group.name end
   return table.concat(names, " ")
end

--- Returns whether an optimizer has parameters whose parts are on several ranks.
---@param optimizer optim.Optimizer
---@return boolean
function M.splits(optimizer)
   for _, parameter in optimizer:each() do
      if #M.groups(parameter) > 0 then return true end
   end
   return false
end

--- Returns the maximum of a tensor of one element over all ranks that have parts of an optimizer's
--- parameters.
---@param optimizer optim.Optimizer
---@param number Tensor
---@return Tensor
function M.largest(optimizer, number)
   local seen = {}
   for _, parameter in optimizer:each() do
      for _, group in ipairs(M.groups(parameter)) do
         if not seen[group] then
            seen[group] = true
            number = combine(number:clone(), {group}, "max")
         end
      end
   end
   return number
end

--- Returns the norm of the whole gradients of parameters, or nil if no parameter is split. All
--- ranks that have parts must call the function, even if their parts are empty.
---@param parameters Tensor[]
---@param norm_type number
---@return Tensor?
function M.total_norm(parameters, norm_type)
   local kinds, order, split = {}, {}, false
   for _, parameter in ipairs(parameters) do
      local groups = M.groups(parameter)
      split = split or #groups > 0
      local key = key_of(groups)
      if not kinds[key] then
         kinds[key] = {groups = groups}
         order[#order + 1] = key
      end
      local grad = parameter.grad
      if grad and grad:numel() > 0 then table.insert(kinds[key], grad:detach()) end
   end
   if not split then return nil end
   local device, powers, infinite = parameters[1].device, {}, norm_type == math.huge
   for i, key in ipairs(order) do
      local list = kinds[key]
      local norm = #list > 0 and torch._total_norm(list, norm_type):float():to(device)
         or torch.zeros({}, {device = device})
      local value = infinite and norm or norm ^ norm_type
      powers[i] = combine(value, list.groups, infinite and "max" or "sum")
   end
   local all = torch.stack(powers)
   if infinite then return all:max() end
   return all:sum() ^ (1 / norm_type)
end

return M
