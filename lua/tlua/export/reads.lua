-- reads.lua - finds the variables and fields of tables on which a training step depends, besides
-- its models and optimizers: upvalues and global variables of the script's functions that a call of
-- the step calls, and the fields of tables and modules that these variables refer to. Of a table
-- only those fields count whose names occur in the functions' code, unless the code goes through
-- all fields by pairs, ipairs or next, or computes their names.

local torch = require "tlua"
local class = require "tlua.class"
local changes = require "tlua.export.changes"
local code = require "tlua.export.code"
local nested = require "tlua.export.nested"
local Optimizer = require "tlua.optim.Optimizer"

local M = {}

-- Limits: the depth of nested tables; the length of a list whose items all count; and the number of
-- fields of a table whose fields all count.
local DEEPEST <const>, LONGEST <const>, MOST <const> = 16, 16, 1024
-- The largest number of fields of a table that is compared with a copy.
local MOST_WHOLE <const> = 1 << 17

--- Calls fn(...) under pcall. Returns whether it succeeded, its error, and a record of its calls
--- for M.of. The record is nil if the call cannot be watched: in a sandbox, or if another debug
--- hook is set.
function M.during(fn, ...)
   local watch = debug and debug.sethook and require "tlua.compile.watch"
   if not watch or not watch.can() then
      local fine, message = pcall(fn, ...)
      return fine, message
   end
   local fine, seen = pcall(watch.whole, fn, ...)
   return fine, not fine and seen or nil, fine and seen or nil
end

local Reads = {}
Reads.__index = Reads

-- Returns whether the code reads a field for more than an update such as n = n + 1.
function Reads:is_used(owner, key, value)
   -- an item that is missing at first belongs to a list to which the script appends
   local item = value ~= nil and (self.computed[owner] or self.keys[key])
   return self.used[key] or item or self.counted[owner] or false
end

function Reads:add(owner, key, value, name)
   table.insert(self.fields, {owner, key, value, name, self:is_used(owner, key, value)})
end

-- Returns a map from the tables in which users find functions, such as torch, torch.Tensor and
-- torch.linalg, to their names.
local function public_tables()
   local names = {}
   for key, value in next, torch do
      if type(value) == "table" then names[value] = "torch." .. tostring(key) end
   end
   names[torch], names[torch.nn.functional] = "torch", "torch.nn.functional"
   return names
end

