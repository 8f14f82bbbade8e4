-- outside.lua - values outside of a training step's models and optimizers on which the step depends
-- (reads.lua): refuses those that a program cannot repeat, and finds the tensors whose changes a
-- program does not see.

local torch = require "tlua"
local calls = require "tlua.export.calls"
local class = require "tlua.class"
local nested = require "tlua.export.nested"

local M = {}

--- Raises an error if the step calls a function such as math.random, or reads a field that a
--- schedule changes. `seen` is the result of reads.of, here and below.
function M.check_calls(parts, seen)
   calls.check("export_step", seen, "program", function() return true end)
   if seen.used.last_epoch and #parts.schedulers > 0 then
      torch.raise("export_step: the function reads last_epoch of a scheduler, which a program does "
         .. "not know; pass it as an input")
   end
end

-- The depth of nested tables whose tensors are changed.
local DEEPEST <const> = 16

-- Returns a tensor with other elements than `tensor` and than `earlier`, the value in an earlier
-- call. Other integers are 1 or 2, so that they are valid positions and classes. Returns nil for
-- integers and booleans that differ from the earlier ones by themselves.
local function other_tensor(tensor, earlier)
   if torch._sparse_parts(tensor) or tensor.device.type == "meta" then return nil end
   local comparable = torch.is_tensor(earlier) and earlier.device == tensor.device
      and not torch._sparse_parts(earlier)
   local _ <close> = torch.no_grad()
   if tensor:is_floating_point() or tensor:is_complex() then return tensor:detach() + 1.375 end
   if comparable and not nested.same_bits(tensor, earlier) then return nil end
   if tensor.dtype == "bool" then return tensor:logical_not() end
   return tensor:eq(1):to(tensor.dtype) + 1
end

-- Returns a value in which all tensors of `value` are replaced by the results of
-- change(tensor, tensor of `earlier`); nil if `value` has no tensors for which there is a result.
local function other_value(value, earlier, depth, change)
   if torch.is_tensor(value) then return change(value, earlier) end
   if type(value) ~= "table" or depth > DEEPEST then return nil end
   if getmetatable(value) and not debug then return nil end -- a sandbox
   local meta = debug and debug.getmetatable(value)
   -- objects of the library, such as modules, are left out, as are objects with a finalizer
   if meta and (rawget(meta, "__gc") or class.isinstance(value, torch.nn.Module)
      or require "tlua.compile.library".refresh().tables[meta]) then
      return nil
   end
   local copy, any = {}, false
   for key, item in next, value do
      local before = type(earlier) == "table" and rawget(earlier, key) or nil
      local other = other_value(item, before, depth + 1, change)
      copy[key], any = other == nil and item or other, any or other ~= nil
   end
   if any and meta then debug.setmetatable(copy, meta) end
   return any and copy or nil
end

local function on_meta(tensor)
   if torch._sparse_parts(tensor) then return nil end
   return torch.empty_like(tensor:detach(), {device = "meta"})
end

