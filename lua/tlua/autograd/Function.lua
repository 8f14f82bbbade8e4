-- Function.lua - defines operators whose derivative is written in Lua:
--
--    local Exp = torch.class("Exp", torch.autograd.Function)
--
--    function Exp.forward(ctx, x)
--       local y = x:exp()
--       ctx:save_for_backward(y)
--       return y
--    end
--
--    function Exp.backward(ctx, grad)
--       local y = ctx:saved_tensors()
--       return grad * y
--    end
--
--    local x = torch.zeros(2, {requires_grad = true})
--    Exp:apply(x):sum():backward()
--    print(x.grad)
--    --> tensor([1., 1.])
--
-- forward may take and return anything, and runs without recording; gradients flow through the
-- tensors among its arguments and results. backward gets a gradient for each result, and returns a
-- gradient or nil for each argument, where the last ones may be omitted if they need no gradient;
-- backward itself is recorded if create_graph is set.
--
-- If the class has `setup_context(ctx, inputs, output)`, forward gets no ctx; inputs is the list of
-- forward's arguments, and output is forward's result, or a list of several results. torch.func.jvp
-- and forward_ad call `jvp(ctx, tangents...)` instead of backward: jvp gets a tangent for each
-- argument and returns a tangent for each result. `vmap(info, in_dims, arguments...)` handles all
-- examples of torch.func.vmap at once: in_dims lists for each argument the dimension of the
-- examples, or false. vmap returns the result and the dimension of the examples in the result, or a
-- list of results and a list of dimensions.
--
-- Under torch.autocast, a Function with the field `cast_inputs`, a dtype, gets floating-point
-- arguments in that dtype and runs without autocast. backward runs with the autocast state of
-- forward.

local torch = require "tlua"
local args = require "tlua.args"
local casts = require "tlua.amp.casts"
local class = require("tlua.class").class
local pushforward = require "tlua.autograd.pushforward"
local shells = require "tlua.autograd.shells"

---@class autograd.Function
---@field cast_inputs string?  "float32", "bfloat16" or "float16"
local Function = class("autograd.Function")

--- Passes values from forward to backward. A program may set any field, but it must save results by
--- `save_for_backward`: a result in a field would make the graph a reference cycle.
---
---     local Double = torch.class("Double", torch.autograd.Function)
---     function Double.forward(ctx, x, factor)
---        ctx.factor = factor
---        return x * factor
---     end
---     function Double.backward(ctx, grad) return grad * ctx.factor end
---     local x = torch.ones(2):requires_grad_()
---     Double:apply(x, 2):sum():backward()
---     print(x.grad)
---     --> tensor([2., 2.])
---@class autograd.Context
local Context = class("autograd.Context")

-- Refuses position 0 of needs_input_grad: nil would mean that no gradient is needed.
local from_one = {
   __index = function(_, key)
      if math.type(key) == "integer" and key > 0 then return nil end
      torch.raise(("needs_input_grad: expected a position, counted from 1, got %s"):format(
         args.describe(key)))
   end,
}

function Context:__init(inputs)
   self.needs_input_grad = setmetatable({}, from_one)
   for i = 1, inputs.n do
      self.needs_input_grad[i] = torch.is_tensor(inputs[i]) and inputs[i].requires_grad
   end
   self.saved = {n = 0}
   self.constant = {}
   self.dirty = {}
   self.materialize = true
end

--- Saves arguments and results of forward, or other tensors, for backward. forward may call this
--- method once.
---@param ... Tensor?  the tensors to save; nil is allowed
function Context:save_for_backward(...)
   self.saved = table.pack(...)
   for i = 1, self.saved.n do
      local value = self.saved[i]
      if value ~= nil and not torch.is_tensor(value) then
         torch.raise(("save_for_backward: argument %d: expected a Tensor or nil, got %s; " ..
            "other values can be fields of the context"):format(i, type(value)))
      end
   end
end

