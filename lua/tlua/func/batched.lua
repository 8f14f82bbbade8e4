-- batched.lua - the stand-in for one example inside vmap: a table with a tensor of all examples,
-- stacked along its first dimension. An operator called with a stand-in calls `handle`, which
-- applies a rule that runs the operator once for all examples, or else runs the operator for each
-- example. If both are impossible, `handle` raises an error, and vmap then calls the whole function
-- for each example.

local torch = require "tlua"

local M = {}

local Batched = {__name = "torch.func.Batched"}
-- Returns the number of calls of vmap that are running inside one another. The C side keeps this
-- number, and restores it if a call ends by an error and `leave` cannot run for lack of memory.
local current_depth = torch._batching
-- for each level of nested calls of vmap, the mapped arguments, and copies of the values that were
-- overwritten
local arguments, kept = {}, {}
-- the number of the call of vmap at each level, and the number of all calls so far
local calls, ncalls = {}, 0

---@class func.Batched
---@field value Tensor|func.Batched  all examples
---@field level integer  nesting depth of the vmap call that made it
---@field call integer?  number of that call of vmap

--- Returns a stand-in for the examples of a tensor.
---@param value Tensor|func.Batched  examples along dimension 1
---@param level integer
---@return func.Batched
function M.wrap(value, level)
   return setmetatable({value = value, level = level, call = calls[level]}, Batched)
end

--- Raises an error for a stand-in that belongs to a call of vmap that has ended.
---@param value func.Batched
function M.check(value)
   if value.call ~= calls[value.level] then
      torch.raise("func.vmap: a tensor was used that belongs to a mapped function that has ended")
   end
end

--- Returns whether a value is a stand-in.
---@param value any
---@return boolean
function M.is(value)
   return getmetatable(value) == Batched
end

local function is_tensor(value)
   return torch.is_tensor(value)
end

-- Wraps the tensors of results, including those in lists, as stand-ins.
local function wrap_all(value, level)
   if is_tensor(value) then return M.wrap(value, level) end
   if type(value) ~= "table" then return value end
   local list = {}
   for key, item in pairs(value) do list[key] = wrap_all(item, level) end
   return list
end

-- Calls of operators --------------------------------------------------------------------------

