-- Tests apply_ and map_, which call a Lua function for each element. The function may raise errors, yield, or change
-- the tensor.

local torch = require "tlua"

local function double(data) return torch.tensor(data, {dtype = "float64"}) end

describe("apply_", function()
   it("replaces each element, in row-major order", function()
      local x = double {{1, 2, 3}, {4, 5, 6}}
      local seen = {}
      local y = x:t():apply_(function(v)
         seen[#seen + 1] = v
         return 10 * v
      end)
      assert.same({1, 4, 2, 5, 3, 6}, seen)
      assert.close({{10, 20, 30}, {40, 50, 60}}, x)
      assert.same({3, 2}, y.shape)
   end)

   it("refuses fractions for whole numbers, and leaves those as they are", function()
      local x = torch.tensor {1, 2, 3}
      assert.raises("apply_: the function must return whole numbers for int64, got 0.5", function()
         x:apply_(function(v) return v / 2 end)
      end)
      assert.same({1, 2, 3}, x:tolist())
      assert.same({2, 4, 6}, x:apply_(function(v) return v * 2.0 end):tolist())
      assert.has_error(function() x:apply_(function() return 0 / 0 end) end)
   end)

   it("takes every dtype, 0-d and empty tensors", function()
      for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16", "int8", "int16", "int32",
         "int64", "uint8"} do
         local x = torch.tensor({1, 2, 3}, {dtype = dtype})
         assert.same({2, 3, 4}, x:apply_(function(v) return v + 1 end):to("int64"):tolist())
      end
      assert.same({false, true}, torch.tensor({true, false}):apply_(function(v) return not v end):tolist())
      assert.equal(9, torch.tensor(3):apply_(function(v) return v * v end):item())
      assert.same({}, torch.zeros(0):apply_(error):tolist())
   end)

   it("passes the elements from before the call", function()
      local x = double {1, 2, 3}
      x:apply_(function(v) return v + x[1]:item() end)
      assert.close({2, 3, 4}, x)
   end)

   it("leaves the tensor alone when the function raises", function()
      local x = double {1, 2, 3}
      local version = x._version
      local ok, message = pcall(x.apply_, x, function(v)
         if v == 3 then error("no", 0) end
         return -v
      end)
      assert.is_false(ok)
      assert.equal("no", message)
      assert.close({1, 2, 3}, x)
      assert.equal(version, x._version)
   end)

   it("copes with a function that releases the tensor", function()
      local x = torch.zeros(100000)
      assert.raises("apply_: expected a Tensor, got a released Tensor", function()
         x:apply_(function()
            x:release()
            return 1
         end)
      end)
   end)

   it("copes with a function that gives the tensor other data", function()
      local x = torch.zeros(100000)
      assert.raises("apply_: the function has changed the tensor itself, from [100000] float32 to "
         .. "[1] float32", function()
         x:apply_(function()
            x.data = torch.zeros(1)
            return 1
         end)
      end)
      local y = torch.zeros(4)
      assert.raises("from [4] float32 to [4] int8", function()
         y:apply_(function()
            y.data = torch.zeros(4, {dtype = "int8"})
            return 1
         end)
      end)
      local z, other = torch.zeros(4), torch.ones(8)
      z:apply_(function()
         z.data = other[{{1, 8, 2}}]
         return 5
      end)
      assert.same({5, 1, 5, 1, 5, 1, 5, 1}, other:tolist())
   end)

   it("refuses the tensors that other in-place operators refuse", function()
      local function one() return 1 end
      assert.raises("apply_: several elements of a tensor", function() torch.zeros(1):expand(3):apply_(one) end)
      local leaf = torch.zeros(3, {requires_grad = true})
      assert.raises("apply_: cannot be recorded", function() leaf:apply_(one) end)
      assert.raises("apply_: cannot be recorded", function() leaf[1]:apply_(one) end)
      assert.raises("apply_: cannot be recorded", function() (leaf * 2):apply_(one) end)
      local view = torch.no_grad(function() return leaf:view(3) end)
      assert.raises("apply_: a view of a leaf", function() view:apply_(one) end)
      local inferred = torch.inference_mode(function() return torch.zeros(3) end)
      assert.raises("apply_: a tensor made in inference", function() inferred:apply_(one) end)
      torch.no_grad(function() leaf:apply_(one) end)
      assert.same({1, 1, 1}, leaf:tolist())
   end)

   it("checks the tensor again after the function has run", function()
      local x = torch.zeros(3)
      assert.raises("apply_: cannot be recorded", function()
         x:apply_(function()
            x:requires_grad_()
            return 1
         end)
      end)
      assert.same({0, 0, 0}, x:tolist())
   end)

   it("makes a graph invalid that has saved the tensor", function()
      local w, c = torch.ones(3, {requires_grad = true}), torch.ones(3)
      local loss = (w * c):sum()
      c:apply_(function(v) return 2 * v end)
      assert.raises("apply_", function() loss:backward() end)
   end)

   it("names a wrong result of the function", function()
      local x = torch.zeros(3, {dtype = "int8"})
      assert.raises("apply_: the function must return a number, got string '7'",
         function() x:apply_(function() return "7" end) end)
      assert.raises("must return a number, got nil", function() x:apply_(function() end) end)
      assert.raises("apply_: 300 does not fit in a tensor of dtype int8",
         function() x:apply_(function() return 300 end) end)
      assert.raises("apply_: expected a function, got nothing", function() x:apply_() end)
      assert.raises("apply_: expected a function, got 3", function() x:apply_(3) end)
      assert.same({0, 0, 0}, x:tolist())
   end)
end)

describe("map_", function()
   it("calls its function with both tensors' elements", function()
      local x = double {{1, 2}, {3, 4}}
      assert.is_true(rawequal(x, x:map_(x:t(), function(a, b) return 10 * a + b end)))
      assert.close({{11, 23}, {32, 44}}, x)
      local y = double {1, 2}
      y:map_(torch.tensor {5, 7}, function(a, b)
         assert.equal("integer", math.type(b))
         return a * b
      end)
      assert.close({5, 14}, y)
   end)

   it("copes with a function that releases either tensor", function()
      local x, y = torch.zeros(1000), torch.ones(1000)
      x:map_(y, function(_, b)
         y:release()
         return b
      end)
      assert.equal(1000, x:sum():item())
      assert.raises("map_: expected a Tensor, got a released Tensor", function()
         x:map_(torch.ones(1000), function()
            x:release()
            return 1
         end)
      end)
   end)

   it("leaves the tensor alone after an error", function()
      local x = double {1, 2, 3}
      local n = 0
      assert.has_error(function()
         x:map_(x, function()
            n = n + 1
            if n == 3 then error "no" end
            return 0
         end)
      end)
      assert.close({1, 2, 3}, x)
      assert.raises("map_: expected tensors of one shape, got [3] and [2]",
         function() x:map_(double {1, 2}, error) end)
   end)
end)
