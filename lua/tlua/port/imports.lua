-- imports.lua - translates Python's imports: PyTorch's names become locals, files beside the script
-- are required, and a name without a counterpart becomes a stand-in that raises an error when it is
-- used.

local library = require "tlua.port.library"
local python = require "tlua.port.functions_of_python"
local torch_names = require "tlua.port.torch_names"

local M = {}

-- Returns the text of a torch path in Lua, and records that the script needs torch.
local function torch_text(P, path)
   P.uses_torch = true
   return library.torch_text(path)
end

-- Records that a name stands for an imported path. Appends to `bindings` the local variable that
-- the Lua script needs for it; none is needed for packages whose functions are translated one by
-- one.
local function bind(P, stmt, name, path, bindings)
   P:set_type(name, {k = "lib", path = path})
   if path == "torch" then
      P.uses_torch = true
      if name ~= "torch" then bindings[#bindings + 1] = {name, "torch"} end
      return
   end
   if library.is_torch(path) then
      if python.library[path] then return end
      if torch_names.find(library.torch_text(path)) == nil then
         if path:find "^torch%.nn%.parallel$" then return end
         library.check_torch(P, stmt, path)
         bindings[#bindings + 1] = {name, ("%s %q"):format(P:py "missing", path)}
         return
      end
      local text = torch_text(P, path)
      if text ~= name then bindings[#bindings + 1] = {name, text} end
      return
   end
   if library.is_translated(path) then return end
   P:missing(stmt, path, library.hint(path))
   bindings[#bindings + 1] = {name, ("%s %q"):format(P:py "missing", path)}
end

local function write(P, stmt, bindings, declares)
   local names, texts = {}, {}
   for i, binding in ipairs(bindings) do
      names[i], texts[i] = P:name(binding[1]), binding[2]
   end
   if #names == 0 then return end
   local new = declares(P, stmt, bindings[1][1])
   local line = ("%s%s = %s"):format(new and "local " or "", table.concat(names, ", "),
      table.concat(texts, ", "))
   if #line < P.width - 3 * P.level then return P:line(line) end
   for i, name in ipairs(names) do
      P:line(("%s%s = %s"):format(new and "local " or "", name, texts[i]))
   end
end

--- Translates `import a.b as c`.
function M.import(P, stmt, declares)
   local bindings = {}
   for _, alias in ipairs(stmt.names) do
      local file = P.files and P:file(alias.name)
      local name = alias.asname or alias.name:match "^[^.]+"
      local path = alias.asname and alias.name or name
      if file then
         P:set_type(name, {k = "local", file = file})
         bindings[#bindings + 1] = {name, ("require %q"):format(alias.name)}
      elseif not alias.asname and alias.name:find "%." and P:lookup(name) then
         P:set_type(name, {k = "lib", path = path})
      else
         bind(P, stmt, name, path, bindings)
      end
   end
   write(P, stmt, bindings, declares)
end

--- Translates `from a import b as c`.
function M.import_from(P, stmt, declares)
   local module = stmt.module or ""
   local bindings = {}
   local file = P.files and P:file(module)
   if module == "__future__" or module == "typing" then return end
   for _, alias in ipairs(stmt.names) do
      local name = alias.asname or alias.name
      if alias.name == "*" then
         P:note(stmt, ("from %s import *: name what is used"):format(module))
      elseif file then
         local class, fn = file.classes[alias.name], file.functions[alias.name]
         P:set_type(name, class and {k = "class", c = class} or fn and {k = "fn", f = fn} or nil)
         bindings[#bindings + 1] = {name, ("require(%q).%s"):format(module, alias.name)}
      else
         bind(P, stmt, name, module .. "." .. alias.name, bindings)
      end
   end
   write(P, stmt, bindings, declares)
end

return M
