-- options.lua - parses a program's command line. The interface is a subset of the argparse rock's:
--
--    local parser = torch.utils.options("train.lua", "Trains a model.")
--    parser:argument("file", "what to train on")
--    parser:option("-e --epochs", "passes over the data", 12)
--    parser:flag("--quiet", "no progress bar")
--    local opt = parser:parse(arg)       -- opt.file, opt.epochs, opt.quiet
--
-- A default determines the option's type: an integer, a number or a string. `--name value` and
-- `--name=value` are both accepted; `--` ends the options; --help is always defined.

local class = require "tlua.class"
local suggest = require "tlua.utils.suggest"

--- A program's command line: options, flags and arguments with their defaults and help.
---
---     local options = torch.utils.options "train"
---     options:option("--epochs N", "number of passes over the data", 3)
---     print(options:parse({"--epochs", "5"}).epochs)
---     --> 5
---@class utils.Options
---@overload fun(name: string, description?: string): utils.Options
local Options = class.class("utils.Options")

--- An option or an argument of a command line.
---
---     local options = torch.utils.options "train"
---     local entry = options:option("--device NAME", "where to train", "cpu")
---     entry:choices {"cpu", "cuda"}
---     print(options:parse({"--device", "cuda"}).device)
---     --> cuda
---@class utils.Options.Entry
local Entry = class.class("utils.Options.Entry")

---@param name string  the program's name
---@param description? string
function Options:__init(name, description)
   self.name, self.description = name, description
   self.entries, self.arguments, self.by_name = {}, {}, {}
   self:flag("-h --help", "show this and stop")
end

-- Adds an entry with one or several names. The field in the result of `parse` is named after the
-- longest name.
local function add(self, kind, names, help, default)
   local entry = Entry()
   entry.kind, entry.help, entry.value, entry.names = kind, help or "", default, {}
   for name in names:gmatch "%S+" do
      table.insert(entry.names, name)
      self.by_name[name] = entry
      local field = name:gsub("^%-+", ""):gsub("%-", "_")
      if not entry.field or #field > #entry.field then entry.field = field end
   end
   table.insert(kind == "argument" and self.arguments or self.entries, entry)
   return entry
end

--- Adds an option with a value.
---@param names string  "-l --lr"
---@param help? string
---@param default? integer|number|string
---@return utils.Options.Entry  the entry, for :choices and :convert
function Options:option(names, help, default)
   return add(self, "option", names, help, default)
end

--- Adds an option without a value. The field of the result is true if the option is given.
---@param names string
---@param help? string
function Options:flag(names, help)
   return add(self, "flag", names, help, false)
end

--- Adds a positional argument; without a default it is required.
---@param name string
---@param help? string
---@param default? integer|number|string
---@return utils.Options.Entry
function Options:argument(name, help, default)
   return add(self, "argument", name, help, default)
end

--- Restricts the value to those in a list.
---@param list string[]
---@return utils.Options.Entry self
function Entry:choices(list)
   self.allowed = list
   return self
end

--- Sets a converter: fn(text) returns the value, or nil and a message.
---@param fn fun(text: string): any, string?
---@return utils.Options.Entry self
function Entry:convert(fn)
   self.converter = fn
   return self
end

-- Converts a text to the value of an option. On failure, returns nil and a text that says which
-- texts are valid.
-- Converts the text of an option to the type of its default.
local function convert_type(entry, text)
   local kind = math.type(entry.value)
   if kind == "integer" then
      local value = math.tointeger(tonumber(text))
      if value == nil then return nil, "an integer" end
      return value
   elseif kind == "float" then
      local value = tonumber(text)
      if value == nil then return nil, "a number" end
      return value + 0.0
   end
   return text
end

