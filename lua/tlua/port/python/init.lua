-- init.lua - the runtime of ported scripts: functions that behave like Python's builtins where Lua
-- has none. A script written by `tlua port` loads it by `local py = require "tlua.port.python"`.
--
-- Positions count from 0 in functions whose results a script may print (enumerate, find, index,
-- range). py.slice has Lua's ranges: from 1, end included.

local M = require "tlua.port.python.base"

for _, name in ipairs {"texts", "numbers", "iterators", "lists", "tables", "files"} do
   require("tlua.port.python." .. name)
end

--- Returns a stand-in for a name without a counterpart. Using the stand-in raises an error with the
--- name.
---@param path string
function M.missing(path)
   local function refuse(what)
      local hint = require "tlua.port.library".hint(what)
      error(("%s has no counterpart here: %s"):format(what, hint), 3)
   end
   return setmetatable({}, {
      __index = function(_, name) return M.missing(path .. "." .. tostring(name)) end,
      __call = function() refuse(path) end,
      __newindex = function(_, name) refuse(path .. "." .. tostring(name)) end,
      __tostring = function() return path .. ", which has no counterpart here" end,
   })
end

return M
