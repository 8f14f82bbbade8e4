-- Tests wrong calls of every operator, by passing values of every kind as every argument. A call must succeed, or raise
-- an error at a line of this file that names the operator. No call may crash, leak or take long. The spec also runs
-- with sanitizers, which detect reads outside of a tensor.

local torch = require "tlua"
local device = require "spec.support.device"
local table_of = require "spec.support.table"

-- There are fewer calls on a device, because most of the code runs on the host and is the same for every device, and
-- with a sanitizer, which makes them slow.
local sanitized <const> = os.getenv "SPEC_SANITIZED" == "1"
local calls_per_form <const> = device.name and 50 or sanitized and 80 or 200
local memory_limit <const> = 256 << 20
-- The time limit for a call. No call needs nearly as long, even with sanitizers, and a call that hangs takes much
-- longer.
local seconds_per_call <const> = 5

-- The test draws its random choices from Lua's generator, so that only the tested calls use torch's generator.
local random = math.random

local function pick(list) return list[random(#list)] end

-- Values ------------------------------------------------------------------------------------

local dtypes <const> = {
   "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool",
}
local integers <const> = {
   0, 1, 2, 3, 4, 5, -1, -2, -3, -7, 17, 100, 1 << 31, -(1 << 31), 1 << 40, 1 << 53, 1 << 62,
   math.maxinteger, math.mininteger,
}
local floats <const> = {0.0, 0.5, 1.0, -1.0, 2.5, 1e-300, 1e300, math.huge, -math.huge, 0 / 0}
local strings <const> = {
   "", "float32", "int64", "cpu", "cuda:0", "cuda:-1", "mean", "sum", "none", "reflect", "floor",
   "linear", "ij->ji", "i,j", ("x"):rep(100), "%s%n", "\0",
}

local function size() return random(10) == 1 and 0 or random(4) end

local function sizes()
   local list = {}
   for d = 1, random(6) - 1 do list[d] = size() end
   return list
end

local special <const> = {math.huge, -math.huge, 0 / 0, 0, -100, 60000}

local function fill(x)
   if x:numel() == 0 then return x end
   if x.dtype == "bool" then
      x:fill_(random(2) == 1)
   elseif x:is_floating_point() then
      x:copy_(torch.randn(x.shape))
      if random(4) == 1 then x:view(-1)[random(x:numel())] = pick(special) end
   else
      x:copy_(torch.randint(0, 6, x.shape))
      local extremes = x.dtype == "uint8" and {0, 127, 255} or {-128, -1, 0, 127}
      if random(4) == 1 then x:view(-1)[random(x:numel())] = pick(extremes) end
   end
   return x
end

local function tensor(shape, dtype)
   local x = fill(torch.empty(shape or sizes(), {dtype = dtype or pick(dtypes)}))
   local form = random(8)
   if form == 1 and x:dim() >= 2 then
      x = x:transpose(1, -1)
   elseif form == 2 and x:dim() >= 1 and x:size(1) > 0 then
      x = x:narrow(1, 1, 1):expand_as(x)
   elseif form == 3 and x:is_floating_point() then
      x = x:requires_grad_()
   elseif form == 4 and x:dim() >= 1 then
      x = x[{{random(2), -1, 2}}]
   elseif form == 5 and random(10) == 1 then
      x:release()
   end
   return x
end

local makers

local function list_of(make)
   local list = {}
   for i = 1, random(5) - 1 do list[i] = make() end
   return list
end

local function anything() return pick(makers)() end

makers = {
   function() return nil end,
   function() return random(2) == 1 end,
   function() return pick(integers) end,
   function() return pick(floats) end,
   function() return pick(strings) end,
   function() return {} end,
   function() return {{}} end,
   function() return {pick(integers)} end,
   function() return list_of(function() return pick(integers) end) end,
   function() return list_of(function() return random(2) end) end,
   function() return list_of(function() return anything() or 1 end) end,
   function() return list_of(tensor) end,
   function() return {[pick(strings)] = pick(integers)} end,
   function() return print end,
   function() return io.stdout end,
   function() return coroutine.create(print) end,
   function() return torch.Generator() end,
   tensor, tensor, tensor,
}

-- Maps each type of parameter to source texts of plausible values.
local plausible = {
   Tensor = tensor,
   Operand = function() return random(3) == 1 and pick(floats) or tensor() end,
   ["Tensor[]"] = function() return list_of(tensor) end,
   Number = function() return random(2) == 1 and pick(integers) or pick(floats) end,
   int = function() return pick(integers) end,
   dim = function() return random(9) - 5 end,
   index = function() return random(9) - 5 end,
   bool = function() return random(2) == 1 end,
   ["true"] = function() return true end,
   float = function() return pick(floats) end,
   ["int[]"] =
      function() return list_of(function() return random(12) == 1 and pick(integers) or random(6) - 2 end) end,
   ["float[]"] = function() return list_of(function() return pick(floats) end) end,
   ["dim[]"] = function() return list_of(function() return random(9) - 5 end) end,
   ["index[]"] = function() return list_of(function() return random(9) - 5 end) end,
   ["dim[][]"] = function()
      local list = list_of(function() return random(9) - 5 end)
      return {list, random(4) == 1 and {1} or list}
   end,
   string = function() return pick(strings) end,
   dtype = function() return pick(dtypes) end,
   device = function() return pick {"cpu", "cuda", "cuda:7", "gpu"} end,
   Generator = function() return torch.Generator() end,
}

-- Calls -------------------------------------------------------------------------------------

-- Returns arguments of the right types with arbitrary shapes. A few arguments are passed by name.
local function by_types(row)
   local args = {n = 0}
   local options = {}
   local named = random(4) == 1
   for i, param in ipairs(row.params) do
      local value
      if not (param[3] and random(2) == 1) then value = plausible[param[2]]() end
      if named and param[3] then
         options[param[1]] = value
      else
         args[i] = value
         args.n = i
      end
   end
   if next(options) then
      args.n = args.n + 1
      args[args.n] = options
   end
   return args
end

-- Returns the arguments of one of the entry's examples, in which one or two arguments are replaced.
local function by_example(row)
   if #row.examples == 0 then return by_types(row) end
   local args = table_of.arguments(pick(row.examples))
   for _ = 1, random(2) do
      local i = random(args.n + 1)
      local param = row.params[i]
      args[i] = random(2) == 1 and param and plausible[param[2]]() or anything()
      args.n = math.max(args.n, i)
   end
   return args
end

local function by_chance()
   local args = {n = random(6) - 1}
   for i = 1, args.n do args[i] = anything() end
   return args
end

local function arguments(row)
   local kind = random(5)
   return kind <= 2 and by_types(row) or kind <= 4 and by_example(row) or by_chance()
end

-- Returns a description of a value. For a list of arguments, `count` is the number of arguments, including nil. A field
-- n cannot have this number, because an option may be called n.
local function describe_value(value, count)
   if type(value) == "string" then return ("%q"):format(value) end
   if type(value) ~= "table" then
      local ok, numel = pcall(function() return torch.is_tensor(value) and value:numel() end)
      if not ok then return "released" end
      if not numel then return tostring(value) end
      return ("%s[%s]%s"):format(value.dtype, table.concat(value.shape, ","), value:is_contiguous() and "" or "*")
   end
   local texts = {}
   for i = 1, count or #value do texts[i] = describe_value(value[i]) end
   for key, item in pairs(value) do
      if type(key) == "string" and not count then
         texts[#texts + 1] = ("%q = %s"):format(key, describe_value(item))
      end
   end
   return count and table.concat(texts, ", ") or "{" .. table.concat(texts, ", ") .. "}"
end

-- Every error message must name this file.
local here <const> = debug.getinfo(1, "S").short_src

local function call(fn, args) fn(table.unpack(args, 1, args.n)) end

-- Returns all functions and methods that call the operator of a row.
local function entrances(row)
   local list = {}
   if row.func then list[#list + 1] = table_of.find(row) end
   local function method(name) list[#list + 1] = rawget(torch.Tensor, name) end
   if row.method then
      method(row.name)
      if row.inplace then method(row.name .. "_") end
   end
   return list
end

-- Makes a call. Returns a description of what is wrong with its outcome, or nil.
local function fault_of(row, fn, args)
   local text = describe_value(args, args.n)
   local start = os.clock()
   local ok, message = pcall(call, fn, args)
   local late = device.fault()
   if late then ok, message = false, late end
   local seconds = os.clock() - start
   if seconds > seconds_per_call then return ("took %.1f s: (%s)"):format(seconds, text) end
   if ok then return end
   if type(message) ~= "string" or not message:find("^" .. here:gsub("%p", "%%%0") .. ":%d+: ") then
      return ("not at the caller's line: (%s): %s"):format(text, tostring(message))
   end
   if not message:find(row.name:gsub("_$", ""), 1, true) then
      return ("does not name the operator: (%s): %s"):format(text, message)
   end
end

local function used()
   device.synchronize()
   collectgarbage()
   collectgarbage()
   device.synchronize() -- waits for copies that may still use the collected memory
   return torch.memory_stats().used
end

-- A collection takes longer than the calls, so memory is measured only once for 16 operators.
local since = {} -- the operators that were called since the last measurement
local before -- the number of bytes in use at the last measurement

-- Measures memory once for 16 operators, and after the last one. Returns a message that names these operators if they
-- leak, otherwise nil.
local function leak(row, last)
   since[#since + 1] = row.form
   if #since < 16 and not last then return end
   local names, leaked = table.concat(since, ", "), used() - before
   since, before = {}, before + leaked
   if leaked > 0 then return ("%d bytes leaked by one of these: %s"):format(leaked, names) end
end

local function check(row, last)
   local faults = {}
   math.randomseed(#row.form, row.form:byte(1) * 256 + row.form:byte(-1))
   local fns = entrances(row)
   before = before or used()
   for _ = 1, calls_per_form do
      local fault = fault_of(row, pick(fns), arguments(row))
      if fault and #faults < 5 then faults[#faults + 1] = fault end
   end
   faults[#faults + 1] = leak(row, last)
   assert(#faults == 0, "\n" .. table.concat(faults, "\n"))
end

-- Calls visit(put) for each integer in a table, at any depth. put(value) replaces this integer by a value. For a tensor
-- of integers, put replaces its last element.
local function each_integer(args, visit)
   for key, value in pairs(args) do
      if math.type(value) == "integer" and not (key == "n" and args[1] ~= nil) then
         visit(function(new) args[key] = new end)
         args[key] = value
      elseif torch.is_tensor(value) and value.dtype == "int64" and value:numel() > 0 then
         visit(function(new)
            args[key] = value:clone()
            args[key]:view(-1)[-1] = new
         end)
         args[key] = value
      elseif type(value) == "table" then
         each_integer(value, visit)
      end
   end
end

-- Checks the calls of a row's examples, with each integer replaced by the smallest and by the largest integer.
local function check_extremes(row)
   local faults = {}
   for _, text in ipairs(row.examples) do
      local args = table_of.arguments(text)
      each_integer(args, function(put)
         for _, value in ipairs {math.mininteger, math.mininteger + 1, math.maxinteger} do
            put(value)
            for _, fn in ipairs(entrances(row)) do
               local fault = fault_of(row, fn, args)
               if fault and #faults < 5 then faults[#faults + 1] = fault end
            end
         end
      end)
   end
   assert(#faults == 0, "\n" .. table.concat(faults, "\n"))
end

describe("the smallest and the largest integers in calls of", function()
   setup(function() torch.set_memory_limit(memory_limit) end)
   teardown(function() torch.set_memory_limit(0) end)

   for _, row in ipairs(table_of.rows()) do
      it(row.form, function() check_extremes(row) end)
   end

   it("indexing", function()
      local x = torch.arange(12):view(3, 4)
      local ends = {math.mininteger, math.mininteger + 1, -1, 1, math.maxinteger}
      local function read(t, k) return t[k] end
      local function write(t, k) t[k] = 7 end
      for _, a in ipairs(ends) do
         for _, b in ipairs(ends) do
            for _, step in ipairs(ends) do
               for _, key in ipairs {a, {a}, {a, b}, {{a, b}}, {{a, b, step}}, {{}, {a, b, step}},
                  torch.tensor {1, a}} do
                  for _, fn in ipairs {read, write} do
                     assert.is_nil(fault_of({name = "index"}, fn, {n = 2, x:clone(), key}))
                  end
               end
            end
         end
      end
      assert.same({4}, x[{1, {-1, 1, math.mininteger}}]:add(1):tolist())
      assert.same({{1, 2, 3, 4}}, x[{{1, -1, math.maxinteger}}]:add(1):tolist())
   end)
end)

describe("wrong calls of", function()
   setup(function() torch.set_memory_limit(memory_limit) end)
   teardown(function() torch.set_memory_limit(0) end)

   local rows = table_of.rows()
   for i, row in ipairs(rows) do
      it(row.form, function() check(row, i == #rows) end)
   end

   it("indexing", function()
      math.randomseed(1)
      for _ = 1, 4 * calls_per_form do
         local x, key, value = tensor(), anything(), anything()
         if type(key) ~= "string" and key ~= nil then
            local read = function(t, k) return t[k] end
            local write = function(t, k, v) t[k] = v end
            local row = {name = "index"}
            assert.is_nil(fault_of(row, read, {n = 2, x, key}))
            assert.is_nil(fault_of(row, write, {n = 3, x, key, value}))
         end
      end
   end)

   it("torch.tensor", function()
      math.randomseed(2)
      for _ = 1, 4 * calls_per_form do
         assert.is_nil(fault_of({name = "tensor"}, torch.tensor, {n = 2, anything(), anything()}))
      end
   end)
end)
