-- pickle.lua - reads PyTorch's checkpoints (.pt, .pth): a zip file with a pickle, a program for a
-- machine with a stack, and the bytes of each storage.
--
-- The machine here builds tensors, tables, numbers, strings and booleans, and nothing else: a class
-- or function by any other name than those below is refused, and none is ever called. Dictionaries
-- become tables, lists and tuples sequences, None is left out.

local source = require "tlua.io.source"
local zip = require "tlua.io.zip"

local M = {}

local storages <const> = {
   FloatStorage = "float32", DoubleStorage = "float64", HalfStorage = "float16",
   BFloat16Storage = "bfloat16", LongStorage = "int64", IntStorage = "int32",
   ShortStorage = "int16", CharStorage = "int8", ByteStorage = "uint8", BoolStorage = "bool",
}

local dtypes <const> = {}
for _, dtype in pairs(storages) do dtypes[dtype] = true end

local mark <const> = {} -- what MARK pushes
local none <const> = {} -- None
local max_steps <const> = 1 << 24

-- A dictionary's or list's entries without None.
local function plain(value)
   if value == none then return nil end
   return value
end

-- Calls --------------------------------------------------------------------------------------

local known = {} -- "module name" -> function of the arguments

local function check_sizes(list, what)
   if type(list) ~= "table" or #list > 16 then source.fail("a tensor's %s is no tuple", what) end
   for i = 1, #list do
      if math.type(list[i]) ~= "integer" or list[i] < 0 or list[i] > 1 << 53 then
         source.fail("a tensor's %s has an impossible number", what)
      end
   end
end

-- The tensor over a storage, if all of its elements lie inside.
known["torch._utils _rebuild_tensor_v2"] = function(storage, offset, size, stride)
   if type(storage) ~= "table" or not storage.storage then source.fail "a tensor has no storage" end
   check_sizes(size, "size")
   check_sizes(stride, "stride")
   if math.type(offset) ~= "integer" or offset < 0 or #size ~= #stride then
      source.fail "a tensor's geometry makes no sense"
   end
   local last, empty, n = offset, false, storage.storage:numel()
   for i = 1, #size do
      if size[i] == 0 then empty = true end
      if size[i] > 1 and stride[i] > 0 and size[i] - 1 > n // stride[i] then
         source.fail("a tensor of size {%s} lies outside of its storage of %d elements",
            table.concat(size, ", "), n)
      end
      last = last + math.max(size[i] - 1, 0) * stride[i]
      if stride[i] == 0 and size[i] > 1 << 31 then source.fail "a tensor is too large" end
   end
   if empty then return storage.storage:narrow(1, 1, 0):reshape(size) end
   if last >= n then
      source.fail("a tensor of size {%s} lies outside of its storage of %d elements",
         table.concat(size, ", "), n)
   end
   return storage.storage:as_strided(size, stride, storage.storage:storage_offset() + offset)
end

known["torch._utils _rebuild_parameter"] = function(data) return data end
known["collections OrderedDict"] = function(list)
   local dictionary = {}
   for _, pair in ipairs(type(list) == "table" and list or {}) do
      if type(pair) == "table" and plain(pair[1]) ~= nil then
         dictionary[pair[1]] = plain(pair[2])
      end
   end
   return dictionary
end
known["torch Size"] = function(list) return list end

-- What a name stands for: a function of those above, a storage's dtype, or a dtype's name.
local function find(module, name)
   local key = module .. " " .. name
   if known[key] then return {call = known[key]} end
   if module == "torch" and storages[name] then return {dtype = storages[name]} end
   if module == "torch" and dtypes[name] then return name end
   source.fail("the class %s.%s is refused: only tensors and plain data are read", module, name)
end

-- The machine --------------------------------------------------------------------------------

local Machine = {}
Machine.__index = Machine

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

-- What was pushed since the last mark, as a sequence with its length.
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

function Machine:peek()
   local value = self.stack[self.top]
   if type(value) ~= "table" or value == mark or value == none or value.call then
      source.fail "the pickle fills what is no table"
   end
   return value
end

local function to_tuple(list)
   local tuple = {}
   for i = 1, list.n or #list do tuple[i] = plain(list[i]) end
   return tuple
end

local function set(target, key, value)
   if key == none or key == nil or key ~= key then source.fail "a dictionary has None as a key" end
   target[key] = plain(value)
end

local function append(machine, list)
   local target = machine:peek()
   local n = machine.lengths[target] or #target
   for i = 1, list.n do target[n + i] = plain(list[i]) end
   machine.lengths[target] = n + list.n
end

function Machine:tuple(n)
   local list = {n = n}
   for i = n, 1, -1 do list[i] = self:pop() end
   self:push(to_tuple(list))
end

function Machine:memoize(i)
   if self.top == 0 then source.fail "the pickle takes more than it has" end
   self.memo[i] = self.stack[self.top]
end

function Machine:recall(i)
   local value = self.memo[i]
   if value == nil then source.fail("the pickle asks for number %d, which it has not kept", i) end
   self:push(value)
end

