-- guard.lua - keeps the notebook's own code working after cells have changed Lua itself. The
-- library has its own copies of the standard tables of functions. But all strings share one
-- metatable, and a cell can remove methods from it (string.format = nil). The values of each other
-- basic type share a metatable too.

local debug, next, setmetatable = debug, next, setmetatable

local M = {}

local samples <const> = {"", 0, true, print, coroutine.create(print)}
local methods <const>, own <const>, fallback <const> = {}, {}, {}
for name, method in next, string do methods[name] = method end
setmetatable(methods, fallback)
for i, value in ipairs(samples) do own[i] = debug.getmetatable(value) or false end
local own_nil <const> = debug.getmetatable(nil)
local events <const> = {} -- the names of the metamethods of strings
for event, value in next, own[1] do events[event] = value end
events.__index = methods

-- the metatables that the last cell has left; they are restored for the next cell
local users, users_nil
local in_cell = true

--- Prepares for a cell: restores the metatables of the basic types to the state in which the last
--- cell has left them.
function M.enter()
   if in_cell or not users then return end
   in_cell = true
   for i, value in ipairs(samples) do debug.setmetatable(value, users[i] or nil) end
   debug.setmetatable(nil, users_nil)
end

--- Ends a cell: sets the metatables of the basic types to those on which the library relies.
--- Methods that cells have added to strings remain. Returns whether the cells' metatables were in
--- place before.
---@return boolean changed
function M.leave()
   if not in_cell then return false end
   local found, found_nil = {}, debug.getmetatable(nil)
   debug.setmetatable(nil, own_nil)
   for i, value in ipairs(samples) do
      found[i] = debug.getmetatable(value) or false
      if i > 1 then debug.setmetatable(value, own[i] or nil) end
   end
   local strings = {}
   for event, value in next, found[1] or {} do strings[event] = value end
   fallback.__index = strings.__index
   for event, value in next, events do strings[event] = value end
   debug.setmetatable("", strings)
   users, users_nil, in_cell = found, found_nil, false
   return true
end

return M
