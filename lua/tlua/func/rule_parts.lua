-- rule_parts.lua - helpers for vmap's rules (rules.lua, layer_rules.lua). A rule gets a call `c`,
-- described in batched.lua.

local torch = require "tlua"

local M = {}

--- Returns a function that adds a rule to a list under several names.
---@param rules table<string, fun(c: table): any>
---@return fun(names: string, rule: fun(c: table): any)
function M.definer(rules)
   return function(names, rule)
      for name in names:gmatch "%S+" do rules[name] = rule end
   end
end

--- Shifts one dimension or a list of dimensions by one, since the examples' dimension comes first.
---@param dim integer|integer[]
---@return integer|integer[]
function M.shifted(dim)
   if type(dim) == "table" then
      local list = {}
      for k, d in ipairs(dim) do list[k] = M.shifted(d) end
      return list
   end
   return dim > 0 and dim + 1 or dim
end

--- Returns the list {n, shape[1], shape[2], ...}.
---@param n integer
---@param shape integer[]
---@return integer[]
function M.with_sizes(n, shape)
   return {n, table.unpack(shape)}
end

--- Reshapes a batch of examples with `rank` dimensions so that the examples have `more` dimensions:
--- inserts dimensions of size 1 after the batch dimension.
---@param value Tensor
---@param rank integer
---@param more integer
---@return Tensor
function M.with_rank(value, rank, more)
   if rank == more then return value end
   local shape = value.shape
   local sizes, new = {shape[1]}, more - rank
   for k = 2, more + 1 do sizes[k] = k <= new + 1 and 1 or shape[k - new] end
   return value:reshape(sizes)
end

--- Reshapes an argument as with_rank does; an argument that all examples share, and that so has no
--- batch dimension, is returned unchanged.
---@param c table
---@param name string
---@param more integer
---@return Tensor
function M.aligned(c, name, more)
   if not c.batched[name] then return c.a[name] end
   return M.with_rank(c.a[name], c.rank[name], more)
end

--- Returns an argument as a batch of examples. An argument that all examples share is expanded.
---@param c table
---@param name string
---@return Tensor
function M.expanded(c, name)
   local value = c.a[name]
   if c.batched[name] then return value end
   return value:unsqueeze(1):expand(M.with_sizes(c.n, value.shape))
end

--- Returns whether an argument is the only one that has examples.
---@param c table
---@param name string
---@return boolean
function M.only_batched(c, name)
   for other, batched in pairs(c.batched) do
      if batched and other ~= name then return false end
   end
   return c.batched[name]
end

--- Returns a copy of the call's arguments, a table from names to values.
---@param c table
---@return table<string, any>
function M.copied(c)
   local a = {}
   for name, value in pairs(c.a) do a[name] = value end
   return a
end

--- Returns the largest number of dimensions that an example of an argument has, or nil if the
--- batched call would change the result's dtype: type promotion ignores tensors without dimensions,
--- but batched tensors always have one.
---@param c table
---@return integer?
function M.common_rank(c)
   local most, dtype, mixed, flat = 0, nil, false, false
   for name, rank in pairs(c.rank) do
      most = math.max(most, rank)
      flat = flat or rank == 0
      mixed = mixed or dtype ~= nil and dtype ~= c.a[name].dtype
      dtype = c.a[name].dtype
   end
   for name, value in pairs(c.a) do
      local number = type(value) == "number" and not c.rank[name]
      mixed = mixed or number and flat and math.type(value) == "float" and not dtype:find "float"
   end
   if mixed and flat then return nil end
   return most
end

--- Returns the arguments with all tensors aligned to the same rank.
---@param c table
---@param rank integer
---@return table<string, any>
function M.all_aligned(c, rank)
   local changed = {}
   for name, value in pairs(c.a) do
      changed[name] = c.rank[name] and M.aligned(c, name, rank) or value
   end
   return changed
end

--- Multiplies a by b. Their examples have ra and rb dimensions; either may instead be shared by all
--- examples. Vectors are multiplied as matrices, and the added dimensions are removed from the
--- result.
---@param a Tensor
---@param ra integer
---@param b Tensor
---@param rb integer
---@param batched {[1]: boolean, [2]: boolean}  whether a and b have examples
---@return Tensor?
function M.product(a, ra, b, rb, batched)
   if ra == 0 or rb == 0 then return nil end
   if ra == 1 then a = a:unsqueeze(-2) end
   if rb == 1 then b = b:unsqueeze(-1) end
   local most = math.max(ra, rb, 2)
   if batched[1] then a = M.with_rank(a, math.max(ra, 2), most) end
   if batched[2] then b = M.with_rank(b, math.max(rb, 2), most) end
   local result = torch.matmul(a, b)
   if rb == 1 then result = result:squeeze(-1) end
   if ra == 1 then result = result:squeeze(rb == 1 and -1 or -2) end
   return result
end

--- The rule for operators that compute each element separately, which are marked `pointwise` in
--- src/ops. batched.lua uses this rule for all of them that have no rule of their own.
---@param c table
---@return any
function M.pointwise(c)
   local rank = M.common_rank(c)
   if not rank or c.a.memory_format then return nil end
   if c.signature.name:find "_$" then
      local first = c.signature[1].name
      if not c.batched[first] or c.rank[first] ~= rank then return nil end
   end
   return c.call(M.all_aligned(c, rank))
end

return M
