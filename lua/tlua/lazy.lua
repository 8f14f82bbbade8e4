-- lazy.lua - the library's public tables (torch, torch.nn, torch.optim, ...). Their fields are
-- loaded when they are first used, so that starting costs nothing for what a program does not
-- need; and they are strict: reading a name that a table has not got is an error that names the
-- nearest one, since nil would pass silently for "not given". Assigning fields works as in any
-- table. torch.has tells whether a name exists.

local M = {}

--- Which module has which field.
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

-- Where a name may be looked for that was read from another table.
local namespaces <const> = {
   "", "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "linalg",
   "special", "autograd", "func", "data", "utils", "io", "distributed", "cuda",
}

-- The name's full form in another public table, such as torch.nn.Linear for torch.Linear.
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
   return require "tlua.utils.near".find(key, names)
end

-- Positions are nil, as in other tables, so that ipairs and # work; so are the names of
-- metamethods, by which programs find out what a value is.
local function may_be_nil(key)
   return type(key) == "number" or type(key) == "string" and key:find "^__%a+$" ~= nil
end

local function unknown(target, key)
   if may_be_nil(key) then return nil end
   local raise = require "tlua".raise
   local title = title_of(target)
   if type(key) ~= "string" then raise(("%s: no field %s"):format(title, tostring(key))) end
   local absent = getmetatable(target).absent
   local why = absent and require(absent)[key]
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

-- A field's value from the module that has it: a module either has a field of that name, or is
-- the value itself, as one that can be called always is.
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

--- The strict tables' __pairs: shows what is not loaded yet, too, and loads it on the way. It leaves
--- out the fields of packages that are not installed.
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

-- A table of names, not an object, a class, a metatable or a list. It is looked at when the library
-- is opened, so not at all of its names.
local function is_namespace(value)
   return type(value) == "table" and getmetatable(value) == nil and type(next(value)) == "string"
      and rawget(value, "__index") == nil and rawget(value, "__name") == nil
end

--- Makes a public table strict, and the tables of names in it: all without a metatable of their
--- own. `title` is its name in messages; the fields that it loads later are named after it.
---@param target table
---@param title string  such as "torch.nn"
---@param absent? string  a module: name -> why there is no such field
---@return table target
function M.strict(target, title, absent)
   if is_namespace(target) then M.load(target, {}) end
   local meta = getmetatable(target)
   if type(meta) ~= "table" or meta.__index ~= M.index or meta.title then return target end
   meta.title, meta.absent = title, absent
   for name, value in next, target do
      if type(value) == "table" and type(name) == "string" and not name:find "^_" then
         M.strict(value, ("%s.%s"):format(title, name))
      end
   end
   return target
end

-- Feature tests -----------------------------------------------------------------------------------

-- Whether a table has a field of its own, from a class that it derives from, or to be loaded.
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

--- Whether the library has something of that name: torch.has "nn.Linear", torch.has
--- "cuda.is_available", torch.has "float8_e5m2". A field of a package counts where the package is
--- installed: torch.has "text". Reading an unknown name from torch or one of its
--- tables is an error, so this is the way to test for a feature. It loads none of what the name
--- stands for.
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
