local torch = require "tlua"
local nn = torch.nn

describe("a lazy layer", function()
   it("learns its size from its first input and becomes the ordinary layer", function()
      local layer = nn.LazyLinear(4)
      local weight = layer.weight
      assert.is_true(layer:has_uninitialized_params())
      assert.equal("LazyLinear(in_features=0, out_features=4, bias=true)", tostring(layer))
      assert.same({2, 4}, layer(torch.randn(2, 3)).shape)
      assert.equal("nn.Linear", torch.type(layer))
      assert.equal("Linear(in_features=3, out_features=4, bias=true)", tostring(layer))
      assert.equal(weight, layer.weight)
      assert.same({4, 3}, weight.shape)
      assert.is_true(weight:abs():max():item() <= 3 ^ -0.5)
      assert.is_true(weight:abs():max():item() > 0)
   end)

   it("has parameters that an optimizer may hold before they have a shape", function()
      torch.manual_seed(1)
      local model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.LazyLinear(1))
      local sgd = torch.optim.SGD(model:parameters(), {lr = 0.1})
      local x = torch.randn(8, 3)
      model(x):sum():backward()
      local before = model[3].bias:detach():clone()
      sgd:step()
      assert.same({4, 3}, model[1].weight.shape)
      assert.same({1, 4}, model[3].weight.shape)
      assert.same({4}, model[2].running_mean.shape)
      assert.close(before:item() - 0.1 * 8, model[3].bias:item(), 1e-6)
   end)

   it("takes its shape from a state that is loaded, and keeps it", function()
      local from = nn.Conv2d(3, 4, 3, {groups = 1})
      local to = nn.LazyConv2d(4, 3)
      to:load_state_dict(from:state_dict())
      assert.is_false(to:has_uninitialized_params())
      local x = torch.randn(1, 3, 5, 5)
      assert.is_true(torch.equal(from(x), to(x)))
      assert.equal(3, to.in_channels)
   end)

   it("stays lazy when it is copied and when a state does not fit", function()
      local layer = nn.LazyBatchNorm2d()
      assert.is_true(layer:clone():has_uninitialized_params())
      assert.raises("load_state_dict: the state does not fit nn.LazyBatchNorm2d: missing:",
         function() layer:load_state_dict({weight = torch.ones(3)}) end)
      assert.is_true(layer:has_uninitialized_params())
      assert.same({2, 5, 2, 2}, layer:clone()(torch.randn(2, 5, 2, 2)).shape)
   end)

   it("refuses inputs that it cannot take, and stays as it is", function()
      local layer = nn.LazyConv2d(4, 3, {groups = 2})
      assert.raises("nn.LazyConv2d: input: expected a tensor of 3 or 4 dimensions",
         function() layer(torch.randn(3, 5)) end)
      assert.raises("nn.LazyConv2d: input: expected a multiple of 2 channels, which is groups, "
         .. "got 3", function() layer(torch.randn(1, 3, 5, 5)) end)
      assert.raises("nn.LazyLinear: unknown option biass; did you mean bias?",
         function() nn.LazyLinear(3, {biass = false}) end)
      assert.equal("nn.LazyConv2d", torch.type(layer))
      assert.same({1, 4, 3, 3}, layer(torch.randn(1, 4, 5, 5)).shape)
   end)
end)

it("nn.Buffer makes a tensor part of the module that it is assigned to", function()
   local module = nn.Module()
   module.mean = nn.Buffer(torch.zeros(3))
   module.scratch = nn.Buffer(torch.ones(2), {persistent = false})
   module.plain = torch.ones(4)
   assert.equal(2, #module:buffers())
   local state = module:state_dict()
   assert.same({0.0, 0.0, 0.0}, state.mean:tolist())
   assert.is_nil(state.scratch)
   module:double()
   assert.equal("float64", module.mean.dtype)
   assert.equal("float64", module.scratch.dtype)
   assert.equal("float32", module.plain.dtype)
   assert.equal(2, #module:clone():buffers())
end)

it("nn.ParameterDict holds parameters by name", function()
   local dict = nn.ParameterDict {b = torch.ones(2), a = torch.zeros(3)}
   dict:set("c", nn.Parameter(torch.ones(1)))
   dict.d = nn.Parameter(torch.ones(4))
   dict.e = torch.ones(5)
   dict:register_buffer("f", torch.ones(6))
   local names = {}
   for name, parameter in dict:items() do
      names[#names + 1] = name
      assert.is_true(parameter.is_parameter)
   end
   assert.same({"a", "b", "c", "d", "e"}, names)
   assert.same({1.0, 1.0}, dict:pop("b"):tolist())
   assert.equal(4, #dict:parameters())
   assert.same({dict.f}, dict:buffers())
   assert.equal("ParameterDict(a: float32 (3), c: float32 (1), d: float32 (4), e: float32 (5))", tostring(dict))
   assert.raises("nn.ParameterDict: items is the name of a method", function() dict:set("items", torch.ones(1)) end)
   assert.raises("nn.ParameterDict: x: expected a tensor, got 3", function() nn.ParameterDict {x = 3} end)
end)

describe("uninitialized parameters", function()
   it("are the parameters of lazy layers", function()
      assert.is_true(nn.UninitializedParameter().is_parameter)
      assert.equal("float64", nn.UninitializedBuffer({dtype = "float64"}).dtype)
      assert.same({0}, nn.LazyLinear(2).weight.shape)
   end)

   it("may remain uninitialized in a loaded state", function()
      local layer = nn.LazyLinear(3)
      layer:load_state_dict(nn.LazyLinear(3):state_dict())
      assert.is_true(layer:has_uninitialized_params())
      assert.same({1, 3}, layer(torch.ones(1, 4)).shape)
      assert.raises("nn.LazyLinear: input: expected a tensor of at least 1 dimension",
         function() nn.LazyLinear(3)(torch.tensor(1.0)) end)
   end)

   it("cannot be parametrized", function()
      local layer = nn.LazyLinear(3)
      assert.raises("register_parametrization: weight of nn.LazyLinear waits for its shape",
         function() nn.utils.parametrizations.weight_norm(layer) end)
      assert.same({1, 3}, layer(torch.ones(1, 4)).shape)
   end)
end)
