-- rule_parts.lua - what rules of vmap are made of (rules.lua, layer_rules.lua). A rule gets a call
-- `c` as batched.lua describes it.

local torch = require "tlua"

local M = {}

--- A function that enters a rule in a list under each of several names.
---@param rules table<string, fun(c: table): any>
---@return fun(names: string, rule: fun(c: table): any)
function M.definer(rules)
   return function(names, rule)
      for name in names:gmatch "%S+" do rules[name] = rule end
   end
end

--- A position or several, with the examples' dimension in front.
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

--- {n, sizes of shape}
---@param n integer
---@param shape integer[]
---@return integer[]
function M.with_sizes(n, shape)
   return {n, table.unpack(shape)}
end

--- A tensor whose examples have `rank` dimensions as one where they have `more`: new dimensions of
--- size 1 lie before theirs.
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

--- The same of an argument; one that all examples share stays as it is.
---@param c table
---@param name string
---@param more integer
---@return Tensor
function M.aligned(c, name, more)
   if not c.batched[name] then return c.a[name] end
   return M.with_rank(c.a[name], c.rank[name], more)
end

--- Returns an argument as a batch; one that all examples share is expanded.
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

--- Returns a copy of the table of arguments by name.
---@param c table
---@return table<string, any>
function M.copied(c)
   local a = {}
   for name, value in pairs(c.a) do a[name] = value end
   return a
end

--- The largest rank; nil where the result's dtype would be another: tensors without dimensions
--- count less, and get one here.
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

--- a times b of an example's ranks ra and rb, each with examples or without; vectors become
--- matrices and are taken back after.
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

return M
