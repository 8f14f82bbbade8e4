-- Defines assertions for specs, in addition to luassert's own. busted loads this file first.
--
--   assert.close(expected, actual, tol)   numbers, nested lists, tensors
--   assert.raises(text..., fn)            an error at the user's line that contains each text
--   assert.gradcheck(fn, inputs, opts)    torch.autograd.gradcheck

local luassert = require "luassert.assert"

local device = require "spec.support.device"
if device.name then require("tlua").set_default_device(device.name) end
-- Comparisons need all digits of float32. With PyTorch's default settings, convolutions may use TF32, which has fewer
-- digits.
if device.name == "cuda" then require("tlua").backends.cudnn.allow_tf32 = false end

local say = require "say"

local function torch() return require "tlua" end

local function is_tensor(value) return type(value) == "userdata" and torch().is_tensor(value) end

-- Arrays: {data = leaves in row-major order, shape = sizes, dtype = of a tensor} -------------

-- Appends the leaves of nested lists to `data`. Returns false if the lists do not form a regular array.
local function gather(list, depth, shape, data)
   if shape[depth] == nil then
      shape[depth] = #list
   elseif shape[depth] ~= #list then
      return false
   end
   for _, item in ipairs(list) do
      if type(item) == "table" then
         if shape.depth and depth >= shape.depth then return false end
         if not gather(item, depth + 1, shape, data) then return false end
      else
         shape.depth = shape.depth or depth
         if shape.depth ~= depth then return false end
         data[#data + 1] = item
      end
   end
   return true
end

-- Converts a tensor, a list or a number to an array. Returns nil if the lists inside a list have different lengths, or
-- if it has other keys.
local function to_array(value)
   if is_tensor(value) then
      local flat = value:detach():cpu():contiguous():view(-1)
      return {data = flat:tolist(), shape = value.shape, dtype = value.dtype}
   elseif type(value) ~= "table" then
      return {data = {value}, shape = {}}
   end
   for key in pairs(value) do
      if math.type(key) ~= "integer" then return nil end
   end
   local shape, data = {}, {}
   if not gather(value, 1, shape, data) then return nil end
   return {data = data, shape = shape}
end

local function shape_text(array)
   local sizes = "(" .. table.concat(array.shape, ", ") .. ")"
   return array.dtype and sizes .. " " .. array.dtype or sizes
end

-- If a dimension is empty, the sizes of the later dimensions are unknown, so any sizes match.
local function same_shape(a, b)
   local empty = #a.data == 0 and #b.data == 0 and not (a.dtype and b.dtype)
   for i = 1, math.max(#a.shape, #b.shape) do
      if a.shape[i] ~= b.shape[i] then return empty and i > math.min(#a.shape, #b.shape) end
   end
   return true
end

-- Returns the position of the k-th leaf of an array as a text such as "[2][3]".
local function position(k, shape)
   local text = ""
   k = k - 1
   for i = #shape, 1, -1 do
      text = "[" .. k % shape[i] + 1 .. "]" .. text
      k = k // shape[i]
   end
   return text
end

-- Returns the absolute value of a real or complex number, or nil for other values.
local function magnitude(value)
   if type(value) == "number" then return math.abs(value) end
   return type(value) == "userdata" and getmetatable(value) == "torch.complex" and value:abs() or nil
end

-- Returns the distance between two leaves. It is 0 if they are equal or both NaN, and infinite if they cannot be
-- compared.
local function distance(expected, actual)
   if not magnitude(expected) or not magnitude(actual) then return expected == actual and 0 or math.huge end
   if expected == actual then return 0 end
   if expected ~= expected or actual ~= actual then
      return expected ~= expected and actual ~= actual and 0 or math.huge
   end
   return magnitude(expected - actual)
end

-- Compares arrays. Returns nil if all values are close, otherwise a description of the difference.
local function compare_arrays(expected, actual, tol, path)
   if not same_shape(expected, actual) or
      (expected.dtype and actual.dtype and expected.dtype ~= actual.dtype) then
      return ("%s: expected %s, got %s"):format(path, shape_text(expected), shape_text(actual))
   end
   local worst, at, wrong = 0, nil, 0
   for k, e in ipairs(expected.data) do
      local off = distance(e, actual.data[k])
      local excess = off / math.max(1, magnitude(e) or 1)
      -- if the expected value is infinite, `excess` is NaN, and this comparison is false
      local within = excess <= tol
      if off ~= 0 and not within then
         wrong = wrong + 1
         if not at or excess > worst then worst, at = excess, k end
      end
   end
   if not at then return nil end
   local e, a = expected.data[at], actual.data[at]
   local values = ("%s%s: expected %s, got %s (tolerance %g)"):format(
      path, position(at, expected.shape), tostring(e), tostring(a), tol)
   return ("%s\n%d of %d elements of %s differ, this one most"):format(
      values, wrong, #expected.data, shape_text(actual.dtype and actual or expected))
end

local function compare(expected, actual, tol, path)
   local tensors = is_tensor(expected) or is_tensor(actual)
   local e, a = to_array(expected), to_array(actual)
   if e and a then
      return compare_arrays(e, a, tol, path)
   elseif tensors or type(expected) ~= "table" or type(actual) ~= "table" then
      return ("%s: %s and %s have no common shape"):format(path, type(expected), type(actual))
   end
   -- Irregular lists, and tables with other keys, are compared key by key.
   for key, value in pairs(expected) do
      local inner = ("%s[%s]"):format(path, tostring(key))
      if actual[key] == nil then return inner .. " is missing" end
      local message = compare(value, actual[key], tol, inner)
      if message then return message end
   end
   for key in pairs(actual) do
      if expected[key] == nil then return ("%s[%s] is not expected"):format(path, tostring(key)) end
   end
   return nil
end

-- Registers an assertion. If the assertion fails, its message is the one in the state, without luassert's own text.
local function register(name, callback)
   say:set("assertion." .. name, " ")
   luassert:register("assertion", name, callback, "assertion." .. name, "assertion." .. name)
end

local function fail(state, message)
   state.failure_message = message
   return false
end

-- Asserts that |actual - expected| <= tol * max(1, |expected|) for each element; NaN equals NaN. Shapes must be equal
-- and, if both values are tensors, so must dtypes.
register("close", function(state, arguments)
   local tol = arguments[3] or 1e-6
   assert(type(tol) == "number", "close: the third argument is the tolerance")
   local message = compare(arguments[1], arguments[2], tol, "value")
   return message == nil or fail(state, message)
end)

-- Asserts that fn raises an error whose position is inside fn, which is the user's code. Returns the message.
register("raises", function(state, arguments)
   local fn = arguments[arguments.n]
   assert(type(fn) == "function", "raises: the last argument is a function")
   local info = debug.getinfo(fn, "S")
   local prefix = info.short_src .. ":"
   local ok, message = pcall(fn)
   local late = device.fault()
   if ok and not late then return fail(state, "no error was raised") end
   if ok then message = late end
   message = tostring(message)
   local line = message:sub(1, #prefix) == prefix and tonumber(message:match("^(%d+): ", #prefix + 1))
   if not line or line < info.linedefined or line > info.lastlinedefined then
      return fail(state, ("expected an error at %s%d-%d, got:\n%s"):format(prefix,
         info.linedefined, info.lastlinedefined, message))
   end
   for i = 1, arguments.n - 1 do
      if not message:find(arguments[i], 1, true) then
         return fail(state, ("expected %q in the error:\n%s"):format(arguments[i], message))
      end
   end
   return true, {message}
end)

register("gradcheck", function(state, arguments)
   local gradcheck = torch().autograd.gradcheck
   local ok, result, message = pcall(gradcheck, table.unpack(arguments, 1, arguments.n))
   if ok and result then return true end
   return fail(state, "gradcheck: " .. tostring(ok and message or result))
end)
