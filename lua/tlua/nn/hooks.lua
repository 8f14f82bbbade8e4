-- hooks.lua - hooks: functions that watch or change a module's arguments, results and gradients. A
-- module without hooks pays nothing for them: its `_hooks` is false.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Function = require "tlua.autograd.Function"
local scopes = require "tlua.scope"

local M = {}

-- Maps each kind of hooks to the method that adds such hooks.
local methods = {
   pre = "register_forward_pre_hook", post = "register_forward_hook",
   backward = "register_full_backward_hook", backward_pre = "register_full_backward_pre_hook",
}

-- Reads the options of each method.
local take_options = {}
for kind, method in pairs(methods) do
   take_options[kind] = args.signature(method .. "(prepend: boolean = false"
      .. (kind == "post" and ", always_call: boolean = false" or "")
      .. (kind:find "backward" and "" or ", with_kwargs: boolean = false") .. ")")
end

--- Adds a hook to a module; the `remove` method of the returned handle removes the hook.
---@param module nn.Module
---@param kind "pre"|"post"|"backward_pre"|"backward"
---@param hook function
---@param options? {prepend: boolean, always_call: boolean}  prepend: before the earlier
--- hooks; always_call: for kind "post", call the hook even if forward raises
---@return {remove: fun(self: table)} handle
function M.add(module, kind, hook, options)
   local who = methods[kind]
   if not args.is_callable(hook) then args.refuse(who, "hook", "a function", hook) end
   local o = take_options[kind](options or {})
   if o.with_kwargs then
      torch.raise(who .. ": with_kwargs: expected false or nothing, because keyword arguments are "
         .. "a table, which the hook gets as the last input")
   end
   local hooks = rawget(module, "_hooks")
   if not hooks then
      hooks = {}
      rawset(module, "_hooks", hooks)
   end
   local entry = {kind = kind, hook = hook, always = o.always_call}
   table.insert(hooks, o.prepend and 1 or #hooks + 1, entry)
   return {
      remove = function()
         for i, other in ipairs(hooks) do
            if other == entry then table.remove(hooks, i) end
         end
         if #hooks == 0 and rawget(module, "_hooks") == hooks then
            rawset(module, "_hooks", false)
         end
      end,
   }
end

--- Removes a hook that was added by any handle.
---@param module nn.Module
---@param hook function
---@return boolean  whether the module had the hook
function M.remove(module, hook)
   local hooks = rawget(module, "_hooks") or {}
   for i, entry in ipairs(hooks) do
      if entry.hook == hook then
         table.remove(hooks, i)
         if #hooks == 0 then rawset(module, "_hooks", false) end
         return true
      end
   end
   return false
end

-- Returns a new list of the hooks of one kind, because a hook may remove itself while it runs. With
-- `always` the list has only the hooks that are called even if forward raises.
local function of_kind(module, kind, always)
   local list = {}
   for _, entry in ipairs(module._hooks or {}) do
      if entry.kind == kind and (entry.always or not always) then list[#list + 1] = entry.hook end
   end
   return list
end

-- An identity function that intercepts gradients. Its forward returns its arguments. Its backward
-- returns the results of the callback `arrived`, which gets the gradients.
local Gate = class.class("nn.BackwardHookFunction", Function)

function Gate.forward(ctx, arrived, ...)
   ctx.arrived = arrived
   ctx:set_materialize_grads(false)
   return ...
end

function Gate.backward(ctx, ...)
   return nil, ctx.arrived(...)
end

local function takes_gradient(values)
   for i = 1, values.n do
      if torch.is_tensor(values[i]) and values[i].requires_grad then return true end
   end
   return false
end

-- Passes the inputs of one call through a Gate. Returns the gated inputs, and a function that
-- passes the results of the call through another Gate.
local function watch_backward(module, before, hooks, inputs)
   local grad_outputs
   local function run(grad_inputs)
      for _, hook in ipairs(hooks) do
         local n = grad_inputs.n
         local changed = hook(module, grad_inputs, grad_outputs)
         if changed ~= nil and type(changed) ~= "table" then
            args.refuse("register_full_backward_hook", "the hook's result",
               "a list of gradients or nothing", changed)
         end
         grad_inputs = changed or grad_inputs
         grad_inputs.n = n
      end
      return grad_inputs
   end

   local inner = takes_gradient(inputs)
   if inner then
      inputs = table.pack(Gate:apply(function(...)
         local grads = run(table.pack(...))
         return table.unpack(grads, 1, grads.n)
      end, table.unpack(inputs, 1, inputs.n)))
   end
   return inputs, function(results)
      return Gate:apply(function(...)
         grad_outputs = table.pack(...)
         for _, hook in ipairs(before) do
            local changed = hook(module, grad_outputs)
            if changed ~= nil and type(changed) ~= "table" then
               args.refuse("register_full_backward_pre_hook", "the hook's result",
                  "a list of gradients or nothing", changed)
            end
            if changed then changed.n = grad_outputs.n end
            grad_outputs = changed or grad_outputs
         end
         if not inner then run({n = inputs.n}) end
         return table.unpack(grad_outputs, 1, grad_outputs.n)
      end, table.unpack(results, 1, results.n))
   end
end

-- Returns a scope that calls the hooks when an error leaves the scope. The error is passed on
-- unchanged.
local function after_failure(module, hooks, inputs)
   return scopes.new(function(fault)
      if fault == nil then return end
      for _, hook in ipairs(hooks) do pcall(hook, module, inputs) end
   end)
end

-- Returns whether a hook has returned values other than a single nil. A nil changes nothing, like
-- None in PyTorch.
local function has_changed(values) return values.n > 1 or values[1] ~= nil end

local function call(module, ...)
   local inputs = table.pack(...)
   for _, hook in ipairs(of_kind(module, "pre")) do
      local changed = table.pack(hook(module, table.unpack(inputs, 1, inputs.n)))
      if has_changed(changed) then inputs = changed end
   end
   local before, backward = of_kind(module, "backward_pre"), of_kind(module, "backward")
   local finish
   if #before + #backward > 0 and torch.is_grad_enabled() then
      inputs, finish = watch_backward(module, before, backward, inputs)
   end

   local always = of_kind(module, "post", true)
   local results
   do
      local _ <close> = #always > 0 and after_failure(module, always, inputs) or nil
      results = table.pack(module:forward(table.unpack(inputs, 1, inputs.n)))
   end
   for _, hook in ipairs(of_kind(module, "post")) do
      local changed = table.pack(hook(module, inputs, table.unpack(results, 1, results.n)))
      if has_changed(changed) then results = changed end
   end
   if finish then return finish(results) end
   return table.unpack(results, 1, results.n)
end

--- Calls a module that has hooks. While the profiler watches all modules, this function handles the
--- calls of every module, and hands each to the profiler's function Module._watched.around(call,
--- module, ...).
---@param module nn.Module
---@param ... any
---@return any ...
function M.call(module, ...)
   local around = module._watched.around
   if around then return around(call, module, ...) end
   return call(module, ...)
end

return M
