-- classes.lua - Torch7's class system: torch.class, torch.factory, torch.typename and so on.
-- Classes are known by names such as "nn.Linear". A class has a metatable, which contains the
-- methods, and a constructor table, which programs see and which forwards reads and writes to the
-- metatable.

local torch = require "tlua"

local M = {}

--- A constructor returns nil instead of an object if the __init of the class returns this value.
M.none = {}

local metatables = {}   -- maps names of classes to their metatables
local constructors = {} -- maps names of classes to their constructor tables
-- maps metatables to lists of their subclasses' metatables
local children = setmetatable({}, {__mode = "k"})

local metamethods = {}
for name in ([[add sub mul div mod pow unm idiv concat len eq lt le call tostring]]):gmatch "%a+" do
   metamethods["__" .. name .. "__"] = "__" .. name
end

-- Sets a metamethod of a class, and also of those subclasses that do not define it themselves.
local function pass_on(meta, name, value)
   rawset(meta, name, value)
   for _, child in ipairs(children[meta] or {}) do
      if rawget(child, name .. "__") == nil then pass_on(child, name, value) end
   end
end

-- Returns a function for the metamethod __index of a class. It first calls `method`, the class's
-- own method __index__, which returns the value of a key and true. If the method returns nothing or
-- false, the key is looked up in the class.
local function index_by(method, meta)
   return function(object, key)
      local value, handled = method(object, key)
      if handled or value then return value end
      return meta[key]
   end
end

-- Gives a class an __index that calls `method`. Subclasses get one too, unless they define the
-- method __index__ themselves.
local function pass_index_on(meta, method)
   rawset(meta, "__index", index_by(method, meta))
   for _, child in ipairs(children[meta] or {}) do
      if rawget(child, "__index__") == nil then pass_index_on(child, method) end
   end
end

local function newindex_by(method)
   return function(object, key, value)
      if not method(object, key, value) then rawset(object, key, value) end
   end
end

-- Sets a field of a class. The name of a metamethod may be written in Torch7's manner, with two
-- underscores at its end as well: "__add__" for "__add".
local function define(meta, key, value)
   rawset(meta, key, value)
   if metamethods[key] then
      pass_on(meta, metamethods[key], value)
   elseif key == "__index__" then
      pass_index_on(meta, value)
   elseif key == "__newindex__" then
      pass_on(meta, "__newindex", newindex_by(value))
   end
end

local function constructor_table(meta, make)
   return setmetatable({}, {__index = meta, __metatable = meta, __pairs = function()
      return next, meta
   end, __newindex = function(_, key, value) define(meta, key, value) end,
      __call = function(_, ...) return make(...) end})
end

local function describe(object) return object.__typename end

local function check_name(fname, name)
   if type(name) ~= "string" then
      torch.raise(("torch.%s: expected a class's name, got %s"):format(fname, type(name)))
   end
end

--- Creates and returns the metatable of a class. When a program calls the class, `make` creates the
--- object.
---@param name string
---@param parent? string
---@param make? fun(...): any
---@return table metatable
function M.newmetatable(name, parent, make)
   check_name("newmetatable", name)
   if metatables[name] then torch.raise(("torch.class: the class %s exists"):format(name)) end
   local above = parent and metatables[parent]
   if parent and not above then
      torch.raise(("torch.class: the parent class %s does not exist"):format(tostring(parent)))
   end
   local meta = {__typename = name, __version = 1, __tostring = describe}
   meta.__index = meta
   if above then
      for _, short in pairs(metamethods) do meta[short] = rawget(above, short) end
      meta.__tostring = rawget(above, "__tostring")
      local method = above.__index__
      if method then meta.__index = index_by(method, meta) end
      meta.__newindex = rawget(above, "__newindex")
      children[above] = children[above] or {}
      table.insert(children[above], meta)
      setmetatable(meta, {__index = above, parent = above})
   end
   metatables[name] = meta
   constructors[name] = constructor_table(meta, make or function(...)
      local object = setmetatable({}, meta)
      if object.__init and object:__init(...) == M.none then return nil end
      return object
   end)
   return meta
end

local roots = {}

--- Sets the table that contains the classes of a package such as "nn".
function M.root(name, folder) roots[name] = folder end

-- Returns the table that contains a class, and the class's name in this table. For the name
-- "a.b.C", these are the table a.b and "C".
local function place_of(name, module)
   if module then return module, name:match "[^.]+$" end
   local folder, last = name:match "^(.*)%.([^.]+)$"
   if not folder then return _G, name end
   local at
   for part in folder:gmatch "[^.]+" do
      if not at then
         at = roots[part] or rawget(_G, part) or package.loaded[part]
      else
         at = at[part]
      end
      if type(at) ~= "table" then
         torch.raise(("torch.class: %s: there is no table %s"):format(name, part))
      end
   end
   return at, last
end

