-- vmap.lua - torch.func.vmap: turns a function of one example into a function of a batch.
--
-- The function is called once with stand-ins for one example (batched.lua). Operators on stand-ins
-- work on all examples. This fails if the function asks for values, draws different random numbers
-- for the examples, or writes to a tensor that the examples share. Then the function is called
-- again for each example, and the results are stacked. So every function that works outside of vmap
-- works inside it.

local torch = require "tlua"
local args = require "tlua.args"
local scopes = require "tlua.scope"
local batched = require "tlua.func.batched"
local tree = require "tlua.func.tree"

local M = {}

local signature = args.signature [[func.vmap(fn: callable, in_dims: any = 1, out_dims: any = 1,
   randomness: string = 'error', chunk_size: count?)]]

local function check_dim(what, dim, tensor)
   local n = tensor:dim()
   if math.type(dim) ~= "integer" or dim == 0 or dim > n or dim < -n then
      args.refuse("func.vmap", "in_dims", ("a dimension of %s, %s, or false"):format(
         what, args.describe(tensor)), dim)
   end
   return dim
end

-- Returns whether a leaf of the arguments has a dimension of examples. `dim` is its entry in
-- in_dims.
local function is_mapped(leaf, dim)
   return torch.is_tensor(leaf) and dim ~= nil and dim ~= false
end

-- Adds the tensors of an argument that have examples to found.tensors. Records the number of
-- examples in found.size, and raises an error if the tensors differ in it.
local function plan(value, dims, path, found)
   tree.map(value, function(leaf, at, dim)
      if is_mapped(leaf, dim) then
         if leaf.is_nested then
            torch.raise(("func.vmap: %s: expected a dense tensor, got a nested one, whose "
               .. "sequences differ in shape; use to_padded_tensor, or a loop over unbind()")
               :format(at))
         end
         local n = leaf:size(check_dim(at, dim, leaf))
         if found.size and found.size ~= n then
            torch.raise(("func.vmap: the mapped sizes differ: %d in %s, %d in %s"):format(
               found.size, found.path, n, at))
         end
         found.size, found.path = n, found.path or at
         found.tensors[leaf] = true
      elseif tree.is_node(dim) then
         args.refuse("func.vmap", "in_dims", "the structure of the arguments", dim)
      end
   end, path, dims)
end

-- Replaces the tensors of an argument by stand-ins, each of which holds all examples.
local function add_batch_dim(value, dims, level)
   return tree.map(value, function(leaf, _, dim)
      return is_mapped(leaf, dim) and batched.wrap(leaf:movedim(dim, 1), level) or leaf
   end, nil, dims)
end

-- Returns the i-th example of an argument.
local function example(value, dims, i)
   return tree.map(value, function(leaf, _, dim)
      return is_mapped(leaf, dim) and leaf:select(dim, i) or leaf
   end, nil, dims)
end

-- Random numbers ------------------------------------------------------------------------------

-- Returns two functions, which save and restore the states of the CPU's generator and of the
-- default device's.
local function random_states()
   local kind = torch.get_default_device().type
   local own = torch.has(kind .. ".get_rng_state") and torch[kind]
   if not own then
      return function() return {torch.get_rng_state()} end,
         function(states) torch.set_rng_state(states[1]) end
   end
   return function() return {torch.get_rng_state(), own.get_rng_state()} end,
      function(states)
         torch.set_rng_state(states[1])
         own.set_rng_state(states[2])
      end
end

local function same_states(a, b)
   for i, state in ipairs(a) do
      if state[1] ~= b[i][1] or state[2] ~= b[i][2] then return false end
   end
   return true
end

local function randomness(kind)
   if kind == "different" then return function() end, function() end end
   local get, set = random_states()
   local first = get()
   if kind == "same" then return function() set(first) end, function() end end
   return function() end, function()
      if not same_states(first, get()) then
         set(first)
         torch.raise("func.vmap: the function draws random numbers; say whether examples get "
            .. "the same, {randomness = \"same\"}, or each its own, {randomness = \"different\"}")
      end
   end
end

-- Results -------------------------------------------------------------------------------------

local function check_result(value, k)
   if torch.is_tensor(value) then return end
   args.refuse("func.vmap", "result " .. k, "a tensor", value)
end

local function check_out_dim(dim, n)
   if math.type(dim) ~= "integer" or dim == 0 or dim > n or dim < -n then
      args.refuse("func.vmap", "out_dims", ("a dimension from 1 to %d, or false"):format(n), dim)
   end
end

-- Returns the k-th results of all calls, which `values` lists, stacked along a dimension.
local function stack(values, dims, k)
   local parts = {}
   for i, value in ipairs(values) do
      tree.map(value, function(leaf, path)
         parts[path] = parts[path] or {}
         parts[path][i] = leaf
      end)
   end
   return tree.map(values[1], function(first, path, dim)
      check_result(first, k)
      if dim == false then return first end
      check_out_dim(dim, first:dim() + 1)
      return torch.stack(parts[path], dim)
   end, nil, dims)
end

