-- watch.lua - calls a function and records the values on which the call depends, for torch.compile:
-- the functions that were called, and the global variables that were read. The file also records
-- the first action that a program cannot repeat.

local torch = require "tlua"
local library = require "tlua.compile.library"

local M = {}

-- The watch of the running call, or nil.
local running

--- Returns whether a call is being watched.
function M.running() return running ~= nil end

--- Returns whether torch.compile is watching a call.
function M.compiling() return running ~= nil and not running.lenient end

-- Properties of tensors that a trace does not record. A call that reads one cannot be repeated by a
-- program.
local properties <const> = {
   grad = true, grad_fn = true, _version = true, retains_grad = true, output_nr = true,
   is_leaf = true,
}

-- Returns the n-th argument of the C function that is being called, which is at level 5 of the call
-- stack while one of the checks below runs.
local function argument(n)
   local _, value = debug.getlocal(5, n)
   return value
end

-- Returns a table from C functions to checks of their arguments. A check returns the reason if a
-- program cannot repeat the call, and nil otherwise.
local function checks_of(proxies)
   local function check_table()
      local given = argument(1)
      local env = type(given) == "table" and proxies[given]
      if not env then return nil end
      debug.setlocal(4, 1, env)
      return "the table of globals is used as a value"
   end
   -- Returns a reason against an explicit storage offset. The offset counts from the beginning of
   -- the storage, but an input of a program may begin anywhere in its storage.
   local function check_place()
      local second, third, fourth = argument(2), argument(3), argument(4)
      for _, given in ipairs {second, third, fourth} do
         if type(given) == "table" and rawget(given, "storage_offset") then fourth = 0 end
      end
      return math.type(fourth) and "a view takes a place in memory"
   end
   return {
      [torch.as_strided] = check_place,
      [library.index] = function()
         local key = argument(2)
         return properties[key] and ("the property %s of a tensor is read"):format(key)
      end,
      [library.newindex] = function()
         local key = argument(2)
         return type(key) == "string" and ("the property %s of a tensor is set"):format(key)
      end,
      [rawget] = check_table, [rawset] = check_table, [next] = check_table, [rawlen] = check_table,
      [rawequal] = check_table, [getmetatable] = check_table,
      [setmetatable] = function()
         local given = argument(2)
         if type(given) == "table" and rawget(given, "__gc") then return "a finalizer is set" end
         return type(argument(1)) == "table" and proxies[argument(1)]
            and "the table of globals is used as a value"
      end,
   }
end

local Watch = {}
Watch.__index = Watch

-- Restores the functions' environments, so that other calls can be watched.
local function finish(watch)
   if watch.finished then return end
   if debug.gethook() == watch.hook then debug.sethook() end
   watch.active, watch.finished, running = false, true, nil
   for _, entry in ipairs(watch.restore) do debug.setupvalue(entry[1], entry[2], entry[3]) end
end

-- Stops watching, because no program can repeat the call. The call itself continues, or waits in a
-- coroutine that may never be resumed.
local function refuse(watch, why)
   if watch.lenient then return end
   finish(watch)
   if not watch.refusal then
      local info = debug.getinfo(4, "Sl")
      local place = info and info.currentline > 0
         and ("%s:%d: "):format(info.short_src, info.currentline) or ""
      watch.refusal = place .. why
   end
end

-- Records that a global variable was read, and in which table of the chain of __index it was found.
local function note_global(watch, env, key)
   local value, owner = rawget(env, key), env
   local meta = getmetatable(env)
   while value == nil and type(meta) == "table" and type(meta.__index) == "table" do
      watch:global(owner, key, nil)
      owner = meta.__index
      value, meta = rawget(owner, key), getmetatable(owner)
   end
   if value == nil and env[key] ~= nil then
      watch.refusal = watch.refusal or "an __index function returns the global variable "
         .. tostring(key)
   end
   watch:global(owner, key, value)
   if rawequal(value, env) then
      watch.refusal = watch.refusal or "the table of globals is used as a value"
   end
end