--- Returns a list of {set, earlier, replaced, name} for the variables and fields that have another
--- value than in `seen`, where they had tensors. `set` is a function that sets the variable,
--- `earlier` the value in `seen`, and `replaced` a copy of it with tensors on the meta device.
function M.replaced(seen)
   local list = {}
   local function add(entry, value, set)
      if rawequal(value, entry[3]) then return end
      local replaced = other_value(entry[3], nil, 1, on_meta)
      if replaced ~= nil then list[#list + 1] = {set, entry[3], replaced, entry[4]} end
   end
   for _, entry in ipairs(seen.upvalues) do
      local _, value = debug.getupvalue(entry[1], entry[2])
      add(entry, value, function(new) debug.setupvalue(entry[1], entry[2], new) end)
   end
   for _, entry in ipairs(seen.fields) do
      add(entry, rawget(entry[1], entry[2]), function(new) rawset(entry[1], entry[2], new) end)
   end
   return list
end

--- Changes the tensors in variables and fields that the calls have changed. A call that gives them
--- new values before it reads them is recorded as before. Returns a function that restores them.
function M.change_values(parts)
   local undo = {}
   for _, entry in ipairs(parts.upvalues) do
      local _, value = debug.getupvalue(entry[1], entry[2])
      local other = not rawequal(value, entry[3]) and other_value(value, entry[3], 1, other_tensor)
      if other then
         debug.setupvalue(entry[1], entry[2], other)
         undo[#undo + 1] = function() debug.setupvalue(entry[1], entry[2], value) end
      end
   end
   for _, entry in ipairs(parts.fields) do
      local value = rawget(entry[1], entry[2])
      local other = not rawequal(value, entry[3]) and other_value(value, entry[3], 1, other_tensor)
      if other then
         rawset(entry[1], entry[2], other)
         undo[#undo + 1] = function() rawset(entry[1], entry[2], value) end
      end
   end
   return function()
      for _, fn in ipairs(undo) do fn() end
   end
end

-- Calls fn(group, name, number) with the numeric options of the optimizers' groups, such as `lr`.
local function each_option(parts, fn)
   for _, optimizer in ipairs(parts.optimizers) do
      for _, group in ipairs(optimizer.param_groups) do
         local names = {}
         for name, value in next, group do
            if math.type(value) == "float" then names[#names + 1] = name end
         end
         for _, name in ipairs(names) do fn(group, name, group[name]) end
      end
   end
end

--- Returns whether the step may read numeric options of an optimizer, such as the learning rate:
--- whether the code names them.
function M.reads_rates(parts, seen)
   local found = seen.names._last_lr or seen.methods.get_last_lr or seen.methods.get_lr
   each_option(parts, function(_, name) found = found or seen.names[name] end)
   return found
end

--- Changes the numeric options of optimizers, and the learning rates of schedulers.
function M.change_rates(parts)
   each_option(parts, function(group, name, number) group[name] = number * 0.75 end)
   for _, scheduler in ipairs(parts.schedulers) do
      local rates = {}
      for i, rate in ipairs(rawget(scheduler, "_last_lr") or {}) do rates[i] = rate * 0.75 end
      if #rates > 0 then rawset(scheduler, "_last_lr", rates) end
   end
end

--- Returns a check that raises an error if a tensor on the CPU that the recorded function can reach
--- has been changed since.
---@param title string  the operator
function M.watch_host(title, seen)
   local list = {}
   local function add(name, tensor)
      if torch.is_tensor(tensor) and tensor.is_cpu and not torch._sparse_parts(tensor) then
         list[#list + 1] = {name, tensor, tensor._version}
      end
   end
   for _, pair in ipairs(seen.tensors) do add(pair[1], pair[2]) end
   for _, entry in ipairs(seen.fields) do add(entry[4], entry[3]) end
   return function()
      for _, entry in ipairs(list) do
         if entry[2]._version ~= entry[3] then
            torch.raise(("%s: the function changes %s, a tensor on the CPU, which a replay does "
               .. "not repeat; move it to the device, or change it outside of the function")
               :format(title, entry[1]))
         end
      end
   end
end

local function is_dense(tensor)
   return not torch._sparse_parts(tensor) and tensor.device.type ~= "meta" and tensor:numel() > 0
end

--- Raises an error if the calls have advanced a scheduler of the step's optimizers that is not in
--- the option `scheduler`.
function M.check_schedulers(parts)
   for _, entry in ipairs(parts.other_schedulers) do
      if entry[1].last_epoch ~= entry[2] then
         torch.raise(("export_step: the function steps %s, which is not in the option `scheduler`; "
            .. "the program would keep the learning rate of the example"):format(
            torch.type(entry[1])))
      end
   end
end

--- Finds the tensors outside of the models that the program shares with the script. Appends them to
--- `own`, the program's tensors to `kept`, and their names to `names`. Returns a list of
--- {tensor, version, name} for the other tensors, of which the program has a copy or has read the
--- values: they must not change.
function M.tensors(graph, parts, named, own, kept, names)
   local known, constants, fixed = {}, {}, {}
   for _, entry in ipairs(named) do known[entry[2]] = true end
   for _, pair in ipairs(graph:constants()) do
      if is_dense(pair[2]) then constants[pair[2]:data_ptr()] = pair[2] end
   end
   for _, pair in ipairs(parts.tensors) do
      local name, tensor = pair[1], pair[2]
      local dense = not known[tensor] and is_dense(tensor)
      known[tensor] = true
      local grad = dense and tensor.grad
      if grad and is_dense(grad) and constants[grad:data_ptr()] then
         torch.raise(("export_step: the function reads the gradient of %s, which is no tensor of "
            .. "the model"):format(name))
      end
      local constant = dense and constants[tensor:data_ptr()]
      if constant and torch._same_memory({tensor}, {constant}) == 0 then
         own[#own + 1], kept[#kept + 1], names[#names + 1] = tensor, constant, name
         constant = not graph:reads()
      end
      if dense and not constant then fixed[#fixed + 1] = {tensor, tensor._version, name} end
   end
   return fixed
end

return M
