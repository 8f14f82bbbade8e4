local torch = require "tlua"
local sorted = require "spec.support.sorted"
local utils = torch.nn.utils

-- Returns two parameters with the gradients {3, 0} and {4}.
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

   it("takes other norms, and refuses gradients that are not finite with error_if_nonfinite", function()
      local a, b = parameters()
      assert.close(4, utils.clip_grad_norm_({a, b}, 10, {norm_type = math.huge}):item())
      -- PyTorch computes the norm of order 0 of the list of the tensors' norms, which is the number of tensors that
      -- have an element other than 0.
      assert.close(2, utils.clip_grad_norm_({a, b}, 10, {norm_type = 0}):item())
      assert.close(7, utils.clip_grad_norm_({a, b}, 10, 1):item())
      a.grad:fill_(0 / 0)
      assert.raises("norm of the gradients is",
         function() utils.clip_grad_norm_({a, b}, 1, {error_if_nonfinite = true}) end)
      assert.equal(0, utils.clip_grad_norm_({}, 1):item())
   end)

   it("clips values", function()
      local a, b = parameters()
      utils.clip_grad_value_({a, b}, 3.5)
      assert.close({3, 0}, a.grad:tolist(), 0)
      assert.close({3.5}, b.grad:tolist(), 0)
   end)

   it("copies parameters into one vector and back", function()
      local model = torch.nn.Linear(2, 3)
      local row = utils.parameters_to_vector(model:parameters())
      assert.same({9}, row.shape)
      utils.vector_to_parameters(torch.arange(0, 9):float(), model:parameters())
      assert.same({{0, 1}, {2, 3}, {4, 5}}, model.weight:tolist())
      assert.same({6, 7, 8}, model.bias:tolist())
      assert.raises("shape (9)", function() utils.vector_to_parameters(torch.ones(8), model:parameters()) end)
   end)
end)

describe("norms of gradients", function()
   it("refuse a table without positions, which would pass for no gradients", function()
      local weight = torch.nn.Linear(1, 1).weight
      for _, clip in ipairs {utils.clip_grad_norm_, utils.clip_grad_value_} do
         for _, wrong in ipairs {torch.nn.Linear(1, 1), {weight = weight}} do
            assert.raises("parameters: expected a tensor or a list of tensors", function() clip(wrong, 1.0) end)
         end
         clip(torch.nn.ParameterList {weight}, 1.0)
         clip({}, 1.0)
      end
      assert.raises("tensors: expected a tensor or a list of tensors",
         function() utils.get_total_norm {a = weight} end)
   end)

   it("are taken together, as options say", function()
      local list = {torch.tensor {3.0, 0}, torch.tensor {4.0}}
      assert.equal(5, utils.get_total_norm(list):item())
      assert.equal(7, utils.get_total_norm(list, {norm_type = 1}):item())
      assert.equal(4, utils.get_total_norm(list, math.huge):item())
      assert.equal(3, utils.get_total_norm(list[1]):item())
      assert.equal(0, utils.get_total_norm({}):item())
      list[1]:fill_(0 / 0)
      assert.raises("get_total_norm: the norm of the gradients is",
         function() utils.get_total_norm(list, {error_if_nonfinite = true}) end)
      assert.raises("get_total_norm: tensors[2]: expected a tensor, got 3",
         function() utils.get_total_norm {list[1], 3} end)
      assert.raises("unknown option norm_typ; did you mean norm_type?",
         function() utils.get_total_norm(list, {norm_typ = 2}) end)
   end)

   it("scale gradients by a norm that is known", function()
      local a, b = parameters()
      utils.clip_grads_with_norm_({a, b}, 1, torch.tensor(10.0))
      assert.close({0.3, 0}, a.grad:tolist(), 1e-6)
      assert.close({0.4}, b.grad:tolist(), 1e-6)
      utils.clip_grads_with_norm_({a, b}, {max_norm = 20, total_norm = torch.tensor(10.0)})
      assert.close({0.4}, b.grad:tolist(), 1e-6)
   end)

   it("has all of PyTorch's names", function()
      for name in ([[clip_grad_norm clip_grad_norm_ clip_grads_with_norm_ clip_grad_value_
         convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format fuse_conv_bn_eval
         fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights get_total_norm
         parameters_to_vector parametrizations parametrize remove_spectral_norm remove_weight_norm
         skip_init spectral_norm stateless vector_to_parameters weight_norm]]):gmatch "%S+" do
         assert.is_not_nil(utils[name], name)
      end
   end)
end)

it("wrong arguments are named", function()
   local nn, prune, parametrize = torch.nn, utils.prune, utils.parametrize
   for message, call in sorted {
      ["nn.utils.parameters_to_vector: parameters is missing; expected a value"]
         = function() utils.parameters_to_vector() end,
      ["nn.utils.parameters_to_vector: parameters[2]: expected a tensor, got 4"]
         = function() utils.parameters_to_vector {torch.ones(2), 4} end,
      ["nn.utils.vector_to_parameters: parameters[1]: expected a tensor, got true"]
         = function() utils.vector_to_parameters(torch.ones(1), {true}) end,
      ["nn.utils.rnn.invert_permutation: permutation: expected a tensor of one dimension, got 3"]
         = function() utils.rnn.invert_permutation(3) end,
      ["prune.PruningContainer: method: expected a pruning method, got 6"]
         = function() prune.PruningContainer(6) end,
      ["nn.utils.parametrize.cached: fn: expected a function or nil, got 1"]
         = function() parametrize.cached(1) end,
      ["utils.checkpoint_sequential: modules: expected a Sequential or a list of modules, got 2"]
         = function() torch.utils.checkpoint.checkpoint_sequential(2, 1, torch.ones(1)) end,
      ["utils.checkpoint_sequential: modules: expected a Sequential or a list of modules, got an instance of nn.Linear"]
         = function() torch.utils.checkpoint.checkpoint_sequential(torch.nn.Linear(1, 1), 1, torch.ones(1)) end,
      ["utils.checkpoint_sequential: modules[2]: expected a module or a function, got 5"]
         = function() torch.utils.checkpoint.checkpoint_sequential({print, 5}, 1, 1) end,
      ["nn.utils.clip_grad_norm_: parameters[1]: expected a tensor, got 1"]
         = function() utils.clip_grad_norm_({1}, 1) end,
      ["autograd.functional.vjp: v: expected a tensor or a list of tensors, got true"]
         = function() torch.autograd.functional.vjp(torch.exp, torch.ones(2), true) end,
      ["nn.CircularPad2d: input: expected a tensor, got 3"] = function() nn.CircularPad2d(1)(3) end,
      ["nn.ZeroPad1d: input: expected a tensor, got nil"] = function() nn.ZeroPad1d(1)() end,
      ["nn.AddConstant: input: expected a tensor, got a function"]
         = function() nn.AddConstant(1)(print) end,
      ["nn.MulConstant: input: expected a tensor, got \"x\""]
         = function() nn.MulConstant(1)("x") end,
      ["nn.AdaptiveLogSoftmaxWithLoss: target: expected one class for each row of the input, "
         .. "got nil"] = function()
         nn.AdaptiveLogSoftmaxWithLoss(2, 3, {1})(torch.ones(1, 2))
      end,
   } do assert.raises(message, call) end
   assert.same({1, 1}, utils.parameters_to_vector(torch.ones(2)):tolist())
end)
