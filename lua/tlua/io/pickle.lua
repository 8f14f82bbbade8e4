-- pickle.lua - interprets the pickles in PyTorch's checkpoints. A pickle is a program for a stack
-- machine.
--
-- The machine builds tensors, tables, numbers, strings and booleans, and nothing else. Classes and
-- functions that `rebuild.lua` does not list are refused, and no code from the file is run.
-- Classes, storages and the marks on the stack are objects with the metatable `rebuild.Special`.
-- Data from the file cannot have this metatable, and objects with this metatable cannot get into
-- the result. Each step consumes at least a byte of the pickle. A step that takes longer, such as
-- copying a list, is charged for its work, and the sum of all charges must not exceed the length of
-- the pickle. So time and memory are at most proportional to that length.
--
-- Dictionaries become tables; lists, tuples and sets become sequences; None is left out.

local torch = require "tlua"
local kinds = require "tlua.io.kinds"
local rebuild = require "tlua.io.rebuild"
local source = require "tlua.io.source"

local M = {}

local Special <const> = rebuild.Special
local none <const> = rebuild.none
local mark <const> = setmetatable({}, Special)

-- The machine --------------------------------------------------------------------------------

---@class io.Pickle
---@field s io.Source
---@field stack any[]
---@field top integer
---@field memo table<integer, any>
---@field kept integer  values kept by MEMOIZE
---@field kind table<table, string>  "list", "dict", "tuple"; "inner": a tuple that holds a Special
---@field length table<table, integer>  the lengths of lists, with their None
---@field work integer  the sum of further charges that is allowed
---@field storage fun(key: string, dtype: string, n: integer, location: string): Tensor
local Machine = {}
Machine.__index = Machine

--- Adds n to the work done so far; raises an error if the sum exceeds the pickle's length.
function Machine:charge(n)
   self.work = self.work - n
   if self.work < 0 then
      source.fail("the pickle copies more than its %d bytes can hold", self.s.size)
   end
end

function Machine:push(value)
   self.top = self.top + 1
   self.stack[self.top] = value
end

function Machine:pop()
   local value = self.stack[self.top]
   if self.top == 0 or value == mark then source.fail "the pickle takes more than it has" end
   self.stack[self.top] = nil
   self.top = self.top - 1
   return value
end

-- Pops the values above the last mark. Returns a list of these values and the length of the list.
function Machine:pop_to_mark()
   local first = self.top
   while first > 0 and self.stack[first] ~= mark do first = first - 1 end
   if first == 0 then source.fail "the pickle has no mark" end
   local list = {n = self.top - first}
   for i = 1, list.n do
      list[i] = self.stack[first + i]
      self.stack[first + i] = nil
   end
   self.stack[first] = nil
   self.top = first - 1
   return list
end

-- Returns whether a value is one of the machine's own objects, such as a class or a storage, or a
-- tuple that contains such an object.
function Machine:is_inner(value)
   return getmetatable(value) == Special or self.kind[value] == "inner"
end

--- Converts a value of the pickle's stack to a Lua value: None becomes nil. Raises an error for
--- objects that only the interpreter of pickles uses, such as classes and storages.
function Machine:plain(value)
   if value == none then return nil end
   if type(value) == "table" and self:is_inner(value) then
      source.fail "the pickle puts a class or a storage where data are expected"
   end
   return value
end

-- Pushes a new, empty container of a kind.
function Machine:push_new(kind)
   local value = {}
   self.kind[value] = kind
   self:push(value)
end

function Machine:push_tuple(list)
   local tuple, kind = {}, "tuple"
   for i = 1, list.n do
      local value = list[i]
      if value ~= none then
         if type(value) == "table" and self:is_inner(value) then kind = "inner" end
         tuple[i] = value
      end
   end
   self.kind[tuple], self.length[tuple] = kind, list.n
   self:push(tuple)
end

-- Returns the container on top of the stack, which must be of the given kind.
function Machine:peek(kind)
   local value = self.stack[self.top]
   if self.kind[value] ~= kind then
      source.fail("the pickle adds items to a value that is not a %s", kind)
   end
   return value
end

--- Sets an entry of a dictionary.
function Machine:set(dict, key, value)
   key = self:plain(key)
   if key == nil or key ~= key then source.fail "a dictionary has None or NaN as a key" end
   dict[key] = self:plain(value)
end

function Machine:append(list)
   local target = self:peek "list"
   local n = self.length[target] or 0
   for i = 1, list.n do target[n + i] = self:plain(list[i]) end
   self.length[target] = n + list.n
end

function Machine:pop_tuple(n)
   local list = {n = n}
   for i = n, 1, -1 do list[i] = self:pop() end
   self:push_tuple(list)
end

function Machine:memoize(i)
   local value = self.stack[self.top]
   if self.top == 0 or value == mark then source.fail "the pickle takes more than it has" end
   self.memo[i] = value
end

function Machine:recall(i)
   local value = self.memo[i]
   if value == nil then source.fail("the pickle asks for number %d, which it has not kept", i) end
   self:push(value)
end

