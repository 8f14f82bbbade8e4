-- init.lua - the runtime of ported scripts: what Python's builtins do and Lua's do not. A script
-- that `tlua port` has made takes what it uses of it by `local py = require "tlua.port.python"`.
--
-- Positions that these functions give and take count from 0 where Python's do and the ported text
-- shows them (enumerate, find, index, range); py.slice has Lua's ranges: from 1, end included.

local M = require "tlua.port.python.base"

for _, name in ipairs {"texts", "numbers", "iterators", "lists", "tables", "files"} do
   require("tlua.port.python." .. name)
end

--- Stands for a name that has no counterpart; any use of it is an error that names it.
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
