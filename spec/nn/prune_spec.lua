-- Tests pruning and fused layers by comparing them with PyTorch. The expected values are in spec/fixtures/nn_utils.lua.
local torch = require "tlua"
local formulas = require "spec.support.nn_utils"
local nn = torch.nn
local utils = nn.utils
local prune = utils.prune
local rows = dofile "spec/fixtures/nn_utils.lua"

local fill <const>, filled <const> = formulas.fill, formulas.filled

local function compare(name, ...)
   for i, expected in ipairs(rows[name]) do assert.close(expected, (select(i, ...)), 1e-12) end
end

describe("prune", function()
   it("prunes channels, then elements of the remaining ones, as PyTorch", function()
      local layer = filled(nn.Linear(4, 5))
      prune.ln_structured(layer, "weight", {amount = 2, n = 2, dim = 1})
      local first = layer.weight_mask:clone()
      prune.l1_unstructured(layer, "weight", 0.4)
      local output = layer(fill(torch.zeros(2, 4, {dtype = "float64"})));
      (output * fill(torch.zeros(2, 5, {dtype = "float64"}), 2)):sum():backward()
      compare("pruned", first, layer.weight_mask, layer.weight, layer.weight_orig.grad)
   end)

   it("prunes several parameters together, as PyTorch", function()
      local a, b = filled(nn.Linear(3, 2)), filled(nn.Conv1d(2, 2, 3))
      fill(b.weight, 0.3)
      prune.global_unstructured({{a, "weight"}, {b, "weight"}, {a, "bias"}}, prune.L1Unstructured, {amount = 0.5})
      compare("pruned_together", a.weight_mask, b.weight_mask, a.bias_mask)
   end)

   it("takes the method by name, as PyTorch's keywords", function()
      local a, b = filled(nn.Linear(3, 2)), filled(nn.Conv1d(2, 2, 3))
      fill(b.weight, 0.3)
      prune.global_unstructured({{a, "weight"}, {b, "weight"}, {a, "bias"}},
         {pruning_method = prune.L1Unstructured, amount = 0.5})
      compare("pruned_together", a.weight_mask, b.weight_mask, a.bias_mask)
      assert.raises("prune.global_unstructured: pruning_method: expected a class whose "
         .. "PRUNING_TYPE is unstructured, got nil",
         function() prune.global_unstructured({{a, "weight"}}, {amount = 0.5}) end)
      assert.raises("prune.global_unstructured: pruning_method",
         function() prune.global_unstructured({{a, "weight"}}, {pruning_method = prune.LnStructured}) end)
      local layer = nn.Linear(4, 3)
      prune.random_unstructured(layer, {name = "weight", amount = 2})
      assert.equal(10, layer.weight_mask:sum():item())
      prune.ln_structured(nn.Linear(4, 3), {name = "weight", amount = 0.5, n = 2, dim = 1})
   end)

   it("keeps masks with the state, which loads into a pruned module", function()
      local layer = prune.l1_unstructured(nn.Linear(3, 3), "weight", 4)
      local state = layer:state_dict()
      assert.equal(5, state.weight_mask:sum():item())
      assert.is_nil(state.weight)
      local other = prune.identity(nn.Linear(3, 3), "weight")
      other:load_state_dict(state)
      local x = torch.randn(2, 3)
      assert.close(layer(x), other(x), 0)
   end)

   it("prunes the given number of random elements", function()
      torch.manual_seed(3)
      local layer = prune.random_unstructured(nn.Linear(10, 10), "weight", 0.37)
      assert.equal(63, layer.weight_mask:sum():item())
      prune.random_structured(layer, "weight", {amount = 3, dim = 1})
      local rows_left = layer.weight_mask:sum(2):gt(0):sum():item()
      assert.equal(7, rows_left)
      assert.is_true(layer.weight:eq(0):logical_or(layer.weight_mask:eq(1)):all():item())
      prune.random_unstructured(layer, "bias", 4)
      assert.equal(6, layer.bias_mask:sum():item())
   end)

   it("uses given scores", function()
      local layer = nn.Linear(2, 2)
      local scores = torch.tensor {{4.0, 3}, {2, 1}}
      prune.l1_unstructured(layer, "weight", {amount = 2, importance_scores = scores})
      assert.same({{1, 1}, {0, 0}}, layer.weight_mask:tolist())
      assert.raises("importance_scores: expected a tensor of shape (2)",
         function() prune.l1_unstructured(layer, "bias", {amount = 1, importance_scores = scores}) end)
      assert.is_nil(rawget(layer, "bias_orig"))
   end)

   it("takes all arguments by name", function()
      local layer = nn.Linear(2, 2)
      local scores = torch.tensor {{4.0, 3}, {2, 1}}
      prune.l1_unstructured(layer, {name = "weight", amount = 1, importance_scores = scores})
      assert.same({{1, 1}, {1, 0}}, layer.weight_mask:tolist())
      prune.identity(layer, {name = "bias"})
      assert.same({1, 1}, layer.bias_mask:tolist())
      assert.raises("unknown option name",
         function() prune.l1_unstructured(layer, "weight", {name = "weight", amount = 1}) end)
   end)

   it("takes a mask, and methods of one's own", function()
      local layer = prune.custom_from_mask(nn.Linear(2, 2), "bias", torch.tensor {1, 0})
      assert.equal(0, layer.bias[2]:item())
      local Every = torch.class("Every", prune.BasePruningMethod)
      Every.PRUNING_TYPE = "unstructured"
      function Every:__init(step) self.step = step end
      function Every:compute_mask(_, mask)
         mask = mask:clone()
         mask:view(-1)[{{1, -1, self.step}}] = 0
         return mask
      end
      local method = Every:apply(layer, "weight", 2)
      assert.equal("Every", torch.type(method))
      assert.same({{0, 1}, {0, 1}}, layer.weight_mask:tolist())
      assert.same({0, 1, 0, 1}, Every(2):prune(torch.ones(4)):tolist())
   end)

   it("gives gradients only to the remaining elements", function()
      local layer = prune.custom_from_mask(nn.Linear(2, 1), "weight", torch.tensor {{1, 0}})
      for _ = 1, 2 do
         layer.weight_orig.grad = nil
         layer(torch.ones(1, 2)):sum():backward()
         assert.same({{1, 0}}, layer.weight_orig.grad:tolist())
      end
   end)

   it("becomes final, with the same parameter", function()
      local model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
      local weight = model[1].weight
      assert.is_false(prune.is_pruned(model))
      prune.l1_unstructured(model[1], "weight", 0.5)
      prune.l1_unstructured(model[1], "weight", 2)
      assert.is_true(prune.is_pruned(model))
      prune.remove(model[1], "weight")
      assert.is_false(prune.is_pruned(model))
      assert.is_true(model[1].weight == weight and weight.is_parameter)
      assert.equal(10, weight:eq(0):sum():item())
      assert.is_nil(model:state_dict()["1.weight_mask"])
      assert.is_false(rawget(model[1], "_hooks"))
   end)

   it("is copied with its module", function()
      local layer = prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.5)
      local copied = layer:clone()
      prune.remove(copied, "weight")
      assert.is_true(prune.is_pruned(layer))
      assert.equal(8, layer.weight_mask:sum():item())
   end)

   it("refuses wrong arguments and changes nothing then", function()
      local layer = nn.Linear(2, 2)
      assert.raises("prune.L1Unstructured: amount: expected an integer of at least 0 or a float",
         "got 1.5", function() prune.l1_unstructured(layer, "weight", 1.5) end)
      assert.raises("amount: expected at most 4, the number of units, got 5",
         function() prune.l1_unstructured(layer, "weight", 5) end)
      assert.raises("prune.LnStructured: dim: expected an integer from 1 to 2",
         function() prune.ln_structured(layer, "weight", {amount = 1, n = 2, dim = 3}) end)
      assert.raises("nn.Linear has no parameter wight", function() prune.identity(layer, "wight") end)
      for _, name in ipairs {3, {}} do
         assert.raises("name: expected a string", function() prune.l1_unstructured(layer, name, 1) end)
         assert.raises("name: expected a string", function() prune.remove(layer, name) end)
      end
      assert.raises("name: expected a string", function() prune.identity(layer, {amount = 1}) end)
      assert.raises("weight of nn.Linear is not pruned", function() prune.remove(layer, "weight") end)
      assert.raises("mask: expected a tensor of shape (2, 2)",
         function() prune.custom_from_mask(layer, "weight", torch.ones(3)) end)
      assert.is_true(layer.weight.is_parameter)
      assert.is_nil(rawget(layer, "weight_orig"))
   end)
