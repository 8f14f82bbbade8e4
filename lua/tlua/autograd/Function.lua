-- Function.lua - operators of a user's own, with a derivative written in Lua:
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
--    local y = Exp:apply(x)
--
-- forward may take and return anything; of the tensors among its arguments and results, gradients
-- are known. It runs without recording. backward gets a gradient for each result and returns one,
-- or nil, for each argument; it is itself recorded when a graph of the gradient is wanted.
--
-- Under torch.autocast a Function with the field `cast_inputs`, a dtype, gets floating arguments in
-- that dtype, and runs without autocast. backward runs as forward did, with or without.

local torch = require "tlua"
local casts = require "tlua.amp.casts"
local class = require("tlua.class").class

---@class autograd.Function
---@field cast_inputs string?  "float32", "bfloat16" or "float16"
local Function = class("autograd.Function")

--- What forward tells backward. Fields may be set freely; but a result must be kept with
--- `save_for_backward` only, lest the graph own itself.
local Context = class("autograd.Context")

function Context:__init(inputs)
   self.needs_input_grad = {}
   for i = 1, inputs.n do
      self.needs_input_grad[i] = torch.is_tensor(inputs[i]) and inputs[i].requires_grad
   end
   self.saved = {n = 0}
   self.constant = {}
   self.dirty = {}
   self.materialize = true
end

--- Keeps arguments and results of forward, or other tensors, for backward. Once per forward.
---@param ... Tensor?
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

--- In backward: the tensors that were saved. An error if one was changed in place since.
---@return Tensor? ...
function Context:saved_tensors()
   return table.unpack(self.saved, 1, self.saved.n)
end

--- Arguments that forward changes in place. They must be among its results too, and then carry the
--- function's history; a leaf that requires a gradient cannot be changed so. A view must be the
--- first argument, and the only result.
---@param ... Tensor
function Context:mark_dirty(...)
   for i, tensor in ipairs(table.pack(...)) do
      if not torch.is_tensor(tensor) then
         torch.raise(("mark_dirty: argument %d: expected a Tensor, got %s"):format(i, type(tensor)))
      end
      self.dirty[#self.dirty + 1] = tensor
   end
end

--- Results that carry no gradient although they are floating.
---@param ... Tensor
function Context:mark_non_differentiable(...)
   for _, result in ipairs {...} do self.constant[#self.constant + 1] = result end
end

--- Whether backward gets zeros for results that no gradient came for (the default), or nil.
---@param materialize boolean
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

-- Of the results those that were changed in place, after a look that all is as mark_dirty says.
local function dirty_positions(cls, inputs, results, marked)
   for _, tensor in ipairs(marked) do
      if not next(positions(inputs, {tensor})) then
         torch.raise(("%s: mark_dirty: expected arguments of forward, got another tensor"):format(
            cls.__name))
      elseif not next(positions(results, {tensor})) then
         torch.raise(("%s: mark_dirty: what forward has changed in place must be among its results")
            :format(cls.__name))
      end
   end
   return positions(results, marked)
end

-- The function that the node calls: (saved tensors, gradients...) -> gradients...
local function backward_of(cls, ctx)
   return function(saved, ...)
      if cls.backward == nil then
         torch.raise(("%s: backward is missing; expected a method of that name"):format(cls.__name))
      end
      saved.n = ctx.saved.n
      ctx.saved = saved
      local _ <close> = casts.scope(ctx.autocast)
      local grads = table.pack(cls.backward(ctx, ...))
      ctx.saved = {n = saved.n}
      return table.unpack(grads, 1, grads.n)
   end
end

-- What forward returns, given its inputs as autocast wants them.
local function run_forward(cls, ctx, inputs)
   ctx.autocast = casts.current()
   local dtype = ctx.autocast and cls.cast_inputs
   local _ <close> = torch.no_grad()
   if not dtype then return table.pack(cls.forward(ctx, table.unpack(inputs, 1, inputs.n))) end
   local on = ctx.autocast
   inputs = casts.inputs(inputs, dtype, function(kind) return on[kind] ~= nil end)
   ctx.autocast = nil
   local _ <close> = casts.scope(nil) -- luacheck: ignore 411
   return table.pack(cls.forward(ctx, table.unpack(inputs, 1, inputs.n)))
end

--- Runs forward and records the call.
---@param ... any  forward's arguments
---@return any ...  forward's results
function Function:apply(...)
   if type(self) ~= "table" or not self.forward then
      torch.raise("Function: expected a class with a `forward`; call it as F:apply(...)")
   end
   local inputs = table.pack(...)
   local ctx = Context(inputs)
   local results = run_forward(self, ctx, inputs)
   if needs_recording(ctx) then
      local constant = positions(results, ctx.constant)
      local dirty = dirty_positions(self, inputs, results, ctx.dirty)
      torch.autograd.record(self.__name, inputs, results, constant, ctx.saved,
         backward_of(self, ctx), ctx.materialize, dirty)
      ctx.saved = {n = ctx.saved.n} -- the node has them
   end
   return table.unpack(results, 1, results.n)
end

return Function
