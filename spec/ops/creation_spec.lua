-- Tests creating tensors from sizes and numbers, copying them, and converting them.

local torch = require "tlua"

describe("sizes", function()
   it("come as numbers or as one list", function()
      assert.same({2, 3}, torch.zeros(2, 3).shape)
      assert.same({2, 3}, torch.zeros({2, 3}).shape)
      assert.same({}, torch.zeros({}).shape)
      assert.same({}, torch.ones().shape)
   end)

   it("may be 0", function()
      assert.same({0, 3}, torch.ones(0, 3).shape)
      assert.equal(0, torch.ones(0, 3):sum():item())
   end)

   it("may not be negative, too many, or too large", function()
      assert.raises("zeros", "[2, -1]", "at least 0", function() torch.zeros(2, -1) end)
      assert.raises("ones", "at most 16 dimensions", "17",
         function() torch.ones({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}) end)
      assert.raises("empty", "2^63", function() torch.empty(1 << 40, 1 << 40) end)
      assert.raises("full", "2^63", function() torch.full({0, 1 << 62}, 1) end)
   end)
end)

describe("full", function()
   it("takes the number's dtype", function()
      assert.equal("int64", torch.full({2}, 3).dtype)
      assert.equal("float32", torch.full({2}, 3.0).dtype)
      assert.equal("bool", torch.full({2}, true).dtype)
      assert.equal("float64", torch.full({2}, 3, {dtype = "float64"}).dtype)
   end)

   it("refuses a value that the dtype cannot hold", function()
      assert.raises("full", "300", "int8", function() torch.full({1}, 300, {dtype = "int8"}) end)
      assert.raises("full", "float16", function() torch.full({1}, 1e5, {dtype = "float16"}) end)
      assert.raises("fill_", "uint8", function() torch.zeros(2, {dtype = "uint8"}):fill_(256) end)
      assert.equal(math.huge, torch.full({1}, math.huge, {dtype = "float16"}):item())
      assert.equal(255, torch.full({1}, -1, {dtype = "uint8"}):item())
      assert.equal(1, torch.full({1}, 1.9, {dtype = "int32"}):item())
   end)
end)

describe("arange", function()
   it("counts from 0 with one number", function()
      assert.close({0, 1, 2}, torch.arange(3), 0)
      assert.equal("int64", torch.arange(3).dtype)
      assert.equal("float32", torch.arange(3.0).dtype)
   end)

   it("descends with a negative step", function() assert.close({5, 3, 1}, torch.arange(5, 0, -2), 0) end)

   it("is exact for large integers", function()
      local x = torch.arange(math.maxinteger - 2, math.maxinteger)
      assert.same({math.maxinteger - 2, math.maxinteger - 1}, x:tolist())
      local wide = torch.arange(math.mininteger, math.maxinteger, 1 << 62)
      assert.same({math.mininteger, -(1 << 62), 0, 1 << 62}, wide:tolist())
   end)

   it("has as many numbers as lie before the end", function()
      assert.equal(10, torch.arange(0, 1, 0.1):numel())
      assert.equal(0, torch.arange(2, 2):numel())
      assert.equal(4, torch.arange(1, 2, 0.3):numel())
   end)

   it("counts before it truncates", function()
      for _, dtype in ipairs {"int32", "int64"} do
         assert.same({3, 2, 1, 0}, torch.arange(3, -3, -1.5, {dtype = dtype}):tolist())
         assert.same({1, 1, 1, 1}, torch.arange(1, 2, 0.3, {dtype = dtype}):tolist())
         assert.same({1, 3, 5}, torch.arange(1.0, 5.000001, 2.0, {dtype = dtype}):tolist())
      end
   end)

   it("refuses a step of 0 or away from the end", function()
      assert.raises("arange", "step", function() torch.arange(0, 1, 0) end)
      assert.raises("arange", "does not lead", function() torch.arange(0, 5, -1) end)
      assert.raises("arange", "finite", function() torch.arange(0, math.huge) end)
      assert.raises("arange", "bool", function() torch.arange(0, 2, {dtype = "bool"}) end)
   end)
end)

it("range includes its end", function()
   assert.close({1, 2, 3}, torch.range(1, 3), 0)
   assert.equal("float32", torch.range(1, 3).dtype)
   assert.close({3, 1}, torch.range(3, 0.5, -2), 0)
end)

