-- follow.lua - keeps a program of torch.export_step in step with the objects of Lua that it was
-- made from: before a run, the script's changes are copied into the program, or an error is raised;
-- after a run, the schedulers advance as the function would have advanced them. A program that was
-- loaded from a file has no such objects.
--
-- guards.lua records the fields and tensors that these checks read. As long as none of them
-- changes, a run is checked by a single call of a C function.

local torch = require "tlua"
local changes = require "tlua.export.changes"
local guards = require "tlua.export.guards"
local modes = require "tlua.export.modes"
local nested = require "tlua.export.nested"
local outside = require "tlua.export.outside"
local Optimizer = require "tlua.optim.Optimizer"

local M = {}

-- The end of each error message, which says what the user can do.
local AGAIN <const> = "export the step again"

-- Methods of optimizers that a step calls and that must not be replaced. The method `step` is
-- checked together with the fields (fixed_fields).
local METHODS <const> = {"zero_grad", "make_step", "update_group", "step_group"}

-- Options of a GradScaler that a program has recorded as numbers.
local SCALER_OPTIONS <const> = {"growth_factor", "backoff_factor", "growth_interval", "enabled"}

-- Returns the optimizer, and the group in it, to which a parameter belongs.
local function owner_of(optimizers, parameter)
   for _, optimizer in ipairs(optimizers) do
      for _, group in ipairs(optimizer.param_groups) do
         for _, other in ipairs(group.params) do
            if rawequal(other, parameter) then return optimizer, group end
         end
      end
   end
end

-- Returns the numeric options that an optimizer's step passes to the update rule for a group, the
-- learning rate if it is a tensor (otherwise nil), and the name of the rule.
local function options_of(optimizer, group)
   local options, name
   -- stands in for the optimizer: it receives the options of a step, and makes no step
   local asked = setmetatable({
      step_group = function(_, _, _, rule, _, given)
         options, name = options or given, name or rule
      end,
      step_sparse = function() end,
   }, {__index = optimizer})
   optimizer.update_group(asked, group, 0)
   if not options then return {} end
   local rate = torch.is_tensor(options[1]) and options[1] or nil
   if rate then options[1] = 0 end
   return options, rate, name
end

local function methods_of(optimizer)
   local methods = {}
   for i, name in ipairs(METHODS) do methods[i] = optimizer[name] end
   return methods
end

-- Returns a list that describes the program's calls of optimizers. An item has the position of the
-- call (`at`), its optimizer and group, and in `numbers` the program's number for each option whose
-- number is that of the group.
local function calls_of(graph, parts, order)
   local calls = {}
   for k, rates in ipairs(graph:rates()) do
      local optimizer, group = owner_of(parts.optimizers, order[k])
      if optimizer then
         local options, rate, rule = options_of(optimizer, group)
         local numbers = {}
         for e, number in ipairs(rates[2]) do
            if options[e] == number then numbers[e] = number end
         end
         calls[#calls + 1] = {
            at = rates[1], optimizer = optimizer, group = group, numbers = numbers, rate = rate,
            maximize = group.maximize, rule = rule, methods = methods_of(optimizer),
         }
      end
   end
   return calls
end

-- Fields of modules that the comparison below leaves out, because they are compared in another way
-- or do not matter to a step.
local others <const> = {
   training = true, _evaluating = true, _hooks = true, _state_hooks = true, _fields = true,
}

-- A module's table of options is followed only if it has at most this number of entries.
local LONGEST <const> = 16

