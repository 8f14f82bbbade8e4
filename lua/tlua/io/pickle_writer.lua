-- pickle_writer.lua - writes plain data as a pickle of protocol 2, the format that PyTorch's
-- checkpoints use, and that PyTorch's visualization tools read. Strings, numbers and booleans are
-- written as such, except that strings that are not UTF-8 become bytes. Tables become lists,
-- dictionaries or tuples according to kinds.lua; `json.null` becomes None. A table that has only
-- string keys and tensors, such as a state dict, becomes an OrderedDict, as in PyTorch. A value
-- that occurs twice is written once, and is a single object after loading.

local json = require "tlua.utils.json"
local kinds = require "tlua.io.kinds"
local torch = require "tlua"

local M = {}

--- The metatable that marks tables as tuples.
M.tuple = kinds.tuple

local max_depth <const> = 100

---@class io.Pickler
---@field number table<any, integer>  strings, tables, tensors -> the unpickler's number for each
---@field globals table<string, integer>
---@field path any[]  the keys that lead to the value being written
---@field tensor fun(out: io.Pickler, tensor: Tensor)?  writes a tensor
local Pickler = {}
Pickler.__index = Pickler

--- Appends opcodes.
function Pickler:raw(text) self[#self + 1] = text end

--- Raises an error with the reason why the value cannot be written.
function Pickler:fail(format, ...)
   local where = {}
   for i, key in ipairs(self.path) do where[i] = tostring(key) end
   local prefix = #where > 0 and table.concat(where, ".") .. ": " or ""
   error({pickle = prefix .. format:format(...)}, 0)
end

-- Writes the opcode that makes the unpickler memoize the value just written, and records the
-- value's number in the memo.
local function keep(out, numbers, value)
   local n = out.kept
   out.kept = n + 1
   numbers[value] = n
   out:raw(n < 256 and string.pack("<c1B", "q", n) or string.pack("<c1I4", "r", n))
end

-- If a value was written before, writes a reference to it and returns true.
local function again(out, numbers, value)
   local n = numbers[value]
   if not n then return false end
   out:raw(n < 256 and string.pack("<c1B", "h", n) or string.pack("<c1I4", "j", n))
   return true
end

--- Writes the name of a class or function.
function Pickler:global(module, name)
   local key = module .. "\n" .. name .. "\n"
   if again(self, self.globals, key) then return end
   self:raw("c" .. key)
   keep(self, self.globals, key)
end

--- Writes the call of a Python function. `arguments` is a function that writes the items of the
--- argument tuple.
function Pickler:call(module, name, arguments)
   self:global(module, name)
   self:raw "("
   arguments()
   self:raw "tR"
end

--- Writes a tuple of integers.
function Pickler:integers(list)
   self:raw "("
   for _, n in ipairs(list) do self:integer(n) end
   self:raw "t"
end

function Pickler:integer(n)
   local short = n >= -0x80000000 and n < 0x80000000
   self:raw(short and string.pack("<c1i4", "J", n) or string.pack("<c2i8", "\x8a\8", n))
end

local function put_text(out, text)
   if #text > 0xFFFFFFFF then out:fail "a string of 4 GB or more cannot be saved" end
   out:raw(string.pack("<c1s4", "X", text))
end

--- Writes text. A string that is not UTF-8 is written as bytes, which protocol 2 encodes as text
--- with the same code points.
function Pickler:string(text)
   if again(self, self.number, text) then return end
   if utf8.len(text) then
      put_text(self, text)
   else
      self:call("_codecs", "encode", function()
         put_text(self, (text:gsub("[\x80-\xff]", function(c) return utf8.char(c:byte()) end)))
         self:string "latin1"
      end)
   end
   keep(self, self.number, text)
end

-- Tables ---------------------------------------------------------------------------------------

-- Writes the value of a key. While it is written, `path` ends with the key, for messages.
local function put_item(out, key, value)
   local path = out.path
   path[#path + 1] = key
   out:put(value)
   path[#path] = nil
end

local function put_list(out, list)
   out:raw "]"
   keep(out, out.number, list)
   out:raw "("
   for i = 1, #list do put_item(out, i, list[i]) end
   out:raw "e"
end

local function put_tuple(out, list)
   out:raw "("
   for i = 1, #list do put_item(out, i, list[i]) end
   out:raw "t"
   keep(out, out.number, list)
end

-- Raises an error for a dictionary that has both true and 1, or both false and 0, as keys, because
-- these keys are equal in Python.
local function check_keys(out, dict)
   local twice = dict[true] ~= nil and dict[1] ~= nil or dict[false] ~= nil and dict[0] ~= nil
   if twice then out:fail "keys that are equal in Python, true and 1 or false and 0" end
end

local function is_state(dict)
   for key, value in next, dict do
      if type(key) ~= "string" or not torch.is_tensor(value) then return false end
   end
   return next(dict) ~= nil
end

local function put_dict(out, dict)
   check_keys(out, dict)
   if is_state(dict) then
      out:call("collections", "OrderedDict", function() end)
   else
      out:raw "}"
   end
   keep(out, out.number, dict)
   out:raw "("
   for _, key in ipairs(kinds.sorted_keys(dict)) do
      local kind = type(key)
      if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
         out:fail("a %s as a key cannot be saved", kind)
      end
      out:put(key)
      put_item(out, key, dict[key])
   end
   out:raw "u"
end

local table_writers <const> = {list = put_list, tuple = put_tuple, dict = put_dict}

local function put_table(out, value)
   if rawequal(value, json.null) then return out:raw "N" end
   if out.open[value] then out:fail "the table contains itself" end
   if again(out, out.number, value) then return end
   local kind = kinds.of(value)
   if not kind then
      out:fail("an instance of %s cannot be saved; save its state, such as state_dict()",
         torch.type(value))
   end
   if #out.path >= max_depth then out:fail "nested too deeply" end
   out.open[value] = true
   table_writers[kind](out, value)
   out.open[value] = nil
end

-- Values ---------------------------------------------------------------------------------------

local function put_device(out, value)
   if torch.type(value) ~= "torch.device" then
      out:fail("a %s cannot be saved", torch.type(value))
   end
   out:call("torch", "device", function()
      out:string(value.type)
      if value.index then out:integer(value.index) end
   end)
end

local writers <const> = {
   table = put_table,
   string = Pickler.string,
   userdata = put_device,
   boolean = function(out, value) out:raw(value and "\x88" or "\x89") end,
   number = function(out, value)
      if math.type(value) == "integer" then return out:integer(value) end
      out:raw(string.pack(">c1d", "G", value))
   end,
}

--- Appends the opcodes that make a value.
---@param value any
function Pickler:put(value)
   if torch._sparse_parts(value) and not self.tensor then
      self:fail "a sparse tensor cannot be saved in this format; .safetensors files take it"
   end
   if self.tensor and torch.is_tensor(value) then
      if again(self, self.number, value) then return end
      self:tensor(value)
      return keep(self, self.number, value)
   end
   local write = writers[type(value)] or self:fail("a %s cannot be saved", type(value))
   write(self, value)
end

--- Returns a value as the bytes of a pickle, or nil and a message if the value contains anything
--- that cannot be pickled.
---@param value any
---@param tensor? fun(out: io.Pickler, tensor: Tensor)  writes a tensor
---@return string? bytes
---@return string? message
function M.encode(value, tensor)
   local out = setmetatable({
      "\x80\2", kept = 0, number = {}, globals = {}, open = {}, path = {}, tensor = tensor,
   }, Pickler)
   local ok, why = pcall(out.put, out, value)
   if not ok then
      if type(why) == "table" and why.pickle then return nil, why.pickle end
      error(why, 0)
   end
   out[#out + 1] = "."
   return table.concat(out)
end

return M