-- Returns the k-th result of the call with stand-ins as a tensor of all examples, like `stack` does
-- for the results of separate calls.
local function whole(value, dims, k, n, level)
   return tree.map(value, function(leaf, _, dim)
      check_result(leaf, k)
      if batched.is(leaf) then batched.check(leaf) end
      local own = batched.is(leaf) and leaf.level == level
      if dim == false then return own and leaf.value:select(1, 1):clone() or leaf end
      check_out_dim(dim, leaf:dim() + 1)
      local all = own and leaf.value or leaf:unsqueeze(1):expand {n, table.unpack(leaf.shape)}
      -- a view of an argument must be copied, because results have separate memory
      return all:movedim(1, dim):clone()
   end, nil, dims)
end

local function out_dim(dims, k, n)
   if not tree.is_node(dims) then return dims end
   if n > 1 or dims[1] ~= nil then
      if dims[k] == nil then
         torch.raise(("func.vmap: out_dims: expected %d of them, got %d"):format(n, #dims))
      end
      return dims[k]
   end
   return dims
end

-- The two ways ----------------------------------------------------------------------------------

-- Returns the entry of in_dims for argument k.
local function in_dim(a, k)
   if tree.is_node(a.in_dims) then return a.in_dims[k] end
   return a.in_dims
end

-- Calls the function once for all examples; returns nil if it has to be called for each example.
local function at_once(a, given, found)
   local get, set = random_states()
   local first, level = get(), batched.depth() + 1
   local ok, results, done
   do
      local _ <close> = scopes.new(function() batched.leave(level, not done) end)
      ok, results = torch._batched_call(function()
         batched.enter(found.size, found.tensors)
         local packed = {}
         for k = 1, given.n do packed[k] = add_batch_dim(given[k], in_dim(a, k), level) end
         local own = table.pack(a.fn(table.unpack(packed, 1, given.n)))
         local all = {n = own.n}
         for k = 1, own.n do
            tree.check(own[k], "func.vmap: result " .. k)
            all[k] = whole(own[k], out_dim(a.out_dims, k, own.n), k, found.size, level)
         end
         return all
      end)
      done = ok and same_states(first, get())
   end
   local fault = not ok and results
   if type(fault) == "string" and fault:find("interrupted!", 1, true) then error(fault, 0) end
   if done then return results end
   set(first)
   return nil
end

local function one_by_one(a, given, found)
   local before, after = randomness(a.randomness)
   local lists, n = {}, nil
   for i = 1, found.size do
      local packed = {n = given.n}
      for k = 1, given.n do packed[k] = example(given[k], in_dim(a, k), i) end
      before()
      local results = table.pack(a.fn(table.unpack(packed, 1, packed.n)))
      after()
      n = n or results.n
      if results.n ~= n then
         torch.raise(("func.vmap: the function gives %d results for one example, %d for another")
            :format(n, results.n))
      end
      for k = 1, n do
         tree.check(results[k], "func.vmap: result " .. k)
         lists[k] = lists[k] or {}
         lists[k][i] = results[k]
      end
   end
   local stacked = {n = n}
   for k = 1, n do stacked[k] = stack(lists[k] or {}, out_dim(a.out_dims, k, n), k) end
   return stacked
end

--- Returns a function that applies fn to each example of a batch. fn is called once, and its
--- operators work on all examples together; if fn asks for values (`item`, `tolist`, comparisons by
--- < and <=), indexes by a mask or by several tensors, or draws random numbers, it is called again
--- for each example.
---@param fn fun(...): any  returns tensors, or tables of tensors
---@param options? {in_dims: any, out_dims: any, randomness: string, chunk_size: integer}
--- in_dims: the dimension of the examples, 1 by default, or false for an argument that all examples
--- share; or a list with an entry for each argument; an entry for a table of tensors may be a
--- table. out_dims: the dimension along which results are stacked, in the same form; false returns
--- the first example's result. randomness: "error", "same" or "different" random numbers for the
--- examples. chunk_size: accepted for PyTorch's programs; it has no effect.
---@return fun(...): any
function M.vmap(...)
   local a = signature(...)
   if a.randomness ~= "error" and a.randomness ~= "same" and a.randomness ~= "different" then
      args.refuse("func.vmap", "randomness", "error, same or different", a.randomness)
   end
   if a.chunk_size == 0 then args.refuse("func.vmap", "chunk_size", "at least 1", a.chunk_size) end
   return function(...)
      local given, found = table.pack(...), {tensors = {}}
      if tree.is_node(a.in_dims) and #a.in_dims ~= given.n then
         torch.raise(("func.vmap: in_dims: expected %d of them, one for each argument, got %d")
            :format(given.n, #a.in_dims))
      end
      for k = 1, given.n do
         tree.check(given[k], "func.vmap: argument " .. k)
         plan(given[k], in_dim(a, k), "argument " .. k, found)
      end
      if not found.size then
         torch.raise "func.vmap: no argument has examples: in_dims is false for all of them"
      elseif found.size == 0 then
         torch.raise "func.vmap: expected at least one example, got none"
      end

      local packed = at_once(a, given, found) or one_by_one(a, given, found)
      return table.unpack(packed, 1, packed.n)
   end
end

return M
