-- checkpoint.lua - activation checkpointing: a part of a computation keeps only its inputs, and is
-- computed again when its gradients are needed.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local lazy = require "tlua.lazy"
local Function = require "tlua.autograd.Function"
local scopes = require "tlua.scope"
local random = require "tlua.random"
local shells = require "tlua.autograd.shells"
local tree = require "tlua.func.tree"

local M = {}

local Checkpoint = class.class("utils.checkpoint", Function)

local function shape_of(value)
   if not torch.is_tensor(value) then return args.describe(value) end
   return "a tensor of shape (" .. table.concat(value.shape, ", ") .. ")"
end

-- Returns the shapes of the results, which are compared between the first and the second run.
local function shapes_of(results)
   local shapes = {n = results.n}
   for i = 1, results.n do shapes[i] = shape_of(results[i]) end
   return shapes
end

local function check_again(before, outputs)
   for i = 1, before.n do
      if before[i] ~= shape_of(outputs[i]) then
         torch.raise(("utils.checkpoint: result %d of fn: expected %s, as the first time, got %s")
            :format(i, before[i], shape_of(outputs[i])))
      end
   end
end

-- Runs fn without recording. The first argument is a tensor that requires a gradient, so that the
-- call is recorded even if no other argument requires one, for instance if only parameters inside
-- of fn are trained. Arguments and results of fn are tensors.
function Checkpoint.forward(ctx, _, fn, options, ...)
   ctx.fn, ctx.options = fn, options
   ctx.state = options.preserve_rng_state and random.get_states() or nil
   ctx:save_for_backward(...)
   local results = table.pack(fn(...))
   ctx.shapes = shapes_of(results)
   return table.unpack(results, 1, results.n)
end

-- Runs fn again for the backward pass: from the random state of the first run, and with gradients
-- recorded.
local function repeat_forward(ctx, inputs)
   local now = ctx.state and random.get_states()
   local _ <close> = scopes.new(function()
      if now then random.set_states(now) end
   end)
   if ctx.state then random.set_states(ctx.state) end
   local _ <close> = torch.enable_grad() -- luacheck: ignore 411
   return table.pack(ctx.fn(table.unpack(inputs, 1, inputs.n)))
end

