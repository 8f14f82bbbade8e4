-- Tests weights that are computed from other parameters, either by parametrizations or by the older hooks weight_norm
-- and spectral_norm.
local torch = require "tlua"
local formulas = require "spec.support.nn_utils"
local sorted = require "spec.support.sorted"
local nn = torch.nn
local utils = nn.utils
local P, parametrizations = utils.parametrize, utils.parametrizations
local rows = dofile "spec/fixtures/nn_utils.lua"

local fill <const>, filled <const> = formulas.fill, formulas.filled

local function zeros(...)
   local shape = ... return torch.zeros(type(shape) == "table" and shape or {...}, {dtype = "float64"})
end

local function loss(output) return (output * fill(zeros(output.shape), 2)):sum() end

local function compare(name, ...)
   for i, expected in ipairs(rows[name]) do assert.close(expected, (select(i, ...)), 1e-10) end
end

local function set_vectors(...)
   for shift, vector in ipairs {...} do
      fill(vector, shift)
      vector:div_(vector:norm())
   end
end

local Symmetric = torch.class("Symmetric", nn.Module)
function Symmetric:forward(x) return x:triu() + x:triu(1):t() end
function Symmetric:right_inverse(a) return a:triu() end

local Double = torch.class("Double", nn.Module)
function Double:forward(x) return x * 2 end

local Product = torch.class("Product", nn.Module)
function Product:forward(a, b) return a * b end
function Product:right_inverse(x) return x:clone(), torch.ones_like(x) end