--- Saves tensors for jvp, unless tensors were saved for backward; `saved_tensors` returns them.
---@param ... Tensor?  the tensors to save; nil is allowed
function Context:save_for_forward(...)
   if self.saved.n == 0 then self:save_for_backward(...) end
end

--- Returns the saved tensors in backward. Raises an error if a saved tensor has been changed in
--- place since it was saved.
---@return Tensor? ...
function Context:saved_tensors()
   return table.unpack(self.saved, 1, self.saved.n)
end

--- Marks arguments that forward changes in place. Such arguments must also be among the results of
--- forward, and then have the function as their gradient function. A leaf that requires a gradient
--- cannot be changed in place. If a view is changed, it must be the first argument, and the only
--- result.
---@param ... Tensor  the arguments that forward changes
function Context:mark_dirty(...)
   for i, tensor in ipairs(table.pack(...)) do
      if not torch.is_tensor(tensor) then
         torch.raise(("mark_dirty: argument %d: expected a Tensor, got %s"):format(i, type(tensor)))
      end
      self.dirty[#self.dirty + 1] = tensor
   end
end

--- Marks floating-point results that carry no gradient.
---@param ... Tensor  the results without a gradient
function Context:mark_non_differentiable(...)
   for _, result in ipairs {...} do self.constant[#self.constant + 1] = result end
end

--- Sets whether backward gets zeros (the default) or nil for results without a gradient.
---@param materialize boolean  true for zeros, false for nil
function Context:set_materialize_grads(materialize)
   self.materialize = materialize
end

function Function:__init()
   torch.raise(("%s: a Function is not called, but applied: %s:apply(...)"):format(
      torch.type(self), torch.type(self)))
end

local function needs_recording(ctx)
   if not torch.is_grad_enabled() then return false end
   for i = 1, #ctx.needs_input_grad do
      if ctx.needs_input_grad[i] then return true end
   end
   return false
end

local function positions(results, marked)
   local found = {}
   for _, tensor in ipairs(marked) do
      for i = 1, results.n do
         if rawequal(results[i], tensor) then found[i] = true end
      end
   end
   return found
end

-- Returns the positions of the results that forward has changed in place, after checking that each
-- tensor passed to mark_dirty is an argument and a result.
local function dirty_positions(cls, inputs, results, marked)
   for _, tensor in ipairs(marked) do
      if not next(positions(inputs, {tensor})) then
         torch.raise(("%s: mark_dirty: expected arguments of forward, got another tensor"):format(
            cls.__name))
      elseif not next(positions(results, {tensor})) then
         torch.raise(("%s: mark_dirty: tensors that forward changed in place must be among its " ..
            "results"):format(cls.__name))
      end
   end
   return positions(results, marked)
end

-- Raises an error unless jvp has returned, for each result, nil or a tangent of the result's shape.
local function check_tangents(cls, tangents, shapes)
   if tangents.n > shapes.n then
      torch.raise(("%s: jvp: expected %d tangents, one for each result of forward, got %d"):format(
         cls.__name, shapes.n, tangents.n))
   end
   for i = 1, tangents.n do
      local tangent, shape = tangents[i], shapes[i]
      local fits = tangent == nil or torch.is_tensor(tangent) and tangent:dim() == #shape
      for d = 1, fits and tangent and #shape or 0 do fits = fits and tangent:size(d) == shape[d] end
      if not fits then
         args.refuse(cls.__name, "jvp", ("a tensor of shape (%s) for result %d, or nil"):format(
            table.concat(shape, ", "), i), tangent)
      end
   end
end

-- Takes the place of backward in forward mode (pushforward.lua). Returns zeros as the gradients of
-- the arguments. They are recorded in such a way that their derivative with respect to the
-- gradients of the results calls the class's jvp.
local function pushed(cls, ctx, saved, ...)
   local zeros = {n = #ctx.needs_input_grad}
   for i = 1, zeros.n do
      local like = ctx.likes[i]
      if like and ctx.needs_input_grad[i] then
         zeros[i] = torch.zeros(like.shape, {dtype = like.dtype, device = like.device})
      end
   end
   local grads = table.pack(...)
   local shapes = {n = grads.n}
   for i = 1, grads.n do shapes[i] = grads[i] and grads[i].shape or {} end
   torch.autograd.record(cls.__name .. "Jvp", grads, zeros, {}, saved, function(again, ...)
      again.n = saved.n
      ctx.saved = again
      local _ <close> = casts.scope(ctx.autocast)
      local tangents = table.pack(cls.jvp(ctx, ...))
      check_tangents(cls, tangents, shapes)
      ctx.saved = {n = saved.n}
      return table.unpack(tangents, 1, grads.n)
   end, true)
   return table.unpack(zeros, 1, zeros.n)
end

-- Raises an error if backward has returned fewer values than forward has arguments, and a missing
-- value would be the gradient of an argument that requires one.
local function check_gradients(cls, ctx, grads)
   local needs = ctx.needs_input_grad
   for i = grads.n + 1, #needs do
      if needs[i] then
         torch.raise(("%s: backward: expected a gradient or nil for each argument of forward, "
            .. "%d in all, got %d"):format(cls.__name, #needs, grads.n))
      end
   end
end

-- Returns the function that the call's node in the graph runs in a backward pass. The function
-- takes the saved tensors and the gradients of the results, and returns the gradients of the
-- arguments.
local function backward_of(cls, ctx, of_inputs, of_results, of_saved)
   return function(saved, ...)
      if pushforward.on and cls.jvp then
         saved.n = ctx.saved.n
         return pushed(cls, ctx, saved, ...)
      end
      if cls.backward == nil then
         torch.raise(("%s: backward is missing; expected a method of that name"):format(cls.__name))
      end
      saved.n = ctx.saved.n
      ctx.saved = shells.wrap(saved, of_saved)
      local given = of_results and shells.wrap(table.pack(...), of_results)
      local _ <close> = casts.scope(ctx.autocast)
      local grads
      if given then
         grads = table.pack(cls.backward(ctx, table.unpack(given, 1, given.n)))
      else
         grads = table.pack(cls.backward(ctx, ...))
      end
      ctx.saved = {n = saved.n}
      check_gradients(cls, ctx, grads)
      if of_inputs then grads = shells.open(grads, cls.__name .. ": backward", of_inputs) end
      return table.unpack(grads, 1, grads.n)
   end
end

-- Calls forward, and then setup_context if the class has it. Returns forward's results as a list.
local function call_forward(cls, ctx, inputs)
   if not cls.setup_context then
      return table.pack(cls.forward(ctx, table.unpack(inputs, 1, inputs.n)))
   end
   local results = table.pack(cls.forward(table.unpack(inputs, 1, inputs.n)))
   cls.setup_context(ctx, inputs, results.n == 1 and results[1] or results)
   return results
end

-- Runs forward and returns forward's results. If autocast is on and the class has cast_inputs, the
-- inputs are converted to that dtype first.
local function run_forward(cls, ctx, inputs)
   ctx.autocast = casts.current()
   local dtype = ctx.autocast and cls.cast_inputs
   local _ <close> = torch.no_grad()
   if not dtype then return call_forward(cls, ctx, inputs) end
   local on = ctx.autocast
   inputs = casts.inputs(inputs, dtype, function(kind) return on[kind] ~= nil end)
   ctx.autocast = nil
   local _ <close> = casts.scope(nil) -- luacheck: ignore 411
   return call_forward(cls, ctx, inputs)
end

-- Returns a list with {shape, dtype, device} for each input that is a tensor.
local function likes(inputs)
   local list = {}
   for i = 1, inputs.n do
      local input = inputs[i]
      if torch.is_tensor(input) then
         list[i] = {shape = input.shape, dtype = input.dtype, device = input.device}
      end
   end
   return list
end

-- Calls the class's vmap if torch.func.vmap is running and an argument stands for one example of a
-- batch. Otherwise returns nil.
local function mapped(cls, inputs)
   local batched = require "tlua.func.batched"
   local level, found = 0, nil
   for i = 1, inputs.n do
      local input = inputs[i]
      if batched.is(input) and input.level > level then level, found = input.level, input end
   end
   if not found then return nil end
   local values, in_dims = {}, {}
   for i = 1, inputs.n do
      local own = batched.is(inputs[i]) and inputs[i].level == level
      values[i], in_dims[i] = inputs[i], own and 1
      if own then values[i] = inputs[i].value end
   end
   local info = {batch_size = found.value:size(1), randomness = "error"}
   local output, out_dims = cls.vmap(info, in_dims, table.unpack(values, 1, inputs.n))
   local function wrap(value, dim)
      if not torch.is_tensor(value) or not dim then return value end
      return batched.wrap(value:movedim(dim, 1), level)
   end
   if torch.is_tensor(output) then return {n = 1, wrap(output, out_dims)} end
   local results = {n = #output}
   for i, value in ipairs(output) do
      local dim = out_dims
      if type(out_dims) == "table" then dim = out_dims[i] end
      results[i] = wrap(value, dim)
   end
   return results
end

--- Wraps a backward that cannot itself be differentiated: it runs without recording, and a second
--- derivative through its results raises an error.
---
---     Exp.backward = torch.autograd.Function.once_differentiable(function(ctx, grad) ... end)
---
---@param backward fun(ctx: any, ...: Tensor): Tensor? ...
---@return fun(ctx: any, ...: Tensor): Tensor? ...
function Function.once_differentiable(backward)
   return function(ctx, ...)
      local given = table.pack(...)
      local grads = table.pack(torch.no_grad(backward, ctx, ...))
      local sources = {n = given.n + ctx.saved.n}
      for i = 1, given.n do sources[i] = given[i] end
      for i = 1, ctx.saved.n do sources[given.n + i] = ctx.saved[i] end
      local recorded = false
      for i = 1, sources.n do
         recorded = recorded or torch.is_tensor(sources[i]) and sources[i].requires_grad
      end
      if torch.is_grad_enabled() and recorded then
         torch.autograd.record("once_differentiable", sources, grads, {}, {n = 0}, function()
            torch.raise "once_differentiable: this backward cannot be differentiated a second time"
         end, true)
      end
      return table.unpack(grads, 1, grads.n)
   end
end

--- Runs forward, and records the call in the graph of gradients.
---@param ... any  forward's arguments
---@return any ...  forward's results
function Function:apply(...)
   if type(self) ~= "table" or not self.forward then
      torch.raise("Function: expected a class with a `forward`; call it as F:apply(...)")
   end
   local inputs = table.pack(...)
   local all = self.vmap and mapped(self, inputs)
   if all then return table.unpack(all, 1, all.n) end
   local ctx = Context(inputs)
   if self.jvp then ctx.likes = likes(inputs) end
   local results = run_forward(self, ctx, inputs)
   if needs_recording(ctx) then
      local constant = positions(results, ctx.constant)
      local dirty = dirty_positions(self, inputs, results, ctx.dirty)
      local saved = ctx.saved
      local of_inputs, of_results = shells.of(inputs), shells.of(results)
      local of_saved = shells.of(saved)
      if of_results then results = shells.open(results) end
      torch.autograd.record(self.__name, of_inputs and shells.open(inputs) or inputs, results,
         constant, of_saved and shells.open(saved) or saved,
         backward_of(self, ctx, of_inputs, of_results, of_saved), ctx.materialize, dirty)
      shells.wrap(results, of_results)
      ctx.saved = {n = ctx.saved.n} -- from now on only the graph's node holds the tensors
   end
   return table.unpack(results, 1, results.n)
end

return Function
