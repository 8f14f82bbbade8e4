-- lazy.lua - the library's public tables (torch, torch.nn, torch.optim, ...). Their fields are
-- loaded when they are first used, so that starting is fast. The tables are strict: reading a name
-- that a table lacks raises an error that suggests the closest name, since nil could silently pass
-- for a missing argument. Assigning fields works as in any table. Messages about unknown names are
-- in names.lua, which is loaded for the first such message.

local M = {}

--- Returns a table that maps each field to its module.
---@param package string  the prefix of the modules' names, such as "tlua.nn"
---@param names table<string, string>  maps the last part of a module's name to the module's fields
---@return table<string, string> modules  field -> module
function M.modules(package, names)
   local modules = {}
   for part, fields in next, names do
      local module = package .. "." .. part
      for field in fields:gmatch "%S+" do modules[field] = module end
   end
   return modules
end

-- Tables ------------------------------------------------------------------------------------------

-- Returns whether a module is part of the library; any other module belongs to a package, which may
-- be missing.
local function is_embedded(module)
   return require "tlua"._is_embedded(module)
end

--- Returns whether the module of a field exists: it is part of the library, or its package is
--- installed.
---@param module string
---@return boolean
function M.is_there(module)
   return is_embedded(module) or require "tlua.packages".has(module)
end

--- Raises an error at the user's line if a module is neither part of the library nor of an
--- installed package.
---@param module string
---@param title string  the public name that the program has used, such as "torch.text"
function M.check(module, title)
   if not is_embedded(module) then require "tlua.packages".check(module, title) end
end

-- Returns the table of fields that load on first use, from the metatable of a public table. If a
-- function makes that table, calls the function the first time.
local function fields_of(meta)
   local fields = meta.lazy
   if type(fields) == "function" then
      fields = fields()
      meta.lazy = fields
   end
   return fields
end

--- Returns the fields of a public table that load on first use, including fields already loaded.
--- Returns an empty table for any other value.
---@param value any
---@return table<string, string> fields  field -> module
function M.fields(value)
   local meta = type(value) == "table" and getmetatable(value)
   return type(meta) == "table" and meta.lazy and fields_of(meta) or {}
end

-- Returns a field's value from its module: the module's field of that name or, if there is no such
-- field, the module itself, which may be a function.
local function load_field(module, name)
   local value = require(module)
   local meta = getmetatable(value)
   if type(value) == "table" and not (meta and meta.__call) then
      local field = rawget(value, name)
      if field ~= nil then return field end
   end
   return value
end

--- Implements __index of strict tables.
---@param target table
---@param name any
---@return any
function M.index(target, name)
   local meta = getmetatable(target)
   local module = fields_of(meta)[name]
   if not module then return require "tlua.names".refuse(target, name) end
   if not is_embedded(module) then
      M.check(module, ("%s.%s"):format(require "tlua.names".title_of(target), name))
   end
   local value = load_field(module, name)
   rawset(target, name, value)
   if meta.title and type(value) == "table" then
      M.strict(value, ("%s.%s"):format(meta.title, name))
   end
   return value
end

--- Implements __pairs of strict tables. The iteration includes fields that are not loaded yet, and
--- loads them; it leaves out fields of packages that are not installed.
---@param target table
---@return function iterator
function M.each(target)
   local names = {}
   for name in next, target do names[#names + 1] = name end
   for name, module in next, M.fields(target) do
      if rawget(target, name) == nil and M.is_there(module) then names[#names + 1] = name end
   end
   local i = 0
   return function()
      repeat
         i = i + 1
         local name = names[i]
         local value = name ~= nil and target[name]
         if value ~= nil and name ~= nil then return name, value end
      until name == nil
   end
end

--- Makes fields of `target` load on first use, and makes the table strict. A loaded field is an
--- ordinary field. Existing fields are unchanged.
---@param target table
---@param modules table<string, string>|fun(): table<string, string>  field -> the name of its
--- Lua module; a function that returns this table is called when an absent field is first read
---@return table target
function M.load(target, modules)
   return setmetatable(target, {lazy = modules, __index = M.index, __pairs = M.each})
end

-- Returns whether a value is a plain table with string keys, rather than an object, a class, a
-- metatable or a list.
local function is_namespace(value)
   return type(value) == "table" and not getmetatable(value) and type(next(value)) == "string"
      and rawget(value, "__index") == nil and rawget(value, "__name") == nil
end

--- Makes a public table strict, but not the tables in its fields.
---@param target table
---@param title string  such as "torch.linalg"
---@param unsupported? string  a module: name -> why there is no such field
---@return table target
function M.entitle(target, title, unsupported)
   if not getmetatable(target) then M.load(target, {}) end
   local meta = getmetatable(target)
   meta.title, meta.unsupported = title, unsupported
   return target
end

--- Makes a public table strict, and also the plain tables with string keys inside. `title` is the
--- table's name in messages; fields that are loaded later get titles that begin with it.
---@param target table
---@param title string  such as "torch.nn"
---@return table target
function M.strict(target, title)
   if is_namespace(target) then M.load(target, {}) end
   local meta = getmetatable(target)
   if type(meta) ~= "table" or meta.__index ~= M.index or meta.title then return target end
   meta.title = title
   for name, value in next, target do
      if type(value) == "table" and type(name) == "string" and not name:find "^_" then
         M.strict(value, ("%s.%s"):format(title, name))
      end
   end
   return target
end

return M
