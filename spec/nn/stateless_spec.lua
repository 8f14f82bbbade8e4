-- Tests calling a module with given tensors in place of its parameters.
local torch = require "tlua"
local sorted = require "spec.support.sorted"
local nn = torch.nn
local utils = nn.utils

describe("functional_call", function()
   local model
   before_each(function()
      model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
      torch.no_grad(function() model[1].bias:fill_(0) end)
   end)

   it("computes with the given tensors, and does not change the module", function()
      local own = model[1].weight
      local weight = (torch.eye(2) * 3):requires_grad_()
      local output = utils.functional_call(model[1], {weight = weight}, torch.ones(1, 2))
      assert.same({{3, 3}}, output:tolist())
      output:sum():backward()
      assert.same({{1, 1}, {1, 1}}, weight.grad:tolist())
      assert.is_true(model[1].weight == own)
      assert.is_nil(own.grad)
   end)

   it("lists the given tensors as parameters while it runs, also in a call inside", function()
      local Penalty, parent = torch.class("Penalty", nn.Module)
      function Penalty:__init()
         parent.__init(self)
         self.layer = nn.Linear(2, 1, {bias = false})
      end
      function Penalty:forward(scale)
         local sum = 0
         for _, parameter in ipairs(self:parameters()) do sum = sum + parameter:sum() * scale end
         if scale == 1 then return sum end
         return sum + utils.functional_call(self, {["layer.weight"] = torch.ones(1, 2)}, 1) + #self:parameters()
      end
      local penalty = Penalty()
      local weight = torch.tensor({{3.0, 4.0}}, {requires_grad = true})
      local value = utils.functional_call(penalty, {["layer.weight"] = weight}, 10)
      assert.equal(70 + 2 + 1, value:item())
      value:backward()
      assert.close({{10, 10}}, weight.grad)
      assert.is_true(penalty:parameters()[1].is_parameter)
      -- a plain tensor counts as a parameter only during the call
      penalty.layer.weight = weight
      assert.raises("weight: expected a parameter, as before", function() penalty:parameters() end)
   end)

   it("finds buffers that nn.Buffer has marked, as register_parametrization does", function()
      local Shift = torch.class("Shift", nn.Module)
      function Shift:__init()
         nn.Module.__init(self)
         self.mean = nn.Buffer(torch.zeros(2))
      end
      function Shift:forward(x) return x + self.mean end
      local shift = Shift()
      assert.same({4, 5}, utils.functional_call(shift, {mean = torch.tensor {3.0, 4}}, torch.ones(2)):tolist())
      nn.utils.parametrize.register_parametrization(shift, "mean", nn.Softplus())
      assert.close({math.log(2), math.log(2)}, shift.mean, 1e-6)
      assert.is_true(shift:state_dict()["parametrizations.mean.original"]:eq(0):all():item())
   end)

   it("takes several tables, buffers as well, and changes those in place", function()
      local mean = torch.zeros(2)
      model:train()
      utils.functional_call(model, {{["1.weight"] = torch.eye(2)}, {["2.running_mean"] = mean}},
         {torch.tensor {{1.0, 2}, {3, 4}}})
      assert.close({0.2, 0.3}, mean, 1e-6)
      assert.same({0, 0}, model[2].running_mean:tolist())
   end)

   it("names arguments that are not tables of tensors", function()
      local x = torch.ones(1, 2)
      for message, parameters in sorted {
         ["parameters[1]: expected a table of tensors by path, got a float32 tensor of shape (2, 2)"]
            = {torch.eye(2)},
         ["parameters[2]: expected a table of tensors by path, got 3"] = {{}, 3},
         ["parameters: expected tensors by path, such as \"1.weight\", got 7"] = {[7] = torch.eye(2)},
         ["1.weight: expected a tensor, got \"x\""] = {["1.weight"] = "x"},
         ["parameters: expected a table of tensors by path, or a list of such"] = model,
      } do
         assert.raises("functional_call: " .. message, function() utils.functional_call(model, parameters, x) end)
      end
   end)

   it("restores the module when the call fails", function()
      local own = model[1].weight
      assert.has_error(function() utils.functional_call(model, {["1.weight"] = torch.eye(2)}, torch.ones(1, 5)) end)
      assert.is_true(model[1].weight == own)
   end)

   it("restores the module when its coroutine is abandoned", function()
      local Waits = torch.class("Waits", nn.Module)
      function Waits:__init()
         nn.Module.__init(self)
         self.layer = nn.Linear(2, 2)
      end
      function Waits:forward(input)
         coroutine.yield()
         return self.layer(input)
      end
      local waits = Waits()
      local own = waits.layer.weight
      do
         local thread = coroutine.create(utils.functional_call)
         assert.is_true(coroutine.resume(thread, waits, {["layer.weight"] = torch.eye(2)}, torch.ones(1, 2)))
         assert.is_false(rawequal(own, waits.layer.weight))
      end
      collectgarbage()
      collectgarbage()
      assert.is_true(rawequal(own, waits.layer.weight))
   end)

   it("holds for all paths of a shared tensor, unless told otherwise", function()
      local tied = nn.Sequential(nn.Linear(1, 1, {bias = false}), nn.Linear(1, 1, {bias = false}))
      tied[2].weight = tied[1].weight
      torch.no_grad(function() tied[1].weight:fill_(10) end)
      local two, x = torch.tensor {{2.0}}, torch.ones(1, 1)
      assert.equal(4, utils.functional_call(tied, {["1.weight"] = two}, x):item())
      assert.equal(20, utils.functional_call(tied, {["1.weight"] = two}, x, {tie_weights = false}):item())
      assert.raises("are given different ones",
         function() utils.functional_call(tied, {["1.weight"] = two, ["2.weight"] = x}, x) end)
      assert.equal(2, utils.functional_call(tied, {["1.weight"] = two, ["2.weight"] = x}, x,
         {tie_weights = false}):item())
      assert.equal(4, utils.functional_call(tied, {["1.weight"] = two}, x, {strict = true}):item())
   end)

   it("replaces the tensors from which a parametrization is computed", function()
      local layer = utils.parametrizations.weight_norm(nn.Linear(2, 1, {bias = false}))
      local output = utils.functional_call(layer, {
         ["parametrizations.weight.original0"] = torch.tensor {{5.0}},
         ["parametrizations.weight.original1"] = torch.tensor {{3.0, 4.0}},
      }, torch.ones(1, 2))
      assert.close(7, output:item(), 1e-6)
   end)

   it("names parameters that are unknown, missing or given twice", function()
      local x = torch.ones(1, 2)
      assert.raises("functional_call: nn.Sequential has no 1.wieght",
         function() utils.functional_call(model, {["1.wieght"] = x}, x) end)
      assert.raises("functional_call: missing: 1.bias, 2.bias, 2.num_batches_tracked",
         function() utils.functional_call(model, {["1.weight"] = x}, x, {strict = true}) end)
      assert.raises("1.bias is in two of the tables",
         function() utils.functional_call(model, {{["1.bias"] = x}, {["1.bias"] = x}}, x) end)
      assert.raises("1.bias: expected a tensor, got 3",
         function() utils.functional_call(model, {["1.bias"] = 3}, x) end)
   end)
end)

