-- step.lua - torch.export_step: a training step as a program. The step is called once, so that
-- optimizers create their state. The next call is recorded as torch.export records a model,
-- including backward passes. The learning rates of later steps are computed in advance, by
-- schedulers whose optimizers do not step. At the end the program makes a step, and its results
-- must be bitwise equal to the function's.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Fused = require "tlua.optim.Fused"
local Optimizer = require "tlua.optim.Optimizer"
local changes = require "tlua.export.changes"
local follow = require "tlua.export.follow"
local keep_random = require "tlua.export.random"
local nested = require "tlua.export.nested"
local outside = require "tlua.export.outside"
local reach = require "tlua.export.reach"
local reads = require "tlua.export.reads"
local trace = require "tlua.export.trace"

local DEFAULT_STEPS <const> = 10000

-- The objects that the function uses --------------------------------------------------------------

-- Returns an option's values as a list; raises an error unless `check` accepts each of them.
local function list_option(options, name, expected, check)
   local value = options[name]
   if value == nil then return {} end
   local list = value
   if type(value) ~= "table" or getmetatable(value) then list = {value} end
   for _, item in ipairs(list) do
      if not check(item) then args.refuse("export_step", name, expected, item) end
   end
   if #list == 0 then args.refuse("export_step", name, expected, value) end
   return list
end

local function is_module(value) return class.isinstance(value, torch.nn.Module) end
local function is_optimizer(value) return class.isinstance(value, Optimizer) end
local function is_scheduler(value)
   return type(value) == "table" and is_optimizer(rawget(value, "optimizer"))
end

local function check_optimizer(optimizer)
   if not class.isinstance(optimizer, Fused) then
      torch.raise(("export_step: optimizer: expected one whose step is one kernel, such as SGD or "
         .. "AdamW, got %s"):format(torch.type(optimizer)))
   end
   for _, group in ipairs(optimizer.param_groups) do
      local damped = (group.momentum or 0) ~= 0 and (group.dampening or 0) ~= 0
      if damped and not next(optimizer.state) then
         torch.raise("export_step: optimizer: the first step with dampening differs from later "
            .. "steps; make it before the export")
      end
   end
end

local function check_scheduler(scheduler)
   if torch.type(scheduler):find "ReduceLROnPlateau" then
      torch.raise("export_step: scheduler: ReduceLROnPlateau depends on values, which a program "
         .. "does not read")
   end
end

local function read_options(options)
   local parts = {
      models = list_option(options, "model", "a module or a list of them", is_module),
      optimizers = list_option(options, "optimizer", "an optimizer or a list of them",
                               is_optimizer),
      schedulers = list_option(options, "scheduler", "a scheduler or a list of them", is_scheduler),
      scalers = list_option(options, "scaler", "a GradScaler", function(value)
         return class.isinstance(value, torch.GradScaler)
      end),
      others = options.state or {}, steps = options.steps or DEFAULT_STEPS,
   }
   for _, optimizer in ipairs(parts.optimizers) do check_optimizer(optimizer) end
   for _, scheduler in ipairs(parts.schedulers) do check_scheduler(scheduler) end
   if math.type(parts.steps) ~= "integer" or parts.steps < 1 then
      args.refuse("export_step", "steps", "an integer of at least 1", parts.steps)
   end
   if type(parts.others) ~= "table" or getmetatable(parts.others) then
      args.refuse("export_step", "state", "a table of tensors by name", parts.others)
   end
   for name, tensor in pairs(parts.others) do
      if type(name) ~= "string" or not torch.is_tensor(tensor) then
         args.refuse("export_step", "state", "a table of tensors by name", tensor)
      end
   end
   return parts
end

-- Returns the prefix for names of the i-th of n parts: `text`, followed by "i." if n > 1.
local function prefix(text, i, n) return n == 1 and text or ("%s%d."):format(text, i) end

