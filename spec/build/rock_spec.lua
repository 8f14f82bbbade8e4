-- Tests the rock, which is built and installed into a separate tree for the system's Lua. The same build also has two
-- additional dtypes from spec/support/more_dtypes.h. They show that a dtype works everywhere if it has a row in the
-- table and conversions.

local shell = require "spec.support.shell"

local more_dtypes = [[
local torch = require "tlua"
local folder = ...

-- Tests creation, arithmetic, and integers that wrap around.
local a = torch.tensor({1, 65535, 40000}, {dtype = "int16u"})
assert(a.dtype == "int16u" and a:element_size() == 2)
local sum = a + 1
assert(sum.dtype == "int16u" and table.concat(sum:tolist(), " ") == "2 0 40001")
assert(table.concat((a - 2):tolist(), " ") == "65535 65533 39998")
assert(a:sum():item() == 105536 and a:amax():item() == 65535)
assert(not a:is_signed() and not a:is_floating_point())

-- promotion
local function both(x, y)
   return (torch.ones(2, {dtype = x}) + torch.ones(2, {dtype = y})).dtype
end
assert(both("int16u", "int8") == "int32" and both("int16u", "int16") == "int32")
assert(both("int16u", "uint8") == "int16u" and both("int16u", "int64") == "int64")
assert(both("int16u", "float8_half") == "float8_half")
assert(both("float8_half", "float16") == "float16" and both("float8_half", "float32") == "float32")

-- limits
local i, f = torch.iinfo("int16u"), torch.finfo("float8_half")
assert(i.min == 0 and i.max == 65535 and i.bits == 16)
assert(f.max == 57344 and f.eps == 0.25 and f.bits == 8 and f.tiny == 2.0^-14)
assert(not pcall(torch.full, {2}, 65536, {dtype = "int16u"}))
assert(not pcall(torch.full, {2}, 1e5, {dtype = "float8_half"}))
assert(torch.nan_to_num(torch.tensor({math.huge}, {dtype = "float8_half"})):item() == 57344)

-- every value of float8_half survives conversion to every other floating-point dtype and back
local bytes = torch.arange(256):to("uint8"):view("float8_half")
local numbers = bytes:masked_select(bytes:isfinite())
for _, dtype in ipairs {"float16", "bfloat16", "float32", "float64"} do
   assert(numbers:to(dtype):to("float8_half"):equal(numbers), dtype)
end
local rounded = torch.tensor({1.125, 1.126, 1.375, -3.5, 0.3}):to("float8_half")
assert(table.concat(rounded:tolist(), " ") == "1.0 1.25 1.5 -3.5 0.3125", tostring(rounded))

-- The following lines test sorting, indices, products, gradients and random numbers.
local sorted, places = torch.tensor({3, 60000, 2}, {dtype = "int16u"}):sort()
assert(table.concat(sorted:tolist(), " ") == "2 3 60000" and places:tolist()[3] == 2)
assert(numbers:sort():equal(numbers:to("float64"):sort():to("float8_half")))
assert(torch.eye(3, 3, {dtype = "int16u"}):matmul(a:reshape(3, 1)):flatten():equal(a))
local m = torch.tensor({{1.0, 2.0}, {0.5, -1.0}}, {dtype = "float8_half", requires_grad = true})
m:matmul(m):sum():backward()
assert(m.grad.dtype == "float8_half" and m.grad:equal(torch.tensor({{4.5, 1}, {4, 0.5}}):to("float8_half")))
local best = torch.zeros(1, {dtype = "int16u"}):scatter_reduce(1, torch.tensor {1, 1},
   torch.tensor({7, 60000}, {dtype = "int16u"}), "amin", {include_self = false})
assert(best:item() == 7)
local u = torch.rand(1000, {dtype = "float8_half"})
assert(u:amax():item() < 1 and u:amin():item() >= 0)

-- tensors of the new dtypes are printed, saved and loaded
assert(tostring(a):find("int16u") and tostring(rounded):find("float8_half"))
torch.save({a = a, f = bytes}, folder .. "/more.safetensors")
local back = torch.load(folder .. "/more.safetensors")
assert(back.a:equal(a) and back.a.dtype == "int16u" and back.f.dtype == "float8_half")
assert(back.f:view("uint8"):equal(bytes:view("uint8")))

-- modules
local layer = require "tlua.nn".Linear(2, 2):to("float8_half")
assert(layer:forward(torch.ones(1, 2, {dtype = "float8_half"})).dtype == "float8_half")
]]

describe("the rock, with two more dtypes", function()
   local tree

   -- The rock is built without optimisation and for one instruction set, because its speed does not matter here.
   setup(function()
      tree = shell.ok("mktemp -d"):match("[^\n]+")
      if not shell.has("luarocks") then return end
      shell.ok(("MAKEFLAGS=' -- ISAS=base' KERNEL_CFLAGS= CPPFLAGS='-include %s' luarocks " ..
         "--lua-version 5.4 make rocks/tlua-scm-1.rockspec --tree %s CFLAGS=-O0"):format(
         shell.ok("pwd"):match("[^\n]+") .. "/spec/support/more_dtypes.h", tree))
   end)

   teardown(function() shell.ok("rm -rf " .. shell.quote(tree)) end)

   -- Runs plain Lua, which finds the tree's modules on its search path. Returns the output.
   local function lua(arguments)
      if not shell.has("luarocks") then pending("no luarocks") end
      return shell.ok(([[cd %s && eval "$(luarocks --lua-version 5.4 path --tree %s)" && ]] ..
         [[lua5.4 %s]]):format(tree, tree, arguments))
   end

   it("provides the module for plain Lua", function()
      local script = 'local torch = require "tlua"; print(torch.ones(2, 3):sum():item())'
      assert.equal("6.0\n", lua(("-e '%s'"):format(script)))
      local needed = shell.ok(("readelf -d %s/lib/lua/5.4/tlua.so"):format(tree))
      assert.falsy(needed:find("NEEDED[^\n]*lua"))
   end)

   it("has the dtypes in every table", function()
      shell.write(tree .. "/script.lua", more_dtypes)
      assert.equal("", lua(("%s/script.lua %s"):format(tree, tree)))
   end)
end)