function Watch:global(owner, key, value)
   local known = self.known[owner] or {}
   self.known[owner] = known
   if known[key] then return end
   known[key] = true
   self.globals[#self.globals + 1] = {owner, key, value}
end

-- Returns the table that replaces a function's _ENV while the function is watched.
local function proxy_of(watch, env)
   for proxy, of in next, watch.proxies do
      if of == env then return proxy end
   end
   local proxy = setmetatable({}, {
      __index = function(_, key)
         if watch.active then note_global(watch, env, key) end
         return env[key]
      end,
      __newindex = function(_, key, value)
         watch.refusal = watch.refusal or ("the global variable %s is assigned"):format(key)
         env[key] = value
      end,
      __pairs = function()
         watch.refusal = watch.refusal or "the table of globals is used as a value"
         return pairs(env)
      end,
   })
   watch.proxies[proxy] = env
   return proxy
end

local function watch_globals(watch, fn)
   for i = 1, 255 do
      local name, value = debug.getupvalue(fn, i)
      if not name then return end
      if name == "(no name)" then
         return refuse(watch, "a function without debug information is called")
      end
      if name == "_ENV" then
         if type(value) ~= "table" then return refuse(watch, "_ENV is not a table") end
         if not watch.proxies[value] then
            watch.restore[#watch.restore + 1] = {fn, i, value}
            debug.setupvalue(fn, i, proxy_of(watch, value))
         end
         return
      end
   end
end

-- C functions whose results do not depend on the fields of a table that they get.
local shallow <const> = {}
for _, fn in ipairs {type, assert, rawequal, getmetatable, setmetatable, tostring, print, select,
   pcall, xpcall, error} do
   shallow[fn] = true
end

-- Functions of os, io and coroutine, and others with random or outer results, that do no harm.
local harmless <const> = {[print] = true}
for _, name in ipairs {"io.write", "io.output", "io.type", "os.getenv", "coroutine.running",
   "coroutine.isyieldable", "coroutine.status", "coroutine.create", "coroutine.wrap"} do
   local owner, key = name:match "(.*)%.(.*)"
   local fn = _G[owner] and _G[owner][key]
   if fn then harmless[fn] = true end
end

-- Returns a map from the functions that set the state of random generators to their names.
local function seeding_functions()
   local names = {}
   for path, owner in next, {
      torch = torch, ["torch.cuda"] = rawget(torch, "cuda"), ["torch.sim"] = rawget(torch, "sim"),
   } do
      for _, key in ipairs {"manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state",
                            "set_rng_state_all"} do
         local fn = rawget(owner, key)
         if fn then names[fn] = path .. "." .. key end
      end
   end
   return names
end

-- Methods of files whose results differ in each call, with their names.
local reading <const> = {}
for _, key in ipairs {"read", "lines", "seek"} do
   local methods = io and io.stdout and debug and debug.getmetatable(io.stdout).__index
   if type(methods) == "table" and methods[key] then reading[methods[key]] = "file:" .. key end
end

-- Returns whether a C function is one that io.lines or file:lines has returned.
local function reads_lines(fn)
   local _, upvalue = debug.getupvalue(fn, 1)
   return type(upvalue) == "userdata" and io.type(upvalue) ~= nil
end

-- Returns whether a C function is one that coroutine.wrap has returned.
local function is_coroutine(fn)
   local _, upvalue = debug.getupvalue(fn, 1)
   return type(upvalue) == "thread"
end

-- Records a table that the script passes to a function, and the tables in that table. `read` tells
-- whether the function reads the fields.
local function note_table(watch, given, read, is_inner)
   if type(given) ~= "table" or watch.library.tables[given] and is_inner then return end
   watch.looped[given] = true
   watch.counted[given] = read or watch.counted[given]
   if is_inner or debug.getmetatable(given) or not read then return end
   for _, item in next, given do note_table(watch, item, true, true) end
end

-- Records a call of a C function by the script: the tables that it gets, the module that it
-- requires, and whether its result may differ next time.
local function note_call(watch, fn)
   local caller = debug.getinfo(5, "Sl")
   watch.functions[fn] = "C"
   if not caller or caller.source:sub(1, 6) == "=tlua:" then return end
   for n = 1, shallow[fn] and 0 or 255 do
      local name, given = debug.getlocal(4, n)
      if not name then break end
      note_table(watch, given, fn ~= table.insert and fn ~= rawset)
   end
   if fn == require and type(argument(1)) == "string" then watch.required[argument(1)] = true end
   local name = is_coroutine(fn) and "a coroutine" or watch.seeding[fn] or reading[fn]
      or reads_lines(fn) and "the iterator of io.lines"
      or not harmless[fn] and watch.library.denied[fn]
   if name then
      table.insert(watch.varying, {
         name = name,
         place = ("%s:%d"):format(caller.short_src, caller.currentline),
      })
   end
end

local function on_c_call(watch, fn)
   local check = watch.checks[fn]
   local why = check and check()
   if watch.lenient then
      note_call(watch, fn)
      return
   end
   if why then return refuse(watch, why) end
   if watch.functions[fn] then return end
   watch.functions[fn] = true
   if watch.library.pure[fn] then return end
   local caller = debug.getinfo(4, "S")
   local named = debug.getinfo(3, "n").name or "a function"
   local places = watch.library.places[fn]
   local by_library = caller and caller.source:sub(1, 6) == "=tlua:"
   if by_library and not places and not watch.library.denied[fn] then return end
   refuse(watch, ("%s is called, whose result or effect may differ next time"):format(
      places and tostring(places[1][2]) or named))
end

-- Records the tables that the script passes to a Lua function of the library, which may read all of
-- their fields, and the tables in these tables.
local function note_arguments(watch)
   local caller = debug.getinfo(4, "S")
   if not caller or caller.what == "C" or caller.source:sub(1, 6) == "=tlua:" then return end
   local info = debug.getinfo(3, "u")
   for n = 1, info.nparams + (info.isvararg and 255 or 0) do
      local name, given = debug.getlocal(3, n > info.nparams and info.nparams - n or n)
      if not name then return end
      -- objects, such as the `self` of a method, are compared by the names of their fields
      if not debug.getmetatable(given) then note_table(watch, given, true) end
   end
end

local function on_call(watch)
   local fn = debug.getinfo(3, "f").func
   if watch.lenient and debug.getinfo(3, "S").source:sub(1, 6) == "=tlua:" then
      note_arguments(watch)
   end
   local known = watch.functions[fn]
   if known and known ~= "C" and not watch.checks[fn] then return end
   local info = debug.getinfo(3, "S")
   if info.what == "C" then return on_c_call(watch, fn) end
   watch.functions[fn] = true
   watch.list[#watch.list + 1] = fn
   if info.source:sub(1, 6) ~= "=tlua:" then watch_globals(watch, fn) end
end

local function stop(watch, ...)
   if not watch.finished and debug.gethook() ~= watch.hook then
      watch.refusal = watch.refusal or "another debug hook ran"
   end
   finish(watch)
   return ...
end

local function pass_on(watch, fine, ...)
   finish(watch)
   if not fine then error((...), 0) end
   return watch, ...
end

--- Returns whether calls can be watched: the Lua state has the library debug, and no other debug
--- hook is set.
function M.can() return debug ~= nil and debug.sethook ~= nil and debug.gethook() == nil end

local function place_of(fn)
   local info = debug.getinfo(fn, "S")
   return info.source .. ":" .. info.linedefined
end

--- Returns whether two watched calls have called the same functions of the script, or closures
--- created on the same lines. If so, also returns a watch with only the functions that both have
--- called.
function M.same_functions(watch, of)
   local places = {}
   for _, fn in ipairs(of.list) do places[place_of(fn)] = true end
   local common = {list = {}, functions = {}, globals = watch.globals}
   for _, fn in ipairs(watch.list) do
      if of.functions[fn] then
         common.list[#common.list + 1] = fn
      elseif not library.owns(fn) and not places[place_of(fn)] then
         return false
      end
   end
   for fn in next, watch.functions do
      common.functions[fn] = of.functions[fn]
      if not of.functions[fn] and debug.getinfo(fn, "S").what == "C"
         and not watch.library.places[fn] then
         return false
      end
   end
   return true, common
end

-- Calls a function. Returns the watch, followed by the function's results.
local function call(lenient, fn, ...)
   local watch = setmetatable({
      functions = {}, list = {}, globals = {}, known = {}, proxies = {}, restore = {},
      library = library.refresh(), active = true, lenient = lenient, looped = {},
      counted = {}, required = {}, varying = {},
   }, Watch)
   watch.checks = checks_of(watch.proxies)
   watch.seeding = lenient and seeding_functions()
   watch.hook = function() on_call(watch) end
   running = watch
   return pass_on(watch, pcall(function(...)
      debug.sethook(watch.hook, "c")
      return stop(watch, fn(...))
   end, ...))
end

--- Calls a function. Returns the watch, followed by the function's results. Fields of the watch:
--- `functions`, the set of the called functions; `list`, the Lua functions among them; `globals`, a
--- list of {table, key, value}, one for each global variable read; `refusal`, the reason why a
--- program cannot repeat the call, or nil.
function M.call(fn, ...) return call(false, fn, ...) end

--- Calls a function, as M.call does, but watches until the function ends: actions that a program
--- cannot repeat do not stop the watch, and of them only assignments of global variables, uses of
--- the table of globals and another debug hook set `refusal`. The watch has more fields: `looped`,
--- the set of tables that the script passes to C functions, such as pairs, and to functions of the
--- library; `counted`, the tables among them that it passes to another function than table.insert
--- and rawset; `required`, the set of the modules that it requires; and `varying`, a list
--- with the `name` and the `place` of each call of a function whose result or effect may differ
--- next time, such as math.random and torch.manual_seed.
function M.whole(fn, ...) return call(true, fn, ...) end

return M