describe("stack_module_state", function()
   it("stacks parameters and buffers of models of one class", function()
      local models = {nn.BatchNorm1d(3), nn.BatchNorm1d(3)}
      models[2].weight.data:fill_(2)
      local parameters, buffers = utils.stack_module_state(models)
      assert.same({{1, 1, 1}, {2, 2, 2}}, parameters.weight:tolist())
      assert.is_true(parameters.weight.requires_grad and parameters.weight.is_leaf)
      assert.same({2, 3}, buffers.running_var.shape)
      assert.is_false(buffers.running_var.requires_grad)
   end)

   it("refuses models that differ", function()
      assert.raises("at least one module", function() utils.stack_module_state {} end)
      assert.raises("model 2: expected a nn.Linear",
         function() utils.stack_module_state {nn.Linear(1, 1), nn.ReLU()} end)
      assert.raises("parameter weight of model 2 is not as that of the first",
         function() utils.stack_module_state {nn.Linear(1, 1, {bias = false}), nn.Linear(2, 1, {bias = false})} end)
   end)
end)

describe("skip_init", function()
   it("draws no random number", function()
      torch.manual_seed(1)
      local expected = torch.rand(1):item()
      torch.manual_seed(1)
      local model = utils.skip_init(nn.Transformer, 8, {nhead = 2, num_encoder_layers = 1,
         num_decoder_layers = 1, dim_feedforward = 8})
      assert.equal(expected, torch.rand(1):item())
      assert.equal(nn.Transformer, getmetatable(model))
      local layer = utils.skip_init(nn.Linear, 3, 4, {bias = false})
      assert.same({4, 3}, layer.weight.shape)
   end)

   it("leaves initialization as it was, also when the module cannot be made", function()
      local before = nn.init.uniform_
      assert.has_error(function() utils.skip_init(nn.Linear, "x") end)
      assert.equal(before, nn.init.uniform_)
      assert.raises("module_cls: expected a module class", function() utils.skip_init(nn.Linear(1, 1)) end)
   end)
end)
