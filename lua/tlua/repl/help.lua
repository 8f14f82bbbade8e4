-- help.lua - prints the output of `help`: the manual's text, or suggestions if there is none.
local args = require "tlua.args"
local lazy = require "tlua.lazy"
local manual = require "tlua.repl.manual"
local suggest = require "tlua.utils.suggest"

local M = {}

local intro <const> = [[
An expression shows its value, and _ is the last one:

   > x = torch.randn(2, 3)
   > x
   > x:sum()
   > nn.Linear(3, 1)(x)

A chunk may take several lines; Ctrl-C leaves it, and stops what runs. Locals
end with their chunk: what is to last is a global. Tab completes names.

   help(torch.add)    help "nn.Linear"    help "matmul"

give the manual's text on something; Ctrl-D leaves.]]

-- Returns the tables that the manual describes, each with the prefix of its names in the manual.
local function sections()
   local torch = require "tlua"
   return {
      {"torch.", torch}, {"Tensor.", torch.Tensor}, {"nn.", torch.nn}, {"optim.", torch.optim},
   }
end

-- Returns the names of the library for which predicate(name) is true, with the prefixes that the
-- manual uses.
local function names_with(predicate)
   local names, seen = {}, {}
   local function visit(prefix, name)
      if type(name) ~= "string" or name:find("^_") or not predicate(name) then return end
      if not seen[prefix .. name] then names[#names + 1] = prefix .. name end
      seen[prefix .. name] = true
   end
   for _, section in ipairs(sections()) do
      local prefix, members = table.unpack(section)
      for name in pairs(members or {}) do visit(prefix, name) end
      for name in pairs(lazy.fields(members)) do visit(prefix, name) end
   end
   return names
end

-- Returns names that contain the word, the shortest first; if there are none, the closest name.
local function similar(subject)
   local word = subject:match("[%w_]*$"):lower()
   if #word < 2 then return {} end
   local names = names_with(function(name) return name:lower():find(word, 1, true) end)
   if #names == 0 then
      local all = {}
      names_with(function(name) all[name] = true end)
      local nearest = suggest.nearest(word, all)
      names = names_with(function(name) return name == nearest end)
   end
   table.sort(names, function(a, b)
      if #a ~= #b then return #a < #b end
      return a < b
   end)
   return table.move(names, 1, 10, 1, {})
end

local function unknown_function(f)
   local info = debug.getinfo(f, "Su")
   if info.what == "C" then return "A function in C that the manual does not describe." end
   return ("A function with %d parameter%s, from %s line %d; it is not in the manual."):format(
      info.nparams, info.nparams == 1 and "" or "s", info.short_src, info.linedefined)
end

local function unknown_name(name)
   local value = manual.resolve(name)
   if type(value) == "function" then return unknown_function(value) end
   local names = similar(name)
   local lines = {("The manual has nothing on %q."):format(name)}
   if #names > 0 then lines[2] = "Did you mean " .. table.concat(names, ", ") .. "?" end
   return table.concat(lines, "\n")
end

--- Returns the manual's text on a subject, or suggestions if there is none.
---@param ... any a function, a name, another value, or nothing
---@return string
function M.text(...)
   if select("#", ...) == 0 then return intro end
   local subject = ...
   local text = manual.help(subject)
   if text then return text end
   if type(subject) == "string" then return unknown_name(subject) end
   if type(subject) == "function" then return unknown_function(subject) end
   return ("This is %s. A dot or a colon and Tab list what it has; help() tells how to begin.")
      :format(args.describe(subject))
end

return M
