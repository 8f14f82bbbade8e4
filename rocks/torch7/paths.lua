-- paths.lua - Torch7's package paths, for names of files and folders.

local tlua = require "tlua"
local args = require "tlua.args"

local M = {}

-- Raises an error if an argument of the function `name` is not a string.
local function check(name, what, value)
   if type(value) ~= "string" then args.refuse("paths." .. name, what, "a string", value) end
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function output_of(command)
   local handle <close> = io.popen(command .. " 2>/dev/null")
   return handle:read "a"
end

--- Returns whether a path is a folder.
---@param path string
---@return boolean
function M.dirp(path)
   check("dirp", "path", path)
   local file = io.open(path, "r")
   if not file then return false end
   local _, _, code = file:read(0)
   local is_folder = code == 21 -- EISDIR
   file:close()
   return is_folder
end

--- Returns whether a path is a file.
function M.filep(path)
   check("filep", "path", path)
   local file = io.open(path, "r")
   if file then file:close() end
   return file ~= nil and not M.dirp(path)
end

function M.is_win() return package.config:sub(1, 1) == "\\" end
function M.is_mac() return output_of "uname -s":match "Darwin" ~= nil end
function M.uname() return output_of("uname -s"):match "[^\n]*" end
function M.cwd() return output_of("pwd"):match "[^\n]*" end
M.home = os.getenv "HOME"
function M.getenv(name) return os.getenv(name) end

--- Joins parts of a path. An absolute part discards the parts before it.
---@param ... string
---@return string
function M.concat(...)
   local path, parts = "", table.pack(...)
   for i = 1, parts.n do
      local part = parts[i]
      if type(part) == "number" then part = tostring(part) end
      check("concat", ("argument %d"):format(i), part)
      if part:sub(1, 1) == "/" or path == "" then
         path = part
      else
         path = path:gsub("/$", "") .. "/" .. part
      end
   end
   if path:sub(1, 1) ~= "/" then path = M.cwd() .. (path == "" and "" or "/" .. path) end
   parts = {}
   for part in path:gmatch "[^/]+" do
      if part == ".." then
         parts[#parts] = nil
      elseif part ~= "." then
         parts[#parts + 1] = part
      end
   end
   return "/" .. table.concat(parts, "/")
end

--- Returns the last component of a path, without the given `suffix`.
function M.basename(path, suffix)
   check("basename", "path", path)
   if suffix ~= nil then check("basename", "suffix", suffix) end
   local name = path:gsub("/+$", ""):match "[^/]*$"
   if suffix then
      suffix = suffix:gsub("^%.?", ".")
      if name:sub(-#suffix) == suffix then name = name:sub(1, -#suffix - 1) end
   end
   return name
end

--- Returns a path without its last component.
function M.dirname(path)
   check("dirname", "path", path)
   local folder = path:gsub("/+$", ""):match "^(.*)/[^/]*$"
   if folder == nil then return "." end
   return folder == "" and "/" or folder
end

--- Returns the extension after the last dot; nil if there is none.
function M.extname(path)
   check("extname", "path", path)
   return M.basename(path):match "^.+%.([^.]*)$"
end

--- Returns the names in a folder.
---@param path string
---@return string[]?
function M.dir(path)
   check("dir", "path", path)
   if not M.dirp(path) then return nil end
   local names = {}
   for name in output_of("ls -a " .. quote(path)):gmatch "[^\n]+" do names[#names + 1] = name end
   return names
end

local function chosen(name, path, keep)
   check(name, "path", path)
   local list, at = M.dir(path) or {}, 0
   return function()
      repeat at = at + 1 until list[at] == nil or keep(list[at])
      return list[at]
   end
end

--- Iterates over the names in a folder that match a pattern or a function.
function M.files(path, filter)
   if filter ~= nil and type(filter) ~= "string" and type(filter) ~= "function" then
      args.refuse("paths.files", "filter", "a pattern or a function", filter)
   end
   return chosen("files", path, function(name)
      if filter == nil then return true end
      return type(filter) == "function" and filter(name) or type(filter) == "string"
         and name:find(filter) ~= nil
   end)
end
function M.iterfiles(path)
   return chosen("iterfiles", path, function(name) return M.filep(path .. "/" .. name) end)
end
function M.iterdirs(path)
   return chosen("iterdirs", path, function(name)
      return name ~= "." and name ~= ".." and M.dirp(path .. "/" .. name)
   end)
end

--- Makes a folder, and all missing parent folders.
function M.mkdir(path)
   check("mkdir", "path", path)
   local made, problem = tlua.io.make_folder(path)
   if not made then return nil, problem end
   return true
end

function M.rmdir(path)
   check("rmdir", "path", path)
   return os.remove(path)
end

--- Removes a folder with all its contents; the second argument must be "yes".
function M.rmall(path, answer)
   if answer ~= "yes" then tlua.raise "paths.rmall: expected 'yes' as the second argument" end
   check("rmall", "path", path)
   return os.execute("rm -rf -- " .. quote(path)) == true
end

function M.tmpname() return os.tmpname() end

--- Without a name, returns the path of the running file. With a name, returns the path of the file
--- of this name in the same folder.
function M.thisfile(name)
   local path = debug.getinfo(2, "S").source:match "^@(.*)$"
   if not path then return nil end
   return name and M.concat(M.dirname(path), name) or M.concat(path)
end

--- Runs a file in the folder of the calling file.
function M.dofile(name)
   local path = debug.getinfo(2, "S").source:match "^@(.*)$"
   return _G.dofile(path and M.concat(M.dirname(path), name) or name)
end

--- Searches the folders of PATH for a program, and returns the program's path. Returns nil if no
--- program is found.
---@param ... string  names; the first one that is found is used
---@return string? path
function M.findprogram(...)
   local names = table.pack(...)
   for i = 1, names.n do
      local name = names[i]
      check("findprogram", ("argument %d"):format(i), name)
      if name:find "/" then return M.filep(name) and name or nil end
      for folder in (os.getenv "PATH" or ""):gmatch "[^:]+" do
         local path = folder .. "/" .. name
         if M.filep(path) then return path end
      end
   end
end

function M.getregistryvalue()
   tlua.raise "paths.getregistryvalue: only Windows has a registry"
end

function M.execdir() return M.dirname(_G.arg and _G.arg[-1] or ".") end
M.install_prefix = M.execdir()
for name, folder in pairs {bin = "bin", man = "share/man", lib = "lib", share = "share",
   include = "include", dok = "share/dok", html = "share/html", cmake = "share/cmake/torch",
   luabin = "lib", luapath = "share/lua/5.4", luacpath = "lib/lua/5.4"} do
   M["install_" .. name] = M.install_prefix .. "/" .. folder
end

return M
