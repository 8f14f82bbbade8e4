-- opcheck.lua - torch.library.opcheck: tests whether a custom operator is registered correctly.

local torch = require "tlua"
local args = require "tlua.args"
local suggest = require "tlua.utils.suggest"

local function copy(value, device)
   if torch.is_tensor(value) then
      local t = value:detach()
      t = device and t:to(device) or t:clone()
      if value.requires_grad then t:requires_grad_() end
      return t
   end
   if type(value) ~= "table" or getmetatable(value) then return value end
   local list = {}
   for key, item in pairs(value) do list[key] = copy(item, device) end
   return list
end

local function copies(given, device)
   local list = {n = given.n}
   for i = 1, given.n do list[i] = copy(given[i], device) end
   return list
end

local function call(op, given) return table.pack(op(table.unpack(given, 1, given.n))) end

-- Calls fn with each tensor in a list of arguments and with the tensor's position.
local function each_tensor(given, fn)
   for i = 1, given.n do
      local value = given[i]
      if torch.is_tensor(value) then
         fn(value, i)
      elseif type(value) == "table" and not getmetatable(value) then
         for _, item in pairs(value) do
            if torch.is_tensor(item) then fn(item, i) end
         end
      end
   end
end

local tests = {}

-- Checks that arguments change only where the operator says so, and that results are not views of
-- arguments.
function tests.test_schema(op, given)
   local own = copies(given)
   local before = copies(given)
   local results = torch.no_grad(call, op, own)
   each_tensor(results, function(result, k)
      each_tensor(own, function(argument, i)
         if result:untyped_storage() == argument:untyped_storage() then
            torch.raise(("result %d shares memory with argument %d; return a clone"):format(k, i))
         end
      end)
   end)
   for i = 1, own.n do
      local t = own[i]
      if torch.is_tensor(t) and not op.mutated[i]
         and not torch.equal(t:nan_to_num(), before[i]:nan_to_num()) then
         torch.raise(("argument %d was changed, and is not named in mutates_args"):format(i))
      end
   end
end

-- Checks that an operator has a derivative if one of its arguments requires a gradient.
function tests.test_autograd_registration(op, given)
   local wanted = false
   each_tensor(given, function(t) wanted = wanted or t.requires_grad end)
   if wanted and not op.backward and not op.composite then
      torch.raise "an argument requires a gradient, but none is registered; use register_autograd"
   end
end

-- Checks that the function registered for the meta device returns the kernel's shapes, dtypes and
-- strides.
function tests.test_faketensor(op, given)
   local real = torch.no_grad(call, op, copies(given))
   local fake = torch.no_grad(call, op, copies(given, "meta"))
   if real.n ~= fake.n then
      torch.raise(("the kernel has %d results, the fake one %d"):format(real.n, fake.n))
   end
   for k = 1, real.n do
      local a, b = real[k], fake[k]
      if torch.is_tensor(a) ~= torch.is_tensor(b) then
         torch.raise(("result %d is a tensor in only one of the two calls"):format(k))
      elseif torch.is_tensor(a) then
         for _, field in ipairs {"size", "stride"} do
            local x, y = table.concat(a[field](a), ", "), table.concat(b[field](b), ", ")
            if x ~= y then
               torch.raise(("result %d has %s (%s), that of the fake one (%s)"):format(k, field, x,
                  y))
            end
         end
         if a.dtype ~= b.dtype then
            torch.raise(("result %d has dtype %s, that of the fake one %s"):format(k, a.dtype,
               b.dtype))
         end
      end
   end
end

local all <const> = {"test_schema", "test_autograd_registration", "test_faketensor"}

local function names_of(value)
   if value == nil then return all end
   local names = type(value) == "string" and {value} or value
   if type(names) ~= "table" then
      args.refuse("library.opcheck", "test_utils", "a name or a list of names", value)
   end
   for _, name in ipairs(names) do
      if not tests[name] then
         torch.raise(("library.opcheck: no test %s%s; the tests are %s"):format(tostring(name),
            suggest.hint(tostring(name), all), table.concat(all, ", ")))
      end
   end
   return names
end

--- Tests a custom operator with arguments. test_schema: the operator changes only declared
--- arguments and returns new tensors. test_autograd_registration: the operator has a derivative if
--- needed (autograd.gradcheck tests if it is right). test_faketensor: the fake kernel returns the
--- kernel's shapes, strides and dtypes. PyTorch's fourth test, test_aot_dispatch_dynamic, is for
--- PyTorch's compiler. The arguments are not changed.
---@param op library.CustomOp|string
---@param given any[]  the arguments; `n` is their number if the last arguments are nil
---@param options? {kwargs: table, test_utils: string|string[], raise_exception: boolean}
--- kwargs: arguments by name; test_utils: the tests, by default all; raise_exception: whether a
--- failed test raises an error, by default true
---@return table<string, string> results  for each test "SUCCESS" or, if raise_exception is false,
--- the message
return function(op, given, options)
   op, options = torch.library._find("library.opcheck", op), options or {}
   args.check_options("library.opcheck", options, "kwargs", "test_utils", "raise_exception")
   if torch.is_tensor(given) or type(given) ~= "table" then
      args.refuse("library.opcheck", "args", "a list of arguments", given)
   end
   local list = {n = given.n or #given, table.unpack(given, 1, given.n or #given)}
   if options.kwargs then
      list.n = list.n + 1
      list[list.n] = options.kwargs
   end
   local results = {}
   for _, name in ipairs(names_of(options.test_utils)) do
      local ok, why = pcall(tests[name], op, list)
      results[name] = ok and "SUCCESS" or tostring(why):gsub("^[^\n]-:%d+: ", "")
      if not ok and options.raise_exception ~= false then
         torch.raise(("library.opcheck: %s: %s: %s"):format(op.name, name, results[name]))
      end
   end
   return results
end
