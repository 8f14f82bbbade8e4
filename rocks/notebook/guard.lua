-- guard.lua - keeps the notebook's own code working after cells that change Lua itself. The
-- library's tables of functions are its own, but all strings share one metatable, whose methods a
-- cell can remove (string.format = nil), and so do the values of each other basic type.

local debug, next, setmetatable = debug, next, setmetatable

local M = {}

local samples <const> = {"", 0, true, print, coroutine.create(print)}
local methods <const>, own <const>, fallback <const> = {}, {}, {}
for name, method in next, string do methods[name] = method end
setmetatable(methods, fallback)
for i, value in ipairs(samples) do own[i] = debug.getmetatable(value) or false end
local own_nil <const> = debug.getmetatable(nil)
local events <const> = {} -- metamethods of strings
for event, value in next, own[1] do events[event] = value end
events.__index = methods

local users, users_nil -- the metatables as the last cell has left them
local in_cell = true

--- Gives back to the basic types the metatables that cells have given them.
function M.enter()
   if in_cell or not users then return end
   in_cell = true
   for i, value in ipairs(samples) do debug.setmetatable(value, users[i] or nil) end
   debug.setmetatable(nil, users_nil)
end

--- Gives the basic types the metatables that the library relies on. Methods that cells have added
--- to strings remain. Returns whether a cell's metatables were in place.
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
