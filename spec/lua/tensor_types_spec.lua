-- Tests PyTorch's legacy constructors, and torch.isinstance with these constructors.

local torch = require "tlua"

describe("torch.Tensor", function()
   it("takes sizes, a table of data or a tensor", function()
      assert.same({2, 3}, torch.Tensor(2, 3).shape)
      assert.equal("float32", torch.Tensor(2, 3).dtype)
      assert.same({0}, torch.Tensor().shape)
      assert.same({0}, torch.Tensor(0).shape)
      assert.same({1.0, 2.0}, torch.Tensor({1, 2}):tolist())
      assert.equal("float32", torch.Tensor({1, 2}).dtype)
      local x = torch.ones(2)
      torch.Tensor(x):add_(1)
      assert.same({2, 2}, x:tolist())
   end)

   it("has the default dtype", function()
      torch.set_default_dtype "float64"
      local dtype = torch.Tensor(1).dtype
      torch.set_default_dtype "float32"
      assert.equal("float64", dtype)
   end)

   it("keeps the graph of a tensor", function()
      local x = torch.ones(2, {requires_grad = true})
      torch.Tensor(x):sum():backward()
      assert.same({1, 1}, x.grad:tolist())
   end)

   it("has the methods as fields, and accepts new methods", function()
      assert.same({2, 2}, torch.Tensor.add(torch.ones(2), 1):tolist())
      function torch.Tensor:twice_of_spec() return self * 2 end
      assert.same({2, 2}, torch.ones(2):twice_of_spec():tolist())
      torch.Tensor.twice_of_spec = nil
      assert.raises("torch.Tensor: no field 'addd'. Did you mean torch.Tensor.add?",
         function() return torch.Tensor.addd end)
   end)

   it("refuses values that are not sizes", function()
      assert.raises("Tensor: data: expected sizes, a table of data or a tensor, got 2.5",
         function() torch.Tensor(2.5) end)
      assert.raises("Tensor: size[2]: expected an integer of at least 0, got -1", function() torch.Tensor(2, -1) end)
   end)
end)

describe("a constructor of a dtype", function()
   it("makes tensors of it", function()
      for name, dtype in pairs {FloatTensor = "float32", DoubleTensor = "float64",
         HalfTensor = "float16", BFloat16Tensor = "bfloat16", CharTensor = "int8",
         ByteTensor = "uint8", ShortTensor = "int16", IntTensor = "int32", LongTensor = "int64",
         BoolTensor = "bool"} do
         assert.equal(dtype, torch[name](2).dtype)
         assert.equal(dtype, torch[name] {1, 0}.dtype)
         assert.equal("torch." .. name, tostring(torch[name]))
         assert.is_true(torch.isinstance(torch[name](1), torch[name]))
         assert.is_false(torch.isinstance(torch.empty(1, {dtype = dtype == "int8" and "uint8" or "int8"}),
            torch[name]))
      end
      assert.equal(torch.device "sim:0", torch.sim.LongTensor {1}.device)
      assert.is_false(torch.isinstance(torch.sim.LongTensor {1}, torch.LongTensor))
      assert.is_true(torch.isinstance(torch.sim.LongTensor {1}, torch.sim.LongTensor))
   end)

   it("refuses a tensor of another dtype", function()
      assert.raises("LongTensor: data: expected a tensor of int64 on cpu, got a float32 tensor",
         function() torch.LongTensor(torch.ones(2, {device = "cpu"})) end)
   end)
end)

describe("torch.isinstance", function()
   local nn, isinstance = torch.nn, torch.isinstance

   it("knows tensors, parameters and devices", function()
      local x, weight = torch.ones(2), nn.Linear(1, 1).weight
      assert.is_true(isinstance(x, torch.Tensor))
      assert.is_false(isinstance(1, torch.Tensor))
      assert.is_true(isinstance(weight, nn.Parameter))
      assert.is_true(isinstance(weight, torch.Tensor))
      assert.is_false(isinstance(x, nn.Parameter))
      assert.is_false(isinstance({}, nn.Parameter))
      assert.is_true(isinstance(torch.device "cpu", torch.device))
      assert.is_false(isinstance("cpu", torch.device))
   end)

   it("takes a list of classes", function()
      assert.is_true(isinstance(nn.ReLU(), {nn.Linear, nn.ReLU}))
      assert.is_true(isinstance(torch.ones(1), {nn.Linear, torch.Tensor}))
      assert.is_false(isinstance(nn.ReLU(), {nn.Linear, nn.Conv2d}))
   end)

   it("refuses values that are not classes", function()
      assert.raises("isinstance: class: expected a class, torch.Tensor, or a list of them, got nil",
         function() isinstance(nn.ReLU(), nil) end)
      assert.raises("isinstance: class:", 'got "Tensor"', function() isinstance(torch.ones(1), "Tensor") end)
   end)
end)
