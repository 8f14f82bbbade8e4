-- environments.lua - functions of Lua 5.1 that read and set the environments of functions: setfenv,
-- getfenv, module and package.seeall, and also torch.setenv and torch.getenv. Programs of Torch7
-- use them. In Lua 5.4 a function's environment is its upvalue _ENV.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"

local M = {}

-- Returns the index of the upvalue _ENV of a function. Returns nil if the function uses no globals
-- and therefore has no such upvalue.
local function place_of(fn)
   for i = 1, math.huge do
      local name = debug.getupvalue(fn, i)
      if not name then return nil end
      if name == "_ENV" then return i end
   end
end

-- Returns `where` if it is a function. Otherwise `where` is a level of the stack, and the function
-- at this level is returned. Level 1 is the function that called setfenv or getfenv.
local function function_at(name, where)
   if type(where) == "function" then return where end
   local level = math.tointeger(where)
   if not level or level < 1 then
      tlua.raise(("%s: expected a function or a level of the stack, got %s"):format(name,
         tostring(where)))
   end
   local info = debug.getinfo(level + 2, "f")
   if not info then tlua.raise(("%s: the stack has no level %d"):format(name, level)) end
   return info.func
end

local function set(fn, env)
   local at = place_of(fn)
   if at then debug.upvaluejoin(fn, at, function() return env end, 1) end
   return fn
end

--- Sets the environment of a function, which may also be given by its level on the stack. Returns
--- the function.
---@param where function|integer
---@param env table
---@return function?
function M.setfenv(where, env)
   if type(env) ~= "table" then
      tlua.raise("setfenv: expected a table for the environment, got " .. type(env))
   end
   if where == 0 then tlua.raise "setfenv: the environment of a thread cannot be set" end
   return set(function_at("setfenv", where), env)
end

--- Returns the environment of a function, which may also be given by its level on the stack.
---@param where? function|integer
---@return table
function M.getfenv(where)
   if where == 0 then return _G end
   local fn = function_at("getfenv", where or 1)
   local at = place_of(fn)
   return at and select(2, debug.getupvalue(fn, at)) or _G
end

--- Gives a module access to all globals.
function M.seeall(library) setmetatable(library, {__index = _G}) end

-- Returns the table that a name such as "a.b" has among the globals. Creates missing tables.
local function global_table(name)
   local at = _G
   for part in name:gmatch "[^.]+" do
      local inner = rawget(at, part)
      if inner == nil then
         inner = {}
         rawset(at, part, inner)
      elseif type(inner) ~= "table" then
         tlua.raise(("module: %s: a global has this name"):format(name))
      end
      at = inner
   end
   return at
end

--- Creates a module, which is a global table. It becomes the environment of the calling file.
---@param name string
---@param ... fun(library: table)
function M.module(name, ...)
   local library = package.loaded[name]
   if type(library) ~= "table" then
      library = global_table(name)
      package.loaded[name] = library
   end
   library._M, library._NAME, library._PACKAGE = library, name, name:match "^(.*%.)[^.]*$" or ""
   set(debug.getinfo(2, "f").func, library)
   for _, option in ipairs {...} do option(library) end
end

for _, name in ipairs {"setfenv", "getfenv", "module"} do
   if rawget(_G, name) == nil then rawset(_G, name, M[name]) end
end
rawset(package, "seeall", M.seeall)
torch.setenv, torch.getenv = M.setfenv, M.getfenv

return M