describe("linspace", function()
   it("includes both ends exactly", function()
      for _, dtype in ipairs {"float32", "float64"} do
         local x = torch.linspace(-0.1, 0.7, 97, {dtype = dtype})
         assert.close(torch.tensor(-0.1, {dtype = dtype}), x[1], 0)
         assert.close(torch.tensor(0.7, {dtype = dtype}), x[-1], 0)
      end
   end)

   it("has PyTorch's numbers to the last bit", function()
      -- The values of PyTorch's torch.linspace(-7.3, 2.9, 10, dtype=dtype)[i].item() for i in (2, 5, 6, 8).
      local expected = {
         float32 = {-5.0333333015441895, -1.633333683013916, -0.5000002384185791, 1.7666666507720947},
         float64 = {-5.033333333333333, -1.6333333333333333, -0.5, 1.7666666666666666},
         float16 = {-5.03515625, -1.6337890625, -0.5, 1.7666015625},
         bfloat16 = {-5.03125, -1.6328125, -0.5, 1.7734375},
      }
      for dtype, numbers in pairs(expected) do
         local x = torch.linspace(-7.3, 2.9, 10, {dtype = dtype})
         for k, i in ipairs {3, 6, 7, 9} do assert.equal(numbers[k], x[i]:item()) end
      end
      assert.close(torch.tensor {-3e38, 0, 3e38}, torch.linspace(-3e38, 3e38, 3), 0) -- PyTorch's step overflows
   end)

   it("refuses ends that the dtype does not hold", function()
      assert.raises("linspace: 300 does not fit in a tensor of dtype uint8",
         function() torch.linspace(0, 300, 4, {dtype = "uint8"}) end)
      assert.raises("linspace: 1e+06 does not fit in a tensor of dtype float16",
         function() torch.linspace(0, 1e6, 4, {dtype = "float16"}) end)
   end)

   it("of one step is its start, of none empty", function()
      assert.close({3}, torch.linspace(3, 9, 1), 0)
      assert.equal(0, torch.linspace(3, 9, 0):numel())
      assert.raises("linspace", "at least 0", function() torch.linspace(0, 1, -1) end)
   end)
end)

it("logspace has whole ends in an integer dtype", function()
   assert.same({10, 10}, torch.logspace(1, 1.2, 2, {dtype = "int32"}):tolist())
   assert.same({25, 14, 8, 5}, torch.logspace(2, 1.2, 4, 5, {dtype = "int64"}):tolist())
end)

it("eye may have more rows than columns, or fewer", function()
   assert.close({{1, 0, 0}, {0, 1, 0}}, torch.eye(2, 3), 0)
   assert.close({{1, 0}, {0, 1}, {0, 0}}, torch.eye(3, 2), 0)
   assert.same({0, 2}, torch.eye(0, 2).shape)
end)

describe("the _like forms", function()
   it("keep shape, dtype and order in memory", function()
      local x = torch.zeros(2, 3, {dtype = "float64"}):t()
      local y = torch.ones_like(x)
      assert.same({3, 2}, y.shape)
      assert.equal("float64", y.dtype)
      assert.same({x:stride(1), x:stride(2)}, {y:stride(1), y:stride(2)})
      assert.equal("int32", torch.zeros_like(x, {dtype = "int32"}).dtype)
      assert.close({{7, 7}}, torch.full_like(torch.zeros(1, 2), 7), 0)
   end)

   it("have new_ forms for another shape", function()
      local x = torch.zeros(2, {dtype = "int16"})
      assert.equal("int16", x:new_ones(3, 1).dtype)
      assert.same({3, 1}, x:new_ones(3, 1).shape)
      assert.same({5, 5}, x:new_full({2}, 5):tolist())
      assert.equal("float64", x:new_zeros({1}, {dtype = "float64"}).dtype)
   end)
end)

describe("copy_", function()
   it("broadcasts and converts", function()
      local x = torch.zeros(2, 3, {dtype = "int32"})
      x:copy_(torch.tensor {1.9, -1.9, 3})
      assert.close({{1, -1, 3}, {1, -1, 3}}, x, 0)
   end)

   it("copies a tensor over its own transpose", function()
      local x = torch.arange(9):view(3, 3)
      x:copy_(x:t())
      assert.close({{0, 3, 6}, {1, 4, 7}, {2, 5, 8}}, x, 0)
      local y = torch.arange(5)
      y:narrow(1, 2, 4):copy_(y:narrow(1, 1, 4))
      assert.close({0, 0, 1, 2, 3}, y, 0)
   end)

   it("refuses tensors that do not fit", function()
      assert.raises("copy_", "[3]", "[2]", function() torch.zeros(2):copy_(torch.zeros(3)) end)
   end)

   it("refuses memory that overlaps itself", function()
      assert.raises("copy_", "several elements of a tensor of shape [3] and strides [0] share memory",
         function() torch.zeros(1):expand(3):copy_(torch.ones(3)) end)
   end)
end)

