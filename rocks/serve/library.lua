-- library.lua - finds and loads the package's C module, which uses libmicrohttpd.

local torch = require "tlua"
local packages = require "tlua.packages"

local M = {}

local function readable(path)
   local file <close> = io.open(path, "rb")
   return file ~= nil
end

-- Returns the C module's path, or nil if it is not found. In a checkout, the module is beside
-- tlua's library. In an installation, the path of its folder is the path of this package with `lib`
-- in place of `share`. package.cpath may lack this folder.
local function find()
   local beside = (torch._library_path():match "^(.*)/" or ".") .. "/tlua_serve.so"
   local own = packages.find "tlua.serve.library" or ""
   local installed = own:gsub("library%.lua$", "http.so"):gsub("/share/lua/", "/lib/lua/")
   for _, path in ipairs {beside, installed} do
      if path:find "%.so$" and readable(path) then return path end
   end
   return package.searchpath("tlua.serve.http", package.cpath)
end

local http, reason

--- Returns the C module. If the module or libmicrohttpd is missing, returns nil and a message.
---@return table? http
---@return string? message
function M.open()
   if http or reason then return http, reason end
   local path = find()
   if not path then
      reason = "the package's C module is not built: it needs POSIX (make, or luarocks install "
         .. "tlua-serve)"
      return nil, reason
   end
   local open, message = package.loadlib(path, "luaopen_tlua_serve_http")
   if not open then
      reason = message
      return nil, reason
   end
   local loaded = open()
   local version, why = loaded.library()
   if not version then
      reason = why
      return nil, reason
   end
   http = loaded
   return http
end

return M