-- Appends those fields of a table of the library whose names occur in the code and that have
-- functions of the script.
function Reads:list_replaced(owner, list)
   for _, names in ipairs {self.names, self.methods} do
      for name in next, names do
         local fn = rawget(owner, name)
         if type(fn) == "function" and debug.getinfo(fn, "S").what ~= "C"
               and not require "tlua.compile.library".owns(fn) then
            list[#list + 1] = {owner, name, fn, "the library's function " .. name}
         end
      end
   end
end

-- Adds the public places of the library's functions that the call has called, since the script may
-- replace these functions, and the functions that it has replaced.
function Reads:add_library(functions)
   local list, public = {}, public_tables()
   for owner in next, public do self:list_replaced(owner, list) end
   for fn in next, functions do
      for _, place in ipairs(self.library.places[fn] or {}) do
         local name = place[2]
         if public[place[1]] and type(name) == "string" and name:sub(1, 1) ~= "_" then
            list[#list + 1] = {place[1], place[2], fn, "the library's function " .. place[2]}
         end
      end
   end
   table.sort(list, function(a, b) return a[2] < b[2] end)
   table.move(list, 1, #list, #self.fields + 1, self.fields)
end

-- Adds those methods of an object that are functions of the script and whose names the code calls,
-- because a script may replace such methods in the object or in its class.
function Reads:add_methods(object, path)
   for _, name in ipairs(nested.sorted_keys(self.methods)) do
      -- the metamethod __index of an object may raise an error
      local fine, fn = pcall(function() return object[name] end)
      if fine and type(fn) == "function" and not require "tlua.compile.library".owns(fn) then
         self:add(object, name, fn, path == "" and name or path .. "." .. name)
      end
   end
end

-- Returns the names of all fields that the methods of a class read from `self`, as a set.
function Reads:names_of(class_of)
   local names = self.of_class[class_of]
   if names then return names end
   names = {}
   self.of_class[class_of] = names
   for _, item in next, class_of do
      for name in next, self.own[item] or {} do names[name] = true end
   end
   local meta = debug.getmetatable(class_of)
   local parent = meta and rawget(meta, "__index")
   for name in next, type(parent) == "table" and self:names_of(parent) or {} do
      names[name] = true
   end
   return names
end

-- Adds fields that the methods of an object's class read but that the object itself lacks, so that
-- they are missing or come from the class. The script may set them in the object later. Fields that
-- the code itself sets are left out, since a call in another mode, such as an evaluation, may set
-- them.
function Reads:add_inherited(object, path)
   local meta = debug.getmetatable(object)
   local class_of = meta and rawget(meta, "__index")
   -- The __index of a list of modules is a function, so the fields are looked up in its metatable.
   -- The fields of a module with parametrizations may be computed, and are left out.
   if type(class_of) == "function" and class.isinstance(object, torch.nn.Module)
         and not rawget(object, "parametrizations") then
      class_of = meta
   end
   if type(class_of) ~= "table" then return end
   for _, name in ipairs(nested.sorted_keys(self:names_of(class_of))) do
      local fine, value = pcall(function() return object[name] end)
      local counts = rawget(object, name) == nil and not self.assigned[name]
      if fine and counts and name ~= "training" then
         local field = path == "" and name or path .. "." .. name
         self:add(object, name, value, field)
         self:visit(value, field, DEEPEST)
      end
   end
end

-- Returns whether a table in a field of a module is a short list of options, such as the padding of
-- a convolution. The items of such a list count as fields of the module already.
local function is_list_of_options(value)
   if debug.getmetatable(value) or rawlen(value) > LONGEST then return false end
   for key, item in next, value do
      if math.type(key) ~= "integer" or type(item) == "table" then return false end
   end
   return true
end

-- Adds the fields of modules, and the fields of tables in them. `path` is the name of a module that
-- is not one of the step's models.
function Reads:add_fields(modules, path)
   local tables, fields = {}, self.fields
   local used, keys, counted, computed, seen =
      self.used, self.keys, self.counted, self.computed, self.seen
   for _, entry in ipairs(require "tlua.export.follow".fields_of_models(modules)) do
      local owner, key, value = entry[1], entry[2], entry[3]
      -- the items of a table follow the table in the list
      if type(value) == "table" and not seen[value] and key ~= "_hooks" then
         local name = path and path .. "." .. entry[4] or entry[4]
         self:note_name(value, key, name)
         if not is_list_of_options(value) then tables[#tables + 1] = {value, name} end
      end
      if path then entry[4] = entry[4] .. " of " .. path end
      entry[5] = used[key] or value ~= nil and (computed[owner] or keys[key]) or counted[owner]
         or false
      fields[#fields + 1] = entry
   end
   for _, pair in ipairs(tables) do self:visit(pair[1], pair[2], 2, self.names) end
end

-- Adds the fields of a module that is not one of the step's models, such as a loss.
function Reads:add_module(value, path)
   for name, tensor in value:named_parameters() do
      table.insert(self.tensors, {path .. "." .. name, tensor})
   end
   for name, tensor in value:named_buffers() do
      table.insert(self.tensors, {path .. "." .. name, tensor})
   end
   for inner, module in value:named_modules() do
      self.seen[module] = true
      local name = inner == "" and path or path .. "." .. inner
      self:add_methods(module, name)
      self:add_inherited(module, name)
   end
   self:add_fields({value}, path)
end

local function is_small(value, most)
   local n = 0
   for _ in next, value do
      n = n + 1
      if n > most then return false end
   end
   return true
end

-- Returns the keys of a table that count: the names of fields that the code reads, the names of
-- methods that it calls, and the positions of a short list, including the position after its end.
function Reads:keys_of(value)
   local looped = self.looped[value] or self.indexed[value]
   local short = rawlen(value) <= (looped and MOST or LONGEST)
   local keys, all = {}, looped and is_small(value, MOST)
   for key, item in next, value do
      if math.type(key) == "integer" then
         keys[key] = short or nil
      elseif all or self.names[key] or self.methods[key] and type(item) == "function" then
         keys[key] = true
      end
   end
   local empty = next(value) == nil and not debug.getmetatable(value)
   if short and (rawlen(value) > 0 or empty) then keys[rawlen(value) + 1] = true end
   return nested.sorted_keys(keys)
end

-- Adds the fields in `wanted` that a table without a metatable lacks.
function Reads:add_missing(value, path, wanted)
   for _, key in ipairs(nested.sorted_keys(wanted or {})) do
      if rawget(value, key) == nil then self:add(value, key, nil, path .. "." .. key) end
   end
end

-- Notes how the code uses a table that has this name in a variable or a field. `path` is the name
-- for messages.
function Reads:note_name(value, name, path)
   if type(value) ~= "table" then return end
   if self.tables[name] or self.measured[name] then self.indexed[value] = true end
   if self.items[name] then self.computed[value] = true end
   if self.measured[name] and not debug.getmetatable(value) then
      table.insert(self.lengths, {value, rawlen(value), "the length of " .. (path or name)})
   end
end

-- Adds the plain values of a table to the list `changing`, if the code may read them by keys that
-- it computes. The table may have come to a function as an argument.
function Reads:add_computed(value, path)
   if not self.keys.computed or not is_small(value, MOST) then return end
   for key, item in next, value do
      local kind = type(item)
      if type(key) == "string" and not self.names[key]
            and (kind == "number" or kind == "boolean" or kind == "string") then
         table.insert(self.changing, {value, key, item, changes.field_name(path, key), true})
      end
   end
end

-- Adds the fields of a table that count (see keys_of), and the fields in `wanted` even if the table
-- lacks them.
function Reads:add_table(value, path, depth, wanted)
   local meta = debug.getmetatable(value)
   if self.looped[value] and is_small(value, MOST_WHOLE) then
      local copy = {}
      for key, item in next, value do copy[key] = item end
      table.insert(self.whole, {value, copy, path, self.counted[value] or false})
   end
   if self.counted[value] and not meta then
      table.insert(self.lengths, {value, rawlen(value), "the length of " .. path})
   end
   if not meta then self:add_missing(value, path, wanted) end
   self:add_computed(value, path)
   local inner = meta and self.names or wanted
   for _, key in ipairs(self:keys_of(value)) do
      local name = changes.field_name(path, key)
      local item = rawget(value, key)
      self:note_name(item, key, name)
      self:add(value, key, item, name)
      self:visit(item, name, depth + 1, inner)
   end
   if meta and type(rawget(meta, "__index")) == "table" then
      self:add_methods(value, path)
      self:add_inherited(value, path)
   end
end

-- Adds a value to the list of schedulers if it is a scheduler of one of the step's optimizers.
function Reads:note_scheduler(value)
   if type(value) ~= "table" then return end
   local optimizer = rawget(value, "optimizer")
   if optimizer and self.optimizers[optimizer] and rawget(value, "last_epoch") then
      table.insert(self.schedulers, {value, value.last_epoch})
   end
end

-- Returns whether a value is an object of a class. Its metamethod __index may raise an error.
local function is_a(value, class_of)
   local fine, result = pcall(class.isinstance, value, class_of)
   return fine and result
end

-- Returns whether a value is a coroutine, or a function that coroutine.wrap has returned.
local function is_coroutine(value)
   if type(value) ~= "function" then return type(value) == "thread" end
   local _, upvalue = debug.getupvalue(value, 1)
   return type(upvalue) == "thread" and debug.getinfo(value, "S").what == "C"
end

function Reads:visit(value, path, depth, wanted)
   self.coroutine = self.coroutine or is_coroutine(value)
   if torch.is_tensor(value) then table.insert(self.tensors, {path, value}) end
   if type(value) ~= "table" or depth > DEEPEST then return end
   if self.plain[value] then self:add_missing(value, path, wanted) end
   if self.seen[value] then return end
   self.seen[value] = true
   self:note_scheduler(value)
   local meta, tables = debug.getmetatable(value), self.library.tables
   if tables[value] or rawequal(value, package.loaded) then return end
   if is_a(value, torch.nn.Module) then return self:add_module(value, path) end
   if is_a(value, Optimizer) then return self:add_optimizer(value) end
   if tables[meta or false] then return end
   self.plain[value] = not meta or nil
   self:add_table(value, path, depth, wanted)
end

-- Adds the fields of a table of the library, in which a script may store values, under names in the
-- script's code. `skipped` lists names to leave out.
function Reads:add_data(owner, path, skipped)
   local all = self.counted[owner] or self.computed[owner]
   for key in next, all and owner or self.names do
      local item = rawget(owner, key)
      local kind = type(item)
      if item ~= nil and (self.names[key] or type(key) ~= "number") and not skipped[key]
            and kind ~= "userdata" and kind ~= "function" and not self.library.tables[item] then
         self:add(owner, key, item, changes.field_name(path, key))
         self:visit(item, changes.field_name(path, key), 1)
      end
   end
end

-- Adds what the script has stored in an optimizer's table, the fields that the code sets but that
-- the table lacks, and the table's keys if the code computes keys.
function Reads:add_own_data(owner, path, skipped)
   self:add_data(owner, path, skipped)
   self:add_computed(owner, path)
   if self.keys.computed then
      local copy = {}
      for key, item in next, owner do copy[key] = item end
      table.insert(self.sets, {owner, copy, path})
   end
   for _, name in ipairs(nested.sorted_keys(self.assigned)) do
      if self.used[name] and rawget(owner, name) == nil and not skipped[name] then
         self:add(owner, name, nil, changes.field_name(path, name))
      end
   end
end

-- Adds what the script has stored in an optimizer, in its groups and its state.
function Reads:add_optimizer(optimizer)
   local options = {params = true, initial_lr = true}
   for name in next, optimizer.defaults or {} do options[name] = true end
   self:add_own_data(optimizer, "optimizer", {param_groups = true, state = true, defaults = true})
   self:add_own_data(optimizer.param_groups, "optimizer.param_groups", {})
   for g, group in ipairs(optimizer.param_groups) do
      self:add_own_data(group, ("optimizer.param_groups[%d]"):format(g), options)
   end
   self:add_own_data(optimizer.state, "optimizer.state", {})
   for position, state in ipairs(optimizer.state) do
      self:add_own_data(state, ("optimizer.state[%d]"):format(position), {})
   end
end

function Reads:visit_variable(value, name, wanted)
   self:note_name(value, name)
   self:visit(value, name, 1, wanted)
end

-- Adds the upvalues of a function.
function Reads:add_function(fn, wanted)
   for i = 1, 255 do
      local name, value = debug.getupvalue(fn, i)
      if not name then return end
      local id = debug.upvalueid(fn, i)
      if not self.seen[id] and name ~= "_ENV" and not self.library.tables[value] then
         table.insert(self.upvalues, {fn, i, value, "the variable " .. name, self.variables[id]})
      end
      self.seen[id] = true
      if name ~= "_ENV" then self:visit_variable(value, name, wanted) end
   end
end

-- Adds the flows that code.lua has found in a function. An upvalue is identified by its id, since
-- its number may differ from function to function.
function Reads:note_flows(flows, fn)
   for _, flow in ipairs(flows) do
      local variables = flow.variable ~= nil
      local of = variables and self.variables or self.used
      local source, target = flow.field, flow.target
      if variables then
         source, target = debug.upvalueid(fn, flow.variable), debug.upvalueid(fn, target)
      end
      table.insert(self.flows, {of, source, target})
   end
end

-- Returns the set of the names of fields, such as a layer's options, that the library's functions
-- in the list may read: fields of their first parameter, and strings in their upvalues.
local function names_in_library(list)
   local names = {}
   local into = setmetatable({own = names}, {__index = function() return {} end})
   local function add_strings(fn)
      for i = 1, 255 do
         local name, value = debug.getupvalue(fn, i)
         if not name then return end
         local is_list = type(value) == "table" and not debug.getmetatable(value)
         for _, item in ipairs(is_list and value or {value}) do
            if type(item) == "string" then names[item] = true end
         end
      end
   end
   for _, fn in ipairs(list) do
      if require "tlua.compile.library".owns(fn) then
         code(fn, into)
         add_strings(fn)
      end
   end
   return names
end

--- Returns whether the library may read a field of a module, as it does with options of layers.
---@param owner table
---@param key any
---@return boolean
function Reads:by_library(owner, key)
   if type(key) ~= "string" or not is_a(owner, torch.nn.Module) then return false end
   self.of_library = self.of_library or names_in_library(self.list)
   return self.of_library[key] == true
end

-- Marks values as used that the code reads only to compute other values, if these are used.
function Reads:follow_flows()
   local changed
   repeat
      changed = false
      for _, flow in ipairs(self.flows) do
         local of, source, target = flow[1], flow[2], flow[3]
         if of[target] and not of[source] then of[source], changed = true, true end
      end
   until not changed
end

--- Returns a table with these lists: `fields` of {owner, key, value, name, used}, for fields of
--- tables; `upvalues`, in the same form, for upvalues of functions, with the number of the upvalue
--- as key; `whole` of {table, copy, name}, for tables all of whose fields count; `lengths` of
--- {table, length, name}, for tables whose lengths the code reads; `changing`, in the form of
--- `fields`, for fields that may be read by computed keys; `sets` of {table, copy, name}, for
--- tables that must get no new numbers under computed keys; and `tensors` of {name, tensor}.
--- The fourth item of those in `whole` tells whether all fields are read. The set `known` has the
--- tables that were found. `used` tells whether the code reads the value for more than an update
--- such as n = n + 1. The table also has the sets `names` and `methods` of the fields and methods
--- in the code, the list `varying` of the record of M.during, and `coroutine`, which tells whether
--- a variable or a field has a coroutine.
---@param watch table  the result of M.during
---@param models nn.Module[]  the modules that the step trains
---@param skipped table<any, boolean>  objects whose fields are left out
---@param optimizers optim.Optimizer[]  the list `schedulers` of the result has {scheduler, epoch}
--- for each scheduler of these optimizers that is not in `skipped`
---@return table
function M.of(watch, models, skipped, optimizers)
   local library = require "tlua.compile.library"
   local seen = {}
   local reads = setmetatable({
      fields = {}, upvalues = {}, seen = seen, known = seen, names = {}, methods = {},
      library = library.refresh(),
      own = {}, of_class = {}, plain = {}, looped = watch.looped, tables = {}, indexed = {},
      assigned = {}, used = {}, variables = {}, whole = {}, tensors = {}, varying = watch.varying,
      measured = {}, lengths = {}, counted = watch.counted, optimizers = {}, schedulers = {},
      items = {}, computed = {}, keys = {}, changing = {},
      sets = {}, coroutine = false, flows = {},
      list = watch.list,
   }, Reads)
   for value in next, skipped do reads.seen[value] = true end
   for _, optimizer in ipairs(optimizers) do reads.optimizers[optimizer] = true end
   local functions, wanted = {}, {}
   for _, fn in ipairs(watch.list) do
      if not library.owns(fn) then
         functions[#functions + 1], wanted[fn], reads.own[fn] = fn, {}, {}
         local variables, flows = {}, {}
         code(fn, {
            fields = wanted[fn], methods = reads.methods, own = reads.own[fn],
            assigned = reads.assigned, tables = reads.tables, used = reads.used,
            variables = variables, lengths = reads.measured, items = reads.items,
            keys = reads.keys, flows = flows,
         })
         for i in next, variables do reads.variables[debug.upvalueid(fn, i)] = true end
         reads:note_flows(flows, fn)
         for name in next, wanted[fn] do reads.names[name] = true end
      end
   end
   reads:follow_flows()
   local modules = {}
   for _, model in ipairs(models) do
      for path, module in model:named_modules() do
         reads.seen[module] = true
         modules[#modules + 1] = {path, module}
      end
   end
   reads:add_fields(models)
   for _, pair in ipairs(modules) do
      local path, module = pair[1], pair[2]
      for _, item in next, module do
         if type(item) == "table" and not skipped[item] then reads:note_scheduler(item) end
      end
      reads:add_methods(module, path)
      reads:add_inherited(module, path)
      local class_of = debug.getmetatable(module)
      if not seen[class_of] then reads:add_data(class_of, torch.type(module), {}) end
      seen[class_of] = true
   end
   for _, global in ipairs(watch.globals) do
      local owner, key, value = table.unpack(global, 1, 3)
      if not reads.library.tables[value] and not rawequal(value, owner) then
         reads:add(owner, key, value, ("the variable %s"):format(key))
      end
      reads:visit_variable(value, tostring(key), reads.names)
   end
   for name in next, watch.required do
      reads:visit_variable(package.loaded[name], tostring(name), reads.names)
   end
   for _, fn in ipairs(functions) do reads:add_function(fn, wanted[fn]) end
   for owner, name in next, public_tables() do reads:add_data(owner, name, {}) end
   reads:add_data(package.loaded, "package.loaded", {})
   for _, optimizer in ipairs(optimizers) do reads:add_optimizer(optimizer) end
   reads:add_library(watch.functions)
   return reads
end

return M