describe("to", function()
   it("returns the tensor itself if nothing changes", function()
      local x = torch.zeros(2, {device = "cpu"})
      assert.equal(x, x:to("float32"))
      assert.equal(x, x:to("cpu"))
      assert.not_equal(x, x:to("float32", {copy = true}))
   end)

   it("converts by dtype, device, or another tensor", function()
      local x = torch.tensor {1.5, -2}
      assert.equal("int64", x:to("int64").dtype)
      assert.close({1, -2}, x:to("int64"), 0)
      assert.equal("float64", x:to("cpu", "float64").dtype)
      assert.equal("int8", x:to(torch.zeros(1, {dtype = "int8"})).dtype)
      assert.equal("bool", x:bool().dtype)
      assert.equal("float16", x:half().dtype)
      assert.equal("uint8", x:type_as(torch.zeros(1, {dtype = "uint8"})).dtype)
   end)

   it("carries gradients back to the first dtype", function()
      local x = torch.tensor({1.5}, {requires_grad = true})
      x:double():mul(3):sum():backward()
      assert.equal("float32", x.grad.dtype)
      assert.close({3}, x.grad, 0)
   end)

   it("keeps the order in memory", function()
      local x = torch.zeros(2, 3):t()
      local y = x:double()
      assert.same({x:stride(1), x:stride(2)}, {y:stride(1), y:stride(2)})
   end)
end)

it("contiguous copies only if it must", function()
   local x = torch.arange(6):view(2, 3)
   assert.equal(x, x:contiguous())
   local y = x:t():contiguous()
   assert.is_true(y:is_contiguous())
   assert.close({{0, 3}, {1, 4}, {2, 5}}, y, 0)
end)

describe("resize_", function()
   it("keeps the present elements and grows", function()
      local x = torch.arange(4)
      x:resize_(2, 4)
      assert.same({2, 4}, x.shape)
      assert.close({0, 1, 2, 3}, x[1], 0)
      x:resize_({2})
      assert.close({0, 1}, x, 0)
   end)

   it("leaves a tensor of that shape as it is", function()
      local x = torch.arange(6):view(2, 3):t()
      assert.same({1, 3}, x:resize_(3, 2):stride())
      assert.close({{0, 3}, {1, 4}, {2, 5}}, x:resize_as_(torch.ones(3, 2)), 0)
      assert.same({2, 1}, x:resize_(2, 2):stride())
   end)

   it("does not disturb a graph that saved the tensor", function()
      local w = torch.tensor({2.0}, {requires_grad = true})
      local x = torch.full({1}, 3.0)
      local y = w * x
      x:resize_(1000) -- this size is larger, so resize_ allocates separate memory
      x:fill_(5)
      y:backward()
      assert.close({3}, w.grad, 0)
      local z = w * x
      x:resize_(10) -- this size is smaller, so resize_ keeps the memory of the larger size
      assert.raises("resize_", "changed in place", function() z:sum():backward() end)
   end)

   it("refuses tensors that require a gradient", function()
      for _, wrong in ipairs {"false", 0, {}} do
         assert.raises("ones: requires_grad: expected true or false, got ",
            function() torch.ones(2, {requires_grad = wrong}) end)
         assert.raises("randn_like: requires_grad: expected true or false, got ",
            function() torch.randn_like(torch.ones(2), {requires_grad = wrong}) end)
      end
      assert.raises("resize_", "gradient", function() torch.zeros(2, {requires_grad = true}):resize_(3) end)
   end)
end)

