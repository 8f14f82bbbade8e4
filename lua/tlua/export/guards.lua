-- guards.lua - records the fields of Lua's tables and the tensors on which a check depends. The
-- check can be left out as long as none of them has changed (src/lua/guards.c compares them). A
-- note of recorded values can contain only raw fields and tensors. If a check depends on anything
-- else, there is no note, and the check is made each time.

local torch = require "tlua"
local class = require "tlua.class"
local Optimizer = require "tlua.optim.Optimizer"

local M = {}

local none <const> = {n = 0}

-- The largest depth of tables in the options of a group.
local DEEPEST <const> = 4

-- Appends a field and its value to a flat list {table, key, value, ...}.
local function add(list, owner, key)
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
      owner = rawequal(owner, object) and info or type(info) == "table" and info.parent
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

-- Adds a tensor and a tensor with the same memory to a list for torch._note.
local function add_tensor(list, tensor, alias)
   local n = list.n
   list[n + 1], list[n + 2] = tensor, alias
   list[n + 3], list[n + 4] = tensor.requires_grad, false
   list.n = n + 4
end

--- Returns whether no value in a note has changed. Returns false if there is no note.
---@param note userdata?
---@return boolean
function M.hold(note)
   return note ~= nil and torch._note_holds(note)
end

-- Adds the mode of a module, which is a field of the class in training mode. Returns false if the
-- module stores its mode in another way.
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

--- Returns a note of four things: fields that must keep their values, as a list of {table or
--- tensor, key, value}; the hooks of the optimizers' steps; the number of parameters of each
--- optimizer; and tensors that must share the memory of other tensors.
---@param parts table  the optimizers are parts.optimizers
---@param fields table[]
---@param tensors Tensor[]
---@param aliases Tensor[]  for each tensor, the tensor whose memory it must share
---@return userdata?
function M.of_fixed(parts, fields, tensors, aliases)
   local note = {fields = {n = 0}, tensors = {n = 0}}
   local _ <close> = torch.no_grad()
   for _, entry in ipairs(fields) do
      local owner, key = entry[1], entry[2]
      if torch.is_tensor(owner) then
         add_tensor(note.tensors, owner, owner:detach())
      elseif key == "training" then
         if not add_mode(note.fields, owner) then return nil end
      else
         if not rawequal(add_inherited(note.fields, owner, key), entry[3]) then return nil end
      end
   end
   add_hooks(note.fields, Optimizer)
   for _, optimizer in ipairs(parts.optimizers) do
      add_hooks(note.fields, optimizer)
      add(note.fields, optimizer, "param_groups")
      add_ends(note.fields, optimizer.param_groups)
      for i, group in ipairs(optimizer.param_groups) do
         add(note.fields, optimizer.param_groups, i)
         add(note.fields, group, "params")
         add_ends(note.fields, group.params)
      end
   end
   for i, tensor in ipairs(tensors) do add_tensor(note.tensors, tensor, aliases[i]) end
   return torch._note(nil, none, note.fields, note.tensors)
end

-- Adds a table to a list of {table, copy, ...}. Returns the copy, which keeps the values alive.
local function add_table(list, value)
   local copy = {}
   for key, item in next, value do copy[key], list.fields = item, list.fields + 1 end
   list[list.n + 1], list[list.n + 2] = value, copy
   list.n = list.n + 2
   return copy
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
local function add_optimizer(note, list, optimizer)
   local library = require "tlua.compile.library"
   add_table(list, optimizer)
   for _, name in ipairs {"update_group", "rule"} do
      local fn = add_inherited(note.fields, optimizer, name)
      if fn and not library.owns(fn) then return false end
   end
   for _, group in ipairs(optimizer.param_groups) do
      if not add_options(list, group, 1) then return false end
   end
   return true
end

--- Returns a note of the numeric options of optimizers' groups.
---@param optimizers optim.Optimizer[]
---@return userdata?
function M.of_options(optimizers)
   if not debug then return nil end -- a sandbox
   local note, list = {fields = {n = 0}, tensors = none}, {n = 0, fields = 0}
   for _, optimizer in ipairs(optimizers) do
      if not add_optimizer(note, list, optimizer) then return nil end
   end
   return torch._note(torch._snapshot(list), none, note.fields, none)
end

return M
