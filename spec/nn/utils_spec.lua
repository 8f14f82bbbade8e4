local torch = require "tlua"
local utils = torch.nn.utils

-- Two parameters with the gradients {3, 0} and {4}.
local function parameters()
   local a = torch.nn.Parameter(torch.zeros(2))
   local b = torch.nn.Parameter(torch.zeros(1))
   a.grad, b.grad = torch.tensor {3.0, 0.0}, torch.tensor {4.0}
   return a, b
end

describe("torch.nn.utils", function()
   it("clips the norm of all gradients", function()
      local a, b = parameters()
      assert.close(5, utils.clip_grad_norm_({a, b}, 1):item())
      assert.close({0.6, 0}, a.grad:tolist(), 1e-5)
      assert.close({0.8}, b.grad:tolist(), 1e-5)
   end)

   it("leaves gradients below the norm", function()
      local a, b = parameters()
      utils.clip_grad_norm_({a, b}, 10)
      assert.close({3, 0}, a.grad:tolist(), 0)
   end)

   it("knows other norms and bad gradients", function()
      local a, b = parameters()
      assert.close(4, utils.clip_grad_norm_({a, b}, 10, {norm_type = math.huge}):item())
      assert.close(7, utils.clip_grad_norm_({a, b}, 10, 1):item())
      a.grad:fill_(0 / 0)
      assert.raises("norm of the gradients is", function()
         utils.clip_grad_norm_({a, b}, 1, {error_if_nonfinite = true})
      end)
      assert.equal(0, utils.clip_grad_norm_({}, 1):item())
   end)

   it("clips values", function()
      local a, b = parameters()
      utils.clip_grad_value_({a, b}, 3.5)
      assert.close({3, 0}, a.grad:tolist(), 0)
      assert.close({3.5}, b.grad:tolist(), 0)
   end)

   it("lays parameters out in a row and back", function()
      local model = torch.nn.Linear(2, 3)
      local row = utils.parameters_to_vector(model:parameters())
      assert.same({9}, row.shape)
      utils.vector_to_parameters(torch.arange(0, 9):float(), model:parameters())
      assert.same({{0, 1}, {2, 3}, {4, 5}}, model.weight:tolist())
      assert.same({6, 7, 8}, model.bias:tolist())
      assert.raises("shape (9)", function()
         utils.vector_to_parameters(torch.ones(8), model:parameters())
      end)
   end)
end)
