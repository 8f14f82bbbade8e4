-- state.lua - a snapshot of the Lua values on which a watched call depends, for torch.compile:
-- upvalues, global variables, fields of tables, and tensors. src/lua/guards.c compares the snapshot
-- with the current values.

local torch = require "tlua"
local class = require "tlua.class"
local library = require "tlua.compile.library"
local Module = require "tlua.nn.modules.Module"

local M = {}

-- The largest number of fields in a state. Comparing more fields takes longer than most calls.
local MOST <const> = 50000

local State = {}
State.__index = State

local kinds <const> = {"table", "variable", "variable", "tensor"}

local function add(list, ...)
   for i = 1, select("#", ...) do list[list.n + i] = select(i, ...) end
   list.n = list.n + select("#", ...)
end

function State:name(list, path) self.names[list][list.n + 1] = path end

function State:add_table(value, path)
   if self.library.tables[value] then
      self.reached[#self.reached + 1] = value
      return
   end
   local of = package.loaded["tlua.compile.calls"]
   if of and debug.getmetatable(value) == of then return self:visit(value.fn, path) end
   local copy, count, meta = {}, 0, debug.getmetatable(value)
   self:name(self.tables, path)
   for key, item in next, value do copy[key], count = item, count + 1 end
   add(self.tables, value, {copy, meta}) -- the list keeps the keys and values of the table alive
   self.fields = self.fields + count
   if self.fields > MOST then return end
   for key, item in next, copy do
      -- Skips the list of the order of a module's fields, which changes only together with the
      -- fields.
      if key == "_fields" and class.isinstance(value, Module) then goto continue end
      self:visit(key, path)
      self:visit(item, type(key) == "string" and path .. "." .. key
         or ("%s[%s]"):format(path, tostring(key)))
      ::continue::
   end
   if meta then self:visit(meta, path .. ".metatable") end
   while type(meta) == "table" and not self.classes[meta] do
      self.classes[meta] = true
      local info = debug.getmetatable(meta)
      meta = type(info) == "table" and info.parent
   end
end

-- Returns whether the library function at {table, key} must stay the same for a program to be
-- valid. Classes have copies of their parents' metamethods. A copy matters only if the call uses
-- the class that has it.
function State:needs(place)
   local info = debug.getmetatable(place[1])
   local is_class = type(info) == "table" and rawget(info, "ancestors")
   return not is_class or self.classes[place[1]]
end

-- Adds the upvalues of a function. An upvalue that several functions share is added once.
function State:add_function(value, path)
   local info = debug.getinfo(value, "S")
   local owned = self.library.places[value] and library.owns(value)
   if info.what == "C" or owned then return end
   for i = 1, 255 do
      local name, item = debug.getupvalue(value, i)
      if not name then return end
      local id = debug.upvalueid(value, i)
      if name ~= "_ENV" and not self.seen[id] then
         self.seen[id] = true
         self:name(self.upvalues, name)
         add(self.upvalues, value, i, item)
         self:visit(item, path == "" and name or ("%s.%s"):format(path, name))
      end
   end
end

function State:add_tensor(value, path)
   self:name(self.tensors, path)
   add(self.tensors, value, value:detach(), value.requires_grad,
      not value:is_inference() and value._version)
   self.list[#self.list + 1] = {path, value}
   self.requires_grad = self.requires_grad or value.requires_grad
   if value:is_inference() then self.refusal = path .. " was made in inference mode" end
end

function State:visit(value, path)
   local kind = type(value)
   local holds = kind == "table" or kind == "function" or kind == "userdata"
   if not holds or self.seen[value] then return end
   self.seen[value] = true
   if kind == "function" then return self:add_function(value, path) end
   if kind == "table" then return self:add_table(value, path) end
   if torch.is_tensor(value) and not torch._sparse_parts(value) then
      self:add_tensor(value, path)
   end
end

-- Adds the data that the script has stored in the library's tables, under keys that occur as
-- constants in the script's functions or are values of their variables. Functions of the library do
-- not read such data.
function State:add_data(functions)
   local texts = {}
   for _, fn in ipairs(functions) do
      if not library.owns(fn) then texts[#texts + 1] = string.dump(fn, true) end
   end
   for n = 3, self.upvalues.n, 3 do
      local item = self.upvalues[n]
      if type(item) == "string" then texts[#texts + 1] = item end
   end
   local text, i = table.concat(texts, "\0"), 0
   while i < #self.reached do
      i = i + 1
      local owner = self.reached[i]
      for key, item in next, owner do
         if type(key) == "string" and type(item) ~= "function" and text:find(key, 1, true) then
            self:name(self.globals, key)
            add(self.globals, owner, key, item)
            self:visit(item, key)
         end
      end
   end
end

--- Returns the state of a call: all that can be reached from the function, from the script's
--- functions that were called, and from the global variables that were read. The state also lists
--- the pairs {table, key} where the library's functions that were called are stored.
---@param fn any
---@param watch table  the result of watch.call
---@param strict? boolean  whether to refuse a function of the script that only the library refers
--- to, such as one in a registry
function M.of(fn, watch, strict)
   local state = setmetatable({
      tables = {n = 0}, upvalues = {n = 0}, globals = {n = 0}, tensors = {n = 0}, list = {},
      seen = {}, names = {}, classes = {}, reached = {}, fields = 0, library = library.refresh(),
   }, State)
   for _, list in ipairs {state.tables, state.upvalues, state.globals, state.tensors} do
      state.names[list] = {}
   end
   local _ <close> = torch.no_grad()
   state:visit(fn, "")
   for _, global in ipairs(watch.globals) do
      state:name(state.globals, tostring(global[2]))
      add(state.globals, global[1], global[2], rawget(global[1], global[2]))
      state:visit(rawget(global[1], global[2]), tostring(global[2]))
   end
   for _, called in ipairs(watch.list) do
      if not library.owns(called) and not state.seen[called] then
         if strict and not state.library.places[called] then
            local info = debug.getinfo(called, "S")
            state.refusal = ("the library calls a function of the script (%s:%d)"):format(
               info.short_src, info.linedefined)
         end
         state:visit(called, "")
      end
   end
   state:add_data(watch.list)
   for called in next, watch.functions do
      for _, place in ipairs(state.library.places[called] or {}) do
         if state:needs(place) then
            state:name(state.globals, tostring(place[2]))
            add(state.globals, place[1], place[2], rawget(place[1], place[2]))
         end
      end
   end
   state.tables.fields = state.fields
   state.snapshot = torch._snapshot(state.tables)
   if state.fields > MOST then
      state.refusal = ("the call depends on more than %d fields of tables"):format(MOST)
   end
   return state
end

--- Returns a copy of a state's list of tensors without the versions, so that changes of their
--- elements do not count.
function M.without_versions(tensors)
   local copy = {n = tensors.n}
   for i = 1, tensors.n do copy[i] = tensors[i] end
   for i = 4, tensors.n, 4 do copy[i] = false end
   return copy
end

--- Returns a userdata that stores a state. torch._note_holds compares the stored state with the
--- current values (src/lua/guards.c).
---@param state table
---@param tensors table  the list of tensors
---@return userdata
function M.note(state, tensors)
   return torch._note(state.snapshot, state.upvalues, state.globals, tensors)
end

--- Returns a text that names the first difference between a state and the current values; nil if
--- there is none.
---@param state table
---@param tensors? table  the list of tensors, by default the state's
---@return string?
function M.difference(state, tensors)
   local list, at = torch._state_differs(state.snapshot, state.upvalues, state.globals,
      tensors or state.tensors)
   if not list then return nil end
   local of = ({state.tables, state.upvalues, state.globals, state.tensors})[list]
   local name = state.names[of][at]
   return ("the %s %s has changed"):format(kinds[list], name == "" and "of the model" or name)
end

return M
