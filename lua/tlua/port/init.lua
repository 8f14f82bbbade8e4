-- init.lua - `tlua port script.py`: translates a PyTorch script to Lua, as far as it can.

local definitions = require "tlua.port.definitions"
local reader = require "tlua.port.reader"
local scope = require "tlua.port.scope"
local walk = require "tlua.port.walk"
local Porter = require "tlua.port.Porter"
require "tlua.port.expressions"
require "tlua.port.statements"

local M = {}

local passes <const> = 4

-- Returns the module's statements, in which the body of `if __name__ == "__main__":` takes the
-- place of that statement.
local function flatten(body)
   local list, has_main = {}, false
   for _, stmt in ipairs(body) do
      local test = stmt._ == "If" and stmt.test
      local main = test and test._ == "Compare" and test.left.id == "__name__"
      if main then
         has_main = true
         stmt.body[1].first = stmt.body[1].first or stmt.body[1].line
         for _, inner in ipairs(stmt.body) do
            inner.col = 0
            list[#list + 1] = inner
         end
      else
         list[#list + 1] = stmt
      end
   end
   return list, has_main
end

local declarations = {Import = true, ImportFrom = true, FunctionDef = true, ClassDef = true,
   Assign = true, AnnAssign = true}

-- Returns whether a file contains only definitions, which other files import.
local function is_library(body)
   local defines = false
   for _, stmt in ipairs(body) do
      local docstring = stmt._ == "Expr" and stmt.value.kind == "str"
      if not declarations[stmt._] and not docstring then return false end
      if stmt._ == "Assign" and stmt.value._ == "Call" then return false end
      defines = defines or stmt._ == "FunctionDef" or stmt._ == "ClassDef"
   end
   return defines
end

-- Returns the set of the module's variables: variables that the module assigns, and variables that
-- functions declare by `global`.
local function module_variables(body)
   local names = walk.assigned(body)
   for _, stmt in ipairs(body) do
      walk.each(stmt, function(node)
         if node._ == "Global" then
            for _, name in ipairs(node.names) do names[name] = true end
         end
      end)
   end
   return names
end

local function folder_of(path) return path:match "^(.*/)[^/]*$" or "" end

-- Returns the definitions of a file in the script's folder, for `import name`.
function Porter:file(name)
   local known = self.known
   if known.files[name] == nil then self:read_file(name) end
   local found = known.files[name]
   if not found then return nil end
   self:note(0, ("%s is imported: tlua port %s -o %s"):format(name, found.path,
      (name:gsub("%.", "/")) .. ".lua"))
   return found
end

-- Translates a file in the script's folder. Only the definitions in the file are kept, for the
-- scripts that import it.
function Porter:read_file(name)
   local known = self.known
   known.files[name] = false
   local path = known.folder .. name:gsub("%.", "/") .. ".py"
   local file = io.open(path)
   if not file then return end
   file:close()
   local script = reader.read(path)
   if not script then return end
   local found = M.translate(script, known)
   known.files[name] = {classes = found.classes, functions = found.functions, path = path}
end

local function define_all(known, body)
   local classes, functions = {}, {}
   for _, stmt in ipairs(body) do
      if stmt._ == "ClassDef" then classes[stmt.name] = definitions.class(known, stmt) end
      if stmt._ == "FunctionDef" then functions[stmt.name] = definitions.fn(known, stmt) end
   end
   return classes, functions
end

-- Makes one pass over the script: translates it with the types that earlier passes have inferred.
local function pass(script, known, body)
   local P = Porter(script, known)
   P.files, P.source_line = true, 1
   local variables = module_variables(body)
   P:open("module", script.module, {variables = variables, plan = scope.plan(body, variables)})
   for name, class in pairs(known.own.classes) do
      P.scope.last[name] = P.scope.last[name] or {k = "class", c = class}
   end
   for name, fn in pairs(known.own.functions) do
      P.scope.last[name] = P.scope.last[name] or {k = "fn", f = fn}
   end
   P:block(body, true)
   P:close()
   return P
end

local function exports(body)
   local names = {}
   for _, stmt in ipairs(body) do
      if stmt._ == "FunctionDef" or stmt._ == "ClassDef" then names[#names + 1] = stmt.name end
      if stmt._ == "Assign" and stmt.targets[1]._ == "Name" then
         names[#names + 1] = stmt.targets[1].id
      end
   end
   local parts = {}
   for i, name in ipairs(names) do parts[i] = name .. " = " .. name end
   return "return {" .. table.concat(parts, ", ") .. "}"
end

--- Translates a script that reader.read has read.
---@param script table
---@param outer? table  facts about the script that imports this one
---@return {text: string, notes: table[], classes: table, functions: table}
function M.translate(script, outer)
   walk.mark(script.module)
   local body = flatten(script.module.body)
   local known = {functions = {}, classes = {}, last = {}, files = outer and outer.files or {},
      all_classes = outer and outer.all_classes or {}, folder = folder_of(script.path)}
   local classes, functions = define_all(known, body)
   known.own = {classes = classes, functions = functions}
   local P
   for _ = 1, passes do P = pass(script, known, body) end
   local head = {}
   if P.uses_torch or P.uses_py then head[#head + 1] = 'local torch = require "tlua"' end
   if P.uses_py then head[#head + 1] = 'local py = require "tlua.port.python"' end
   local lines = P.lines
   while lines[1] == "" do table.remove(lines, 1) end
   local at = 1
   while lines[at] and lines[at]:sub(1, 2) == "--" do at = at + 1 end
   if at > 1 and lines[at] == "" then at = at + 1 end
   if at > 1 and lines[at - 1] ~= "" and #head > 0 then table.insert(head, 1, "") end
   if lines[at] and lines[at] ~= "" and not lines[at]:find "^local [%w_, ]+ = " then
      head[#head + 1] = ""
   end
   for i, line in ipairs(head) do table.insert(lines, at + i - 1, line) end
   if is_library(body) then
      lines[#lines + 1] = ""
      lines[#lines + 1] = exports(body)
   end
   table.sort(P.notes, function(a, b)
      return a.line < b.line or a.line == b.line and a.text < b.text
   end)
   return {text = table.concat(lines, "\n") .. "\n", notes = P.notes, classes = classes,
      functions = functions}
end

--- Translates a file.
---@param path string
---@return string? text  nil on failure
---@return table|string notes  a list of {line, text}, or the message
function M.file(path)
   local script, why = reader.read(path)
   if not script then return nil, why end
   local done = M.translate(script)
   return done.text, done.notes
end

-- The command -------------------------------------------------------------------------------------

local usage = [[
usage: tlua port script.py [-o script.lua]
Prints the Lua that a PyTorch script becomes, as far as it can; what is left to
you is listed on stderr, with the script's lines, and marked `port:` in the text.
Python 3.8 or later reads the script (TLUA_PYTHON names another than python3);
it is not run.
]]

local function options_of(arguments)
   local path, out
   local i = 1
   while i <= #arguments do
      local word = arguments[i]
      if word == "--help" or word == "-h" then
         return nil, true
      elseif word == "-o" then
         i = i + 1
         out = arguments[i]
         if not out then return nil, false, "-o needs a file" end
      elseif word:sub(1, 1) == "-" and word ~= "-" then
         return nil, false, "unknown option " .. word
      elseif path then
         return nil, false, "one script at a time"
      else
         path = word
      end
      i = i + 1
   end
   if not path then return nil, false, "which script?" end
   return {path = path, out = out}
end

--- Runs the command `tlua port`; returns whether it succeeded.
---@param arguments string[]  the arguments after `tlua port`
---@return boolean succeeded
function M.command(arguments)
   local options, help, problem = options_of(arguments)
   if help then
      io.stdout:write(usage)
      return true
   elseif not options then
      io.stderr:write("tlua port: ", problem, "\n", usage)
      return false
   end
   local text, notes = M.file(options.path)
   if not text then
      io.stderr:write("tlua port: ", notes, "\n")
      return false
   end
   if options.out then
      local failure = require "tlua.io.replace"(options.out, function(file)
         return select(2, file:write(text))
      end)
      if failure then
         io.stderr:write("tlua port: ", options.out, ": ", failure, "\n")
         return false
      end
   else
      io.stdout:write(text)
      io.stdout:flush()
   end
   for _, note in ipairs(notes) do
      local uses = note.uses and #note.uses > 0
         and (" (also in line%s %s)"):format(#note.uses > 1 and "s" or "",
            table.concat(note.uses, ", "))
         or ""
      local where = note.line > 0 and ("%s:%d"):format(options.path, note.line) or options.path
      io.stderr:write(("%s: %s%s\n"):format(where, note.text, uses))
   end
   return true
end

return M
