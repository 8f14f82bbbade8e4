-- lazy.lua - the library's public tables (torch, torch.nn, torch.optim, ...). Their fields are
-- loaded when they are first used, so a program does not wait for modules that it does not need.
-- They are also strict: reading an unknown name is an error that suggests the nearest one, since
-- nil would pass silently for "not given". Assigning fields works as in any
-- table. torch.has tells whether a name exists.

local M = {}

--- Returns the module of each field.
---@param package string  what the modules' names begin with, such as "tlua.nn"
---@param names table<string, string>  the last part of a module's name -> the fields that it has
---@return table<string, string> modules  field -> module
function M.modules(package, names)
   local modules = {}
   for module, fields in pairs(names) do
      for field in fields:gmatch "[%w_]+" do modules[field] = package .. "." .. module end
   end
   return modules
end

-- Unknown names -----------------------------------------------------------------------------------

-- The tables that are searched for a name that another table has not got.
local namespaces <const> = {
   "", "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "linalg",
   "special", "autograd", "func", "data", "utils", "io", "distributed", "cuda",
}

-- Finds a name in another public table: torch.nn.Linear for torch.Linear.
local function elsewhere(name)
   for _, space in ipairs(namespaces) do
      local path = space == "" and name or space .. "." .. name
      if M.has(path) then return "torch." .. path end
   end
end

-- Returns a table's name for messages: its path from torch, else its module's name.
local function title_of(target)
   local title = getmetatable(target).title
   if title then return title end
   for module, loaded in next, package.loaded do
      if loaded == target then title = module:gsub("^tlua", "torch") end
   end
   return title or "this table"
end

local function nearest(target, key)
   local names = {}
   local private = key:find "^_" ~= nil
   for _, fields in ipairs {target, getmetatable(target).lazy} do
      for name in next, fields do
         if type(name) == "string" and (name:find "^_" ~= nil) == private then
            names[name] = true
         end
      end
   end
   return require "tlua.utils.suggest".nearest(key, names)
end

-- Unknown positions are nil, as in other tables, so that ipairs and # work. Unknown metamethods are
-- nil, too, since programs look for them to learn what a value can do.
local function may_be_nil(key)
   return type(key) == "number" or type(key) == "string" and key:find "^__%a+$" ~= nil
end

local function unknown(target, key)
   if may_be_nil(key) then return nil end
   local raise = require "tlua".raise
   local title = title_of(target)
   if type(key) ~= "string" then raise(("%s: no field %s"):format(title, tostring(key))) end
   local unsupported = getmetatable(target).unsupported
   local why = unsupported and require(unsupported)[key]
   if why then raise(("%s.%s: %s"):format(title, key, why)) end
   local other = elsewhere(key)
   local near = not other and nearest(target, key)
   local meant = other or near and title .. "." .. near
   raise(("%s: no field '%s'%s"):format(title, key,
      meant and (". Did you mean %s?"):format(meant) or ""))
end

-- Tables ------------------------------------------------------------------------------------------

-- Whether a module is part of the library; another may belong to a package, which may be missing.
local function is_embedded(module)
   return package and package.preload[module] ~= nil
end

local function is_there(module)
   return is_embedded(module) or require "tlua.packages".has(module)
end

-- Loads a field from its module. A module that can be called is the value itself, as is one that
-- has no field of that name.
local function load_field(module, name)
   local value = require(module)
   local meta = getmetatable(value)
   if type(value) == "table" and not (meta and meta.__call) then
      local field = rawget(value, name)
      if field ~= nil then return field end
   end
   return value
end

--- The strict tables' __index.
---@param target table
---@param name any
---@return any
function M.index(target, name)
   local meta = getmetatable(target)
   local module = meta.lazy[name]
   if not module then return unknown(target, name) end
   if not is_embedded(module) then
      require "tlua.packages".check(module, ("%s.%s"):format(title_of(target), name))
   end
   local value = load_field(module, name)
   rawset(target, name, value)
   if meta.title and type(value) == "table" then
      M.strict(value, ("%s.%s"):format(meta.title, name))
   end
   return value
end

--- The strict tables' __pairs: iterates over all fields, and loads those that are not loaded yet.
--- Fields of packages that are not installed are left out.
---@param target table
---@return function iterator
function M.each(target)
   local names = {}
   for name in next, target do names[#names + 1] = name end
   for name, module in next, getmetatable(target).lazy do
      if rawget(target, name) == nil and is_there(module) then names[#names + 1] = name end
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

--- Makes fields of `target` load on first use, and the table strict. Once loaded, a field is an
--- ordinary one; until then the metatable's `lazy` lists it, for completion.
---@param target table
---@param modules table<string, string>  field -> the Lua module that it comes from
---@return table target
function M.load(target, modules)
   return setmetatable(target, {lazy = modules, __index = M.index, __pairs = M.each})
end

-- Tells whether a value is a plain table of names: not an object, class, metatable or list. It
-- looks at one key only, since it runs for each table when the library is opened.
local function is_namespace(value)
   return type(value) == "table" and getmetatable(value) == nil and type(next(value)) == "string"
      and rawget(value, "__index") == nil and rawget(value, "__name") == nil
end

--- Makes a public table strict, and the plain tables of names in it. `title` is its name in
--- messages; tables that it loads later get a title that begins with it.
---@param target table
---@param title string  such as "torch.nn"
---@param unsupported? string  a module with a table: name -> why there is no such field
---@return table target
function M.strict(target, title, unsupported)
   if is_namespace(target) then M.load(target, {}) end
   local meta = getmetatable(target)
   if type(meta) ~= "table" or meta.__index ~= M.index or meta.title then return target end
   meta.title, meta.unsupported = title, unsupported
   for name, value in next, target do
      if type(value) == "table" and type(name) == "string" and not name:find "^_" then
         M.strict(value, ("%s.%s"):format(title, name))
      end
   end
   return target
end

-- Feature tests -----------------------------------------------------------------------------------

-- Tells whether a table has a field: its own, inherited, or not loaded yet.
local function contains(value, name)
   while type(value) == "table" do
      if rawget(value, name) ~= nil then return true end
      local meta = getmetatable(value)
      if type(meta) ~= "table" then return false end
      if meta.lazy and meta.lazy[name] then return is_there(meta.lazy[name]) end
      if meta.names and meta.names[name] ~= nil then return true end
      value = meta.__index
   end
   return false
end

--- Tells whether the library has a name: torch.has "nn.Linear", torch.has "cuda.is_available",
--- torch.has "float8_e5m2". A field of a package counts if the package is installed: torch.has
--- "text". Reading an unknown name from torch or one of its tables is an error, so this is the way
--- to test for a feature. It loads no module.
---@param name string  from torch on, parts joined by dots
---@return boolean
function M.has(name)
   local torch = require "tlua"
   if type(name) ~= "string" or name == "" then
      require "tlua.args".refuse("has", "name", 'a name such as "nn.Linear"', name)
   end
   local value, last = torch, nil
   for part in (name:gsub("^torch%.", "") .. "."):gmatch "(.-)%." do
      if last then value = value[last] end
      if not contains(value, part) then return false end
      last = part
   end
   return true
end

return M