end)

describe("fuse", function()
   local function normalisation(norm)
      filled(norm)
      fill(norm.running_mean, 4)
      norm.running_var:copy_(fill(norm.running_var:clone(), 5):abs() + 0.5)
      return norm:evaluate()
   end

   it("folds a normalisation into the layer before it, as PyTorch", function()
      local fused = utils.fuse_conv_bn_eval(filled(nn.Conv2d(2, 3, 2)):evaluate(), normalisation(nn.BatchNorm2d(3)))
      compare("fused_conv", fused.weight, fused.bias)
      fused = utils.fuse_conv_bn_eval(
         filled(nn.ConvTranspose1d(2, 3, 2, {bias = false})):evaluate(),
         normalisation(nn.BatchNorm1d(3)), true)
      compare("fused_transposed", fused.weight, fused.bias)
      fused = utils.fuse_linear_bn_eval(filled(nn.Linear(2, 3)):evaluate(), normalisation(nn.BatchNorm1d(3)))
      compare("fused_linear", fused.weight, fused.bias)
   end)

   it("gives the results of both layers, and does not change them", function()
      local conv, norm = filled(nn.Conv2d(2, 3, 2)):evaluate(), normalisation(nn.BatchNorm2d(3))
      local x = torch.randn(2, 2, 4, 4, {dtype = "float64"})
      local expected = norm(conv(x))
      local fused = utils.fuse_conv_bn_eval(conv, norm)
      assert.close(expected, fused(x), 1e-12)
      assert.close(expected, norm(conv(x)), 0)
      assert.is_true(fused.weight.is_parameter)
   end)

   it("refuses modules in training mode, or without statistics", function()
      local conv, norm = nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3)
      assert.raises("fuse_conv_bn_eval: ", "in training mode", function() utils.fuse_conv_bn_eval(conv, norm) end)
      norm = nn.BatchNorm2d(3, {track_running_stats = false}):evaluate()
      assert.raises("bn: nn.BatchNorm2d has no running statistics",
         function() utils.fuse_conv_bn_eval(conv:evaluate(), norm) end)
      assert.raises("bn: expected 3 features or 1, got 2",
         function() utils.fuse_linear_bn_eval(nn.Linear(2, 3):evaluate(), nn.BatchNorm1d(2):evaluate()) end)
   end)
end)

it("memory formats reorder weights of convolutions and change no result", function()
   local model = nn.Sequential(nn.Conv2d(3, 4, 2), nn.ReLU(), nn.ConvTranspose2d(4, 2, 2))
   local x = torch.randn(1, 3, 5, 5)
   local expected = model(x)
   utils.convert_conv2d_weight_memory_format(model, "channels_last")
   assert.same({12, 1, 6, 3}, model[1].weight:stride())
   assert.same({4, 3, 2, 2}, model[1].weight.shape)
   assert.close(expected, model(x), 1e-6)
   utils.convert_conv2d_weight_memory_format(model, "contiguous_format")
   assert.is_true(model[3].weight:is_contiguous())
   local deep = utils.convert_conv3d_weight_memory_format(nn.Conv3d(2, 2, 2), "channels_last_3d")
   assert.same({16, 1, 8, 4, 2}, deep.weight:stride())
   assert.raises("memory_format: expected channels_last or contiguous_format",
      function() utils.convert_conv2d_weight_memory_format(model, "channels_first") end)
end)
