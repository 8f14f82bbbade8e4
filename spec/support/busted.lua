-- Implements busted's command line, and runs in the interpreter under test. The installed command `busted` would run
-- the machine's own `lua`.

-- busted and Penlight load three modules in C: lua-term, lua-system and lua-filesystem. The installed modules are for
-- this machine's processor. An emulated program cannot load them, so it gets Lua replacements that can do what busted
-- needs to run named files.
if os.getenv "SPEC_EMULATED" then
   -- Returns whether a path is a file or a folder. A folder can be opened but not read.
   local function mode_of(path)
      local file <close> = io.open(path, "rb")
      if not file then return nil, path .. ": no such file" end
      return file:read(0) == nil and select(3, file:read(1)) and "directory" or "file"
   end
   local function attributes(path, name)
      local mode, message = mode_of(path)
      if mode and name == nil then return {mode = mode} end
      return mode, message
   end
   package.preload.term = function() return {isatty = function() return false end} end
   package.preload["system.core"] = function()
      return {gettime = os.time, monotime = os.clock, sleep = function() end}
   end
   package.preload.lfs = function()
      return {
         attributes = attributes, symlinkattributes = attributes,
         currentdir = function() return os.getenv "PWD" or "." end,
         chdir = function(path) return path == "." or path == "./" end, -- busted only changes to its own folder
      }
   end
end

-- In Lua 5.5 the variables of a `for` loop are constants. Two modules that are written for 5.4 assign to them. There
-- the body of the loop gets a variable of its own.
if _VERSION == "Lua 5.5" then
   for name, loops in pairs {
      ["pl.tablex"] = {{"for k,v in pairs%(t%) do\n(%s+)k = ",
         "for key,v in pairs(t) do\n%1local k = key\n%1k = "}},
      ["busted.modules.files.moonscript"] = {{"for line in (trace:gmatch%b()) do\n",
         "for whole in %1 do\n    local line = whole\n"}},
   } do
      package.preload[name] = function(...)
         local path = assert(package.searchpath(name, package.path))
         local file <close> = assert(io.open(path))
         local text = file:read "a"
         for _, loop in ipairs(loops) do text = text:gsub(loop[1], loop[2]) end
         return assert(load(text, "@" .. path))(...)
      end
   end
end

-- On Windows, the C library's temporary names end with parts such as ".b", which torch.save would take for a format.
if package.config:sub(1, 1) == "\\" then
   local new_name = os.tmpname
   rawset(os, "tmpname", function() return (new_name():gsub("%.", "_")) end)
end

-- In a spec, busted looks up each global name in all blocks around the running test, at every access. Putting Lua's own
-- names, which no spec assigns, into the specs' environment makes `pairs` as fast as in a program. `assert` is busted's
-- own.
local names <const> = {
   "coroutine", "debug", "getmetatable", "io", "ipairs", "load", "math", "next", "os", "pairs",
   "pcall", "print", "rawequal", "rawget", "rawlen", "rawset", "require", "select", "setmetatable", "string", "table",
   "tonumber", "tostring", "type", "utf8", "xpcall",
}

-- Returns the environment of a function, or nil if it uses no globals.
local function environment_in(fn)
   local i = 0
   repeat
      i = i + 1
      local name, value = debug.getupvalue(fn, i)
      if name == "_ENV" then return value end
   until name == nil
end

local environment_of = require "busted.environment"
package.loaded["busted.environment"] = function(context)
   local environment = environment_of(context)
   local wrap = environment.wrap
   function environment.wrap(fn)
      wrap(fn)
      local env = environment_in(fn)
      if env and rawget(env, "pairs") == nil then
         for _, name in ipairs(names) do rawset(env, name, _G[name]) end
      end
      return fn
   end
   return environment
end

require "busted.runner"({standalone = false})
