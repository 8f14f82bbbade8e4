-- class.lua - classes with single inheritance, for modules, optimizers, datasets and user-defined
-- classes:
--
--    local Circle, Shape = torch.class("Circle", Shape)
--    function Circle:__init(radius) self.radius = radius end
--    function Circle:area() return math.pi * self.radius ^ 2 end
--    local circle = Circle(2)
--
-- A class is a table of methods and at the same time the metatable of its instances. Methods are
-- looked up when they are called, so a method that is defined or replaced later, in the class or in
-- its ancestors, also applies to objects that exist already. Lua looks for metamethods only in the
-- metatable itself. Therefore a class copies its parent's metamethods (all but __gc) when it is
-- made, and metamethods that the parent gets later are passed on to the class. A class's own
-- metatable, which makes instances and sets fields of the class, is copied from its parent's when
-- the class is made.

local torch = require "tlua"

local M = {}

local metamethods = {}
for name in ([[add sub mul div mod pow unm idiv band bor bxor shl shr bnot concat len eq lt le
   index newindex call tostring pairs close]]):gmatch "%a+" do
   metamethods["__" .. name] = true
end

local function construct(cls, ...)
   local object = setmetatable({}, cls)
   object:__init(...)
   return object
end

-- Sets a new field of a class. If the field is a metamethod, it is also set in the subclasses that
-- do not have it yet.
local function define(cls, name, value)
   rawset(cls, name, value)
   if not metamethods[name] then return end
   for child in pairs(getmetatable(cls).children) do
      if rawget(child, name) == nil then child[name] = value end
   end
end

local function describe(cls)
   return "class " .. cls.__name
end

local function default_init() end

--- Sets how a class, and all classes derived from that class later, look up a field that an
--- instance lacks: make(cls) makes the __index function of each class.
---@param cls table
---@param make fun(cls: table): fun(self: table, key: any): any
function M.index_by(cls, make)
   getmetatable(cls).make_index = make
   cls.__index = make(cls)
end

--- Makes a class. A call of the class makes an instance and runs its `__init`.
---@param name string  the name that `torch.type` and printing show
---@param parent? table  a class made by this function
---@return table class
---@return table? parent
function M.class(name, parent)
   if type(name) ~= "string" then
      torch.raise("class: name: expected a string, got " .. type(name))
   end
   local parent_info = parent and getmetatable(parent)
   if parent and not (type(parent_info) == "table" and parent_info.ancestors) then
      torch.raise(("class %s: parent: expected a class, got %s"):format(name, type(parent)))
   end

   local cls = {__name = name}
   local info = {
      ancestors = {[cls] = true}, parent = parent,
      -- weak keys, so that unused subclasses can be collected
      children = setmetatable({}, {__mode = "k"}),
      __index = parent, __call = parent and parent_info.__call or construct,
      __newindex = parent and parent_info.__newindex or define, __tostring = describe,
   }
   if parent then
      for ancestor in pairs(parent_info.ancestors) do info.ancestors[ancestor] = true end
      for metamethod in pairs(metamethods) do cls[metamethod] = rawget(parent, metamethod) end
      parent_info.children[cls] = true
   else
      cls.__init = default_init
   end
   local make_index = parent and parent_info.make_index
   info.make_index = make_index
   if make_index then
      cls.__index = make_index(cls)
   elseif not parent or rawget(parent, "__index") == parent then
      cls.__index = cls
   end
   return setmetatable(cls, info), parent
end

local function is_device(value)
   return type(value) == "userdata" and torch._to_device(value) ~= nil
end

-- Implements isinstance for classes not made by torch.class: torch.device, torch.Size,
-- nn.Parameter, lists of classes, and tables whose metatable has a function `holds`, such as
-- torch.Tensor.
local function is_of(object, cls)
   local meta = getmetatable(cls)
   if type(meta) == "table" and meta.holds then return meta.holds(object) end
   if cls == torch.device then
      return is_device(object)
   elseif cls == torch.Size then
      return torch._is_size(object)
   elseif cls ~= nil and cls == package.loaded["tlua.nn.Parameter"] then
      return torch.is_tensor(object) and object.is_parameter
   elseif type(cls) == "table" and meta == nil and #cls > 0 then
      for _, one in ipairs(cls) do
         if M.isinstance(object, one) then return true end
      end
      return false
   end
   require "tlua.args".refuse("isinstance", "class", "a class, torch.Tensor, or a list of them",
      cls)
end

--- Returns whether an object is an instance of a class or of a subclass, or of any class in a list.
--- torch.Tensor, torch.FloatTensor, nn.Parameter, torch.device and torch.Size are accepted as well.
---@param object any
---@param cls table|function
---@return boolean
function M.isinstance(object, cls)
   local meta = getmetatable(object)
   local info = type(meta) == "table" and getmetatable(meta)
   local ancestors = type(info) == "table" and info.ancestors or nil
   if ancestors and ancestors[cls] then return true end
   local of = type(cls) == "table" and getmetatable(cls)
   if type(of) == "table" and of.ancestors then return false end
   return is_of(object, cls)
end

--- Returns whether a value is a class and, if `parent` is given, whether it is `parent` or derived
--- from it.
---@param cls any
---@param parent? table
---@return boolean
function M.issubclass(cls, parent)
   local info = type(cls) == "table" and getmetatable(cls)
   local ancestors = type(info) == "table" and info.ancestors or nil
   return ancestors ~= nil and (parent == nil or ancestors[parent] == true)
end

--- Returns the class's name for an instance, "Tensor" for a tensor, "torch.Size" for a size,
--- "torch.device" for a device, and for any other value the result of Lua's `type`.
---@param object any
---@return string
function M.type(object)
   local meta = getmetatable(object)
   local info = type(meta) == "table" and getmetatable(meta)
   if type(info) == "table" and info.ancestors then return meta.__name end
   if torch.is_tensor(object) then return "Tensor" end
   if torch._is_size(object) then return "torch.Size" end
   return is_device(object) and "torch.device" or type(object)
end

return M