function Checkpoint.backward(ctx, ...)
   local inputs = table.pack(ctx:saved_tensors())
   for i, tensor in ipairs(inputs) do
      inputs[i] = tensor:detach()
      inputs[i]:requires_grad_(tensor.requires_grad)
   end
   local outputs = repeat_forward(ctx, inputs)
   if ctx.options.determinism_check ~= "none" then check_again(ctx.shapes, outputs) end
   local roots, seeds = {}, {}
   local grads = shells.open(table.pack(...), "utils.checkpoint", shells.of(outputs))
   outputs = shells.open(outputs)
   for k = 1, outputs.n do
      local output, grad = outputs[k], grads[k]
      if output.requires_grad and grad then
         roots[#roots + 1], seeds[#seeds + 1] = output, grad
      end
   end
   if #roots > 0 then torch.autograd.backward(roots, seeds) end
   grads = {}
   for i = 1, inputs.n do grads[i] = inputs[i].grad end
   return nil, nil, nil, table.unpack(grads, 1, inputs.n)
end

-- Returns its arguments. `return pass(f(x))` is used in place of the tail call `return f(x)`: if fn
-- calls itself endlessly through checkpoint, the stack must overflow, and with tail calls the
-- program would run forever.
local function pass(...) return ... end

local take_options = args.signature [[utils.checkpoint(preserve_rng_state: boolean = true,
   use_reentrant: boolean?, determinism_check: string = 'default', debug: boolean?,
   early_stop: boolean?, context_fn: callable?)]]

local option_names <const> = {
   preserve_rng_state = true, use_reentrant = true, determinism_check = true, debug = true,
   early_stop = true, context_fn = true,
}

-- Returns the options, and the number of arguments before the table of options. The last argument
-- is that table if all its keys are names of options.
local function split_options(given)
   local last = given[given.n]
   local options = type(last) == "table" and not getmetatable(last) and next(last) ~= nil
   for name in pairs(options and last or {}) do options = options and option_names[name] end
   local a = take_options(options and last or {})
   if a.context_fn then
      torch.raise "utils.checkpoint: context_fn: selective checkpoints do not exist here"
   elseif a.determinism_check ~= "default" and a.determinism_check ~= "none" then
      args.refuse("utils.checkpoint", "determinism_check", '"default" or "none"',
         a.determinism_check)
   end
   return a, options and given.n - 1 or given.n
end

--- Calls fn(...) without keeping its intermediate results; the backward pass computes them again,
--- from the same random state. Arguments and results may be tensors, and plain tables that contain
--- tensors, which are copied. fn must give the same results both times. Parameters used in fn get
--- their gradients in `grad`, so checkpoints work with `backward`, not with `torch.autograd.grad`.
---@param fn fun(...): any
--- The options are a table after fn's arguments: preserve_rng_state (true: random numbers are the
--- same both times), determinism_check ("none": results' shapes are not compared); use_reentrant,
--- debug and early_stop have no effect.
---@param ... any  fn's arguments, and maybe options
---@return any ...
function M.checkpoint(fn, ...)
   local meta = getmetatable(fn)
   if type(fn) ~= "function" and not (type(meta) == "table" and meta.__call) then
      args.refuse("utils.checkpoint", "fn", "a function", fn)
   end
   local arguments = table.pack(...)
   local options
   options, arguments.n = split_options(arguments)
   if not torch.is_grad_enabled() then
      return pass(fn(table.unpack(arguments, 1, arguments.n)))
   end
   -- Tensors in tables are passed as separate arguments, since a Function only handles tensors that
   -- are arguments or results themselves.
   local given, with_given = tree.tensors(table.pack(table.unpack(arguments, 1, arguments.n)))
   local with_results
   local function flat(...)
      local values = with_given {...}
      local results
      results, with_results = tree.tensors(table.pack(fn(table.unpack(values, 1, values.n))))
      return table.unpack(results)
   end
   local anchor = torch.empty(0, {requires_grad = true})
   local tensors = {Checkpoint:apply(anchor, flat, options, table.unpack(given))}
   local results = with_results(tensors)
   return table.unpack(results, 1, results.n)
end

--- Runs the modules of a Sequential in `segments` segments; each segment but the last is a
--- checkpoint.
---@param modules nn.Sequential|nn.Module[]
---@param segments integer
---@param input any
---@return any
function M.checkpoint_sequential(modules, segments, input)
   if math.type(segments) ~= "integer" or segments < 1 then
      args.refuse("utils.checkpoint_sequential", "segments", "an integer of at least 1", segments)
   end
   local is_module = class.isinstance(modules, torch.nn.Module)
   if type(modules) ~= "table" or is_module
         and not class.isinstance(modules, {torch.nn.Sequential, torch.nn.ModuleList}) then
      args.refuse("utils.checkpoint_sequential", "modules", "a Sequential or a list of modules",
         modules)
   end
   local n = #modules
   for i = 1, n do
      local meta = getmetatable(modules[i])
      if type(modules[i]) ~= "function" and not (type(meta) == "table" and meta.__call) then
         args.refuse("utils.checkpoint_sequential", ("modules[%d]"):format(i),
            "a module or a function", modules[i])
      end
   end
   local size = math.max(n // segments, 1)
   local function run(first, last)
      return function(x)
         for i = first, last do x = modules[i](x) end
         return x
      end
   end
   local first = 1
   for _ = 1, math.min(segments, n) - 1 do
      input = M.checkpoint(run(first, first + size - 1), input)
      first = first + size
   end
   return run(first, n)(input)
end

lazy.entitle(M, "torch.utils.checkpoint")
getmetatable(M).__call = function(_, ...) return M.checkpoint(...) end
return M
