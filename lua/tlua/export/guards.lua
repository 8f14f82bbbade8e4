-- guards.lua - records the fields of Lua's tables and the tensors on which a check depends. The
-- check can be left out as long as none of them has changed (src/lua/guards.c compares them). The
-- recorded values are kept in a userdata, called a note, which can contain only raw fields and
-- tensors. If a check depends on anything else, there is no note, and the check is made each time.

local torch = require "tlua"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"

local M = {}

local none <const> = {n = 0}

-- The largest depth of tables in the options of a group.
local DEEPEST <const> = 4

-- Returns an empty list of fields. `known` is the set of the fields in the list: known[table][key]
-- is true for them.
local function new_list() return {n = 0, known = {}} end

-- Appends a field and its value to a flat list {table, key, value, ...}, unless it has the field.
local function add(list, owner, key)
   local known = list.known[owner] or {}
   if known[key] then return end
   list.known[owner], known[key] = known, true
   local n = list.n
   list[n + 1], list[n + 2], list[n + 3] = owner, key, rawget(owner, key)
   list.n = n + 3
end

-- Appends a field that an object has or inherits, in the object and in each class up to the class
-- that has it. Returns the value.
local function add_inherited(list, object, key)
   local owner, info = object, getmetatable(object)
   while true do
      add(list, owner, key)
      local value = rawget(owner, key)
      owner = rawequal(owner, object) and info or type(info) == "table" and rawget(info, "parent")
      if value ~= nil or type(owner) ~= "table" then return value end
      info = getmetatable(owner)
   end
end

-- Appends the first and the last element of `values`, and the empty position after the last one, so
-- that a change of the length is seen.
local function add_ends(list, values)
   add(list, values, 1)
   add(list, values, #values)
   add(list, values, #values + 1)
end

-- Adds a tensor, and a tensor that must share its memory, to a list for torch._note. Records
-- whether the tensor requires a gradient, and that its number of hooks must not change.
local function add_tensor(list, tensor, alias)
   local n = list.n
   list[n + 1], list[n + 2] = tensor, alias
   list[n + 3], list[n + 4] = tensor.requires_grad, true
   list.n = n + 4
end

--- Returns whether all values in a note are unchanged; false if there is no note.
---@param note userdata?
---@return boolean
function M.hold(note)
   return note ~= nil and torch._note_holds(note)
end

-- Adds the fields in which a module stores its mode; in training mode, `training` is a field of the
-- class. Returns false if the module stores its mode in another way.
local function add_mode(list, module)
   add(list, module, "training")
   add(list, module, "_evaluating")
   local mode = rawget(module, "training")
   return mode == module.training or mode == nil and rawget(module, "_evaluating") == false
      or class.isinstance(rawget(module, "_orig_mod"), torch.nn.Module)
end

-- Adds the lists of functions that are called before and after an optimizer's steps. `owner` is an
-- optimizer or the class of all optimizers.
local function add_hooks(list, owner)
   add(list, owner, "_hooks")
   local hooks = rawget(owner, "_hooks")
   for _, kind in ipairs(hooks and {"step_pre", "step_post"} or {}) do
      add(list, hooks, kind)
      if hooks[kind] then add_ends(list, hooks[kind]) end
   end
end

-- Adds the hooks of the optimizers' steps, and the lists of the optimizers' parameter groups.
local function add_groups(list, optimizers)
   add_hooks(list, Optimizer)
   for _, optimizer in ipairs(optimizers) do
      add_hooks(list, optimizer)
      add(list, optimizer, "param_groups")
      add_ends(list, optimizer.param_groups)
      for i, group in ipairs(optimizer.param_groups) do
         add(list, optimizer.param_groups, i)
         add(list, group, "params")
         add_ends(list, group.params)
      end
   end
end

-- Appends a table and a copy of it to a list {table, copy, ...}. The copy keeps the table's values
-- alive. Returns the copy.
local function add_table(list, value)
   local copy = {}
   for key, item in next, value do copy[key], list.fields = item, list.fields + 1 end
   list[list.n + 1], list[list.n + 2] = value, copy
   list.n = list.n + 2
   return copy
end

--- Returns a note, which can tell later whether one of these values has changed: fields of tables
--- and upvalues of functions; tables with all their fields; the hooks of the optimizers' steps; the
--- number of parameters of each optimizer; tensors that share the memory of other tensors; and leaf
--- tensors. Returns nil if a field has changed already.
---@param link {fields: table[], upvalues: table[], tables: table[], parts: table, own: Tensor[],
--- kept: Tensor[], leaves: table[]}  the optimizers are parts.optimizers; kept: for each tensor of
--- `own`, the tensor whose memory it must share
---@return userdata?
function M.of_fixed(link)
   local fields, upvalues, tensors, known = new_list(), {n = 0}, {n = 0}, {}
   local _ <close> = torch.no_grad()
   for _, entry in ipairs(link.fields) do
      local owner, key = entry[1], entry[2]
      if key == "training" then
         if not add_mode(fields, owner) then return nil end
      else
         if not rawequal(add_inherited(fields, owner, key), entry[3]) then return nil end
      end
   end
   for _, entry in ipairs(link.upvalues) do
      for i = 1, 3 do upvalues[upvalues.n + i] = entry[i] end
      upvalues.n = upvalues.n + 3
   end
   add_groups(fields, link.parts.optimizers)
   for i, tensor in ipairs(link.own) do
      add_tensor(tensors, tensor, link.kept[i])
      known[tensor] = true
   end
   for _, entry in ipairs(link.leaves) do
      if not known[entry[1]] then add_tensor(tensors, entry[1], entry[1]:detach()) end
   end
   local tables = {n = 0, fields = 0}
   for _, entry in ipairs(link.tables) do add_table(tables, entry[1]) end
   return torch._note(tables.n > 0 and torch._snapshot(tables) or nil, upvalues, fields, tensors)
end

-- Adds a table of options and the tables in its fields, except a group's list of parameters.
-- Returns false if one of them has a metatable or is nested too deeply.
local function add_options(list, options, depth)
   if debug.getmetatable(options) or depth > DEEPEST then return false end
   for key, item in next, add_table(list, options) do
      if type(item) == "table" and key ~= "params" and not add_options(list, item, depth + 1) then
         return false
      end
   end
   return true
end

-- Adds an optimizer: its fields, its class, whose functions must be the library's, and its groups.
local function add_optimizer(fields, list, optimizer)
   local library = require "tlua.compile.library"
   add_table(list, optimizer)
   for _, name in ipairs {"update_group", "rule"} do
      local fn = add_inherited(fields, optimizer, name)
      if fn and not library.owns(fn) then return false end
   end
   for _, group in ipairs(optimizer.param_groups) do
      if not add_options(list, group, 1) then return false end
   end
   return true
end

--- Records the numeric options of optimizers' groups in a note, and returns the note.
---@param optimizers optim.Optimizer[]
---@return userdata?
function M.of_options(optimizers)
   if not debug then return nil end -- a sandbox
   local fields, list = new_list(), {n = 0, fields = 0}
   for _, optimizer in ipairs(optimizers) do
      if not add_optimizer(fields, list, optimizer) then return nil end
   end
   return torch._note(torch._snapshot(list), none, fields, none)
end

return M
