-- calls.lua - functions of Lua that a recorded function calls, and whose results may differ in the
-- next call, such as math.random and os.time. A program or a replay would repeat their results.

local torch = require "tlua"

local M = {}

local RANDOM <const> = {["math.random"] = true, ["math.randomseed"] = true}
local CLOCKS <const> = {["os.time"] = true, ["os.clock"] = true, ["os.date"] = true}

local READS <const> = {["file:read"] = true, ["the iterator of io.lines"] = true,
   ["io.read"] = true}

-- Returns whether the function of this name sets the state of a random generator.
local function is_seeding(name) return name:find "^torch%." ~= nil end

-- Returns advice on a function that a program cannot call.
local function advice(name)
   local pass <const> = "pass its result as an input"
   if is_seeding(name) then return "call it outside of the function" end
   if RANDOM[name] then
      return "use torch.rand, which gives other numbers each time, or " .. pass
   end
   if CLOCKS[name] then return "call it outside of the function, or " .. pass end
   return pass
end

--- Raises an error if the function has called a function whose result may differ, and
--- refused(name) is true. `seen` is a result of reads.of.
---@param title string  the operator
---@param seen table
---@param noun string  the name of the recorded call in the message
---@param refused fun(name: string): boolean
function M.check(title, seen, noun, refused)
   for _, call in ipairs(seen.varying or {}) do
      if refused(call.name) then
         torch.raise(("%s: %s: %s is called, whose result or effect may differ next time, but a %s "
            .. "repeats only operators; %s"):format(title, call.place, call.name, noun,
            advice(call.name)))
      end
   end
end

--- Returns the first call of os.time, os.clock or os.date, or nil.
function M.reads_clocks(seen)
   if type(package.loaded.os) ~= "table" then return nil end -- the script has no table os
   for _, call in ipairs(seen.varying or {}) do
      if CLOCKS[call.name] then return call end
   end
end

-- Returns whether a graph has an operator that draws random numbers.
local function draws(graph)
   for _, call in ipairs(graph:calls().calls) do
      for _, parameter in ipairs(torch._operator_parameters(call.name) or {}) do
         if parameter.kind == "GENERATOR" then return true end
      end
   end
   return false
end

--- Returns a function that tells, for the name of a called function, whether the call is refused
--- because of random numbers. Calls of clocks are accepted, since M.later shows whether the
--- recorded operators depend on the time.
---@param seen table
---@param graph? any  the graph of the call, if there is one
function M.is_random(seen, graph)
   return function(name)
      if is_seeding(name) then return not graph or draws(graph) end
      return RANDOM[name] or name == "a coroutine" and seen.coroutine
   end
end

--- Returns a function as M.is_random does, for steps that are recorded only once. There is no
--- second recording to compare, so calls of clocks and reads of files are refused as well.
function M.is_varying(seen)
   local is_random = M.is_random(seen)
   return function(name) return CLOCKS[name] or READS[name] or is_random(name) end
end

-- The distance between two calls at different times, in seconds: more than a day, so that the date,
-- the hour, the minute and the second differ.
local LATER <const> = 90061

-- Calls fn while functions of os are replaced in the variables of `seen` and in the script's table
-- os. The library has a table os of its own, which does not change.
local function replacing(seen, replacements, fn)
   local undo, script_os = {}, package.loaded.os
   for name, replacement in next, replacements do
      local old = rawget(script_os, name)
      rawset(script_os, name, replacement)
      undo[#undo + 1] = function() rawset(script_os, name, old) end
      for _, entry in ipairs(seen.upvalues) do
         if rawequal(entry[3], old) then
            debug.setupvalue(entry[1], entry[2], replacement)
            undo[#undo + 1] = function() debug.setupvalue(entry[1], entry[2], old) end
         end
      end
   end
   local fine, result = pcall(fn)
   for _, restore in ipairs(undo) do restore() end
   if not fine then error(result, 0) end
   return result
end

--- Calls fn, which sees a later time in the results of os.time, os.clock and os.date if `seen` says
--- that the function calls one of them. Returns its result.
function M.later(seen, fn)
   if not seen or not M.reads_clocks(seen) then return fn() end
   local time, clock, date = os.time, os.clock, os.date
   return replacing(seen, {
      time = function(given) return given and time(given) or time() + LATER end,
      clock = function() return clock() + LATER end,
      date = function(format, at) return date(format, at or time() + LATER) end,
   }, fn)
end

--- Calls fn, for which the clocks stand still. Returns its result.
function M.at_one_time(seen, fn)
   local time, clock, date = os.time, os.clock(), os.date
   local now = time()
   return replacing(seen, {
      time = function(given) return given and time(given) or now end,
      clock = function() return clock end,
      date = function(format, at) return date(format, at or now) end,
   }, fn)
end

return M
