local torch = require "tlua"
local init = torch.nn.init

describe("torch.nn.init", function()
   before_each(function() torch.manual_seed(4) end)

   it("fills with constants", function()
      assert.same({3, 3}, init.constant_(torch.empty(2), 3):tolist())
      assert.same({1}, init.ones_(torch.empty(1)):tolist())
      assert.same({0}, init.zeros_(torch.empty(1)):tolist())
      assert.same({{1, 0, 0}, {0, 1, 0}}, init.eye_(torch.empty(2, 3)):tolist())
   end)

   it("scales by fans and gains", function()
      assert.same({3 * 4 * 5, 2 * 4 * 5}, {init.calculate_fan(torch.empty(2, 3, 4, 5))})
      assert.close(2 ^ 0.5, init.calculate_gain("relu"))
      assert.close((2 / 1.04) ^ 0.5, init.calculate_gain("leaky_relu", 0.2))
      assert.raises("at least 2 dimensions", function() init.calculate_fan(torch.empty(3)) end)
      assert.raises("nonlinearity", function() init.calculate_gain("rellu") end)
   end)

   it("draws uniform values up to the rule's bound", function()
      local bounds = {
         {init.uniform_(torch.empty(100, 50), -0.3, 0.3), 0.3},
         {init.xavier_uniform_(torch.empty(100, 50)), (6 / 150) ^ 0.5},
         {init.kaiming_uniform_(torch.empty(100, 50)), 6 ^ 0.5 / 50 ^ 0.5},
         {init.kaiming_uniform_(torch.empty(100, 50), {mode = "fan_out", nonlinearity = "linear"}), 3 ^ 0.5 / 10},
      }
      for _, pair in ipairs(bounds) do
         local largest = pair[1]:abs():max():item()
         assert.is_true(largest <= pair[2] and largest > 0.98 * pair[2])
      end
   end)

   it("draws normal values of the rule's deviation", function()
      local deviations = {
         {init.normal_(torch.empty(100, 100), 0, 2), 2},
         {init.xavier_normal_(torch.empty(100, 100)), 0.1},
         {init.kaiming_normal_(torch.empty(100, 100), {nonlinearity = "relu"}), 2 ^ 0.5 / 10},
      }
      for _, pair in ipairs(deviations) do assert.close(1, pair[1]:std():item() / pair[2], 0.03) end
   end)

   it("truncates normal values", function()
      local x = init.trunc_normal_(torch.empty(10000), 0, 1, -1, 2)
      assert.is_true(x:min():item() >= -1 and x:max():item() <= 2)
      assert.close(0.2296, x:mean():item(), 0.03)
   end)

   it("gives orthogonal rows or columns", function()
      local x = init.orthogonal_(torch.empty(3, 5), 2)
      assert.close({{4, 0, 0}, {0, 4, 0}, {0, 0, 4}}, x:matmul(x:t()):tolist(), 1e-5)
      local y = init.orthogonal_(torch.empty(5, 3))
      assert.close({{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, y:t():matmul(y):tolist(), 1e-5)
   end)

   it("gives convolutions that return their input", function()
      local weight = init.dirac_(torch.empty(2, 2, 3, 3))
      local x = torch.randn(1, 2, 4, 4)
      assert.close(x:tolist(), torch.nn.functional.conv2d(x, weight, nil, 1, 1):tolist())
   end)

   it("gives sparse columns", function()
      local x = init.sparse_(torch.empty(10, 4), 0.3)
      assert.same({3, 3, 3, 3}, x:eq(0):sum(1):tolist())
   end)

   it("records nothing and returns its tensor", function()
      local parameter = torch.nn.Parameter(torch.empty(2, 2))
      assert.is_true(init.xavier_uniform_(parameter) == parameter)
      assert.is_true(parameter.is_leaf and parameter.requires_grad)
   end)
end)

it("calculate_gain takes its parameter by position and by name", function()
   local gain = init.calculate_gain
   assert.close((2 / 1.04) ^ 0.5, gain("leaky_relu", 0.2), 1e-12)
   assert.equal(gain("leaky_relu", 0.2), gain("leaky_relu", {param = 0.2}))
   assert.raises("nn.init.calculate_gain: unknown option parm; did you mean param?",
      function() gain("leaky_relu", {parm = 0.2}) end)
end)
