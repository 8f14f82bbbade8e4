-- graphed_callables.lua - torch.cuda.make_graphed_callables: captures the forward pass and the
-- backward pass of modules and functions, each as a graph, for use among uncaptured operators.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Function = require "tlua.autograd.Function"
local Module = require "tlua.nn.modules.Module"

local function tensors_of(title, list)
   if type(list) ~= "table" or getmetatable(list) then
      args.refuse(title, "sample_args", "a list of tensors for each callable", list)
   end
   for i, tensor in ipairs(list) do
      if not torch.is_tensor(tensor) then
         args.refuse(title, "sample_args " .. i, "a tensor", tensor)
      end
   end
   return list
end

local function wants_gradient(tensors)
   local list = {}
   for _, tensor in ipairs(tensors) do
      if tensor.requires_grad then list[#list + 1] = tensor end
   end
   return list
end

-- Returns the gradients of the outputs with respect to the inputs, nil for an input that gets none.
local function gradients(outputs, inputs, grads, allow_unused)
   if #inputs == 0 or #outputs == 0 then return {} end
   return {torch.autograd.grad(outputs, inputs, {
      grad_outputs = grads, allow_unused = allow_unused,
   })}
end

-- Returns a list of the addresses at which the tensors' memory begins.
local function places_of(tensors)
   local places = {}
   for i, tensor in ipairs(tensors) do places[i] = tensor:data_ptr() end
   return places
end

local function check_places(title, tensors, places)
   for i, tensor in ipairs(tensors) do
      if tensor:data_ptr() ~= places[i] then
         torch.raise(("%s: parameter %d has its values elsewhere since the capture"):format(
            title, i))
      end
   end
end

local function likes(tensors)
   local list = {}
   for i, tensor in ipairs(tensors) do list[i] = torch.ones_like(tensor:detach()) end
   return list
end

-- Raises an error for tensors of another device, because their operators would run only once, at
-- the capture.
local function check_devices(title, kind, tensors, what)
   for i, tensor in ipairs(tensors) do
      if tensor.device.type ~= kind then
         args.refuse(title, what .. " " .. i, "a tensor of " .. kind, tensor)
      end
   end
end

local function check_input(title, i, given, static)
   local fits = torch.is_tensor(given) and given.dtype == static.dtype
      and table.concat(given.shape, ",") == table.concat(static.shape, ",")
      and given.requires_grad == static.requires_grad
   if not fits then
      torch.raise(("%s: argument %d: expected one like the sample (%s%s), got %s%s"):format(
         title, i, args.describe(static), static.requires_grad and " that requires grad" or "",
         args.describe(given),
         torch.is_tensor(given) and given.requires_grad and " that requires grad" or ""))
   end
end

---@param kind string "cuda" or "sim"
---@return function
return function(kind)
   local module = torch[kind]
   local title = kind .. ".make_graphed_callables"
   local options_of = args.signature(title ..
      "(num_warmup_iters: count = 3, allow_unused_input: boolean = false, pool: integer?)")

   -- Runs a callable a few times to warm it up. Returns the tensors that it uses and their
   -- addresses.
   local function prepare(callable, samples, o)
      local own = class.isinstance(callable, Module) and callable:parameters() or {}
      check_devices(title, kind, samples, "sample_args")
      check_devices(title, kind, own, "parameter")
      local static = {}
      for i, sample in ipairs(samples) do
         static[i] = sample:detach():clone():requires_grad_(sample.requires_grad)
      end
      local all = table.move(own, 1, #own, #static + 1, table.move(static, 1, #static, 1, {}))
      local wanted = wants_gradient(all)
      for _ = 1, o.num_warmup_iters do
         local outputs = wants_gradient({callable(table.unpack(static))})
         gradients(outputs, wanted, likes(outputs), o.allow_unused_input)
      end
      return {
         callable = callable, own = own, static = static, wanted = wanted, all = all, calls = 0,
         places = places_of(own),
      }
   end

   local function capture_forward(c, pool)
      c.forward = module.CUDAGraph()
      c.outputs = table.pack(module.graph(c.forward, {pool = pool},
         function() return c.callable(table.unpack(c.static)) end))
      for i = 1, c.outputs.n do
         if not torch.is_tensor(c.outputs[i]) then
            args.refuse(title, "result " .. i, "a tensor", c.outputs[i])
         end
      end
      c.roots = wants_gradient(c.outputs)
   end

   local function capture_backward(c, pool, o)
      c.seeds = likes(c.roots)
      c.backward = module.CUDAGraph()
      local found = module.graph(c.backward, {pool = pool}, function()
         return gradients(c.roots, c.wanted, c.seeds, o.allow_unused_input)
      end)
      c.grads = {}
      local at = 0
      for i, tensor in ipairs(c.all) do
         if tensor.requires_grad then
            at = at + 1
            c.grads[i] = found[at]
         end
      end
   end

   -- Returns a function that replays the graphs of the callable `c`. It is implemented as an
   -- autograd Function: forward replays the graph of the forward pass, and backward replays the
   -- graph of the backward pass.
   local function function_of(c)
      local Graphed = class.class("GraphedCallable", Function)
      function Graphed.forward(ctx, ...)
         c.calls = c.calls + 1
         ctx.call = c.calls
         for i, static in ipairs(c.static) do
            local given = select(i, ...)
            if not rawequal(given, static) then static:copy_(given, true) end
         end
         c.forward:replay()
         local results = {}
         for i = 1, c.outputs.n do
            results[i] = c.outputs[i]:detach()
            if not c.outputs[i].requires_grad then ctx:mark_non_differentiable(results[i]) end
         end
         return table.unpack(results, 1, c.outputs.n)
      end
      function Graphed.backward(ctx, ...)
         if ctx.call ~= c.calls then
            torch.raise(("%s: backward of call %d, but call %d has overwritten its saved tensors")
               :format(title, ctx.call, c.calls))
         end
         local at = 0
         for i = 1, c.outputs.n do
            if c.outputs[i].requires_grad then
               at = at + 1
               c.seeds[at]:copy_((select(i, ...)), true)
            end
         end
         c.backward:replay()
         local results = {}
         for i = 1, #c.all do results[i] = c.grads[i] and c.grads[i]:detach():clone() end
         return table.unpack(results, 1, #c.all)
      end
      return function(...)
         if select("#", ...) ~= #c.static then
            torch.raise(("%s: expected %d arguments, as in the sample, got %d"):format(
               title, #c.static, select("#", ...)))
         end
         local all = table.pack(...)
         for i, static in ipairs(c.static) do check_input(title, i, all[i], static) end
         check_places(title, c.own, c.places)
         table.move(c.own, 1, #c.own, all.n + 1, all)
         return (function(...) return ... end)(Graphed:apply(table.unpack(all, 1, #c.all)))
      end
   end

   -- Returns the replacement of a callable. A module stays a module. Its forward replays the graphs
   -- as long as the module is in the mode of the capture: training or evaluation.
   local function replaced(c)
      local run = function_of(c)
      if not class.isinstance(c.callable, Module) then return run end
      local mode, plain = c.callable.training, c.callable.forward
      c.callable.forward = function(self, ...)
         if self.training == mode then return run(...) end
         return plain(self, ...)
      end
      return c.callable
   end

   --- Captures the forward and the backward pass of callables: of a module, of a function of
   --- tensors, or of several callables in the order in which they will run. Returns callables that
   --- replay the passes; a module is the same object with a new forward method. Arguments must
   --- match the samples in shape, dtype and requires_grad, and results are overwritten by the next
   --- call. The warm-up runs forward and backward passes but changes no gradients.
   ---@param callables nn.Module|function|table
   ---@param sample_args Tensor[]|Tensor[][]
   ---@param options? {num_warmup_iters: integer, allow_unused_input: boolean, pool: integer}
   ---@return nn.Module|function|table
   return function(callables, sample_args, options)
      local o = options_of(options or {})
      local single = type(callables) == "function" or class.isinstance(callables, Module)
      local list = single and {callables} or callables
      local samples = single and {sample_args} or sample_args
      if type(list) ~= "table" or type(samples) ~= "table" or #list ~= #samples then
         args.refuse(title, "sample_args", "a list of tensors for each callable", sample_args)
      end
      local pool = o.pool or module.graph_pool_handle()
      local made = {}
      for i, callable in ipairs(list) do
         made[i] = prepare(callable, tensors_of(title, samples[i]), o)
      end
      for _, c in ipairs(made) do capture_forward(c, pool) end
      for i = #made, 1, -1 do
         if #made[i].roots > 0 then capture_backward(made[i], pool, o) end
      end
      local results = {}
      for i, c in ipairs(made) do results[i] = replaced(c) end
      return single and results[1] or results
   end
end