-- Adds the fields of a table of options, such as the padding of a convolution, by calls of `add`.
local function add_options(add, path, options)
   if getmetatable(options) then return end
   local keys = nested.sorted_keys(options)
   for _, key in ipairs(#keys <= LONGEST and keys or {}) do
      add(options, key, (type(key) == "string" and "%s.%s" or "%s[%s]"):format(path, key))
   end
end

-- Calls `add` for the fields of a module: the mode, the method forward, the fields that the module
-- itself has, and its hooks. The last argument of `add` is the field's name for messages.
local function add_module(add, path, module)
   local start = path == "" and "" or path .. "."
   add(module, "training", "the model's training mode")
   add(module, "forward", start .. "forward")
   for name, value in next, module do
      if not others[name] then
         local field = start .. tostring(name)
         add(module, name, field)
         if type(value) == "table" then add_options(add, field, value) end
      end
   end
   -- The number of layers in nn.Sequential or a list of modules changes if a layer is appended.
   local n = rawlen(module)
   if n > 0 then add(module, n + 1, start .. (n + 1)) end
   local hooks = rawget(module, "_hooks")
   local name = "the list of hooks of " .. (path == "" and "the model" or path)
   add(module, "_hooks", name)
   for i = 1, hooks and #hooks + 1 or 0 do add(hooks, i, name) end
end

--- Returns a list of {table, key, value, name}, one for each field of the models that must keep its
--- value.
function M.fields_of_models(models)
   local list = {}
   local function add(owner, key, name) list[#list + 1] = {owner, key, owner[key], name} end
   for _, model in ipairs(models) do
      for path, module in model:named_modules() do add_module(add, path, module) end
   end
   return list
end

local function raise_changed(name)
   torch.raise(("program: %s has changed since the export; %s"):format(name, AGAIN))
end

-- Returns a list of {tensor, whether it requires a gradient, the number of its hooks, name}, one
-- for each tensor in `named`.
local function leaves_of(named)
   local list = {}
   for i, entry in ipairs(named) do
      local tensor = entry[2]
      list[i] = {tensor, tensor.requires_grad, torch._leaf_hooks(tensor), entry[1]}
   end
   return list
end

local function check_leaves(leaves)
   for _, entry in ipairs(leaves) do
      local changed = entry[1].requires_grad ~= entry[2] and "requires_grad"
         or torch._leaf_hooks(entry[1]) ~= entry[3] and "list of hooks"
      if changed then raise_changed(("the %s of %s"):format(changed, entry[4])) end
   end
end

-- Returns the upvalues of the script's functions that the recorded calls have read but not changed.
-- They must keep their values.
local function fixed_upvalues(parts)
   local list = {}
   for _, entry in ipairs(parts.upvalues) do
      local _, value = debug.getupvalue(entry[1], entry[2])
      if rawequal(value, entry[3]) then list[#list + 1] = entry end
   end
   return list
end

-- Returns those tables all of whose fields count that the recorded calls have not changed.
local function fixed_tables(parts)
   local list = {}
   for _, entry in ipairs(parts.whole) do
      if not changes.difference(entry[1], entry[2]) then list[#list + 1] = entry end
   end
   return list
end

-- Returns a list of {table, key, value, name}, one for each field that must keep its value. Fields
-- that a step itself changes, such as a count of calls, are left out.
local function fixed_fields(parts)
   local list = {}
   local function add(owner, key, name) list[#list + 1] = {owner, key, owner[key], name} end
   for _, entry in ipairs(parts.fields) do
      if rawequal(entry[1][entry[2]], entry[3]) then list[#list + 1] = entry end
   end
   for _, scaler in ipairs(parts.scalers) do
      for _, name in ipairs(SCALER_OPTIONS) do add(scaler, name, "the scaler's " .. name) end
   end
   for _, optimizer in ipairs(parts.optimizers) do
      add(optimizer, "step", "the optimizer's step")
      add(optimizer, "state", "the optimizer's state")
      for position, state in pairs(optimizer.state) do
         for name in pairs(type(state) == "table" and state or {}) do
            add(state, name, "the optimizer's state " .. name)
         end
         add(optimizer.state, position, "the optimizer's state")
      end
      add(optimizer, "param_groups", "the optimizer's list of groups")
      for g, group in ipairs(optimizer.param_groups) do
         add(optimizer.param_groups, g, ("group %d of the optimizer"):format(g))
         for i in ipairs(group.params) do
            add(group.params, i, ("parameter %d of group %d of the optimizer"):format(i, g))
         end
      end
   end
   return list
end

local function check_fields(fields, upvalues, tables)
   for _, entry in ipairs(fields) do
      if not rawequal(entry[1][entry[2]], entry[3]) then raise_changed(entry[4]) end
   end
   for _, entry in ipairs(tables) do
      local key = changes.difference(entry[1], entry[2])
      if key ~= nil then raise_changed(changes.field_name(entry[3], key)) end
   end
   for _, entry in ipairs(upvalues) do
      local _, value = debug.getupvalue(entry[1], entry[2])
      if not rawequal(value, entry[3]) then raise_changed(entry[4]) end
   end
end

-- Returns the hooks of the optimizers: functions that are called before and after their steps.
local function step_hooks(optimizers)
   local list = {n = 0}
   local function add(hook) list.n, list[list.n + 1] = list.n + 1, hook end
   for _, kind in ipairs {"step_pre", "step_post"} do
      Optimizer:run_hooks(kind, add)
      for _, optimizer in ipairs(optimizers) do
         optimizer:run_hooks(kind, add)
         add(false)
      end
   end
   return list
end

local function check_hooks(link)
   local hooks = step_hooks(link.parts.optimizers)
   for i = 1, math.max(hooks.n, link.hooks.n) do
      if hooks[i] ~= link.hooks[i] then
         torch.raise("program: the hooks of the optimizer's steps have changed since the export; "
            .. AGAIN)
      end
   end
end

-- Returns the numbers of parameters in the groups of all optimizers as a text, which changes if a
-- parameter is added.
local function count_parameters(parts)
   local counts = {}
   for _, optimizer in ipairs(parts.optimizers) do
      for _, group in ipairs(optimizer.param_groups) do counts[#counts + 1] = #group.params end
   end
   return table.concat(counts, " ")
end

-- Returns three lists: the script's tensors that share memory with the program's tensors, these
-- tensors of the program, and their names.
local function shared_tensors(graph, named)
   local constants, own, kept, names = {}, {}, {}, {}
   for _, pair in ipairs(graph:constants()) do constants[pair[1]] = pair[2] end
   for _, entry in ipairs(named) do
      local constant = constants[entry[1]]
      if constant and torch._same_memory({entry[2]}, {constant}) == 0 then
         own[#own + 1], kept[#kept + 1], names[#names + 1] = entry[2], constant, entry[1]
      end
   end
   return own, kept, names
end

-- Sets the program's count of steps by the epochs of the schedulers: in each step, scheduler i
-- advances by increments[i] epochs. Returns the number of steps since the export, or nil without
-- schedulers.
local function follow_schedulers(link)
   local steps
   for i, scheduler in ipairs(link.schedulers) do
      local epochs = scheduler.last_epoch - link.first[i]
      local made = epochs // link.increments[i]
      if epochs < 0 or epochs % link.increments[i] ~= 0 or steps and made ~= steps then
         torch.raise(("program: the scheduler is at epoch %s, where no step of the program begins; "
            .. AGAIN):format(scheduler.last_epoch))
      end
      steps = made
   end
   if link.count and steps and link.count:item() ~= steps then link.count:fill_(steps) end
   return steps
end

-- Returns the number that the schedule has for an option in a step (nil beyond its end), and
-- whether the option is scheduled.
local function scheduled(link, at, element, steps)
   local column = link.columns[at .. "." .. element]
   if not column then return nil, false end
   return link.rates[steps + 1] and link.rates[steps + 1][column], true
end

-- Copies an option of an optimizer into the program. Raises an error if the schedule has another
-- number for this option.
local function follow_option(link, call, element, number, steps)
   local planned, is_planned = scheduled(link, call.at, element, steps)
   if is_planned then
      if planned == nil or planned == number then return end
      torch.raise(("program: option %d of %s is %.9g, but the schedule of the export has %.9g; %s")
         :format(element, torch.type(call.optimizer), number, planned, AGAIN))
   end
   if call.numbers[element] == number then return end
   link.graph:set_rate(call.at, element, number)
   call.numbers[element] = number
end

--- Returns a table that links a new program to the objects in `parts`. `order` lists the first
--- parameter of each call of an optimizer. increments[i] is the number of epochs by which a step
--- advances scheduler i. `schedule` is nil or has the positions of the scheduled options in the
--- program and their values in each step.
function M.new(graph, parts, order, increments, named, schedule)
   outside.check_schedulers(parts)
   changes.check("export_step", parts)
   local link = {
      graph = graph, calls = calls_of(graph, parts, order), fields = fixed_fields(parts),
      schedulers = parts.schedulers, increments = increments, first = {}, columns = {},
      rates = schedule and schedule.rates or {}, parts = parts, counts = count_parameters(parts),
      hooks = step_hooks(parts.optimizers), modes = torch._mode_bytes(), leaves = leaves_of(named),
      upvalues = fixed_upvalues(parts), tables = fixed_tables(parts),
   }
   for i, scheduler in ipairs(parts.schedulers) do link.first[i] = scheduler.last_epoch end
   for column, place in ipairs(schedule and schedule.places or {}) do
      link.columns[place[1] .. "." .. place[2]] = column
   end
   for _, pair in ipairs(graph:constants()) do
      if pair[1] == "schedule.step" then link.count = pair[2] end
   end
   link.own, link.kept, link.names = shared_tensors(graph, named)
   link.copied = outside.tensors(graph, parts, named, link.own, link.kept, link.names)
   return link
end

-- Raises an error if something has changed that a program cannot follow.
local function check_fixed(link)
   check_fields(link.fields, link.upvalues, link.tables)
   check_leaves(link.leaves)
   check_hooks(link)
   if count_parameters(link.parts) ~= link.counts then
      torch.raise("program: the optimizer has other parameters than in the export; " .. AGAIN)
   end
   local moved = torch._same_memory(link.own, link.kept)
   if moved > 0 then
      torch.raise(("program: %s has another memory or dtype than in the export; %s"):format(
         link.names[moved], AGAIN))
   end
end

-- Copies the options of the optimizers into the program.
local function follow_options(link, steps)
   for _, call in ipairs(link.calls) do
      local options, rate, rule = options_of(call.optimizer, call.group)
      local changed = not rawequal(rate, call.rate) and "lr" or rule ~= call.rule and "the rule"
         or call.group.maximize ~= call.maximize and "maximize"
      for i, name in ipairs(METHODS) do
         changed = not rawequal(call.optimizer[name], call.methods[i]) and name or changed
      end
      if changed then raise_changed(changed .. " of the optimizer") end
      for element in pairs(call.numbers) do
         follow_option(link, call, element, options[element], steps)
      end
   end
end

--- Copies the script's changes into the program before a run. Raises an error that names a change
--- that the program cannot follow.
function M.before(link)
   if torch._mode_bytes() ~= link.modes then
      torch.raise(("program: %s; %s"):format(modes.difference(link.modes), AGAIN))
   end
   for _, entry in ipairs(link.copied) do
      if entry[1]._version ~= entry[2] then raise_changed("the value of " .. entry[3]) end
   end
   if not guards.hold(link.fixed) then
      check_fixed(link)
      link.fixed = guards.of_fixed(link)
   end
   if #link.schedulers > 0 then
      follow_options(link, follow_schedulers(link))
   elseif not guards.hold(link.options) then
      follow_options(link, nil)
      link.options = guards.of_options(link.parts.optimizers)
   end
end

--- Advances the schedulers after a run.
function M.after(link)
   for i, scheduler in ipairs(link.schedulers) do
      for _ = 1, link.increments[i] do scheduler:step() end
   end
end

return M
