-- Tests FlopCounterMode. The expected counts are PyTorch 2.15's for the same modules.
local torch = require "tlua"
local nn, F = torch.nn, torch.nn.functional
local FlopCounterMode = torch.utils.flop_counter.FlopCounterMode

describe("FlopCounterMode", function()
   it("counts a small convnet's step by operator and module", function()
      local model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 10))
      local counter, y = FlopCounterMode(function()
         local y = model(torch.randn(2, 3, 8, 8))
         y:sum():backward()
         return y
      end)
      assert.same({2, 10}, y.shape)
      assert.equal(48384, counter:get_total_flops())
      local all = {convolution = 15552, convolution_backward = 15552, addmm = 5760, mm = 11520}
      assert.same({
         Global = all, Sequential = all,
         ["Sequential.1"] = {convolution = 15552, convolution_backward = 15552},
         ["Sequential.3"] = {addmm = 5760, mm = 11520},
      }, counter:get_flop_counts())
   end)

   it("counts attention and its gradient", function()
      local Block = torch.class("Block", nn.Module)
      function Block:__init()
         nn.Module.__init(self)
         self.qkv = nn.Linear(16, 48, {bias = false})
         self.out = nn.Linear(16, 16)
      end
      function Block:forward(x)
         local qkv = self.qkv(x):view(2, 5, 3, 4, 4):permute(3, 1, 4, 2, 5)
         local y = F.scaled_dot_product_attention(qkv[1], qkv[2], qkv[3])
         return self.out(y:transpose(2, 3):reshape(2, 5, 16))
      end
      local block = Block()
      local counter = FlopCounterMode(function() block(torch.randn(2, 5, 16)):sum():backward() end)
      assert.equal(57280, counter:get_total_flops())
      local counts = counter:get_flop_counts()
      assert.same({
         mm = 40960, addmm = 5120, scaled_dot_product_attention = 3200, scaled_dot_product_attention_backward = 8000,
      }, counts.Block)
      assert.same({mm = 30720}, counts["Block.qkv"])
   end)

   it("is a scope that ends with its block, and prints a table", function()
      local kept
      do
         local counter <close> = FlopCounterMode()
         torch.ones(2, 3):matmul(torch.ones(3, 4)):relu()
         kept = counter
         assert.raises("get_total_flops", "still counts", function() counter:get_total_flops() end)
      end
      assert.equal(48, kept:get_total_flops())
      assert.equal([[
Module  FLOP  % Total
------  ----  -------
Global    48  100.00%
 - mm     48  100.00%]], kept:get_table())
   end)

   it("shows modules down to a depth", function()
      local model = nn.Sequential(nn.Sequential(nn.Linear(2000, 3)))
      local counter = FlopCounterMode({depth = 1}, function() model(torch.ones(1, 2000)) end)
      assert.truthy(counter:get_table():find("Sequential +12.000K"))
      assert.is_nil(counter:get_table():find("Sequential.1", 1, true))
      assert.truthy(counter:get_table(3):find("Sequential.1.1", 1, true))
   end)

   it("names options that do not fit", function()
      assert.raises("FlopCounterMode", "unknown option dept", function() FlopCounterMode {dept = 3} end)
      assert.raises("FlopCounterMode", "fn", function() FlopCounterMode({}, 3) end)
   end)
end)