--- Defines a class, as a field of its package's table or of the table `module`. Returns the class's
--- constructor table and the parent's metatable.
---@param name string  the name, such as "nn.Square"
---@param parent? string
---@param module? table
---@return table class
---@return table? parent
function M.class(name, parent, module)
   check_name("class", name)
   if type(parent) == "table" then parent, module = nil, parent end
   if module ~= nil and type(module) ~= "table" then
      torch.raise("torch.class: module: expected a table, got " .. type(module))
   end
   local place, last = place_of(name, module)
   M.newmetatable(name, parent)
   rawset(place, last, constructors[name])
   return constructors[name], parent and metatables[parent]
end

-- the set of the names of classes that programs have defined
local of_programs = {}

--- Defines a class of a program, as `class` does. If this package has a class of the same name, the
--- program's class replaces it, because old programs could not know that the name would be in use.
---@param name string
---@param parent? string|table
---@param module? table
---@return table class
---@return table? parent
function M.define(name, parent, module)
   check_name("class", name)
   local before, known = metatables[name], constructors[name]
   if before and not of_programs[name] and not name:find "^torch%." then
      metatables[name], constructors[name] = nil, nil
   end
   local good, class, above = pcall(M.class, name, parent, module)
   if not good then
      metatables[name], constructors[name] = before, known
      torch.raise((class:gsub("^[^:]*:%d+: ", "")))
   end
   of_programs[name] = true
   return class, above
end

--- Returns a class's metatable; nil if there is no such class.
---@param name string
---@return table? metatable
function M.getmetatable(name) return metatables[name] end

--- Returns a class's constructor table; nil if there is no such class.
---@param name string
---@return table? class
function M.getconstructortable(name) return constructors[name] end

--- Makes a table an object of a class, and returns the table.
---@param object table
---@param name string
---@return table object
function M.setmetatable(object, name)
   if not metatables[name] then
      torch.raise(("torch.setmetatable: the class %s does not exist"):format(tostring(name)))
   end
   return setmetatable(object, metatables[name])
end

--- Returns a function that creates empty objects of a class without calling `__init`. Returns nil
--- if there is no such class.
---@param name string
---@return (fun(): any)?
function M.factory(name)
   local meta = metatables[name]
   if not meta then return nil end
   return rawget(meta, "__factory") or function() return setmetatable({}, meta) end
end

--- Returns the metatable of an object of Torch7's classes; nil for other values.
---@param object any
---@return table?
function M.metatype(object)
   local meta = debug.getmetatable(object)
   if type(meta) ~= "table" or type(rawget(meta, "__typename")) ~= "string" then return nil end
   return metatables[meta.__typename] == meta and meta or nil
end

--- Lets the objects of an object's class compute fields that neither the object nor the class has.
--- If the class defines the method __index__, nothing changes.
---@param object table
---@param missing table<string, fun(object: table): any>  maps fields to functions
function M.supply(object, missing)
   local meta = M.metatype(object)
   if not meta or rawget(meta, "__index") ~= meta then return end
   rawset(meta, "__index", function(given, key)
      local value = meta[key]
      if value == nil and missing[key] then return missing[key](given) end
      return value
   end)
end

--- Returns the name of an object's class; nil if the value has no class.
---@param object any
---@return string?
function M.typename(object)
   if type(object) == "string" then return metatables[object] and object end
   local meta = M.metatype(object)
   return meta and meta.__typename
end

--- Returns the name of an object's class. For a value without a class, returns the name of its Lua
--- type.
---@param object any
---@return string
function M.type(object)
   local meta = M.metatype(object)
   return meta and meta.__typename or type(object)
end

--- Returns whether an object's class is the wanted class or derives from it. `wanted` is a name, a
--- pattern for names, or a constructor table.
---@param object any
---@param wanted string|table
---@return boolean
function M.isTypeOf(object, wanted)
   local meta = M.metatype(object)
   if type(wanted) == "table" then
      wanted = debug.getmetatable(wanted)
      wanted = wanted and wanted.__metatable
   elseif type(wanted) ~= "string" then
      torch.raise("torch.isTypeOf: expected a class or its name, got " .. type(wanted))
   end
   while meta do
      if meta == wanted then return true end
      local name = meta.__typename
      if type(wanted) == "string" and (name == wanted or name:find(wanted)) then return true end
      local above = getmetatable(meta)
      meta = above and above.parent
   end
   return false
end

local ids, count = {}, 0

--- Returns a number that identifies the class with the given name.
---@param name string
---@return integer? id
function M.typename2id(name)
   if not metatables[name] then return nil end
   if not ids[name] then
      count = count + 1
      ids[name] = count
   end
   return ids[name]
end

--- Returns a number that identifies an object's class; nil if the value has no class.
---@param object any
---@return integer? id
function M.id(object)
   local meta = M.metatype(object)
   return meta and M.typename2id(meta.__typename)
end

--- Returns whether two values are the same table or object.
---@param a any
---@param b any
---@return boolean
function M.isequal(a, b)
   local kind = type(a)
   return (kind == "table" or kind == "userdata") and rawequal(a, b)
end

return M