function Machine:load_storage()
   local id = self:pop()
   if type(id) ~= "table" or id[1] ~= "storage" or type(id[2]) ~= "table" or not id[2].dtype then
      source.fail "a storage of an unknown kind"
   end
   local n = id[5]
   if math.type(n) ~= "integer" or n < 0 then source.fail "a storage has no length" end
   self:push(self.read_storage(tostring(id[3]), id[2].dtype, n))
end

function Machine:call()
   local list = self:pop()
   local fn = self:pop()
   if type(fn) ~= "table" or not fn.call or type(list) ~= "table" then
      source.fail "the pickle calls what is no class"
   end
   self:push(fn.call(table.unpack(list, 1, 8)))
end

-- A little-endian integer of n bytes.
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
   ["\x8c"] = function(m) m:push(m.s:text(m.s:unpack "B")) end,
   ["\x8d"] = function(m) m:push(m.s:text(m.s:unpack "<i8")) end,
   B = function(m) m:push(m.s:text(m.s:unpack "<I4")) end,
   C = function(m) m:push(m.s:text(m.s:unpack "B")) end,
   ["}"] = function(m) m:push({}) end,
   ["]"] = function(m) m:push({}) end,
   [")"] = function(m) m:push({}) end,
   ["\x8f"] = function(m) m:push({}) end,
   ["\x85"] = function(m) m:tuple(1) end,
   ["\x86"] = function(m) m:tuple(2) end,
   ["\x87"] = function(m) m:tuple(3) end,
   t = function(m) m:push(to_tuple(m:pop_to_mark())) end,
   a = function(m) append(m, {n = 1, m:pop()}) end,
   e = function(m)
      local list = m:pop_to_mark()
      append(m, list)
   end,
   s = function(m)
      local value = m:pop()
      local key = m:pop()
      set(m:peek(), key, value)
   end,
   u = function(m)
      local list = m:pop_to_mark()
      for i = 1, list.n - 1, 2 do set(m:peek(), list[i], list[i + 1]) end
   end,
   q = function(m) m:memoize(m.s:unpack "B") end,
   r = function(m) m:memoize(m.s:unpack "<I4") end,
   ["\x94"] = function(m)
      m.kept = m.kept + 1
      m:memoize(m.kept - 1)
   end,
   h = function(m) m:recall(m.s:unpack "B") end,
   j = function(m) m:recall(m.s:unpack "<I4") end,
   c = function(m)
      local module, name = m:line(), m:line()
      m:push(find(module, name))
   end,
   ["\x93"] = function(m)
      local name, module = m:pop(), m:pop()
      m:push(find(tostring(module), tostring(name)))
   end,
   Q = function(m) m:load_storage() end,
   R = function(m) m:call() end,
   ["\x81"] = function(m) m:call() end,
   b = function(m) m:pop() end, -- a state dict's _metadata, say: attributes of the object
}
steps["\x90"] = steps.e

-- A line of text.
function Machine:line()
   local letters = {}
   while #letters < 256 do
      local letter = self.s:text(1)
      if letter == "\n" then return table.concat(letters) end
      letters[#letters + 1] = letter
   end
   source.fail "the pickle has a name that is too long"
end

--- Runs a pickle.
---@param bytes Tensor  (n) uint8
---@param read_storage fun(key: string, dtype: string, n: integer): any
---@return any
function M.run(bytes, read_storage)
   local m = setmetatable({
      s = source.new(bytes), stack = {}, top = 0, memo = {}, kept = 0, lengths = {},
      read_storage = read_storage,
   }, Machine)
   for _ = 1, max_steps do
      local at = m.s.at
      local code = m.s:text(1)
      if code == "." then return plain(m:pop()) end
      local step = steps[code]
      if not step then
         source.fail("byte %d of the pickle: unknown code 0x%02x", at, code:byte())
      end
      step(m)
   end
   source.fail "the pickle is too long"
end

--- The object in a checkpoint's bytes.
---@param bytes Tensor  (n) uint8
---@param mapped? boolean  storages are then not compared with their checksums
---@return any
function M.checkpoint(bytes, mapped)
   local archive, prefix = zip.open(bytes), nil
   for name in pairs(archive) do prefix = prefix or name:match "^(.*)data%.pkl$" end
   if not prefix then source.fail "the zip file has no data.pkl; it is no checkpoint of PyTorch" end
   -- PyTorch writes 0 for all of them after torch.serialization.set_crc32_options(False).
   local function read_file(entry, check)
      return zip.read(bytes, entry, check and entry.crc ~= 0)
   end
   local order = archive[prefix .. "byteorder"]
   if order then
      local text = read_file(order, true)
      if source.new(text):text(text:numel()) ~= "little" then
         source.fail "the checkpoint is of a big-endian machine"
      end
   end
   local loaded = {}
   local function read_storage(key, dtype, n)
      if not loaded[key] then
         local entry = archive[prefix .. "data/" .. key]
         if not entry then source.fail("the storage %s is missing", key) end
         loaded[key] = {storage = source.new(read_file(entry, not mapped)):elements(1, {n}, dtype)}
      end
      return loaded[key]
   end
   return M.run(read_file(archive[prefix .. "data.pkl"], true), read_storage)
end

return M
