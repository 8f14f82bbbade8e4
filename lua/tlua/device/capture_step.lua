-- capture_step.lua - torch.cuda.capture_step: a training step that is captured once and replayed.
--
-- The first calls are ordinary steps: they create the state that a step needs (an optimizer's
-- state, the scaler's numbers) and let libraries choose their kernels. The next call captures a
-- step without running it, and replays the captured step, as all later calls do. So each call is
-- one step, and its results are bitwise the same as without capture.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"
local Fused = require "tlua.optim.Fused"
local callees = require "tlua.export.calls"
local changes = require "tlua.export.changes"
local outside = require "tlua.export.outside"
local reads = require "tlua.export.reads"
local scopes = require "tlua.scope"

local function alike(a, b)
   return torch.is_tensor(b) and a.dtype == b.dtype
      and table.concat(a.shape, ",") == table.concat(b.shape, ",")
end

-- Raises an error unless a step of each group of parameters runs completely on the device, so that
-- a replay can repeat it.
local function check_capturable(title, optimizer)
   local name = torch.type(optimizer)
   if not class.isinstance(optimizer, Fused) then
      torch.raise(("%s: %s computes on the host in its steps, which a replay does not repeat; " ..
         "use an optimizer that takes `capturable`"):format(title, name))
   end
   for _, group in ipairs(optimizer.param_groups) do
      if #optimizer.clocks > 0 and not group.capturable then
         torch.raise(("%s: %s counts its steps on the host, which a replay does not repeat; " ..
            "make it with capturable = true"):format(title, name))
      end
   end
end

-- Returns the properties of an optimizer on which a graph depends: its state, the values of its
-- options, and its parameters and their addresses.
local function settings_of(optimizer)
   local groups = {state = optimizer.state, places = {}}
   for g, group in ipairs(optimizer.param_groups) do
      local copy, places = {}, {}
      for i, parameter in ipairs(group.params) do places[i] = parameter:data_ptr() end
      groups.places[g] = places
      for key, value in pairs(group) do
         local list = type(value) == "table" and not getmetatable(value)
         copy[key] = list and table.move(value, 1, #value, 1, {}) or value
      end
      groups[g] = copy
   end
   return groups
end

local function same(a, b)
   if type(a) ~= "table" or type(b) ~= "table" or getmetatable(a) or getmetatable(b) then
      return rawequal(a, b)
   end
   for i = 1, math.max(#a, #b) do
      if not rawequal(a[i], b[i]) then return false end
   end
   return true
end

local function check_settings(title, optimizer, groups)
   local name = torch.type(optimizer)
   if #optimizer.param_groups ~= #groups then
      torch.raise(("%s: %s has another group since the capture; capture again"):format(title, name))
   end
   if optimizer.state ~= groups.state then
      torch.raise(("%s: %s has another state since the capture, as load_state_dict gives it; " ..
         "call reset() to capture again"):format(title, name))
   end
   for g, group in ipairs(optimizer.param_groups) do
      for i, parameter in ipairs(groups[g].params) do
         if parameter:data_ptr() ~= groups.places[g][i] then
            torch.raise(("%s: %s: parameter %d of group %d has its values elsewhere since the " ..
               "capture; call reset() to capture again"):format(title, name, i, g))
         end
      end
      for key, value in pairs(groups[g]) do
         if not same(group[key], value) then
            local hint = key == "lr"
               and "; to change the rate make it a tensor: {lr = torch.tensor(0.1)}" or ""
            local change = type(value) == "table" and "" or
               (" from %s to %s"):format(tostring(value), tostring(group[key]))
            torch.raise(("%s: %s: %s of group %d was changed%s since the capture%s"):format(
               title, name, key, g, change, hint))
         end
      end
   end
end

-- Makes the inputs of the graph: tensors on the device, into which each call copies its own
-- tensors. Values that are not tensors are kept unchanged.
local function new_static(kind, inputs)
   local static = {n = #inputs}
   for i = 1, #inputs do
      local input = inputs[i]
      if torch.is_tensor(input) then
         local here = input.device.type == kind
         static[i] = here and input:detach():clone() or input:detach():to(kind)
      else
         static[i] = input
      end
   end
   return static
end

-- Checks all inputs of a call, and then copies them into the inputs of the graph.
local function fill(title, static, given)
   if given.n ~= static.n then
      torch.raise(("%s: expected %d inputs, got %d"):format(title, static.n, given.n))
   end
   for i = 1, static.n do
      local mine, input = static[i], given[i]
      local fits = rawequal(mine, input)
      if torch.is_tensor(mine) then fits = alike(mine, input) end
      if not fits then
         torch.raise(("%s: input %d: expected %s, as when it was captured, got %s"):format(
            title, i, args.describe(mine), args.describe(input)))
      end
   end
   local _ <close> = torch.no_grad()
   for i = 1, static.n do
      if torch.is_tensor(static[i]) and not rawequal(static[i], given[i]) then
         static[i]:copy_(given[i], true)
      end
   end
end

--- Returns capture_step for one kind of device.
---@param kind string "cuda" or "sim"
---@return function
return function(kind)
   local module = torch[kind]
   local title = kind .. ".capture_step"
   local options_of = args.signature(title .. "(warmup: count = 3, pool: integer?)")

   -- Captures fn(static...), and adds the optimizers that step in it to `seen`.
   local function capture(graph, options, fn, static, seen)
      local hook = Optimizer.register_for_all("step_pre", function(optimizer)
         check_capturable(title, optimizer)
         seen[#seen + 1] = {optimizer, settings_of(optimizer)}
      end)
      local _ <close> = scopes.new(function() hook:remove() end)
      return table.pack(module.graph(graph, {pool = options.pool},
         function() return fn(table.unpack(static, 1, static.n)) end))
   end

   --- Makes a captured step from a function that performs a whole training step: forward, backward,
   --- the optimizer's step and the scaler's. `step(...)` takes inputs like `inputs`, on the device
   --- or the CPU, and copies them into the tensors that fn gets. The first `warmup` calls run fn
   --- normally. The next call captures fn; this call and all later ones replay it. Results are
   --- tensors that each replay overwrites.
   ---
   --- fn begins with optimizer:zero_grad(). Optimizers must count their steps on the device
   --- (capturable = true), and a changing learning rate must be a tensor. An operator that waits
   --- for the device raises an error in the call that captures, as does a value of Lua that fn
   --- changes and reads in each call, such as a count of calls, a tensor that an earlier call has
   --- left in a variable, a call of math.random or os.time, and random numbers or changes of
   --- tensors on the CPU: a replay runs no Lua.
   --- `step:reset()` discards the graph and captures again.
   ---@param fn fun(...): any
   ---@param inputs any[]  examples of fn's arguments
   ---@param options? {warmup: integer, pool: integer}
   ---@return table step  callable; its field `captured` says whether it replays
   return function(fn, inputs, options)
      if type(fn) ~= "function" then args.refuse(title, "fn", "a function", fn) end
      if type(inputs) ~= "table" or getmetatable(inputs) then
         args.refuse(title, "inputs", "a list of fn's arguments", inputs)
      end
      local o = options_of(options or {})
      if o.warmup < 1 then args.refuse(title, "warmup", "an integer of at least 1", o.warmup) end
      local static = new_static(kind, inputs)
      local graph, results, calls, seen = nil, nil, 0, {}
      local record -- the record of the last ordinary call (reads.during)
      local step = {captured = false}

      function step:reset() -- luacheck: no unused args
         if graph then graph:reset() end
         graph, results, calls, seen, record = nil, nil, 0, {}, nil
         step.captured = false
      end

      local function last_ordinary_call()
         local found
         local fine, message
         fine, message, record = reads.during(function()
            found = table.pack(fn(table.unpack(static, 1, static.n)))
         end)
         if not fine then error(message, 0) end
         return table.unpack(found, 1, found.n)
      end

      local function try_capture()
         local new, found = module.CUDAGraph(), {}
         return new, capture(new, o, fn, static, found), found
      end

      -- Returns whether the step uses a tensor of the list `replaced`. To find out, the step is
      -- captured while these tensors are on the meta device, where they have no values. If the step
      -- uses such a tensor, the capture fails, or a result of the step is on the meta device.
      local function uses(replaced)
         for _, item in ipairs(replaced) do item[1](item[3]) end
         local fine, new, found = pcall(try_capture)
         for _, item in ipairs(replaced) do item[1](item[2]) end
         if not fine then return true end
         new:reset()
         for i = 1, found.n do
            if torch.is_tensor(found[i]) and found[i].device.type == "meta" then return true end
         end
         return false
      end

      -- Raises an error if the step uses a tensor that the previous call has left in a variable or
      -- field, and that the capture has replaced. A replay would use the tensor of the capture.
      local function check_replaced(replaced)
         if not uses(replaced) then return end
         local names = {}
         for _, item in ipairs(replaced) do
            if #replaced == 1 or uses {item} then names[#names + 1] = item[4] end
         end
         torch.raise(("%s: the function uses the tensor that an earlier call has left in %s, but a "
            .. "replay would use the one of the capture; keep one tensor there, and change it in "
            .. "place, as copy_ does"):format(title, table.concat(names, " and ")))
      end

      -- Captures the step, and checks that the step depends on no value of Lua that it changes.
      local function capture_checked()
         for _, global in ipairs(record and record.globals or {}) do
            global[3] = rawget(global[1], global[2])
         end
         local values = record and reads.of(record, {}, {}, {})
         if not values then return try_capture() end
         callees.check(title, values, "replay", callees.is_varying(values))
         local check_host, random = outside.watch_host(title, values), torch.get_rng_state()
         local new, found, optimizers = try_capture()
         local fine, message = pcall(function()
            changes.check(title, values, "replay")
            check_host()
            if not same(random, torch.get_rng_state()) then
               torch.raise(title .. ": the function draws random numbers on the CPU, and a replay "
                  .. "would use those of the capture; draw them on the device")
            end
            local replaced = outside.replaced(values)
            if #replaced == 0 then return end
            for _, item in ipairs(replaced) do item[1](item[2]) end
            check_replaced(replaced)
            new:reset()
            new, found, optimizers = try_capture()
         end)
         if not fine then
            new:reset()
            error(message, 0)
         end
         return new, found, optimizers
      end

      local function replay()
         for _, pair in ipairs(seen) do check_settings(title, pair[1], pair[2]) end
         graph:replay()
         return table.unpack(results, 1, results.n)
      end

      return setmetatable(step, {
         __name = "torch." .. title,
         __call = function(_, ...)
            for _, pair in ipairs(seen) do check_settings(title, pair[1], pair[2]) end
            fill(title, static, table.pack(...))
            if graph then return replay() end
            if calls < o.warmup then
               calls = calls + 1
               if calls == o.warmup then return last_ordinary_call() end
               return (function(...) return ... end)(fn(table.unpack(static, 1, static.n)))
            end
            local new, found
            new, results, found = capture_checked()
            graph, seen, record = new, found, nil
            step.captured = true
            return replay()
         end,
      })
   end
end