-- Pops a persistent identity ("storage", class, key, location, number of elements) and pushes the
-- storage.
function Machine:load_storage()
   local id = self:pop()
   local class = self.kind[id] == "inner" and id[2]
   local dtype = getmetatable(class) == Special and (class.dtype or class.untyped)
   if not dtype or id[1] ~= "storage" then source.fail "a storage of an unknown kind" end
   local key, location, n = id[3], id[4], id[5]
   if type(key) ~= "string" and math.type(key) ~= "integer" or type(location) ~= "string" then
      source.fail "a storage has no name"
   end
   if math.type(n) ~= "integer" or n < 0 then source.fail "a storage has no length" end
   if dtype ~= true then
      local storage = self.storage(tostring(key), dtype, n, location)
      return self:push(rebuild.storage(storage, class.quantized))
   end
   self:push(setmetatable({
      bytes = function(of, width) return self.storage(tostring(key), of, n // width, location) end,
   }, Special))
end

function Machine:call()
   local list, class = self:pop(), self:pop()
   local kind = self.kind[list]
   if getmetatable(class) ~= Special or not class.call or kind ~= "tuple" and kind ~= "inner" then
      source.fail "the pickle calls a value that is not a class"
   end
   self:push(class.call(self, table.unpack(list, 1, math.min(self.length[list], 8))))
end

function Machine:find(module, name)
   if type(module) ~= "string" or type(name) ~= "string" then
      source.fail "the pickle's name of a class is not text"
   end
   self:push(rebuild.find(module, name))
end

-- Reads a line of text.
function Machine:line()
   local letters = {}
   while #letters < 256 do
      local letter = self.s:text(1)
      if letter == "\n" then return table.concat(letters) end
      letters[#letters + 1] = letter
   end
   source.fail "the pickle has a name that is too long"
end

-- Steps ----------------------------------------------------------------------------------------

-- Reads a little-endian integer of n bytes.
local function read_long(s, n)
   if n == 0 then return 0 end
   if n > 8 then source.fail "an integer of more than 64 bits" end
   return s:unpack("<i" .. n)
end

local steps = {
   ["\x80"] = function(m) m.s:unpack "B" end,
   ["\x95"] = function(m) m.s:unpack "<i8" end,
   ["("] = function(m) m:push(mark) end,
   ["0"] = function(m) m:pop() end,
   N = function(m) m:push(none) end,
   ["\x88"] = function(m) m:push(true) end,
   ["\x89"] = function(m) m:push(false) end,
   K = function(m) m:push(m.s:unpack "B") end,
   M = function(m) m:push(m.s:unpack "<I2") end,
   J = function(m) m:push(m.s:unpack "<i4") end,
   G = function(m) m:push(m.s:unpack ">d") end,
   ["\x8a"] = function(m) m:push(read_long(m.s, m.s:unpack "B")) end,
   X = function(m) m:push(m.s:text(m.s:unpack "<I4")) end,
   U = function(m) m:push(m.s:text(m.s:unpack "B")) end,
   ["\x8c"] = function(m) m:push(m.s:text(m.s:unpack "B")) end,
   ["\x8d"] = function(m) m:push(m.s:text(m.s:unpack "<i8")) end,
   B = function(m) m:push(m.s:text(m.s:unpack "<I4")) end,
   C = function(m) m:push(m.s:text(m.s:unpack "B")) end,
   ["}"] = function(m) m:push_new "dict" end,
   ["]"] = function(m) m:push_new "list" end,
   ["\x8f"] = function(m) m:push_new "list" end,
   [")"] = function(m) m:push_tuple {n = 0} end,
   ["\x85"] = function(m) m:pop_tuple(1) end,
   ["\x86"] = function(m) m:pop_tuple(2) end,
   ["\x87"] = function(m) m:pop_tuple(3) end,
   t = function(m) m:push_tuple(m:pop_to_mark()) end,
   a = function(m) m:append {n = 1, m:pop()} end,
   e = function(m) m:append(m:pop_to_mark()) end,
   s = function(m)
      local value, key = m:pop(), m:pop()
      m:set(m:peek "dict", key, value)
   end,
   u = function(m)
      local list = m:pop_to_mark()
      if list.n % 2 == 1 then source.fail "a dictionary has a key without value" end
      local dict = m:peek "dict"
      for i = 1, list.n, 2 do m:set(dict, list[i], list[i + 1]) end
   end,
   q = function(m) m:memoize(m.s:unpack "B") end,
   r = function(m) m:memoize(m.s:unpack "<I4") end,
   ["\x94"] = function(m)
      m:memoize(m.kept)
      m.kept = m.kept + 1
   end,
   h = function(m) m:recall(m.s:unpack "B") end,
   j = function(m) m:recall(m.s:unpack "<I4") end,
   c = function(m)
      local module = m:line()
      m:find(module, m:line())
   end,
   ["\x93"] = function(m)
      local name, module = m:pop(), m:pop()
      m:find(module, name)
   end,
   Q = function(m) m:load_storage() end,
   R = function(m) m:call() end,
   ["\x81"] = function(m) m:call() end,
   -- BUILD: drops the attributes of an object, such as a state dict's _metadata
   b = function(m) m:pop() end,
}
steps["\x90"] = steps.e

-- Marks each table whose kind (list or dictionary) the rules of kinds.lua would not recognize, so
-- that saving the table again gives the same file.
local function mark_kinds(m)
   for value, kind in pairs(m.kind) do
      if kind == "dict" then
         if kinds.looks_like_list(value) then kinds.as_dict(value) end
      elseif next(value) == nil then
         kinds.as_list(value)
      end
   end
end

--- Runs the instructions of a pickle and returns the value that they build.
---@param bytes Tensor  (n) uint8
---@param storage fun(key: string, dtype: string, n: integer, location: string): Tensor
---@return any
function M.run(bytes, storage)
   local m = setmetatable({
      s = source.new(bytes), stack = {}, top = 0, memo = {}, kept = 0, kind = {}, length = {},
      work = bytes:numel(), storage = storage,
   }, Machine)
   local _ <close> = torch.no_grad()
   while true do
      local at = m.s.at
      local code = m.s:text(1)
      if code == "." then break end
      local step = steps[code]
      if not step then
         source.fail("byte %d of the pickle: unknown code 0x%02x", at, code:byte())
      end
      step(m)
   end
   local result = m:plain(m:pop())
   mark_kinds(m)
   return result
end

return M
