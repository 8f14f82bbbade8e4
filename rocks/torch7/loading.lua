-- loading.lua - torch.packageLuaPath and torch.include, by which Torch7's packages find and run the
-- files in their folders.

local torch = require "tlua"

local M = {}

--- Searches package.path for the file of the package `name`, and returns its folder, or nil if
--- there is no such file. Without a name, returns the folder of the calling file.
---@param name? string
---@return string? folder
function M.packageLuaPath(name)
   if not name then
      local path = debug.getinfo(2, "S").source:match "^@(.*)$"
      return path and (path:match "^(.*)/[^/]*$" or ".")
   end
   if type(name) ~= "string" then
      torch.raise("torch.packageLuaPath: expected the name of a package, got " .. type(name))
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
