-- pickle.lua - reads the pickled arrays, sparse matrices, lists and dictionaries in Planetoid's
-- files. No code from a file is executed. An object of another type raises an error.

local torch = require "tlua"

local M = {}

local dtypes <const> = {f4 = "float32", f8 = "float64", i8 = "int64", i4 = "int32", i2 = "int16",
   i1 = "int8", u1 = "uint8", b1 = "bool"}

-- Converts UTF-8 to Latin-1, which has one byte for each character.
local function latin1(text)
   return (text:gsub("[\xC2\xC3][\x80-\xBF]", function(pair)
      return string.char(utf8.codepoint(pair))
   end))
end

local escapes <const> = {n = "\n", r = "\r", t = "\t"}

-- Converts a string literal in Python's notation, with its escapes, to bytes.
local function unescaped(text)
   local parts = {}
   for part in (text:gsub("\\\\", "\0") .. "\0"):gmatch "([^%z]*)%z" do
      parts[#parts + 1] = part:gsub("\\([^x])", function(c) return escapes[c] or c end)
         :gsub("\\x(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end)
   end
   return table.concat(parts, "\\")
end

-- Converts Latin-1 text with \u escapes to UTF-8.
local function unicode(text)
   text = text:gsub("[\x80-\xFF]", function(c) return utf8.char(c:byte()) end)
   return (text:gsub("\\u(%x%x%x%x)", function(hex) return utf8.char(tonumber(hex, 16)) end))
end

local calls <const> = {
   ["multiarray _reconstruct"] = function() return {kind = "array"} end,
   ["numpy dtype"] = function(list) return {kind = "dtype", code = list[1]} end,
   ["_codecs encode"] = function(list) return latin1(list[1]) end,
   ["collections defaultdict"] = function() return {} end,
   ["copy_reg _reconstructor"] = function(list) return {kind = "object", class = list[1]} end,
   ["copyreg _reconstructor"] = function(list) return {kind = "object", class = list[1]} end,
   ["__builtin__ bytes"] = function(list) return list[1] or "" end,
}

-- Makes a tensor from an array's dtype, shape and bytes.
local function tensor_of(state, fail)
   local shape, dtype, fortran, bytes = state[2], state[3], state[4], state[5]
   local code = type(dtype) == "table" and dtype.code
   local name = dtypes[type(code) == "string" and code:gsub("^[<|=]", "") or ""]
   if not name or dtype.order == ">" or type(bytes) ~= "string" then
      fail(("cannot read an array of dtype %s"):format(tostring(code)))
   end
   local count = 1
   for _, size in ipairs(shape) do count = count * size end
   if #shape == 0 then shape = {1} end
   if count == 0 then return torch.zeros(shape, {dtype = name, device = "cpu"}) end
   local flat = torch.frombuffer(bytes, {dtype = name})
   if flat:numel() ~= count then fail "an array's bytes do not fit its shape" end
   if not fortran or #shape < 2 then return flat:clone():view(shape) end
   local reversed = {}
   for i = #shape, 1, -1 do reversed[#reversed + 1] = shape[i] end
   local dims = {}
   for i = #shape, 1, -1 do dims[#dims + 1] = i end
   return flat:clone():view(reversed):permute(dims):contiguous()
end

-- Applies a pickled state to an object, as the opcode BUILD of Python's pickle format does.
local function build(object, state, fail)
   if type(object) ~= "table" then return fail "a state without an object" end
   if object.kind == "array" then
      object.tensor = tensor_of(state, fail)
   elseif object.kind == "dtype" then
      object.order = state[2]
   elseif object.kind == "object" then
      object.state = state
   end
end

-- Executes the opcodes of a pickle, and returns the value that it describes.
local function interpret(text, fail)
   local stack, marks, memo, at = {}, {}, {}, 1
   local none, memorized = {}, 0
   local function need(n)
      if at + n - 1 > #text then fail "the file ends early" end
   end
   local function unpack(format, n)
      need(n)
      local value = string.unpack(format, text, at)
      at = at + n
      return value
   end
   local function bytes(n)
      need(n)
      local value = text:sub(at, at + n - 1)
      at = at + n
      return value
   end
   local function line()
      local stop = text:find("\n", at, true) or fail "the file ends early"
      local value = text:sub(at, stop - 1)
      at = stop + 1
      return value
   end
   local function push(value)
      if value == nil then value = none end
      stack[#stack + 1] = value
   end
   local function pop()
      if #stack == 0 then fail "the stack is empty" end
      return table.remove(stack)
   end
   local function plain(value)
      if value == none then return nil end
      return value
   end
   local function since_mark()
      local first = table.remove(marks) or fail "there is no mark"
      local list = table.move(stack, first + 1, #stack, 1, {})
      for i = #stack, first + 1, -1 do stack[i] = nil end
      return list
   end
   local function top() return stack[#stack] or fail "the stack is empty" end
   local function set(list)
      local target = top()
      if type(target) ~= "table" then fail "an item of no dictionary" end
      for i = 1, #list - 1, 2 do
         if list[i] ~= none then target[list[i]] = plain(list[i + 1]) end
      end
   end
   local function global(module, name)
      push {kind = "global", name = module:match "[%w_]+$" .. " " .. name}
   end
   local function call(fn, list)
      local known = type(fn) == "table" and calls[fn.name]
      if not known then
         fail(("%s is no array, matrix, list or dictionary"):format(
            type(fn) == "table" and fn.name or type(fn)))
      end
      push(known(list))
   end
   local codes = {
      ["\x80"] = function() at = at + 1 end, ["\x95"] = function() at = at + 8 end,
      ["c"] = function()
         local module = line()
         global(module, line())
      end,
      ["\x93"] = function()
         local name = pop()
         global(pop(), name)
      end,
      ["("] = function() marks[#marks + 1] = #stack end,
      ["t"] = function() push(since_mark()) end, ["l"] = function() push(since_mark()) end,
      [")"] = function() push {} end,
      ["]"] = function() push {} end,
      ["}"] = function() push {} end,
      ["d"] = function()
         local list = since_mark()
         push {}
         set(list)
      end,
      ["\x85"] = function() push {pop()} end,
      ["\x86"] = function()
         local b = pop()
         push {pop(), b}
      end,
      ["\x87"] = function()
         local c, b = pop(), pop()
         push {pop(), b, c}
      end,
      ["a"] = function()
         local value = pop()
         table.insert(top(), value)
      end,
      ["e"] = function()
         local list = since_mark()
         local target = top()
         table.move(list, 1, #list, #target + 1, target)
      end,
      ["s"] = function()
         local value = pop()
         set {pop(), value}
      end,
      ["u"] = function() set(since_mark()) end,
      ["b"] = function()
         local state = pop()
         build(top(), state, fail)
      end,
      ["R"] = function()
         local list = pop()
         call(pop(), list)
      end,
      ["\x81"] = function()
         pop()
         push {kind = "object", class = pop()}
      end,
      ["p"] = function() memo[tonumber(line())] = top() end,
      ["q"] = function() memo[unpack("B", 1)] = top() end,
      ["r"] = function() memo[unpack("<I4", 4)] = top() end,
      ["\x94"] = function()
         memo[memorized] = top()
         memorized = memorized + 1
      end,
      ["g"] = function() push(memo[tonumber(line())] or fail "an unknown memo") end,
      ["h"] = function() push(memo[unpack("B", 1)] or fail "an unknown memo") end,
      ["j"] = function() push(memo[unpack("<I4", 4)] or fail "an unknown memo") end,
      ["I"] = function()
         local value = line()
         local truth = ({["00"] = false, ["01"] = true})[value]
         push(truth == nil and (math.tointeger(tonumber(value)) or fail "no integer") or truth)
      end,
      ["L"] = function()
         push(math.tointeger(tonumber((line():gsub("L$", "")))) or fail "no integer")
      end,
      ["J"] = function() push(unpack("<i4", 4)) end, ["K"] = function() push(unpack("B", 1)) end,
      ["M"] = function() push(unpack("<I2", 2)) end,
      ["\x8a"] = function()
         local n = unpack("B", 1)
         if n > 8 then fail "an integer of more than 64 bits" end
         push(n == 0 and 0 or unpack("<i" .. n, n))
      end,
      ["N"] = function() push(none) end,
      ["\x88"] = function() push(true) end, ["\x89"] = function() push(false) end,
      ["G"] = function() push(unpack(">d", 8)) end,
      ["F"] = function() push(tonumber(line()) or fail "no number") end,
      ["S"] = function() push(unescaped((line():gsub("^['\"](.*)['\"]$", "%1")))) end,
      ["V"] = function() push(unicode(line())) end,
      ["U"] = function() push(bytes(unpack("B", 1))) end,
      ["T"] = function() push(bytes(unpack("<I4", 4))) end,
      ["X"] = function() push(bytes(unpack("<I4", 4))) end,
      ["\x8c"] = function() push(bytes(unpack("B", 1))) end,
      ["B"] = function() push(bytes(unpack("<I4", 4))) end,
      ["C"] = function() push(bytes(unpack("B", 1))) end,
      ["0"] = function() pop() end, ["2"] = function() push(top()) end,
   }
   while true do
      local code = bytes(1)
      if code == "." then return plain(pop()) end
      local run = codes[code] or fail(("unknown code 0x%02X"):format(code:byte()))
      run()
   end
end

-- Converts a value of a pickle, which must be an array or a sparse matrix in CSR form, to a dense
-- tensor.
local function dense(value, fail)
   if type(value) == "table" and value.kind == "array" then return value.tensor end
   local state = type(value) == "table" and value.kind == "object" and value.state
   if not (state and state.data and state.indices and state.indptr) then
      fail "expected an array or a sparse matrix"
   end
   local shape = state._shape or state.shape
   local pointers = state.indptr.tensor:long()
   local counts = pointers[{{2, -1}}] - pointers[{{1, -2}}]
   local rows = torch.arange(1, counts:numel() + 1, {device = "cpu"}):repeat_interleave(counts)
   local out = torch.zeros(shape[1], shape[2], {device = "cpu"})
   local place = (rows - 1) * shape[2] + state.indices.tensor:long() + 1
   out:view(-1):index_add_(1, place, state.data.tensor:float())
   return out
end

--- Reads a pickled array or sparse matrix as a dense tensor, or a pickled dictionary of lists as a
--- table.
---@param title string  the function's name, for error messages
---@param path string
---@param is_table? boolean  whether the value must be a dictionary
---@return Tensor|table
function M.read(title, path, is_table)
   local file = io.open(path, "rb")
   if not file then torch.raise(("%s: there is no file %s"):format(title, path)) end
   local text = file:read "a"
   file:close()
   local function fail(message) torch.raise(("%s: %s: %s"):format(title, path, message)) end
   local value = interpret(text, fail)
   if is_table then
      if type(value) ~= "table" then fail "expected a dictionary" end
      return value
   end
   return dense(value, fail)
end

return M