describe("parametrize", function()
   local layer
   before_each(function() layer = filled(nn.Linear(3, 3)) end)

   it("computes a parameter whenever it is read", function()
      local plain = layer.weight
      assert.is_true(P.register_parametrization(layer, "weight", Symmetric()) == layer)
      assert.equal(layer.weight:t():tolist()[1][2], layer.weight:tolist()[1][2])
      assert.is_true(layer.parametrizations.weight.original == plain)
      local names = {}
      for name in layer:named_parameters() do names[#names + 1] = name end
      assert.same({"bias", "parametrizations.weight.original"}, names)
      layer(zeros(2, 3) + 1):sum():backward()
      assert.same({{2, 4, 4}, {0, 2, 4}, {0, 0, 2}}, plain.grad:tolist())
   end)

   it("prints the module and knows its class", function()
      P.register_parametrization(layer, "weight", Symmetric())
      assert.matches("ParametrizedLinear(\n  in_features=3", tostring(layer), 1, true)
      assert.matches("(weight): ParametrizationList(\n      (1): Symmetric()", tostring(layer), 1, true)
      assert.is_true(torch.isinstance(layer, nn.Linear))
      assert.equal(nn.Linear, P.type_before_parametrizations(layer))
      assert.equal(nn.Linear, P.type_before_parametrizations(nn.Linear(1, 1)))
   end)

   it("stores the result of right_inverse at an assignment", function()
      P.register_parametrization(layer, "weight", Symmetric())
      layer.weight = zeros(3, 3) + 3
      assert.same({{3, 3, 3}, {0, 3, 3}, {0, 0, 3}}, layer.parametrizations.weight.original:tolist())
      assert.same({{3, 3, 3}, {3, 3, 3}, {3, 3, 3}}, layer.weight:tolist())
   end)

   it("applies several, one after another", function()
      local before = layer.weight:tolist()
      P.register_parametrization(layer, "weight", Symmetric())
      P.register_parametrization(layer, "weight", Double())
      assert.close(2 * before[1][3], layer.weight:tolist()[3][1], 1e-15)
      assert.raises("Double has no right_inverse", function() layer.weight = zeros(3, 3) end)
   end)

   it("takes several tensors", function()
      local before = layer.weight:tolist()
      P.register_parametrization(layer, "weight", Product())
      local list = layer.parametrizations.weight
      assert.is_true(list.original0.is_parameter and list.original1.is_parameter)
      assert.close(before, layer.weight, 0)
      P.remove_parametrizations(layer, "weight")
      assert.is_true(layer.weight.is_parameter)
      assert.close(before, layer.weight, 0)
      P.register_parametrization(layer, "weight", Product())
      assert.raises("no original to go back to",
         function() P.remove_parametrizations(layer, "weight", {leave_parametrized = false}) end)
   end)

   it("parametrizes a buffer", function()
      local norm = nn.BatchNorm1d(2)
      P.register_parametrization(norm, "running_var", Double())
      assert.same({2, 2}, norm.running_var:tolist())
      assert.is_not_nil(norm:state_dict()["parametrizations.running_var.original"])
      P.remove_parametrizations(norm, "running_var", {leave_parametrized = false})
      assert.same({1, 1}, norm.running_var:tolist())
      assert.is_not_nil(norm:state_dict()["running_var"])
   end)

   it("computes once while it is cached, and again afterwards", function()
      P.register_parametrization(layer, "weight", Symmetric())
      assert.is_false(rawequal(layer.weight, layer.weight))
      local first = P.cached(function()
         assert.is_true(rawequal(layer.weight, layer.weight))
         return layer.weight
      end)
      do
         local _ <close> = P.cached()
         assert.is_false(rawequal(first, layer.weight))
         assert.is_true(rawequal(layer.weight, layer.weight))
      end
      assert.has_error(function() P.cached(function() error "x" end) end)
      assert.is_false(rawequal(layer.weight, layer.weight))
   end)

   it("may be removed, with either value for the parameter", function()
      local plain, before = layer.weight, layer.weight:tolist()
      P.register_parametrization(layer, "weight", Double())
      P.remove_parametrizations(layer, "weight", {leave_parametrized = false})
      assert.is_true(layer.weight == plain)
      assert.close(before, plain, 0)
      P.register_parametrization(layer, "weight", Double())
      P.remove_parametrizations(layer, "weight")
      assert.is_true(layer.weight == plain)
      assert.close(2 * before[2][1], plain:tolist()[2][1], 0)
      assert.equal(nn.Linear, getmetatable(layer))
      assert.is_nil(rawget(layer, "parametrizations"))
      assert.is_false(P.is_parametrized(layer))
   end)

   it("lists the parametrized tensors", function()
      P.register_parametrization(layer, "weight", Double())
      assert.is_true(P.is_parametrized(layer))
      assert.is_true(P.is_parametrized(layer, "weight"))
      assert.is_false(P.is_parametrized(layer, "bias"))
   end)

   it("gives clones a state of their own", function()
      P.register_parametrization(layer, "weight", Symmetric())
      local copied = layer:clone()
      copied.weight = zeros(3, 3)
      assert.equal(0, copied.weight:abs():sum():item())
      assert.is_true(layer.weight:abs():sum():item() > 0)
   end)

   it("transfers parametrizations to another module", function()
      P.register_parametrization(layer, "weight", Symmetric())
      P.register_parametrization(layer, "weight", Double())
      local other = P.transfer_parametrizations_and_params(layer, nn.Linear(3, 3):double())
      assert.close(layer.weight, other.weight, 0)
      other.parametrizations.weight.original.data:zero_()
      assert.is_true(layer.weight:abs():sum():item() > 0)
   end)

   it("trains", function()
      P.register_parametrization(layer, "weight", Symmetric())
      local sgd = torch.optim.SGD(layer:parameters(), {lr = 0.1})
      local target = zeros(3, 3) + torch.eye(3, {dtype = "float64"})
      for _ = 1, 200 do
         sgd:zero_grad();
         (layer.weight - target):pow(2):sum():backward()
         sgd:step()
      end
      assert.close(target, layer.weight, 1e-6)
   end)

   it("refuses tensors that cannot be parametrized", function()
      local Wrong = torch.class("Wrong", nn.Module)
      function Wrong:forward(x) return x:sum(1) end
      assert.raises("register_parametrization: the result: expected a float64 tensor of shape (3, 3)",
         "got a float64 tensor of shape (3)", "unsafe", function()
            P.register_parametrization(layer, "weight", Wrong())
         end)
      assert.is_true(layer.weight.is_parameter)
      assert.is_nil(rawget(layer, "parametrizations"))
      P.register_parametrization(layer, "weight", Wrong(), {unsafe = true})
      assert.same({3}, layer.weight.shape)
      assert.raises("nn.Linear has no parameter or buffer wieght",
         function() P.register_parametrization(nn.Linear(2, 2), "wieght", Double()) end)
      assert.raises("unknown option unsave; did you mean unsafe?",
         function() P.register_parametrization(layer, "bias", Double(), {unsave = true}) end)
      assert.raises("bias of nn.ParametrizedLinear is not parametrized",
         function() P.remove_parametrizations(layer, "bias") end)
   end)
end)

describe("parametrizations", function()
   it("weight_norm splits length and direction, as PyTorch's", function()
      for name, dim in sorted {weight_norm = 1, weight_norm_2 = 2, weight_norm_all = false} do
         local layer = parametrizations.weight_norm(filled(nn.Linear(3, 4)), {dim = dim})
         local p = layer.parametrizations.weight
         fill(p.original0, 3)
         loss(layer(fill(zeros(5, 3)))):backward()
         compare(name, layer.weight, p.original0.grad, p.original1.grad)
      end
   end)

   it("weight_norm changes nothing at first", function()
      local layer = filled(nn.Conv2d(2, 3, 2))
      local before = layer.weight:tolist()
      parametrizations.weight_norm(layer)
      assert.same({3, 1, 1, 1}, layer.parametrizations.weight.original0.shape)
      assert.close(before, layer.weight, 1e-15)
   end)

   it("spectral_norm refuses a weight without elements", function()
      for _, normalize in ipairs {parametrizations.spectral_norm, nn.utils.spectral_norm} do
         assert.raises("weight: expected a weight with elements", "shape (3, 0)",
            function() normalize(nn.Linear(0, 3)) end)
      end
   end)

   it("spectral_norm follows PyTorch's power method", function()
      for name, case in sorted {
         spectral_norm = {nn.Linear(3, 4), zeros(5, 3)},
         spectral_norm_transposed = {nn.ConvTranspose1d(2, 3, 2), zeros(1, 2, 4)},
      } do
         local layer = parametrizations.spectral_norm(filled(case[1]))
         local norm = layer.parametrizations.weight[1]
         set_vectors(norm._u, norm._v)
         loss(layer(fill(case[2]))):backward()
         layer:evaluate()
         compare(name, layer.weight, layer.parametrizations.weight.original.grad, norm._u, norm._v)
      end
   end)

   it("spectral_norm makes the largest singular value one", function()
      local layer = parametrizations.spectral_norm(nn.Linear(6, 5):double(), {n_power_iterations = 60})
      assert.close(1, torch.linalg.matrix_norm(layer.weight, 2):item(), 1e-6)
      local vector = nn.Module()
      vector.weight = nn.Parameter(torch.tensor {3.0, 4.0})
      parametrizations.spectral_norm(vector)
      assert.close({0.6, 0.8}, vector.weight, 1e-6)
   end)

   for name, values in sorted(rows) do
      local map, n, k, base = name:match "^(%l+_?%l*)_(%d)_(%d)_(%l+)$"
      if map then
         it(("orthogonal by %s, %s x %s, %s a base, is PyTorch's"):format(map, n, k, base),
            function()
               n, k = math.tointeger(n), math.tointeger(k)
               local layer = filled(nn.Linear(k, n))
               parametrizations.orthogonal(layer, {orthogonal_map = map, use_trivialization = base == "with"})
               local original = layer.parametrizations.weight.original
               assert.close(values[1], original, 1e-10)
               if map == "householder" then
                  local more = fill(zeros(n, k), 3)
                  torch.no_grad(function() original:add_(n >= k and more:tril(-1) or more:triu(1)) end)
               else
                  fill(original, 3)
               end
               loss(layer.weight):backward()
               compare(name, values[1], layer.weight, original.grad)
            end)
      end
   end

   it("orthogonal stays so while it is trained", function()
      torch.manual_seed(1)
      for _, shape in ipairs {{4, 4}, {5, 3}, {3, 5}, {2, 4, 3}} do
         local module = nn.Module()
         module.weight = nn.Parameter(torch.randn(shape, {dtype = "float64"}))
         parametrizations.orthogonal(module)
         local sgd = torch.optim.SGD(module:parameters(), {lr = 0.1})
         for _ = 1, 3 do
            sgd:zero_grad()
            loss(module.weight):backward()
            sgd:step()
         end
         local Q = module.weight
         if Q:size(-2) < Q:size(-1) then Q = Q.mT end
         local Id = torch.eye(Q:size(-1), {dtype = "float64"})
         assert.close(Id:expand_as(Q.mT:matmul(Q)), Q.mT:matmul(Q), 1e-10)
      end
   end)

   it("orthogonal can be assigned to", function()
      local layer = parametrizations.orthogonal(nn.Linear(3, 3):double())
      local Q = torch.linalg.qr(fill(zeros(3, 3)) + torch.eye(3, {dtype = "float64"}))
      layer.weight = Q
      assert.close(Q, layer.weight, 1e-12)
      layer = nn.Linear(3, 3)
      parametrizations.orthogonal(layer, {orthogonal_map = "cayley", use_trivialization = false})
      assert.raises("has no right_inverse", function() layer.weight = torch.eye(3) end)
   end)

   it("refuses wrong arguments", function()
      assert.raises("orthogonal_map: expected matrix_exp, cayley or householder, got \"qr\"",
         function() parametrizations.orthogonal(nn.Linear(2, 2), {orthogonal_map = "qr"}) end)
      assert.raises("bias: expected a matrix", function() parametrizations.orthogonal(nn.Linear(2, 2), "bias") end)
      assert.raises("spectral_norm: dim: expected an integer from 1 to 2", "got 3",
         function() parametrizations.spectral_norm(nn.Linear(2, 2), {dim = 3}) end)
      assert.raises("n_power_iterations: expected an integer of at least 1, got 0",
         function() parametrizations.spectral_norm(nn.Linear(2, 2), {n_power_iterations = 0}) end)
      assert.raises("weight_norm: nn.ReLU has no parameter or buffer weight",
         function() parametrizations.weight_norm(nn.ReLU()) end)
   end)
end)

describe("weight_norm by a hook", function()
   it("is PyTorch's", function()
      for name, dim in sorted {weight_norm_before = 1, weight_norm_before_all = false} do
         local layer = utils.weight_norm(filled(nn.Conv1d(3, 4, 2)), {dim = dim})
         fill(layer.weight_g, 3)
         loss(layer(fill(zeros(2, 3, 5)))):backward()
         compare(name, layer.weight, layer.weight_g.grad, layer.weight_v.grad)
      end
   end)

   it("saves both parts, works in clones and can be removed", function()
      local layer = utils.weight_norm(filled(nn.Linear(3, 4)))
      local before = layer.weight:tolist()
      local state = layer:state_dict()
      assert.is_nil(state.weight)
      assert.same({4, 1}, state.weight_g.shape)
      local copied = layer:clone()
      copied.weight_g.data:mul_(2)
      copied(zeros(1, 3))
      assert.close(2 * before[1][1], copied.weight:tolist()[1][1], 1e-14)
      assert.close(before, layer.weight, 1e-14)
      utils.remove_weight_norm(layer)
      assert.is_true(layer.weight.is_parameter)
      assert.close(before, layer.weight, 1e-14)
      assert.is_nil(layer:state_dict().weight_g)
      assert.raises("remove_weight_norm: weight of nn.Linear has none",
         function() utils.remove_weight_norm(layer) end)
   end)
end)

it("a state with the names of weight_norm's hook fits its parametrization", function()
   local function model(norm)
      return nn.Sequential(norm(nn.Linear(3, 4)), nn.ReLU(), norm(nn.Linear(4, 2), {dim = false}))
   end
   local old, new = model(utils.weight_norm), model(parametrizations.weight_norm)
   local state = old:state_dict()
   assert.truthy(state["1.weight_g"] and state["3.weight_v"])
   new:load_state_dict(state)
   -- loading does not change the caller's table
   assert.truthy(state["1.weight_g"] and state["3.weight_v"])
   local x = torch.randn(5, 3)
   assert.close(old(x), new(x), 1e-6)
   new:load_state_dict(old:state_dict {names = "pytorch"}, {names = "pytorch"})
   state["1.weight_g"] = nil
   assert.raises("missing: 1.parametrizations.weight.original0, ",
      "unexpected: 1.weight_v", function() new:load_state_dict(state) end)
end)

describe("spectral_norm by a hook", function()
   it("is PyTorch's", function()
      local layer = utils.spectral_norm(filled(nn.Linear(3, 4)))
      set_vectors(layer.weight_u, layer.weight_v)
      loss(layer(fill(zeros(5, 3)))):backward()
      compare("spectral_norm_before", layer.weight, layer.weight_orig.grad, layer.weight_u, layer.weight_v)
   end)

   it("is applied once and can be removed", function()
      local layer = utils.spectral_norm(filled(nn.Linear(3, 4)))
      assert.raises("weight of nn.Linear has it already", function() utils.spectral_norm(layer) end)
      layer:evaluate()
      layer(zeros(1, 3))
      local before = layer.weight:tolist()
      utils.remove_spectral_norm(layer)
      assert.close(before, layer.weight, 1e-15)
      local names = {}
      for name in pairs(layer:state_dict()) do names[name] = true end
      assert.same({weight = true, bias = true}, names)
   end)

end)

it("parametrize.cached is of the coroutine that has it, and ends once", function()
   local layer = nn.Linear(2, 2)
   P.register_parametrization(layer, "weight", nn.Tanh())
   local function change(value) torch.no_grad(function() layer.parametrizations.weight.original:fill_(value) end) end
   local run = coroutine.wrap(function()
      local _ <close> = P.cached()
      local before = layer.weight
      coroutine.yield()
      return rawequal(before, layer.weight)
   end)
   run()
   change(0)
   assert.same({{0, 0}, {0, 0}}, layer.weight:tolist())
   assert.is_true(run())
   local scope = P.cached()
   local close = getmetatable(scope).__close
   close(scope)
   close(scope)
   assert.same({{0, 0}, {0, 0}}, layer.weight:tolist())
   change(math.huge)
   assert.same({{1, 1}, {1, 1}}, layer.weight:tolist())
end)