local function sorted(list)
   local keys = {}
   for key in pairs(list) do keys[#keys + 1] = key end
   table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
   return keys
end

-- The numbers of optimizers and scalers in all exports, and the last number for each parameter.
local numbers, latest = setmetatable({}, {__mode = "k"}), setmetatable({}, {__mode = "k"})

-- Returns the beginning of the names of an optimizer's or a scaler's state. Optimizers that have a
-- parameter in common get different names, also in different programs, because tl_program_share
-- shares state by its name. `keys` lists the optimizer's parameters.
local function state_prefix(text, object, keys)
   if not numbers[object] then
      local n = 1
      for _, key in ipairs(keys) do n = math.max(n, (latest[key] or 0) + 1) end
      for _, key in ipairs(keys) do latest[key] = n end
      numbers[object] = n
   end
   return numbers[object] == 1 and text .. "." or ("%s%d."):format(text, numbers[object])
end

local function add_optimizer(add, names, start, optimizer)
   local params = {}
   for i, parameter in optimizer:each() do
      params[i] = parameter
      add(("%sparameter.%d"):format(start, i), parameter)
   end
   start = state_prefix("optimizer", optimizer, params)
   for g, group in ipairs(optimizer.param_groups) do
      if torch.is_tensor(group.lr) then add(("%sgroup.%d.lr"):format(start, g), group.lr) end
   end
   for i, parameter in ipairs(params) do
      local state = optimizer.state[i] or {}
      for _, name in ipairs(sorted(state)) do
         if torch.is_tensor(state[name]) then
            add(("%s%s.%s"):format(start, names[parameter], name), state[name])
         end
      end
   end
end

-- Returns a list of {name, tensor, true} for all tensors that the function may change.
local function named_tensors(parts)
   local list, names = {}, {}
   local function add(name, tensor)
      if names[tensor] then return end
      nested.check_tensor("export_step", "the tensor " .. name, tensor)
      names[tensor] = name
      list[#list + 1] = {name, tensor, true}
   end
   for i, model in ipairs(parts.models) do
      local start = prefix("", i, #parts.models)
      for name, tensor in model:named_parameters() do add(start .. name, tensor) end
      for name, tensor in model:named_buffers() do add(start .. name, tensor) end
   end
   for i, optimizer in ipairs(parts.optimizers) do
      add_optimizer(add, names, prefix("optimizer.", i, #parts.optimizers), optimizer)
   end
   for _, scaler in ipairs(parts.scalers) do
      local start = state_prefix("scaler", scaler, {"scaler"})
      if scaler.scale_number then
         add(start .. "scale", scaler.scale_number)
         add(start .. "growth", scaler.growth)
      end
   end
   for _, name in ipairs(sorted(parts.others)) do add(name, parts.others[name]) end
   return list
end

-- Going back --------------------------------------------------------------------------------------

-- Saves the current values of tensors, and returns a function that restores them.
local function keep_values(named)
   local kept = {}
   for i, entry in ipairs(named) do kept[i] = {entry[2], entry[2]:detach():clone()} end
   return function()
      local _ <close> = torch.no_grad()
      for _, entry in ipairs(kept) do entry[1]:copy_(entry[2]) end
   end
end

-- Copies the fields of a table and of nested tables into `noted`. Modules and optimizers are left
-- out.
local function note_fields(value, noted)
   if type(value) ~= "table" or noted[value] then return end
   if is_module(value) or is_optimizer(value) then return end
   local copy = {}
   noted[value] = copy
   for key, item in next, value do
      copy[key] = item
      note_fields(item, noted)
   end
end

-- Saves the fields of schedulers, scalers and groups, and returns a function that restores them.
local function keep_fields(parts)
   local noted = {}
   for _, list in ipairs {parts.schedulers, parts.scalers} do
      for _, item in ipairs(list) do note_fields(item, noted) end
   end
   for _, optimizer in ipairs(parts.optimizers) do note_fields(optimizer.param_groups, noted) end
   return function()
      for value, copy in pairs(noted) do
         for key in next, value do
            if copy[key] == nil then rawset(value, key, nil) end
         end
         for key, item in next, copy do rawset(value, key, item) end
      end
   end
end

-- Replaces the gradients of tensors by copies, which the calls may change, and returns a function
-- that restores them.
local function keep_gradients(named)
   local kept = {}
   for i, entry in ipairs(named) do
      local grad = entry[2].grad
      kept[i] = {entry[2], grad}
      if grad then entry[2].grad = grad:detach():clone() end
   end
   return function()
      for _, entry in ipairs(kept) do
         if entry[1].is_leaf then entry[1].grad = entry[2] end
      end
   end
end

-- Returns which states the optimizers have: existing[optimizer][position][name] is true if the
-- parameter at that position has a state of that name.
local function existing_state(parts)
   local existing = {}
   for _, optimizer in ipairs(parts.optimizers) do
      existing[optimizer] = {}
      for position, state in pairs(optimizer.state) do
         local names = {}
         existing[optimizer][position] = names
         for name in pairs(type(state) == "table" and state or {}) do names[name] = true end
      end
   end
   return existing
end

-- Resets the states that the first call has created, those that are not in `existing`, to their
-- initial values.
local function begin_state(parts, existing, scales)
   local _ <close> = torch.no_grad()
   for _, optimizer in ipairs(parts.optimizers) do
      for position, parameter, group in optimizer:each() do
         local old = existing[optimizer][position] or {}
         for name, value in pairs(optimizer.state[position] or {}) do
            if not old[name] and torch.is_tensor(value) then
               if name == "master" then value:copy_(parameter) else
                  value:fill_(optimizer:initial(name, group))
               end
            end
         end
      end
   end
   for i, scaler in ipairs(parts.scalers) do
      if scaler.scale_number and not scales[i] then
         scaler.scale_number:fill_(scaler._init_scale)
         scaler.growth:fill_(scaler._init_growth)
      end
   end
end

-- Schedules ---------------------------------------------------------------------------------------

-- Calls fn. While fn runs, each step of an optimizer calls `collect(first parameter, options)`. The
-- step changes the parameters only if `make` is true.
local function collecting(collect, make, fn)
   local step = rawget(torch, "_fused_step_")
   rawset(torch, "_fused_step_", function(params, grads, states, clocks, rule, options, ...)
      collect(params[1], {table.unpack(options)})
      if make then step(params, grads, states, clocks, rule, options, ...) end
   end)
   local fine, message = pcall(fn)
   rawset(torch, "_fused_step_", step)
   if fine then return end
   if type(message) == "string" then
      message = message:gsub("_fused_step_: ", "export_step: ", 1)
   end
   error(message, 0)
end

local function steps_made(parts)
   local list = {}
   for i, scheduler in ipairs(parts.schedulers) do list[i] = scheduler.last_epoch end
   return list
end

-- Returns the options of each call of an optimizer in each step: {[first parameter] = {options in
-- the first step, options in the second step, ...}}.
local function rates_of_steps(parts, increments)
   local rates = {}
   collecting(function(parameter, options)
      rates[parameter] = rates[parameter] or {}
      table.insert(rates[parameter], options)
   end, false, function()
      for _ = 1, parts.steps do
         for _, optimizer in ipairs(parts.optimizers) do optimizer:make_step() end
         for i, scheduler in ipairs(parts.schedulers) do
            for _ = 1, increments[i] do scheduler:step() end
         end
      end
   end)
   return rates
end

-- Returns functions that return an option in a step, one for each option that differs from step to
-- step, and the positions of these options in the program.
local function columns_of(graph, order, rates, steps)
   local columns, places = {}, {}
   local calls = graph:rates()
   for k, call in ipairs(calls) do
      local rows = rates[order[k]]
      if not rows or #rows ~= steps then
         torch.raise "export_step: scheduler: expected each optimizer to step once in each call"
      end
      for e, traced in ipairs(call[2]) do
         local differs = false
         for s = 1, steps do differs = differs or rows[s][e] ~= rows[1][e] end
         if rows[1][e] ~= traced then
            torch.raise("export_step: scheduler: an option of the optimizer differs from the "
               .. "schedule")
         end
         if differs then
            places[#places + 1] = {call[1], e}
            columns[#columns + 1] = function(s) return rows[s][e] end
         end
      end
   end
   if #places == 0 and calls[1] then
      -- The rate may change after the last of these steps. A program with a schedule refuses to run
      -- beyond the schedule's end, so the program gets a schedule even though the rate is constant.
      places[1], columns[1] = {calls[1][1], 1}, function() return calls[1][2][1] end
   end
   return columns, places
end

-- Adds the options of later steps to a program, as a schedule. Returns the positions of the
-- scheduled options and their values in all steps. Returns nil if the program has no call of an
-- optimizer.
local function add_schedule(graph, parts, order, increments)
   local columns, places = columns_of(graph, order, rates_of_steps(parts, increments), parts.steps)
   if #places == 0 then return nil end
   local rows = {}
   for s = 1, parts.steps do
      rows[s] = {}
      for c, column in ipairs(columns) do rows[s][c] = column(s) end
   end
   graph:schedule(torch.tensor(rows, {dtype = "float64", device = "cpu"}), places)
   return {places = places, rates = rows}
end

-- Raises an error if two successive steps have different options and no scheduler has changed them.
local function check_rates(first, second)
   local a, b = first:rates(), second:rates()
   for k, call in ipairs(a) do
      for e, option in ipairs(call[2]) do
         if b[k][2][e] ~= option then
            torch.raise(("export_step: an option of the optimizer differs from step to step, %g "
               .. "and %g; give its scheduler as `scheduler`"):format(option, b[k][2][e]))
         end
      end
   end
end

-- Recording ---------------------------------------------------------------------------------------

-- Makes a step with the program; raises an error unless its results equal the function's.
local function check_step(call, graph, tensors)
   call.begin()
   local outputs = graph:run(tensors)
   for i, output in ipairs(outputs) do
      if not nested.same_bits(output, call.expected.outputs[i]) then
         torch.raise(("export_step: result %d of the program has other values than the function's; "
            .. "something besides operators, gradients and optimizers has an effect"):format(i))
      end
   end
   for i, entry in ipairs(call.named) do
      if not nested.same_bits(entry[2]:detach(), call.expected.state[i]) then
         torch.raise(("export_step: %s has other values after the program's step than after the "
            .. "function's"):format(entry[1]))
      end
   end
   for _, pair in ipairs(graph:constants()) do
      if pair[1] == "schedule.step" then pair[2]:zero_() end
   end
end

-- Raises an error if other options of the optimizers, such as other learning rates, change more
-- than the steps of the optimizers.
local function check_reads_of_rates(graph, call, parts, tensors)
   local other_rates = setmetatable({}, {__index = call})
   other_rates.begin = function()
      call.begin()
      outside.change_rates(parts)
   end
   local fine, other = pcall(trace.record, other_rates, tensors)
   if fine and not pcall(graph.same, graph, other) then
      torch.raise("export_step: the function reads a number of an optimizer, such as its learning "
         .. "rate, which a program would not change later; pass the number as an input")
   end
end

local function record(call, parts, tensors, symbols)
   local order, before, increments = {}, steps_made(parts), {}
   local graph
   local after
   call.keep = function(outputs)
      call.expected = {outputs = {}, state = {}}
      for i, output in ipairs(outputs) do call.expected.outputs[i] = output end
      changes.check("export_step", parts)
      after = keep_fields(parts)
      for i, last in ipairs(steps_made(parts)) do
         increments[i] = last - before[i]
         if increments[i] < 1 then
            torch.raise "export_step: scheduler: the function does not call its method `step`"
         end
      end
   end
   local reset = call.reset
   call.reset = function()
      if call.expected and #call.expected.state == 0 then
         for i, output in ipairs(call.expected.outputs) do
            call.expected.outputs[i] = output:detach():clone()
         end
         for i, entry in ipairs(call.named) do
            call.expected.state[i] = entry[2]:detach():clone()
         end
      end
      reset()
   end
   collecting(function(parameter) order[#order + 1] = parameter end, true, function()
      graph = trace.record(call, tensors)
   end)
   call.keep, call.reset = nil, reset
   local next_step = setmetatable({}, {__index = call})
   next_step.begin = function()
      call.begin()
      after()
   end
   local restore = outside.change_values(parts)
   local fine, other = pcall(trace.record_other_values, next_step, tensors)
   restore()
   if not fine then error(other, 0) end
   local same, problem = pcall(graph.same, graph, other)
   if not same then
      changes.raise_with_names(problem, parts,
         changes.keep_in "a buffer or in a tensor of the option `state`")
   end
   if parts.reads_rates then check_reads_of_rates(graph, call, parts, tensors) end
   if #parts.schedulers == 0 then check_rates(graph, other) end
   trace.make_dynamic(graph, call, tensors, symbols)
   call.begin()
   local schedule
   if #parts.schedulers > 0 then schedule = add_schedule(graph, parts, order, increments) end
   graph = graph:ready()
   check_step(call, graph, tensors)
   return graph, function()
      return follow.new(graph, parts, order, increments, call.named, schedule)
   end
end

-- Adds to `parts` the fields and upvalues that the first call has read. Fields of the optimizers,
-- schedulers and scalers are left out, since they are compared in other ways.
local function add_reads(parts, seen)
   local skipped = {}
   for _, list in ipairs {parts.optimizers, parts.schedulers, parts.scalers} do
      for _, item in ipairs(list) do skipped[item] = true end
   end
   for _, optimizer in ipairs(parts.optimizers) do
      skipped[optimizer.param_groups], skipped[optimizer.state] = true, true
   end
   seen = reads.of(seen, parts.models, skipped, parts.optimizers)
   parts.fields, parts.upvalues = seen.fields, seen.upvalues
   parts.whole, parts.tensors = seen.whole, seen.tensors
   parts.lengths, parts.other_schedulers, parts.known = seen.lengths, seen.schedulers, seen.known
   parts.changing, parts.sets, parts.reads = seen.changing, seen.sets, seen
   outside.check_calls(parts, seen)
   parts.reads_rates = outside.reads_rates(parts, seen)
end

-- Calls the function for the first time, so that optimizers and scalers create their state.
local function first_call(parts, call, tensors)
   local existing, scales = existing_state(parts), {}
   for i, scaler in ipairs(parts.scalers) do scales[i] = scaler.scale_number end
   local restore = {
      keep_values(named_tensors(parts)), keep_fields(parts), keep_random(),
   }
   local fine, message, seen = reads.during(trace.call, call, tensors)
   -- A scaler has created tensors in the first call. Unlike all other changes, they are not undone.
   local made = {}
   for i, scaler in ipairs(parts.scalers) do made[i] = {scaler.scale_number, scaler.growth} end
   for _, undo in ipairs(restore) do undo() end
   for i, scaler in ipairs(parts.scalers) do
      scaler.scale_number, scaler.growth = made[i][1], made[i][2]
   end
   begin_state(parts, existing, scales)
   if not fine then error(message, 0) end
   parts.fields, parts.upvalues = follow.fields_of_models(parts.models), {}
   parts.whole, parts.tensors, parts.lengths, parts.other_schedulers = {}, {}, {}, {}
   parts.known, parts.changing, parts.sets = {}, {}, {}
   if seen then add_reads(parts, seen) end
end

return function(fn, inputs, options)
   if type(fn) ~= "function" then args.refuse("export_step", "fn", "a function", fn) end
   local parts = read_options(options)
   local tensors, names, structure = trace.read_inputs("export_step", fn, inputs, options.names)
   local symbols = trace.read_dynamic(options.dynamic, names, tensors)
   local call = {
      title = "export_step", model = fn, names = names, inputs = structure, training = true,
      step = true,
   }
   local _ <close> = torch.enable_grad()
   local named = named_tensors(parts)
   local restore_others = reach.keep(fn, named, parts.optimizers)
   local gradients = keep_gradients(named)
   local called, message = pcall(first_call, parts, call, tensors)
   restore_others()
   if not called then
      gradients()
      error(message, 0)
   end
   call.named = named_tensors(parts)
   local values, fields, random = keep_values(call.named), keep_fields(parts), keep_random()
   call.begin = function() fields() random() end
   call.reset = function() values() call.begin() end
   local fine, graph, link = pcall(record, call, parts, tensors, symbols)
   call.reset()
   restore_others()
   gradients()
   if not fine then error(graph, 0) end
   return graph, link()
end
