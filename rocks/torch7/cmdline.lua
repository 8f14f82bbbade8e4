-- cmdline.lua - torch.CmdLine: parses a program's options and arguments, prints the help, names an
-- experiment, and writes a log.

local torch = require "tlua"
local classes = require "tlua.torch7.classes"
local notice = require "tlua.utils.notice"

classes.newmetatable "torch.CmdLine"
local CmdLine = classes.getconstructortable "torch.CmdLine"

--- Creates a parser for a command line. The method `string` uses the two arguments: the first
--- separates options, and the second separates an option from its value.
function CmdLine:__init(argument_separator, key_separator)
   self.argseparator, self.keyseparator = argument_separator or ",", key_separator or "="
   self.entries, self.options, self.arguments = {}, {}, {}
end

local function bare(name) return (name:gsub("^%-+", "")) end

local function check(method, what, value, expected)
   if type(value) == expected then return end
   torch.raise(("CmdLine:%s: %s: expected a %s, got %s"):format(method, what, expected,
      classes.type(value)))
end

--- Adds an option with a default value. The type of this value is the type of the option, unless
--- `kind` names another one.
function CmdLine:option(name, default, help, kind)
   check("option", "name", name, "string")
   local entry = {name = name, default = default, help = help or "", kind = kind or type(default)}
   self.options[bare(name)] = entry
   table.insert(self.entries, {option = entry})
end

--- Adds a required argument.
function CmdLine:argument(name, help, kind)
   check("argument", "name", name, "string")
   local entry = {name = name, help = help or "", kind = kind or "string"}
   table.insert(self.arguments, entry)
   table.insert(self.entries, {argument = entry})
end

--- Adds a line of text to the help.
function CmdLine:text(line) table.insert(self.entries, {text = line or ""}) end

function CmdLine:silent() self.is_silent = true end

function CmdLine:error(message)
   io.stderr:write(message, "\n\n")
   self:help()
   torch.raise("CmdLine: " .. message)
end

local function convert(self, entry, text)
   if entry.kind == "number" then
      local value = tonumber(text)
      if not value then
         self:error(("%s: expected a number, got '%s'"):format(entry.name, tostring(text)))
      end
      return value
   elseif entry.kind == "boolean" then
      return text == "true"
   end
   return text
end

local function defaults(self)
   local params = {}
   for name, entry in pairs(self.options) do params[name] = entry.default end
   return params
end

--- Returns the default values of all options.
function CmdLine:default() return defaults(self) end

-- Parses the option at the position `at` of the list. Returns the position after the option.
local function read_option(self, params, list, at)
   local name = bare(list[at])
   local entry = self.options[name]
   if not entry then self:error(("unknown option %s"):format(list[at])) end
   if entry.kind == "boolean" then
      local given = list[at + 1]
      if given == "true" or given == "false" then
         params[name] = given == "true"
         return at + 2
      end
      params[name] = not entry.default
      return at + 1
   end
   if list[at + 1] == nil then self:error(("the option %s needs a value"):format(list[at])) end
   params[name] = convert(self, entry, list[at + 1])
   return at + 2
end

local function is_option(text) return text:find "^%-%-?%a" ~= nil end

--- Parses a program's arguments; returns a table with a field for each option and argument.
---@param list? string[]  the arguments, such as `arg`
---@return table params
function CmdLine:parse(list)
   list = list or {}
   check("parse", "list", list, "table")
   local params, at, count = defaults(self), 1, 0
   while list[at] do
      local word = list[at]
      if word == "-help" or word == "--help" or word == "-h" then
         self:help(list)
         os.exit(0)
      elseif is_option(word) then
         at = read_option(self, params, list, at)
      else
         count = count + 1
         local entry = self.arguments[count]
         if not entry then self:error(("unexpected argument '%s'"):format(word)) end
         params[bare(entry.name)] = convert(self, entry, word)
         at = at + 1
      end
   end
   if count < #self.arguments then
      self:error(("the argument %s is missing"):format(self.arguments[count + 1].name))
   end
   return params
