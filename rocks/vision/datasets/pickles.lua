-- pickles.lua - reads CIFAR's pickles: dictionaries of lists, numbers, strings and arrays of bytes
-- that NumPy has written. No code from a file is executed: a file that names other classes or
-- functions raises an error.

local M = {}

local mark <const> = {}

-- Maps the names of the supported functions and classes of Python to the names that this file uses
-- for them.
local known <const> = {["numpy.core.multiarray _reconstruct"] = "array",
   ["numpy._core.multiarray _reconstruct"] = "array", ["numpy ndarray"] = "class",
   ["numpy dtype"] = "dtype", ["_codecs encode"] = "encode", ["__builtin__ bytes"] = "bytes",
   ["builtins bytes"] = "bytes"}

-- Decodes UTF-8, and encodes the characters as Latin-1, which has one byte for each character from
-- 0 to 255.
local function latin1(text)
   local ok, result = pcall(function()
      local list = {}
      for _, code in utf8.codes(text) do
         if code > 255 then error "a character above 255" end
         list[#list + 1] = string.char(code)
      end
      return table.concat(list)
   end)
   if not ok then error("text that is not Latin 1", 0) end
   return result
end

-- Returns the result of one of the supported functions and classes for the arguments in `list`.
local function call(fn, list)
   if type(fn) ~= "table" or not fn.known or type(list) ~= "table" then
      error("a call of a value that is no class", 0)
   end
   if fn.known == "array" then return {array = true} end
   if fn.known == "dtype" then return {dtype = list[1]} end
   if fn.known == "encode" and type(list[1]) == "string" then return latin1(list[1]) end
   if fn.known == "bytes" then return "" end
   error("a call of " .. fn.known, 0)
end

-- Sets the shape and the bytes of an array from its pickled state, which is the list {version,
-- shape, dtype, whether the order is by columns, bytes}.
local function build(object, state)
   if type(object) ~= "table" then error("a state without an object", 0) end
   if not object.array then return end
   local dtype, bytes = type(state) == "table" and state[3], type(state) == "table" and state[5]
   if type(dtype) ~= "table" or dtype.dtype ~= "u1" or type(bytes) ~= "string" or state[4] == true
         or type(state[2]) ~= "table" then
      error("an array that is not of bytes in rows", 0)
   end
   object.shape, object.bytes = state[2], bytes
end

--- Reads a pickle. Dictionaries and lists become tables. An array becomes a table with `shape` and
--- `bytes`.
---@param text string
---@return any? value  nil if the pickle is damaged
---@return string? message
function M.read(text)
   local at, stack, memo = 1, {}, {}
   local function take(format)
      if at + string.packsize(format) - 1 > #text then error("it ends too early", 0) end
      local value
      value, at = string.unpack(format, text, at)
      return value
   end
   local function bytes(n)
      if n < 0 or at + n - 1 > #text then error("it ends too early", 0) end
      at = at + n
      return text:sub(at - n, at - 1)
   end
   local function line()
      local last = text:find("\n", at, true)
      if not last then error("it ends too early", 0) end
      local value = text:sub(at, last - 1)
      at = last + 1
      return value
   end
   local function push(value) stack[#stack + 1] = {value} end
   local function pop()
      local cell = table.remove(stack)
      if not cell or cell == mark then error("it takes more than it has", 0) end
      return cell[1]
   end
   local function pop_to_mark()
      local first = #stack
      while first > 0 and stack[first] ~= mark do first = first - 1 end
      if first == 0 then error("it has no mark", 0) end
      local list, n = {}, #stack - first
      for i = 1, n do list[i] = stack[first + i][1] end
      for i = #stack, first, -1 do stack[i] = nil end
      return list, n
   end
   local function top()
      local cell = stack[#stack]
      if not cell or cell == mark or type(cell[1]) ~= "table" then
         error("it adds items to a value that is no container", 0)
      end
      return cell[1]
   end
   local function find(module, name)
      local of = known[module .. " " .. name]
      if not of then error(("the class %s.%s"):format(module, name), 0) end
      push {known = of}
   end
   local function tuple(n)
      local list = {}
      for i = n, 1, -1 do list[i] = pop() end
      push(list)
   end
   local function recall(i)
      stack[#stack + 1] = memo[i] or error("it recalls what it lacks", 0)
   end
   local function set(dict, key, value)
      if key == nil or key ~= key then error("a key that is None", 0) end
      dict[key] = value
   end
   local steps = {
      ["\x80"] = function() take "B" end, ["\x95"] = function() take "<i8" end,
      ["("] = function() stack[#stack + 1] = mark end,
      ["0"] = pop, N = function() push(nil) end,
      ["\x88"] = function() push(true) end, ["\x89"] = function() push(false) end,
      K = function() push(take "B") end, M = function() push(take "<I2") end,
      J = function() push(take "<i4") end, G = function() push(take ">d") end,
      ["\x8a"] = function()
         local n = take "B"
         if n > 8 then error("an integer of more than 64 bits", 0) end
         push(n == 0 and 0 or take("<i" .. n))
      end,
      X = function() push(bytes(take "<I4")) end, U = function() push(bytes(take "B")) end,
      T = function() push(bytes(take "<i4")) end, ["\x8c"] = function() push(bytes(take "B")) end,
      ["\x8d"] = function() push(bytes(take "<i8")) end, B = function() push(bytes(take "<I4")) end,
      C = function() push(bytes(take "B")) end, ["\x8e"] = function() push(bytes(take "<i8")) end,
      ["}"] = function() push {} end, ["]"] = function() push {} end,
      [")"] = function() push {} end,
      ["\x85"] = function() tuple(1) end, ["\x86"] = function() tuple(2) end,
      ["\x87"] = function() tuple(3) end, t = function() push((pop_to_mark())) end,
      a = function()
         local value = pop()
         table.insert(top(), value)
      end,
      e = function()
         local list, n = pop_to_mark()
         table.move(list, 1, n, #top() + 1, top())
      end,
      s = function()
         local value, key = pop(), pop()
         set(top(), key, value)
      end,
      u = function()
         local list, n = pop_to_mark()
         for i = 1, n, 2 do set(top(), list[i], list[i + 1]) end
      end,
      q = function() memo[take "B"] = stack[#stack] end,
      r = function() memo[take "<I4"] = stack[#stack] end,
      ["\x94"] = function()
         memo.n = (memo.n or -1) + 1
         memo[memo.n] = stack[#stack]
      end,
      h = function() recall(take "B") end, j = function() recall(take "<I4") end,
      c = function()
         local module = line()
         find(module, line())
      end,
      ["\x93"] = function()
         local name, module = pop(), pop()
         find(tostring(module), tostring(name))
      end,
      R = function()
         local list, fn = pop(), pop()
         push(call(fn, list))
      end,
      b = function()
         local state = pop()
         build(top(), state)
      end,
   }
   local ok, result = pcall(function()
      while true do
         local code = bytes(1)
         if code == "." then return pop() end
         local step = steps[code]
         if not step then
            error(("the unknown code 0x%02x at byte %d"):format(code:byte(), at - 1), 0)
         end
         step()
      end
   end)
   if ok then return result end
   return nil, "the pickle cannot be read: " .. tostring(result)
end

return M