it("view with a dtype shows the same bytes", function()
   local x = torch.tensor {1.0, -0.0}
   assert.same({0x3f800000, -0x80000000}, x:view("int32"):tolist())
   -- the shapes, the strides and the refusals are PyTorch's
   local y = torch.tensor({{1, 2, 3, 4}, {5, 6, 7, 8}}, {dtype = "float32"})
   local bytes = y:view("uint8")
   assert.same({2, 16}, bytes.shape)
   assert.same({string.pack("=f", 1):byte(1, -1)}, bytes[{1, {1, 4}}]:tolist())
   assert.is_true(torch.equal(y, bytes:view("float32")))
   assert.same({2, 2}, y:view("float64").shape)
   assert.same({2, 1}, y:view("complex128").shape)
   assert.same({{2}, {6}}, y:view("int16"):narrow(2, 3, 2):view("float32"):tolist())
   assert.same({0}, torch.zeros(0):view("uint8").shape)
   local part = torch.zeros(3, 5):narrow(2, 1, 4)
   assert.same({20, 1}, part:view("uint8"):stride())
   bytes:zero_()
   assert.equal(0, y:abs():sum():item())
   for reason, wrong in pairs {
      ["a stride of 1 in the last dimension"] = y:t(), ["a tensor of at least 1 dimension"] = torch.zeros({}),
      ["whole elements of that dtype, got shape [3] "] = torch.zeros(3),
      ["got shape [2] and strides [1]"] = torch.zeros(4):narrow(1, 2, 2),
      ["got shape [3, 4] and strides [5, 1]"] = part,
   } do
      assert.raises("view: from float32 to float64: expected", reason, function() wrong:view("float64") end)
   end
end)

describe("fill", function()
   it("returns a new tensor, and takes the number from a tensor too", function()
      local x = torch.tensor {1, 2}
      assert.same({3, 3}, torch.fill(x, 3):tolist())
      assert.same({0, 0}, torch.fill(x, torch.tensor(0.5)):tolist())
      assert.same({1, 2}, x:tolist())
      assert.equal(x, torch.fill_(x, torch.tensor(7)))
      assert.same({7, 7}, x:tolist())
      assert.equal(x, torch.zero_(x))
      assert.same({0, 0}, x:tolist())
      assert.raises("fill_: value", "[2]", function() x:fill_(x) end)
      assert.raises("fill: value", "[2]", function() torch.fill(x, x) end)
   end)

   it("gives the number the sum of the gradient", function()
      local x, value = torch.ones(2, 3, {requires_grad = true}), torch.tensor(2.0, {requires_grad = true})
      local y = torch.fill(x, value) + (x * 1):fill_(value)
      y:sum():backward()
      assert.equal(12, value.grad:item())
      assert.close(torch.zeros(2, 3), x.grad, 0)
   end)
end)

describe("scalar_tensor, new_tensor, empty_strided", function()
   it("take dtype and device as PyTorch does", function()
      local x = torch.zeros(2, {dtype = "float64"})
      for _, row in ipairs {
         {torch.scalar_tensor(3), "float32", 3.0}, {torch.scalar_tensor(true, {dtype = "bool"}), "bool", true},
         {x:new_tensor(1), "float64", 1.0}, {x:long():new_tensor(1.5), "int64", 1},
         {x:new_tensor(torch.tensor(2)), "float64", 2.0}, {x:new_tensor(1, {dtype = "int8"}), "int8", 1},
      } do
         assert.equal(row[2], row[1].dtype)
         assert.same({}, row[1].shape)
         assert.equal(row[3], row[1]:item())
      end
      assert.is_true(x:new_tensor({1}, {requires_grad = true}).requires_grad)
      assert.raises("new_tensor: data is missing", function() x:new_tensor() end)
   end)

   it("lay elements out as asked", function()
      local x = torch.empty_strided({2, 3}, {1, 4}, {dtype = "int8"})
      assert.same({{2, 3}, {1, 4}}, {x.shape, x:stride()})
      assert.same({0}, torch.empty_strided({0}, {3}).shape)
      assert.raises("empty_strided: stride", "2, got 1", function() torch.empty_strided({2, 3}, {1}) end)
      assert.raises("empty_strided: stride", "[-1]", function() torch.empty_strided({2}, {-1}) end)
      local y = x:new_empty_strided({2, 2}, {1, 2})
      assert.same({"int8", {1, 2}, {2, 2}}, {y.dtype, y:stride(), y.shape})
      assert.equal("float32", x:new_empty_strided({2}, {3}, {dtype = "float32"}).dtype)
      assert.raises("new_empty_strided: stride", "2, got 1", function() x:new_empty_strided({2, 3}, {1}) end)
   end)

   it("empty_permuted has its dimensions in that order in memory", function()
      local x = torch.empty_permuted({2, 3, 4}, {2, 1, 3}, {dtype = "int64"})
      assert.same({"int64", {2, 3, 4}, {4, 8, 1}}, {x.dtype, x.shape, x:stride()})
      assert.same({12, 1, 3}, torch.empty_permuted({2, 3, 4}, {1, 3, 2}):stride())
      assert.same({}, torch.empty_permuted({}, {}).shape)
      assert.same({0, 3}, torch.empty_permuted({0, 3}, {2, 1}).shape)
      for _, layout in ipairs {{1, 1}, {1}, {1, 3}, {1, 2, 3}} do
         assert.raises("empty_permuted: physical_layout: expected each of the 2 dimensions once",
            function() torch.empty_permuted({2, 3}, layout) end)
      end
   end)
end)

