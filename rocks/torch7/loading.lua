-- loading.lua - finds files in the folder of a package. Torch7's packages load their parts this
-- way.

local torch = require "tlua"

local M = {}

--- Searches package.path for a package. Returns the folder of the package's file, or nil. Without a
--- name, returns the folder of the calling file.
---@param name? string
---@return string? folder
function M.packageLuaPath(name)
   if not name then
      local path = debug.getinfo(2, "S").source:match "^@(.*)$"
      return path and (path:match "^(.*)/[^/]*$" or ".")
   end
   local path = package.searchpath(name, package.path)
   return path and path:match "^(.*)/[^/]*$"
end

--- Runs a file of a package.
---@param name string  the package
---@param file string
---@return any ...
function M.include(name, file)
   local folder = M.packageLuaPath(name)
   if not folder then torch.raise("torch.include: there is no package " .. tostring(name)) end
   return _G.dofile(folder .. "/" .. file)
end

return M