-- Returns a table from the names of an operator's parameters to the arguments, such as {self = x,
-- dim = 2}. Sizes or dimensions that were passed as several arguments become one list.
local function by_name(signature, ...)
   local given, named = table.pack(...), {}
   local n, options = given.n, nil
   local last = given[n]
   if type(last) == "table" and not getmetatable(last) and #last == 0
      and type(next(last)) == "string" then
      options = last
      n = n - 1
   end
   local at = 1
   for _, param in ipairs(signature) do
      if param.keyword or at > n then break end
      local value = given[at]
      at = at + 1
      local tensors = M.is(value) or is_tensor(value)
      if param.vararg and (type(value) == "number" or tensors) then
         local list = {value}
         local function alike(item)
            if tensors then return M.is(item) or is_tensor(item) end
            return type(item) == "number"
         end
         while at <= n and alike(given[at]) do
            list[#list + 1] = given[at]
            at = at + 1
         end
         value = list
      end
      named[param.name] = value
   end
   if at <= n then
      torch.raise(("func.vmap: %s: too many arguments for a batch"):format(signature.name))
   end
   for name, value in pairs(options or {}) do named[name] = value end
   return named
end

-- Calls the operator with the arguments in `named`, a table from names to arguments.
local function call(fn, signature, named)
   local positional, n, options = {}, 0, nil
   for i, param in ipairs(signature) do
      local value = named[param.name]
      if param.keyword then
         if value ~= nil then
            options = options or {}
            options[param.name] = value
         end
      else
         positional[i] = value
         if value ~= nil then n = i end
      end
   end
   if options then
      n = n + 1
      positional[n] = options
   end
   return fn(table.unpack(positional, 1, n))
end

local function same(results, k)
   for i = 2, #results do
      if results[i][k] ~= results[1][k] then
         torch.raise "func.vmap: a result depends on the example, and is not a tensor"
      end
   end
   return results[1][k]
end

-- Stacks the results that the operator had for each example. If the results are lists, stacks their
-- items, one position after the other.
local function joined(parts)
   if is_tensor(parts[1]) then return torch.stack(parts) end
   local list = {}
   for k = 1, #parts[1] do
      local column = {}
      for i, part in ipairs(parts) do column[i] = part[k] end
      list[k] = joined(column)
   end
   return list
end

local function one_by_one(fn, signature, named, level, n)
   if signature.name:find "_$" or named.out ~= nil then
      torch.raise(("func.vmap: %s has no rule for a batch"):format(signature.name))
   end
   local results = {}
   for i = 1, n do
      local own = {}
      local function example(value)
         if M.is(value) and value.level == level then return value.value:select(1, i) end
         return value
      end
      for name, value in pairs(named) do
         if type(value) == "table" and not M.is(value) then
            own[name] = {}
            for k, item in pairs(value) do own[name][k] = example(item) end
         else
            own[name] = example(value)
         end
      end
      results[i] = table.pack(call(fn, signature, own))
   end
   local packed = {n = results[1].n}
   for k = 1, packed.n do
      local parts = {}
      for i, result in ipairs(results) do parts[i] = result[k] end
      local first = parts[1]
      local whole = is_tensor(first) or type(first) == "table"
      packed[k] = whole and wrap_all(joined(parts), level) or same(results, k)
   end
   return table.unpack(packed, 1, packed.n)
end

local function highest(named)
   local level, found = 0, nil
   local function look(value)
      if not M.is(value) then return end
      M.check(value)
      if value.level > level then level, found = value.level, value end
   end
   for _, value in pairs(named) do
      look(value)
      if type(value) == "table" and not M.is(value) then
         for _, item in pairs(value) do look(item) end
      end
   end
   return level, found
end

-- Describes a call for a rule. In the result, `a` maps names to arguments. `batched[name]` is true
-- if a tensor argument is a batch of examples, stacked along dimension 1; `rank[name]` is the
-- number of dimensions of one example.
local function describe(signature, named, level, n)
   local c = {a = {}, rank = {}, batched = {}, n = n, level = level, signature = signature}
   for name, value in pairs(named) do
      local own = M.is(value) and value.level == level
      c.a[name] = own and value.value or value
      if is_tensor(value) then
         c.batched[name] = own
         c.rank[name] = c.a[name]:dim() - (own and 1 or 0)
      end
   end
   return c
end

local one_more = {unsqueeze = true, stack = true}

-- Returns whether the dimensions that the call names exist in an example. The batch has one
-- dimension more, so an operator applied to the batch would not notice.
local function in_range(c)
   local name = c.signature[1].name
   local first = c.a[name]
   local rank = c.rank[name]
   if not rank and type(first) == "table" and is_tensor(first[1]) then rank = first[1]:dim() end
   local most = math.max(1, (rank or 0) + (one_more[c.signature.name] and 1 or 0))
   for _, param in ipairs(rank and c.signature or {}) do
      local dims = param.dim and c.a[param.name]
      for _, dim in ipairs(type(dims) == "table" and dims or {dims or nil}) do
         if type(dim) == "number" and (dim == 0 or math.abs(dim) > most) then return false end
      end
   end
   return true
end

-- Returns the address at which a tensor's memory begins.
local function memory_of(tensor)
   return tensor:data_ptr() - tensor:storage_offset() * tensor:element_size()
end

local function plain_of(value)
   while M.is(value) do value = value.value end
   return value
end

-- Copies the values of arguments that are about to be written to. vmap restores them if it has to
-- call the function again.
local function keep_arguments(target)
   target = plain_of(target)
   for level = 1, current_depth() do
      for argument in pairs(arguments[level]) do
         local plain = plain_of(argument)
         if not kept[level][plain] and memory_of(plain) == memory_of(target) then
            if plain.requires_grad and torch.is_grad_enabled() then
               torch.raise "func.vmap: a recorded write to an argument has no rule for a batch"
            end
            kept[level][plain] = plain:detach():clone()
         end
      end
   end
end

--- Handles a call of an operator that has a stand-in among its arguments.
---@param fn function  the operator
---@param signature table  the operator's name, whether it is pointwise, and its parameters in order
---@param ... any  the operator's arguments
---@return any
function M.handle(fn, signature, ...)
   local named = by_name(signature, ...)
   local level, found = highest(named)
   local n = found.value:size(1)
   local rules = require "tlua.func.rules"
   local rule = rules[signature.name]
      or signature.pointwise and require "tlua.func.rule_parts".pointwise
   local c = describe(signature, named, level, n)
   if rule and named.out == nil and in_range(c) then
      if signature.name:find "_$" then keep_arguments(named[signature[1].name] or found) end
      function c.call(changed) return call(fn, signature, changed or c.a) end
      local results = table.pack(rule(c))
      if results[1] ~= nil then
         if signature.name:find "_$" then return (...) end
         for k = 1, results.n do results[k] = wrap_all(results[k], level) end
         return table.unpack(results, 1, results.n)
      end
   end
   return one_by_one(fn, signature, named, level, n)
end

-- As a tensor -----------------------------------------------------------------------------------

local methods, properties = {}, {}

function methods.dim(self) return self.value:dim() - 1 end
methods.ndimension = methods.dim

function properties.ndim(self) return self:dim() end

function properties.shape(self) return {table.unpack(self.value.shape, 2)} end

function methods.size(self, dim)
   local shape = self.shape
   if dim == nil then return table.unpack(shape) end
   local size = shape[dim < 0 and #shape + 1 + dim or dim]
   if not size then
      torch.raise(("size: dim: %d is not one of %d dimensions"):format(dim, #shape))
   end
   return size
end

function methods.numel(self) return self.value:numel() // self.value:size(1) end
methods.nelement = methods.numel

function methods.is_floating_point(self) return self.value:is_floating_point() end
function methods.is_complex(self) return self.value:is_complex() end

local plain = "dtype device requires_grad is_leaf is_parameter grad_fn is_cuda is_meta layout"
for name in plain:gmatch "%S+" do
   properties[name] = function(self) return self.value[name] end
end

function properties.mT(self) return self:transpose(-1, -2) end

function properties.T(self)
   if self:dim() == 2 then return self:t() end
   torch.raise "func.vmap: T has no rule for a batch"
end

-- Indexes a stand-in by integers, ranges and at most one tensor of positions, which all examples
-- share or which is itself a stand-in.
local function index(self, key)
   if math.type(key) == "integer" then return torch.select(self, 1, key) end
   if M.is(key) and key.dtype:find "^int" and key:dim() <= 1 then
      if key:dim() == 1 then return torch.index_select(self, 1, key) end
      return torch.index_select(self, 1, key:unsqueeze(1)):select(1, 1)
   end
   local parts, tensors = {{}}, 0
   for _, part in ipairs(not getmetatable(key) and type(key) == "table" and key or {key}) do
      if is_tensor(part) and not M.is(part) and part.dtype:find "^int" then
         tensors = tensors + 1
      elseif math.type(part) ~= "integer" and (type(part) ~= "table" or getmetatable(part)) then
         tensors = math.huge
      end
      parts[#parts + 1] = part
   end
   if tensors > 1 or #parts > self:dim() + 1 then
      torch.raise "func.vmap: an index like this has no rule for a batch"
   end
   return M.wrap(self.value[parts], self.level)
end

local ipairs_iterator <const> = ipairs {}

-- Indexes a stand-in. As for a tensor, the result for the position after the last row is nil, so
-- that ipairs ends.
function Batched.__index(self, key)
   if math.type(key) == "integer" and key == self:size(1) + 1
      and (not debug or debug.getinfo(2, "f").func == ipairs_iterator) then
      return nil
   end
   if type(key) ~= "string" then return index(self, key) end
   local property = properties[key]
   if property then return property(self) end
   return methods[key] or torch.Tensor[key]
end

function Batched.__newindex()
   torch.raise "func.vmap: an assignment to elements has no rule for a batch"
end

function Batched.__len(self)
   return self:size(1)
end

-- Maps the metamethods of stand-ins to operators, each with a function that computes the same with
-- Lua's operator. A metamethod may get a number as its first argument, which the function
-- torch[name] may not accept.
local operators = {
   add = {"add", function(a, b) return a + b end},
   sub = {"sub", function(a, b) return a - b end},
   mul = {"mul", function(a, b) return a * b end},
   div = {"div", function(a, b) return a / b end},
   mod = {"remainder", function(a, b) return a % b end},
   pow = {"pow", function(a, b) return a ^ b end},
   idiv = {"floor_divide", function(a, b) return a // b end},
   band = {"bitwise_and", function(a, b) return a & b end},
   bor = {"bitwise_or", function(a, b) return a | b end},
   bxor = {"bitwise_xor", function(a, b) return a ~ b end},
   shl = {"bitwise_left_shift", function(a, b) return a << b end},
   shr = {"bitwise_right_shift", function(a, b) return a >> b end},
}
for metamethod, operator in pairs(operators) do
   local signature = {name = operator[1], pointwise = true, {name = "self"}, {name = "other"}}
   Batched["__" .. metamethod] = function(a, b) return M.handle(operator[2], signature, a, b) end
end
function Batched.__unm(a) return torch.neg(a) end
function Batched.__bnot(a) return torch.bitwise_not(a) end

local function no_values()
   torch.raise "func.vmap: a batch has no single value"
end
for _, metamethod in ipairs {"__lt", "__le", "__tostring", "__concat"} do
   Batched[metamethod] = no_values
end

-- Levels ----------------------------------------------------------------------------------------

local sizes = {}

--- Begins a call of vmap. Until `leave` is called, operators accept stand-ins.
---@param n integer  the number of examples
---@param mapped table<Tensor|func.Batched, any>  the arguments that have examples
function M.enter(n, mapped)
   local level = current_depth() + 1
   ncalls = ncalls + 1
   calls[level] = ncalls
   sizes[level], arguments[level], kept[level] = n, mapped, {}
   torch._batching(level, M.handle, Batched)
end

--- Ends the call of vmap at a level, even after an error. The level ends before this function
--- allocates memory, so that it ends even if no memory is left.
---@param level integer
---@param undo boolean  whether to restore arguments that were written to
function M.leave(level, undo)
   local changed = undo and kept[level]
   sizes[level], arguments[level], kept[level], calls[level] = nil, nil, nil, nil
   -- After an interruption, outer calls of vmap may have ended before this inner call.
   local outer = math.min(current_depth(), level - 1)
   torch._batching(outer)
   if not changed or not next(changed) then return end
   local function restore()
      torch._batching(0)
      for argument, values in pairs(changed) do argument:copy_(values) end
   end
   local ok, fault = pcall(torch.no_grad, restore)
   torch._batching(outer)
   if not ok then error(fault, 0) end
end

--- Returns how many mapped functions are running inside one another.
---@return integer
function M.depth()
   return current_depth()
end

--- Returns a tensor with a dimension of examples in front for each level, the outermost first. A
--- tensor shared by a level's examples is expanded.
---@param value Tensor|func.Batched
---@param level? integer  the innermost level to add; all by default
---@return Tensor
function M.lift(value, level)
   level = level or current_depth()
   if level == 0 then return value end
   if M.is(value) and value.level == level then return M.lift(value.value, level - 1) end
   local inner = M.lift(value, level - 1)
   local shape = inner.shape
   local whole = {table.unpack(shape, 1, level - 1)}
   whole[level] = sizes[level]
   for d = level, #shape do whole[d + 1] = shape[d] end
   return inner:unsqueeze(level):expand(whole)
end

--- Lifts tensors, and merges the examples of all levels inside `level` into one dimension in front.
--- The examples of outer levels follow.
---@param values (Tensor|func.Batched)[]
---@param level integer
---@return Tensor[]
function M.in_front(values, level)
   local list, depth = {}, current_depth()
   for i, value in ipairs(values) do
      local whole = M.lift(value)
      for inner = level + 1, depth do whole = whole:movedim(inner, inner - level) end
      list[i] = level == depth and whole or whole:flatten(1, depth - level)
   end
   return list
end

--- Undoes `in_front` for one tensor: splits the first dimension into the examples' dimensions of
--- the inner levels, and moves them behind the dimensions of the outer levels, where `lift` puts
--- them.
---@param value Tensor
---@param level integer
---@return Tensor
function M.behind(value, level)
   local depth = current_depth()
   if level == depth then return value end
   local whole = value:unflatten(1, {table.unpack(sizes, level + 1, depth)})
   for _ = level + 1, depth do whole = whole:movedim(1, depth) end
   return whole
end

--- Wraps the result of `lift` as a stand-in again.
---@param value Tensor
---@return Tensor|func.Batched
function M.lower(value)
   for level = 1, current_depth() do value = M.wrap(value, level) end
   return value
end

return M