local function convert(entry, text)
   if entry.converter then
      local value, message = entry.converter(text)
      if value == nil then return nil, message or "another value" end
      return value
   end
   local value, message = convert_type(entry, text)
   if value == nil or not entry.allowed then return value, message end
   for _, choice in ipairs(entry.allowed) do
      if choice == value then return value end
   end
   return nil, "one of " .. table.concat(entry.allowed, ", ")
end

local function usage(self)
   local parts = {"usage: " .. self.name}
   if #self.entries > 0 then parts[#parts + 1] = "[options]" end
   for _, entry in ipairs(self.arguments) do
      parts[#parts + 1] = entry.value == nil and "<" .. entry.field .. ">"
         or "[<" .. entry.field .. ">]"
   end
   return table.concat(parts, " ")
end

--- Returns the text that --help shows.
---@return string
function Options:help()
   local lines = {usage(self)}
   if self.description then lines[#lines + 1] = "\n" .. self.description end
   local rows, width = {}, 0
   for _, list in ipairs {self.arguments, self.entries} do
      for _, entry in ipairs(list) do
         local left = table.concat(entry.names, ", ")
         if entry.kind == "option" then left = left .. " <" .. entry.field .. ">" end
         local right = entry.help
         if entry.kind ~= "flag" and entry.value ~= nil then
            right = ("%s (default: %s)"):format(right, entry.value)
         end
         rows[#rows + 1] = {left, right}
         width = math.max(width, #left)
      end
   end
   lines[#lines + 1] = ""
   for _, row in ipairs(rows) do
      lines[#lines + 1] = ("  %s%s  %s"):format(row[1], (" "):rep(width - #row[1]), row[2])
   end
   return table.concat(lines, "\n")
end

local function fail(message, ...)
   error({options = message:format(...)}, 0)
end

local function take(entry, name, text, result)
   local value, expected = convert(entry, text)
   if value == nil then fail("%s: expected %s, got '%s'", name, expected, text) end
   result[entry.field] = value
end

local function read(self, list)
   local result, position = {}, 0
   for _, entries in ipairs {self.entries, self.arguments} do
      for _, entry in ipairs(entries) do result[entry.field] = entry.value end
   end
   local i, open = 1, true
   while i <= #list do
      local text = list[i]
      local name, value = text:match "^(%-%-[^=]+)=(.*)$"
      name = name or text
      if open and text == "--" then
         open = false
      elseif open and text:find "^%-." and not tonumber(text) then
         local entry = self.by_name[name]
         if not entry then fail("unknown option %s%s", name, suggest.hint(name, self.by_name)) end
         if entry.kind == "flag" then
            if value then fail("%s takes no value", name) end
            result[entry.field] = true
         else
            if not value then
               i = i + 1
               value = list[i]
            end
            if not value then fail("%s: a value is missing", name) end
            take(entry, name, value, result)
         end
      else
         position = position + 1
         local entry = self.arguments[position]
         if not entry then fail("one argument too many: '%s'", text) end
         take(entry, entry.field, text, result)
      end
      i = i + 1
   end
   if not result.help then
      for _, entry in ipairs(self.arguments) do
         if result[entry.field] == nil then fail("%s is missing", entry.field) end
      end
   end
   return result
end

--- Returns a table from names to the values of the options, or nil and a message.
---@param list string[]  such as Lua's `arg`
---@return table? result  nil for a wrong command line
---@return string? message
function Options:pparse(list)
   local ok, result = pcall(read, self, list)
   if ok then return result end
   if type(result) == "table" and result.options then return nil, result.options end
   error(result, 0)
end

--- Returns a table from names to the values of the options. A wrong command line, or --help, prints
--- a message and ends the program.
---@param list? string[]  the global `arg` by default
---@return table
function Options:parse(list)
   local result, message = self:pparse(list or _G.arg)
   if not result then
      io.stderr:write(usage(self), "\n\n", self.name, ": ", message, "\n")
      os.exit(2, true)
   end
   if result.help then
      print(self:help())
      os.exit(0, true)
   end
   result.help = nil
   return result
end

return Options
