-- checkpoint.lua - trades time for memory: a part of a computation keeps only its inputs, and is
-- done once more when its gradients are wanted.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Function = require "tlua.autograd.Function"
local tree = require "tlua.func.tree"

local M = {}

local Checkpoint = class.class("utils.checkpoint", Function)

-- Where the random numbers stand, of the CPU and of all devices in use.
local function random_states()
   local states = {cpu = torch.get_rng_state()}
   for _, kind in ipairs {"cuda", "sim"} do
      if torch[kind].is_initialized() then states[kind] = torch[kind].get_rng_state_all() end
   end
   return states
end

local function set_random_states(states)
   torch.set_rng_state(states.cpu)
   for _, kind in ipairs {"cuda", "sim"} do
      if states[kind] then torch[kind].set_rng_state_all(states[kind]) end
   end
end

local function shape_of(value)
   if not torch.is_tensor(value) then return args.describe(value) end
   return "a tensor of shape (" .. table.concat(value.shape, ", ") .. ")"
end

-- The shapes of the results, to compare with those of the second time.
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

-- `anchor` requires a gradient, so that the call is recorded even if no argument does, as when
-- only parameters inside of fn are learnt. Arguments and results of fn are tensors.
function Checkpoint.forward(ctx, _, fn, ...)
   ctx.fn, ctx.state = fn, random_states()
   ctx:save_for_backward(...)
   local results = table.pack(fn(...))
   ctx.shapes = shapes_of(results)
   return table.unpack(results, 1, results.n)
end

-- Runs fn again from the same random state, this time recorded.
local function repeat_forward(ctx, inputs)
   local now = random_states()
   set_random_states(ctx.state)
   local _ <close> = setmetatable({}, {__close = function() set_random_states(now) end})
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
   check_again(ctx.shapes, outputs)
   local roots, seeds = {}, {}
   for k = 1, outputs.n do
      local output, grad = outputs[k], select(k, ...)
      if output.requires_grad and grad then
         roots[#roots + 1], seeds[#seeds + 1] = output, grad
      end
   end
   if #roots > 0 then torch.autograd.backward(roots, seeds) end
   local grads = {}
   for i = 1, inputs.n do grads[i] = inputs[i].grad end
   return nil, nil, table.unpack(grads, 1, inputs.n)
end

-- Keeps a call in front of it from being a tail call: fn that calls itself without end, by way of
-- checkpoint, is to overflow the stack rather than to run on for ever.
local function pass(...) return ... end

--- fn(...), without keeping what happens inside: it is computed again, from the same random state,
--- in the backward pass. Tensors among arguments and results may be in plain tables, too, which are
--- then copied. fn must give the same results both times. Parameters used in fn get
--- their gradients in `grad`, so this is for `backward`, not for `torch.autograd.grad`.
---@param fn fun(...): any
---@param ... any  fn's arguments
---@return any ...
function M.checkpoint(fn, ...)
   local meta = getmetatable(fn)
   if type(fn) ~= "function" and not (type(meta) == "table" and meta.__call) then
      args.refuse("utils.checkpoint", "fn", "a function", fn)
   end
   if not torch.is_grad_enabled() then return pass(fn(...)) end
   -- A Function sees the tensors that are arguments and results, not those in tables.
   local given, with_given = tree.tensors(table.pack(...))
   local with_results
   local function flat(...)
      local values = with_given {...}
      local results
      results, with_results = tree.tensors(table.pack(fn(table.unpack(values, 1, values.n))))
      return table.unpack(results)
   end
   local anchor = torch.empty(0, {requires_grad = true})
   local tensors = {Checkpoint:apply(anchor, flat, table.unpack(given))}
   local results = with_results(tensors)
   return table.unpack(results, 1, results.n)
end

--- Runs the modules of a Sequential in so many segments, of which all but the last are checkpoints.
---@param modules nn.Sequential|nn.Module[]
---@param segments integer
---@param input any
---@return any
function M.checkpoint_sequential(modules, segments, input)
   if math.type(segments) ~= "integer" or segments < 1 then
      args.refuse("utils.checkpoint_sequential", "segments", "an integer of at least 1", segments)
   end
   if type(modules) ~= "table" then
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

return setmetatable(M, {__call = function(_, ...) return M.checkpoint(...) end})
