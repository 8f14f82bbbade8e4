-- item_names.lua - names of the modules of a Sequential. A Sequential stores each module under its
-- position, whether the module has a name or not; its field `_item_names` maps positions to names.
-- Paths and printing show the name in place of the position.
--
-- Lua's table.insert and table.remove move modules without calling a function of this file. So each
-- module is recorded beside its name. If the number of modules has changed, reading the names
-- raises an error if a module is no longer at the position of its name. If the number is the same,
-- each name stays at its position, since a program may have replaced the module there.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

-- Raises an error if modules were moved to other positions since their names were recorded.
local function check(module, names)
   local n, was = #module, {}
   for i = 1, names.count do was[names.modules[i]] = i end
   for i = 1, math.min(n, names.count) do
      local now = rawget(module, i)
      if now ~= names.modules[i] and was[now] then
         torch.raise(("%s: its modules were moved without their names: use seq:insert(position, "
            .. "module) and seq:remove(position)"):format(torch.type(module)))
      end
   end
   for i = names.count + 1, n do
      if was[rawget(module, i)] and rawget(module, was[rawget(module, i)]) ~= rawget(module, i) then
         torch.raise(("%s: its modules were moved without their names: use seq:insert(position, "
            .. "module)"):format(torch.type(module)))
      end
   end
end

local function record(module, names)
   for i = 1, math.max(#module, names.count) do
      names.modules[i] = rawget(module, i)
      if names.modules[i] == nil then names.list[i] = nil end
   end
   names.count = #module
end

--- Returns a table from positions to the names of a module's items; nil if no item has a name.
---@param module nn.Module
---@return table<integer, string>?
function M.of(module)
   local names = rawget(module, "_item_names")
   if not names then return nil end
   if names.count ~= #module then check(module, names) end
   record(module, names)
   return names.list
end

--- Returns the position of the item with a name.
---@param module nn.Module
---@param name any
---@return integer?
function M.position(module, name)
   if type(name) ~= "string" then return nil end
   for position, other in pairs(M.of(module) or {}) do
      if other == name then return position end
   end
end

--- Returns the name, or nil if the name is just the item's position. Raises an error for a name
--- that an item cannot have.
---@param module nn.Module
---@param position integer  the item's position
---@param name any
---@return string? name
function M.check(module, position, name)
   local title = torch.type(module)
   if type(name) ~= "string" or name == "" or name:find(".", 1, true) then
      args.refuse(title, "name", "a string without dots", name)
   elseif name == tostring(position) then
      return nil
   elseif math.tointeger(name) then
      torch.raise(("%s: name: expected no number but the position %d, got %q; positions count "
         .. 'from 1, and from 0 in a state with {names = "pytorch"}'):format(title, position, name))
   elseif getmetatable(module)[name] ~= nil then
      torch.raise(("%s: %s is the name of a method"):format(title, name))
   elseif rawget(module, name) ~= nil then
      torch.raise(("%s: %s is the name of a field"):format(title, name))
   elseif M.position(module, name) then
      torch.raise(("%s: two modules have the name %s"):format(title, name))
   end
   return name
end

--- Sets or removes the name of an item.
---@param module nn.Module
---@param position integer
---@param name? string  a name that M.check has returned
function M.set(module, position, name)
   local names = rawget(module, "_item_names")
   if not names then
      if not name then return end
      names = {list = {}, modules = {}, count = 0}
      rawset(module, "_item_names", names)
   end
   M.of(module)
   names.list[position] = name
end

--- Calls `move`, which inserts an item at `position` (step 1) or removes the item there (step -1),
--- and shifts the names of the later items in the same way.
---@param module nn.Module
---@param position integer
---@param step 1|-1
---@param move fun()  moves the items
function M.shift(module, position, step, move)
   local list, n = M.of(module), #module
   move()
   if not list then return end
   if step == 1 then
      table.move(list, position, n, position + 1)
      list[position] = nil
   else
      table.move(list, position + 1, n + 1, position)
   end
   record(module, rawget(module, "_item_names"))
end

return M