it("as_tensor copies only if the dtype or device changes", function()
   local x = torch.ones(2, {requires_grad = true})
   assert.equal(x, torch.as_tensor(x))
   assert.equal("float64", torch.as_tensor(x, "float64").dtype)
   assert.is_true(torch.as_tensor(x, {dtype = "float64"}).requires_grad)
   assert.same({1, 2}, torch.as_tensor({1, 2}):tolist())
   assert.equal("float16", torch.as_tensor({1, 2}, "float16", "cpu").dtype)
   assert.raises("as_tensor: data is missing", function() torch.as_tensor() end)
end)

it("fill_diagonal_ starts again below if wrap = true", function()
   assert.same({{7, 0}, {0, 7}, {0, 0}, {7, 0}, {0, 7}}, torch.zeros(5, 2):fill_diagonal_(7, true):tolist())
   assert.same({{7, 0}, {0, 7}, {0, 0}}, torch.zeros(3, 2):fill_diagonal_(7):tolist())
   assert.same({{7, 0, 0}, {0, 7, 0}}, torch.zeros(3, 2):t():fill_diagonal_(7):tolist())
   assert.equal(3, torch.zeros(3, 3, 3):fill_diagonal_(1):sum():item())
   assert.raises("fill_diagonal_: self", "[2, 3, 2]", function() torch.zeros(2, 3, 2):fill_diagonal_(1) end)
end)

it("to takes non_blocking and copy by position or by name", function()
   local x = torch.ones(2, {device = "cpu"})
   for _, row in ipairs {
      {x:to("float32", true), false, "float32"}, {x:to("float32", false, true), true, "float32"},
      {x:to("cpu", true), false, "float32"}, {x:to("cpu", "float64", true, false), true, "float64"},
      {x:to("cpu", true, true), true, "float32"}, {x:to(x:double(), false, true), true, "float64"},
      {x:to("cpu", {non_blocking = true}), false, "float32"}, {x:to {device = "cpu", copy = true}, true, "float32"},
   } do
      assert.equal(row[2], row[1]:data_ptr() ~= x:data_ptr())
      assert.equal(row[3], row[1].dtype)
   end
end)

describe("the default dtype", function()
   after_each(function() torch.set_default_dtype("float32") end)

   it("applies to numbers, to sizes and to functions of integers", function()
      local ints = torch.tensor {1, 2}
      for _, dtype in ipairs {"float64", "float16", "float32"} do
         torch.set_default_dtype(dtype)
         assert.equal(dtype, torch.get_default_dtype())
         for i, x in ipairs {
            torch.tensor(1.5), torch.tensor {}, torch.zeros(2), torch.rand(2), torch.arange(0, 1, 0.5), torch.eye(2),
            torch.full({2}, 1.5), torch.linspace(0, 1, 3), torch.logspace(0, 1, 3), ints / 2, ints + 0.5, ints:sqrt(),
            ints:logsumexp(1), torch.scalar_tensor(1), torch.nn.Linear(2, 2).weight,
         } do
            assert.equal(dtype, x.dtype, i)
         end
         assert.equal("int64", (ints + 1).dtype)
         assert.equal("bfloat16", (ints:bfloat16() + 1.5).dtype)
      end
   end)

   it("is the one that is printed without its name", function()
      torch.set_default_dtype("float64")
      local cpu <const> = {device = "cpu"}
      assert.equal("tensor(1.5000)", tostring(torch.tensor(1.5, cpu)))
      assert.equal("tensor(1.5000, dtype=torch.float32)", tostring(torch.tensor(1.5,
         {dtype = "float32", device = "cpu"})))
   end)

   it("must be a floating dtype", function()
      assert.raises("set_default_dtype", "int64", function() torch.set_default_dtype("int64") end)
      assert.raises("set_default_dtype", "no value", function() torch.set_default_dtype() end)
   end)
end)

