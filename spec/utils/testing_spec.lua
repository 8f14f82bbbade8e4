-- Tests torch.testing. The expected messages and tolerances are those of PyTorch 2.

local torch = require "tlua"

local assert_close, make_tensor = torch.testing.assert_close, torch.testing.make_tensor

describe("testing.assert_close", function()
   it("accepts differences within the tolerances of the dtype", function()
      assert_close(torch.tensor {1.0}, torch.tensor {1.000011})
      assert_close(torch.tensor({1.0}, {dtype = "float16"}), torch.tensor({1.0009}, {dtype = "float16"}))
      assert_close(torch.tensor({1.0}, {dtype = "bfloat16"}), torch.tensor {1.015}, {check_dtype = false})
      assert_close(1.0, 1.0 + 1e-8)
      assert_close({a = {torch.ones(2), 3}}, {a = {torch.ones(2), 3}})
      assert_close(torch.zeros(0), torch.zeros(0))
      assert_close(torch.tensor {0 / 0}, torch.tensor {0 / 0}, {equal_nan = true})
      assert_close(torch.tensor {math.huge}, torch.tensor {math.huge})
      assert_close(torch.tensor {1.0}, torch.tensor {2.0}, {rtol = 0, atol = 1.5})
   end)

   it("tells how many elements differ, and which differs most", function()
      assert.raises("assert_close: Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\n"
         .. "Greatest absolute difference: 1 at index (3) (up to 1e-05 allowed)\n"
         .. "Greatest relative difference: 0.25 at index (3) (up to 1.3e-06 allowed)",
         function() assert_close(torch.tensor {1.0, 2, 3}, torch.tensor {1.0, 2, 4}) end)
      assert.raises("Tensor-likes are not equal!\n\nMismatched elements: 1 / 4 (25.0%)\n"
         .. "Greatest absolute difference: 2 at index (2, 1)\n"
         .. "Greatest relative difference: 0.4 at index (2, 1)",
         function() assert_close(torch.tensor {{1, 2}, {3, 4}}, torch.tensor {{1, 2}, {5, 4}}) end)
      assert.raises("Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\n"
         .. "Relative difference: 0.5", function() assert_close(1, 2) end)
      assert.raises("Mismatched elements: 2 / 2 (100.0%)", "Greatest relative difference: inf at index (1)",
         "The failure occurred for item [a]",
         function() assert_close({a = torch.ones(2)}, {a = torch.zeros(2)}) end)
   end)

   it("refuses NaN, other shapes, dtypes, devices and keys", function()
      assert.raises("Tensor-likes are not close!",
         function() assert_close(torch.tensor {0 / 0}, torch.tensor {0 / 0}) end)
      assert.raises("Tensor-likes are not close!",
         function() assert_close(torch.tensor {1.0}, torch.tensor {1.000012}) end)
      assert.raises("The values for attribute 'dtype' do not match: bfloat16 != float32.",
         function() assert_close(torch.ones(1, {dtype = "bfloat16"}), torch.ones(1)) end)
      assert.raises("The values for attribute 'shape' do not match: (2) != (2, 1).",
         function() assert_close(torch.ones(2), torch.ones(2, 1)) end)
      assert.raises("The values for attribute 'device' do not match: cpu != sim:0.",
         function() assert_close(torch.ones(2, {device = "cpu"}), torch.ones(2, {device = "sim"})) end)
      assert.raises("The key b is missing", function() assert_close({a = 1}, {a = 1, b = 2}) end)
      assert.raises("The key b is not expected", function() assert_close({a = 1, b = 2}, {a = 1}) end)
      assert.raises("got a float32 tensor of shape (1) and 1", function() assert_close(torch.ones(1), 1) end)
      assert.raises("rtol and atol: expected both or none", function() assert_close(1, 1, {rtol = 1}) end)
      assert.raises("unknown option tol", function() assert_close(1, 1, {tol = 1}) end)
   end)

   it("begins errors with the caller's message", function()
      assert.raises("assert_close: wrong", function() assert_close(1, 2, {msg = "wrong"}) end)
      assert.raises("assert_close: here: Scalars", function()
         assert_close(1, 2, {msg = function(text) return "here: " .. text end})
      end)
   end)
end)

describe("testing.make_tensor", function()
   local function made(...)
      local x = make_tensor(...)
      return x, x:to("float64"):min():item(), x:to("float64"):max():item()
   end

   it("draws from PyTorch's ranges", function()
      torch.manual_seed(1)
      for dtype, range in pairs {float32 = {-9, 9}, float16 = {-9, 9}, int64 = {-9, 9}, int8 = {-9, 9},
         uint8 = {0, 9}, bool = {0, 1}} do
         local x, least, most = made(4000, {dtype = dtype, device = "cpu"})
         assert.equal(dtype, x.dtype)
         assert.is_true(least >= range[1] and most <= range[2], dtype)
         assert.is_true(most - least > 0.9 * (range[2] - range[1]), dtype)
      end
      local _, least, most = made(3, 400, {dtype = "float32", device = "cpu", low = 2, high = 3})
      assert.is_true(least >= 2 and most <= 3)
   end)

   it("has the given shape and options", function()
      local x = make_tensor({2, 3}, {dtype = "float32", device = "cpu", requires_grad = true})
      assert.same({2, 3}, x.shape)
      assert.is_true(x.requires_grad and x.is_leaf)
      assert.same({2, 3}, make_tensor(2, 3, {dtype = "int8", device = "cpu"}).shape)
      local apart = make_tensor(2, 3, {dtype = "float32", device = "cpu", noncontiguous = true})
      assert.same({2, 3}, apart.shape)
      assert.is_false(apart:is_contiguous())
      local bits = make_tensor(100, {dtype = "bool", device = "cpu", exclude_zero = true})
      assert.is_true(bits:all():item())
   end)

   it("refuses arguments that make no sense", function()
      assert.raises("make_tensor: dtype is missing", function() make_tensor(2, {device = "cpu"}) end)
      assert.raises("make_tensor: low: expected less than high, got 3 and 2",
         function() make_tensor(2, {dtype = "float32", device = "cpu", low = 3, high = 2}) end)
      assert.raises("make_tensor: requires_grad: expected a floating dtype, got int8",
         function() make_tensor(2, {dtype = "int8", device = "cpu", requires_grad = true}) end)
   end)
end)
