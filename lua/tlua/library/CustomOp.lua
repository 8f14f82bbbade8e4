-- CustomOp.lua - a named operator written in Lua, made by torch.library.custom_op.
--
-- A call passes through these layers, from the outside in: vmap (the rule for a batch), the
-- profiler (a span with the operator's name), autocast and autograd (a Function), and then the
-- kernel for the arguments' kind of device, or the fake kernel on the meta device. A function set
-- by register_composite runs without these layers.

local torch = require "tlua"
local args = require "tlua.args"
local batched = require "tlua.func.batched"
local class = require "tlua.class"
local custom = require "tlua.amp.custom"
local Function = require "tlua.autograd.Function"
local schemas = require "tlua.library.schema"
local spans = require "tlua.profiler.spans"

--- A user-defined operator, made by torch.library.custom_op. It is called like a function.
---
---     local function fn(x) return x * 2 end
---     local options = {mutates_args = {}}
---     local op = torch.library.custom_op("example::double", fn, options)
---     print(op(torch.tensor {1.0, 2.0}), op.name)
---     --> tensor([2., 4.])	example::double
---@class library.CustomOp
---@field name string  "namespace::operator"
---@field default library.CustomOp  the operator itself, as PyTorch's overload
local CustomOp = class.class("library.CustomOp")

local function check_fn(op, who, fn)
   if args.is_callable(fn) then return fn end
   args.refuse(op.name, who, "a function", fn)
end

-- Returns the names of a Lua function's parameters.
local function parameters_of(fn)
   local names = {}
   while debug and type(fn) == "function" do
      local name = debug.getlocal(fn, #names + 1)
      if not name then break end
      names[#names + 1] = name
   end
   return names
end

-- Returns the positions of the kernel's parameters that are named in `mutates`, the arguments that
-- the kernel changes in place. Raises an error for an unknown name.
local function mutated_positions(op, mutates, fn)
   local positions = {}
   local names = parameters_of(fn)
   for _, wanted in ipairs(mutates) do
      local found
      for i, name in ipairs(names) do
         if name == wanted then found = i end
      end
      if not found then
         args.refuse(op.name, "mutates_args", ("names of parameters (%s)"):format(
            table.concat(names, ", ")), wanted)
      end
      positions[found] = true
   end
   return positions
end

local function positions_by_schema(schema)
   local positions = {}
   for i, param in ipairs(schema.params) do positions[i] = param.mutated or nil end
   return positions
end

-- Makes an operator. custom_op passes a kernel, and define passes a schema without a kernel.
function CustomOp:__init(name, mutates, device_types, fn, schema)
   self.name, self.default, self.schema = name, self, schema
   self.mutated = schema and positions_by_schema(schema) or mutated_positions(self, mutates, fn)
   self.kernels = {} -- kernels by kind of device; "any" is the fallback
   if fn then self:register_kernel(device_types, fn) end
   self.Function = self:_function()
end

function CustomOp:__tostring()
   return ("<custom operator %s>"):format(self.name)
end

-- Registration --------------------------------------------------------------------------------

--- Adds an implementation for kinds of devices.
---@param device_types? string|string[]  "cpu", "cuda", "sim"; nil: all that have no kernel
---@param fn fun(...): any  gets the operator's arguments
---@return library.CustomOp self
function CustomOp:register_kernel(device_types, fn)
   check_fn(self, "register_kernel", fn)
   local kinds = type(device_types) == "table" and device_types or {device_types or "any"}
   for _, kind in ipairs(kinds) do
      if type(kind) ~= "string" then
         args.refuse(self.name, "device_types", "a kind of device or a list of them", kind)
      end
      self.kernels[kind] = fn
   end
   return self
end

--- Sets a function that runs on devices without a kernel. Autograd records the operators that the
--- function calls, so the operator needs no derivative.
---@param fn fun(...): any  gets the operator's arguments and returns its results
---@return library.CustomOp self
function CustomOp:register_composite(fn)
   self.composite = check_fn(self, "register_composite", fn)
   return self
end

--- Sets the function that computes shapes and dtypes of the results, without values. It runs
--- instead of a kernel on tensors of the meta device.
---@param fn fun(...): any  gets the operator's arguments
---@return library.CustomOp self
function CustomOp:register_fake(fn)
   self.fake = check_fn(self, "register_fake", fn)
   return self
end

--- Sets the derivative. An operator without a derivative raises an error in the backward pass.
--- setup_context(ctx, inputs, output) runs after the kernel and saves in ctx the values that
--- `backward` needs; inputs is the list of arguments, with their number as `n`, and output the
--- result or the list of several results.
---@param backward fun(ctx: autograd.Context, ...): any  gets a gradient for each result and returns
--- one gradient or nil for each argument
---@param options? {setup_context: fun(ctx: autograd.Context, inputs: table, output: any)}
--- setup_context: the function that saves values for `backward`
---@return library.CustomOp self
function CustomOp:register_autograd(backward, options)
   check_fn(self, "register_autograd", backward)
   if next(self.mutated) then
      torch.raise(("%s: register_autograd: an operator that changes its arguments in place has no "
         .. "derivative"):format(self.name))
   end
   args.check_options(self.name .. ": register_autograd", options, "setup_context")
   local setup = options and options.setup_context
   if setup ~= nil then check_fn(self, "setup_context", setup) end
   self.backward, self.setup_context = backward, setup
   return self
end

--- Sets the rule by which vmap handles a batch. Without a rule the mapped function is called for
--- each example.
---@param fn fun(info: {batch_size: integer, randomness: string}, in_dims: table, ...): any, any
--- gets a list with the dimension of each argument's examples, or false, and the arguments with all
--- examples; returns the result and its examples' dimension, or a list of each
---@return library.CustomOp self
function CustomOp:register_vmap(fn)
   self.batch_rule = check_fn(self, "register_vmap", fn)
   return self
end

--- Sets the dtype that floating arguments are converted to under autocast; the operator then runs
--- without autocast.
---@param device_type string  the kind of device whose autocast is meant
---@param cast_inputs string  a dtype
---@return library.CustomOp self
function CustomOp:register_autocast(device_type, cast_inputs)
   local forward = self.Function.forward
   self.Function.forward = custom.custom_fwd(forward,
      {device_type = device_type, cast_inputs = cast_inputs})
   return self
end

-- Calls ---------------------------------------------------------------------------------------

local function device_kind(given)
   for i = 1, given.n do
      if torch.is_tensor(given[i]) then return given[i].device.type end
   end
   for i = 1, given.n do
      for _, item in ipairs(type(given[i]) == "table" and not getmetatable(given[i]) and given[i]
         or {}) do
         if torch.is_tensor(item) then return item.device.type end
      end
   end
   return "cpu"
end

local function kernel_for(op, kind)
   if kind == "meta" then
      if op.fake then return op.fake end
      torch.raise(("%s: nothing is registered for the meta device; use register_fake"):format(
         op.name))
   end
   local fn = op.kernels[kind] or op.kernels.any
   if fn then return fn end
   local known = {}
   for name in pairs(op.kernels) do known[#known + 1] = name end
   table.sort(known)
   torch.raise(("%s: no kernel for %s; there %s"):format(op.name, kind, #known == 0 and "is none"
      or "are some for " .. table.concat(known, ", ")))
end

-- Returns the function, set by register_composite, that runs in place of a kernel on a kind of
-- device. Returns nil if the operator has a kernel for the device, or no such function.
local function composite_for(op, kind)
   if op.kernels[kind] or op.kernels.any or kind == "meta" and op.fake then return nil end
   return op.composite
end

local function versions(given)
   local seen = {}
   for i = 1, given.n do
      if torch.is_tensor(given[i]) then seen[i] = given[i]._version end
   end
   return seen
end

-- Raises an error if the kernel breaks an assumption of autograd: that arguments which are not
-- named in mutates_args keep their values, and that results are new tensors.
local function check_results(op, given, before, results)
   for i, version in pairs(before) do
      if given[i]._version ~= version and not op.mutated[i] then
         torch.raise(("%s: argument %d was changed in place; name it in mutates_args"):format(
            op.name, i))
      end
      for k = 1, results.n do
         if rawequal(results[k], given[i]) then
            torch.raise(("%s: result %d is argument %d itself; expected a new tensor, such as a "
               .. "clone"):format(op.name, k, i))
         end
      end
   end
end

-- Returns the autograd.Function that runs the kernel.
function CustomOp:_function()
   local op, Call = self, class.class(self.name, Function)

   function Call.forward(ctx, ...)
      local given = table.pack(...)
      local before = versions(given)
      local results = table.pack(kernel_for(op, device_kind(given))(...))
      check_results(op, given, before, results)
      if op.schema and results.n ~= #op.schema.results then
         torch.raise(("%s: expected %d results from the kernel, got %d"):format(op.name,
            #op.schema.results, results.n))
      end
      if op.setup_context then
         local output = results[1]
         if results.n > 1 then output = results end
         op.setup_context(ctx, given, output)
      end
      return table.unpack(results, 1, results.n)
   end

   function Call.backward(ctx, ...)
      if op.backward then return op.backward(ctx, ...) end
      torch.raise(("%s: a gradient was asked for, but none is registered; use register_autograd")
         :format(op.name))
   end

   return Call
end

-- Returns the innermost level of vmap at which an argument has examples, and the number of
-- examples.
local function innermost(given)
   local level, size
   for i = 1, given.n do
      local value = given[i]
      if batched.is(value) and (not level or value.level > level) then
         batched.check(value)
         level, size = value.level, value.value:size(1)
      end
   end
   return level, size
end

local function call_batched(op, given, level, size)
   local in_dims, values = {n = given.n}, {n = given.n}
   for i = 1, given.n do
      local own = batched.is(given[i]) and given[i].level == level
      in_dims[i] = own and 1 or false
      values[i] = own and given[i].value or given[i]
   end
   local result, out_dims = op.batch_rule({batch_size = size, randomness = "error"}, in_dims,
      table.unpack(values, 1, values.n))
   local function wrap(value, dim)
      if dim == false or not (torch.is_tensor(value) or batched.is(value)) then return value end
      if math.type(dim) ~= "integer" then
         args.refuse(op.name, "register_vmap: out_dims", "a dimension or false", dim)
      end
      return batched.wrap(value:movedim(dim, 1), level)
   end
   if torch.is_tensor(result) or batched.is(result) or type(result) ~= "table" then
      return wrap(result, out_dims)
   end
   local list = {}
   for i, value in ipairs(result) do
      local dim = out_dims
      if type(out_dims) == "table" then dim = out_dims[i] end
      list[i] = wrap(value, dim)
   end
   return table.unpack(list, 1, #list)
end

-- Raises an error if a table among the arguments holds a tensor that requires a gradient: gradients
-- flow only through tensors that are arguments themselves.
local function refuse_hidden(op, given)
   for i = 1, given.n do
      local list = given[i]
      for key, item in pairs(type(list) == "table" and not getmetatable(list) and list or {}) do
         if torch.is_tensor(item) and item.requires_grad then
            torch.raise(("%s: argument %d: item %s: expected a tensor that requires no gradient, "
               .. "since it would get none within a table; make it an argument, or detach() it")
               :format(op.name, i, tostring(key)))
         end
      end
   end
end

--- Runs the operator.
---@param ... any  tensors within tables get no gradient, so they must not require one
---@return any ...
function CustomOp:__call(...)
   if not self.schema then return self:_run(table.pack(...)) end
   return self:_run(schemas.bind(self.name, self.schema, table.pack(...)))
end

function CustomOp:_run(given)
   local composite = self.composite and composite_for(self, device_kind(given))
   if composite then return composite(table.unpack(given, 1, given.n)) end
   if torch.is_grad_enabled() then refuse_hidden(self, given) end
   local level, size = innermost(given)
   if level then
      if self.batch_rule then return call_batched(self, given, level, size) end
      -- The error makes vmap call the mapped function for each example.
      torch.raise(("%s: vmap has no rule for it"):format(self.name))
   end
   if torch._spans_seen() then
      return spans.call("operator", self.name, self.Function.apply, self.Function,
         table.unpack(given, 1, given.n))
   end
   return self.Function:apply(table.unpack(given, 1, given.n))
end

return CustomOp