describe("finfo and iinfo", function()
   it("give the limits of a dtype", function()
      for dtype, row in pairs {float64 = {64, 2 ^ -52, 0x1.fffffffffffffp+1023, 2.0 ^ -1022},
                               float32 = {32, 2 ^ -23, 0x1.fffffep+127, 2 ^ -126},
                               float16 = {16, 2 ^ -10, 65504, 2 ^ -14},
                               bfloat16 = {16, 2 ^ -7, 0x1.fep+127, 2 ^ -126}} do
         local info = torch.finfo(dtype)
         assert.same(row, {info.bits, info.eps, info.max, info.tiny})
         assert.equal(-info.max, info.min)
         assert.equal(info.max, torch.full({1}, info.max, {dtype = dtype}):item())
         assert.is_true((torch.ones(1, {dtype = dtype}) + info.eps):item() > 1)
      end
      for dtype, row in pairs {int8 = {8, -128, 127}, uint8 = {8, 0, 255}, int16 = {16, -32768, 32767},
                               int32 = {32, -2 ^ 31 | 0, 2 ^ 31 - 1 | 0},
                               int64 = {64, math.mininteger, math.maxinteger}} do
         local info = torch.iinfo(dtype)
         assert.same(row, {info.bits, info.min, info.max})
      end
      assert.equal("float32", torch.finfo().dtype)
      assert.raises("finfo", "iinfo", function() torch.finfo("int8") end)
      assert.raises("iinfo", "float32", function() torch.iinfo("float32") end)
   end)

   it("come with is_floating_point", function()
      assert.is_true(torch.is_floating_point(torch.ones(1)))
      assert.is_false(torch.is_floating_point(torch.tensor(1)))
   end)
end)

describe("a size", function()
   it("that is nil is an error", function()
      for _, make in ipairs {torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn} do
         assert.raises("size: expected integers, got nil", function() make(nil) end)
      end
      assert.same({}, torch.zeros().shape)
   end)

   it("is refused in one table with options", function()
      for _, name in ipairs {"zeros", "empty", "randn"} do
         local make = torch[name]
         assert.raises(name .. ": size: expected a list of integers, got a table with the name 'dtype'",
            function() make {2, 3, dtype = "float64"} end)
      end
      assert.raises("reshape: shape: expected a list of integers, got a table with the name 'x'",
         function() torch.ones(6):reshape {3, 2, x = 1} end)
      assert.same({2, 3}, torch.zeros(table.pack(2, 3)).shape)
      local grown = {}
      for i = 1, 3 do grown[i] = i end
      assert.same({1, 2, 3}, torch.zeros(grown).shape)
   end)
end)

it("tensor refuses numbers that an integer dtype cannot hold, as PyTorch does", function()
   for _, case in ipairs {{300, "int8"}, {-129, "int8"}, {256, "uint8"}, {-256, "uint8"}, {1 << 31, "int32"},
                          {300.5, "int8"}, {0 / 0, "int32"}, {math.huge, "int32"}, {1e19, "int64"}} do
      local value, dtype = table.unpack(case)
      assert.raises("does not fit in a tensor of dtype " .. dtype,
         function() torch.tensor({0, value}, {dtype = dtype}) end)
   end
   assert.same({255, 1, 255}, torch.tensor({-1, -255, 255}, {dtype = "uint8"}):tolist())
   assert.same({-128, 127, 2}, torch.tensor({-128, 127, 2.5}, {dtype = "int8"}):tolist())
   assert.equal(math.huge, torch.tensor({1e10}, {dtype = "float16"}):item())
end)

it("torch.tensor reads a list whose metatable computes the items, but no such list inside of another list", function()
   local list = setmetatable({}, {__len = function() return 3 end, __index = function(_, i) return i * 2 end})
   assert.same({2, 4, 6}, torch.tensor(list):tolist())
   local function refusal(value) return select(2, pcall(torch.tensor, value)) end
   assert.matches("data%[1%]: expected a list, got a table with computed items; copy them to a list",
      refusal {list})
   -- an item that a program has replaced is in the table itself
   list[1] = 7
   assert.same({7, 4, 6}, torch.tensor(list):tolist())
   assert.matches("data%[1%]: expected a list, got a table with computed items", refusal {list})
   -- a length without items must not make the call run for ever
   assert.matches("__len of the list gives 9223372036854775807 items, but item 1 is nil",
      refusal(setmetatable({}, {__len = function() return math.maxinteger end})))
end)
