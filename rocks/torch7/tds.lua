-- tds.lua - Torch7's package tds: the classes Hash, Vec and AtomicCounter. Hash and Vec can contain
-- numbers, strings, booleans, tensors, storages and objects of these classes.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"

local M = {}
classes.root("tds", M)

local plain = {number = true, string = true, boolean = true}

local function convert(name, value)
   local kind = type(value)
   if value == nil or plain[kind] or types.is_tensor(value) or types.is_storage(value)
      or classes.isTypeOf(value, "tds.Hash") or classes.isTypeOf(value, "tds.Vec")
      or classes.isTypeOf(value, "tds.AtomicCounter") then
      return value
   end
   if kind == "table" and not debug.getmetatable(value) then
      for key in pairs(value) do
         if type(key) ~= "number" then return M.Hash(value) end
      end
      return M.Vec(value)
   end
   tlua.raise(("tds.%s: expected a number, string, tensor, storage or an object of tds, got %s")
      :format(name, classes.type(value)))
end

-- Returns the table with an object's elements, which is the only field of the object.
local function content(object) return rawget(object, "_1") end

local function indent(text) return (text:gsub("\n", "\n    ")) end

-- Hash --------------------------------------------------------------------------------------------

local Hash = classes.class "tds.Hash"

function Hash:__init(list)
   rawset(self, "_1", {})
   if list == nil then return end
   if type(list) ~= "table" then
      tlua.raise("tds.Hash: tbl: expected a table, got " .. classes.type(list))
   end
   for key, value in pairs(list) do self[key] = value end
end

local function key_of(key)
   if type(key) == "number" then return math.tointeger(key) or key end
   return key
end

-- Indexes an object: returns the element with this key, or else the method with this name.
local function index(object, key)
   local elements = content(object)
   local value = elements and elements[key_of(key)]
   return value, value ~= nil or type(key) ~= "string"
end
Hash.__index__ = index
function Hash:__newindex__(key, value)
   if key == nil or key ~= key then tlua.raise "tds.Hash: expected a key, got nil or NaN" end
   content(self)[convert("Hash", key_of(key))] = convert("Hash", value)
   return true
end
function Hash:__len__()
   local n = 0
   for _ in pairs(content(self)) do n = n + 1 end
   return n
