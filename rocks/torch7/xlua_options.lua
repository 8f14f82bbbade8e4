-- xlua_options.lua - the package xlua's OptionParser, which reads a command line, and Profiler.

local tlua = require "tlua"
local classes = require "tlua.torch7.classes"

local M = {}
classes.root("xlua", M)

-- OptionParser ------------------------------------------------------------------------------------

local Parser = classes.class "xlua.OptionParser"

--- Creates a parser. %prog in the usage stands for the program's name.
function Parser:__init(usage)
   self.usage = usage or "%prog [options]"
   self.entries, self.by_flag = {}, {}
   self:option {"-h", "--help", action = "store_true", dest = "help",
      help = "show this help message and exit"}
end

local actions = {store = true, store_true = true, store_false = true, append = true}

--- Adds an option: {"-s", "--size", action = "store", dest = "size", default = 3, req = true, help
--- = "..."}. The possible actions are store, store_true, store_false and append.
function Parser:option(entry)
   if type(entry) ~= "table" or type(entry[1]) ~= "string" then
      tlua.raise "xlua.OptionParser:option: expected a table that begins with a flag"
   end
   entry.action = entry.action or "store"
   if not actions[entry.action] then
      tlua.raise(("xlua.OptionParser:option: action: expected 'store', 'store_true', 'store_false' "
         .. "or 'append', got %s"):format(tostring(entry.action)))
   end
   entry.dest = entry.dest or entry[#entry]:gsub("^%-+", ""):gsub("%-", "_")
   self.entries[#self.entries + 1] = entry
   for _, flag in ipairs(entry) do self.by_flag[flag] = entry end
end

local function program() return (_G.arg and _G.arg[0] or "program"):match "[^/]*$" end

--- Prints the usage and a message, and ends the program with an error.
function Parser:fail(message)
   io.stderr:write(("Usage: %s\n%s: %s\n"):format(self.usage:gsub("%%prog", program()), program(),
      message))
   os.exit(1)
end

--- Prints the usage and the options.
function Parser:help()
   print("Usage: " .. self.usage:gsub("%%prog", program()))
   for _, entry in ipairs(self.entries) do
      local default = entry.default ~= nil and (" [default = %s]"):format(tostring(entry.default))
         or ""
      print(("  %-28s %s%s"):format(table.concat(entry, ", "), entry.help or "", default))
   end
end

local function typed(entry, text)
   return type(entry.default) == "number" and tonumber(text) or text
end

local function take(self, values, entry, flag, text)
   if entry.action == "store_true" or entry.action == "store_false" then
      if text then self:fail(flag .. " takes no value") end
      values[entry.dest] = entry.action == "store_true"
   elseif text == nil then
      self:fail(flag .. " needs a value")
   elseif type(entry.default) == "number" and not tonumber(text) then
      self:fail(("%s: expected a number, got '%s'"):format(flag, text))
   elseif entry.action == "append" then
      values[entry.dest] = values[entry.dest] or {}
      table.insert(values[entry.dest], typed(entry, text))
   else
      values[entry.dest] = typed(entry, text)
   end
end

--- Parses the program's arguments, or a given list. Returns the values by name, and the arguments
--- that are not options.
function Parser:parse(list)
   list = list or _G.arg or {}
   if type(list) ~= "table" then
      tlua.raise("xlua.OptionParser:parse: expected a list of arguments, got " .. type(list))
   end
   for i = 1, #list do
      if type(list[i]) ~= "string" then
         tlua.raise(("xlua.OptionParser:parse: argument %d: expected a string, got %s"):format(i,
            type(list[i])))
      end
   end
   local values, rest, i = {}, {}, 1
   while i <= #list do
      local word = list[i]
      local flag, text = word:match "^(%-%-[^=]+)=(.*)$"
      flag = flag or word
      local entry = self.by_flag[flag]
      if word == "--" then
         table.move(list, i + 1, #list, #rest + 1, rest)
         break
      elseif entry then
         local needs = entry.action == "store" or entry.action == "append"
         if needs and not text then
            i = i + 1
            text = list[i]
         end
         take(self, values, entry, flag, text)
      elseif word:find "^%-%D" then
         self:fail("unknown option " .. word)
      else
         rest[#rest + 1] = word
      end
      i = i + 1
   end
   if values.help then
      self:help()
      os.exit(0)
   end
   for _, entry in ipairs(self.entries) do
      if values[entry.dest] == nil then
         if entry.req then self:fail(entry[#entry] .. " is required") end
         values[entry.dest] = entry.default
      end
   end
   self.options = values
   return values, rest
end

--- Prints the values of the options.
function Parser:summarize()
   for _, entry in ipairs(self.entries) do
      if entry.dest ~= "help" then
         print(("  %-20s %s"):format(entry.dest, tostring((self.options or {})[entry.dest])))
      end
   end
end

-- Profiler ----------------------------------------------------------------------------------------

local Profiler = classes.class "xlua.Profiler"

--- Creates a profiler for named sections of a program.
function Profiler:__init(_, verbose)
   self.events, self.names, self.verbose = {}, {}, verbose or false
end

local function event(self, name)
   if not self.events[name] then
      self.events[name] = {real = 0, cpu = 0, count = 0}
      self.names[#self.names + 1] = name
   end
   return self.events[name]
end

--- Begins to measure a section.
function Profiler:start(name)
   local e = event(self, name)
   e.began, e.cpu_began = tlua.io.clock(), os.clock()
end

--- Ends a section. Returns the elapsed seconds and the processor seconds since its start.
function Profiler:lap(name)
   local e = self.events[name]
   if not e or not e.began then
      tlua.raise(("xlua.Profiler:lap: the section %s was not started"):format(tostring(name)))
   end
   local real, cpu = tlua.io.clock() - e.began, os.clock() - e.cpu_began
   e.real, e.cpu, e.count, e.began = e.real + real, e.cpu + cpu, e.count + 1, nil
   if self.verbose then print(("%s: %.3f s"):format(name, real)) end
   return real, cpu
end

--- Returns the elapsed seconds and the processor seconds of all laps of a section.
function Profiler:time(name)
   local e = self.events[name]
   if not e then tlua.raise("xlua.Profiler:time: there is no section " .. tostring(name)) end
   return e.real, e.cpu
end

--- Returns the processor seconds of all laps of a section.
function Profiler:cpu(name) return (select(2, self:time(name))) end

--- Returns the elapsed seconds of all laps of a section.
function Profiler:real(name) return (self:time(name)) end

function Profiler:reset(name)
   if name then self.events[name] = {real = 0, cpu = 0, count = 0}
   else self.events, self.names = {}, {} end
end

--- Prints the times of all sections.
function Profiler:printAll()
   for _, name in ipairs(self.names) do
      local e = self.events[name]
      print(("%-24s %8.3f s real %8.3f s cpu %6d laps"):format(name, e.real, e.cpu, e.count))
   end
end

return M