end

local function shown(value)
   if type(value) == "boolean" then return value and "t" or "f" end
   return tostring(value)
end

--- Returns a name for an experiment: the prefix, the arguments, and the options whose values differ
--- from their defaults. If ignore[name] is false, the option of this name is always included; if it
--- is true, the option is left out.
---@param prefix string
---@param params table
---@param ignore? table<string, boolean>
---@return string
function CmdLine:string(prefix, params, ignore)
   local parts, options = {prefix}, {}
   ignore = ignore or {}
   check("string", "prefix", prefix, "string")
   check("string", "params", params, "table")
   check("string", "ignore", ignore, "table")
   for _, entry in ipairs(self.arguments) do
      local name = bare(entry.name)
      if params[name] ~= nil and not ignore[name] then
         parts[#parts + 1] = name .. self.keyseparator .. shown(params[name])
      end
   end
   for name, value in pairs(params) do
      local entry = self.options[name]
      if entry and (value ~= entry.default or ignore[name] == false) and not ignore[name] then
         options[#options + 1] = name .. self.keyseparator .. shown(value)
      end
   end
   table.sort(options)
   table.move(options, 1, #options, #parts + 1, parts)
   return table.concat(parts, self.argseparator)
end

local function width_of(self)
   local width = 0
   for _, entry in ipairs(self.entries) do
      local one = entry.option or entry.argument
      if one then width = math.max(width, #one.name + (entry.argument and 2 or 0)) end
   end
   return width
end

--- Prints the usage.
function CmdLine:help(list)
   local script = list and list[0] or _G.arg and _G.arg[0] or "script.lua"
   local names = {}
   for i, entry in ipairs(self.arguments) do names[i] = (" <%s>"):format(entry.name) end
   io.write(("Usage: %s [options]%s\n"):format(script, table.concat(names)))
   local format = ("  %%-%ds %%s%%s\n"):format(width_of(self))
   for _, entry in ipairs(self.entries) do
      if entry.text then
         io.write(entry.text, "\n")
      elseif entry.option then
         local option = entry.option
         io.write(format:format(option.name, option.help,
            (" [%s]"):format(tostring(option.default))))
      else
         io.write(format:format(("<%s>"):format(entry.argument.name), entry.argument.help, ""))
      end
   end
end

-- The log
-- -------------------------------------------------------------------------------------------

--- Makes the log begin each line with the time.
function CmdLine:addTime(name, format)
   format = format or "%Y-%m-%d %H:%M:%S"
   self.stamp = function()
      return (name and name .. " " or "") .. os.date(format) .. ": "
   end
end

--- Starts a log: writes the parameters to a file, and from then on also all printed output.
---@param path string|file*
---@param params? table
function CmdLine:log(path, params)
   local file = path
   if type(path) ~= "string" and io.type(path) ~= "file" then
      torch.raise("CmdLine:log: path: expected a path or an open file, got " .. classes.type(path))
   end
   if type(path) == "string" then
      local problem
      file, problem = io.open(path, "w")
      if not file then torch.raise("CmdLine:log: " .. problem) end
   end
   local show = _G.print
   _G.print = function(...)
      if not self.is_silent then show(...) end
      local words = table.pack(...)
      for i = 1, words.n do words[i] = tostring(words[i]) end
      if not file then return end
      local text = table.concat(words, "\t")
      local done, why = file:write(self.stamp and self.stamp() or "", text, "\n")
      if done then done, why = file:flush() end
      if done then return end
      notice("CmdLine:log: %s: %s; nothing more is written", path, why)
      file = nil
   end
   local names = {}
   for name in pairs(params or {}) do names[#names + 1] = tostring(name) end
   table.sort(names)
   _G.print(("[program started on %s]"):format(os.date()))
   for _, name in ipairs(names) do _G.print(name .. "\t" .. tostring(params[name])) end
end

return {CmdLine = CmdLine}