end
function Hash:__tostring__()
   local lines, keys, width = {}, {}, 0
   for key in pairs(content(self)) do
      keys[#keys + 1] = key
      width = math.max(width, #tostring(key))
   end
   table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
   for _, key in ipairs(keys) do
      lines[#lines + 1] = ("    %s : %s"):format(tostring(key) .. (" "):rep(width - #tostring(key)),
         indent(tostring(content(self)[key])))
   end
   return ("tds.Hash[%d]{\n%s\n}"):format(#keys, table.concat(lines, "\n"))
end

-- Vec ---------------------------------------------------------------------------------------------

local Vec = classes.class "tds.Vec"

function Vec:__init(...)
   rawset(self, "_1", {n = 0})
   local list = table.pack(...)
   if list.n == 1 and type(list[1]) == "table" and not debug.getmetatable(list[1]) then
      list = list[1]
      local n = 0
      for key in pairs(list) do
         if not math.tointeger(key) or key < 1 then
            tlua.raise(("tds.Vec: tbl: expected positions as keys, got %s"):format(tostring(key)))
         end
         n = math.max(n, math.tointeger(key))
      end
      for i = 1, n do self:insert(list[i]) end
      return
   end
   for i = 1, list.n do self:insert(list[i]) end
end

local function position(self, at, name, last)
   local i = type(at) == "number" and math.tointeger(at)
   if not i or i < 1 or last and i > last then
      tlua.raise(("tds.Vec:%s: expected a position from 1%s, got %s"):format(name,
         last and " to " .. last or "", tostring(at)))
   end
   return i, content(self)
end

function Vec:__index__(key)
   if type(key) ~= "number" then return nil, false end
   local i = math.tointeger(key)
   return i and content(self)[i], true
end
function Vec:__newindex__(key, value)
   local i, list = position(self, key, "set")
   list[i] = convert("Vec", value)
   list.n = math.max(list.n, i)
   return true
end
function Vec:__len__() return content(self).n end

function Vec:resize(n)
   if math.type(n) ~= "integer" or n < 0 then
      tlua.raise("tds.Vec:resize: expected a size, got " .. tostring(n))
   end
   local list = content(self)
   for i = n + 1, list.n do list[i] = nil end
   list.n = n
   return self
end

--- Inserts a value. The arguments are ([index,] value).
function Vec:insert(...)
   local n = #self
   local at, value = n + 1, (...)
   if select("#", ...) > 1 then at, value = ... end
   local i, list = position(self, at, "insert", n + 1)
   value = convert("Vec", value)
   for k = n, i, -1 do list[k + 1] = list[k] end
   list[i], list.n = value, n + 1
end

--- Removes the element at a position, by default the last.
function Vec:remove(at)
   local n = #self
   if n == 0 then return end
   local i, list = position(self, at or n, "remove", n)
   for k = i, n - 1 do list[k] = list[k + 1] end
   list[n], list.n = nil, n - 1
end

function Vec:sort(compare)
   local list = content(self)
   local n = list.n
   list.n = nil
   local good, problem = pcall(table.sort, list, compare)
   list.n = n
   if not good then tlua.raise("tds.Vec:sort: " .. tostring(problem)) end
end

function Vec:concat(separator, first, last)
   for what, value in pairs {i = first, j = last} do
      if not math.tointeger(value) then
         tlua.raise(("tds.Vec:concat: %s: expected a position, got %s"):format(what,
            tostring(value)))
      end
   end
   if separator ~= nil and type(separator) ~= "string" and type(separator) ~= "number" then
      tlua.raise("tds.Vec:concat: sep: expected a string, got " .. classes.type(separator))
   end
   local parts = {}
   for i = first or 1, last or #self do parts[#parts + 1] = tostring(self[i]) end
   return table.concat(parts, separator)
end
function Vec:concatstorage(...)
   return types.new(types.kinds.Char):storage():string(self:concat(...))
end
function Vec:__tostring__()
   local lines = {}
   for i = 1, #self do lines[i] = ("    %d : %s"):format(i, indent(tostring(self[i]))) end
   return ("tds.Vec[%d]{\n%s\n}"):format(#self, table.concat(lines, "\n"))
end

-- AtomicCounter -----------------------------------------------------------------------------------

local Counter = classes.class "tds.AtomicCounter"

-- The count is an element of a tensor that all interpreters share. A mutex of the package threads
-- protects it.
function Counter:__init()
   self.count = types.storage(types.kinds.Long, tlua.zeros(1, {dtype = "int64", device = "cpu"}))
   self.mutex = require "tlua.torch7.threads".Mutex()
end
local function change(self, fn)
   self.mutex:lock()
   local value = fn(self.count[1])
   self.count[1] = value
   self.mutex:unlock()
   return value
end
-- Returns a number of a method's caller. It is checked before the mutex is locked, because an error
-- would leave the mutex locked.
local function checked(name, value)
   if not math.tointeger(value) then
      require "tlua.args".refuse("tds.AtomicCounter:" .. name, "value", "an integer", value)
   end
   return math.tointeger(value)
end
function Counter:inc(n)
   n = checked("inc", n or 1)
   return change(self, function(value) return value + n end)
end
function Counter:dec(n)
   n = checked("dec", n or 1)
   return change(self, function(value) return value - n end)
end
function Counter:set(value)
   value = checked("set", value)
   change(self, function() return value end)
end
function Counter:get() return self.count[1] end
function Counter:free() self.mutex:free() end
Counter.__tostring__ = function(self) return ("tds.AtomicCounter{%d}"):format(self:get()) end

-- In Lua 5.4, `pairs` calls the metamethod __pairs.
for class, iterate in pairs {[Hash] = function(self) return next, content(self), nil end,
   [Vec] = function(self)
      local n = #self
      return function(_, i) if i < n then return i + 1, self[i + 1] end end, nil, 0
   end} do
   rawset(classes.getmetatable(class.__typename), "__pairs", iterate)
end

-- These are the classes' names in earlier versions of the package.
M.hash, M.vec = M.Hash, M.Vec

return M
