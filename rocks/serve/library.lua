-- library.lua - finds the module in C, which drives libmicrohttpd: beside the library, or where
-- LuaRocks has installed it.

local torch = require "tlua"
local packages = require "tlua.packages"

local M = {}

local function readable(path)
   local file <close> = io.open(path, "rb")
   return file ~= nil
end

-- Returns the path of the module in C, or nil: in a checkout it is beside the library; an
-- installation has it in the package's folder; LuaRocks puts it below lib in place of share, which
-- may be missing in package.cpath.
local function find()
   local beside = (torch._library_path():match "^(.*)/" or ".") .. "/tlua_serve.so"
   local own = packages.find "tlua.serve.library" or ""
   local inside = own:gsub("library%.lua$", "http.so")
   local rock = inside:gsub("/share/lua/", "/lib/lua/")
   for _, path in ipairs {beside, inside, rock} do
      if path:find "%.so$" and readable(path) then return path end
   end
   return package.searchpath("tlua.serve.http", package.cpath)
end

local http, reason

--- Returns the module in C; nil and a message without it, or without libmicrohttpd.
---@return table? http
---@return string? message
function M.open()
   if http or reason then return http, reason end
   local path = find()
   if not path then
      reason = "the module in C is not built here: it needs POSIX (make, or luarocks install "
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
