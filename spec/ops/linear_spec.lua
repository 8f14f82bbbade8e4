-- Tests linear layers in which the matrix product also adds the bias and applies the activation. Compares them with
-- separate operators.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local F, nn = torch.nn.functional, torch.nn

-- Lists each fused call with the operators that it replaces.
local activations = {
   {name = "linear", fused = F.linear, after = function(x) return x end},
   {name = "linear_relu", fused = F.linear_relu, after = F.relu},
   {name = "linear_gelu", fused = F.linear_gelu, after = F.gelu},
   {name = "linear_gelu, tanh", fused = function(x, w, b) return (F.linear_gelu(x, w, b, "tanh")) end,
      after = function(x) return F.gelu(x, "tanh") end},
}

-- Numbers of rows, input features and output features. They are close to the sizes of vectors, tiles and blocks.
local sizes <const> = {{1, 5, 3}, {7, 3, 1}, {1, 70, 300}, {300, 4, 1}, {6, 1, 16}, {13, 64, 17}, {33, 130, 65},
   {400, 20, 7}}

local function normal(dtype, ...) return torch.randn({...}, {dtype = dtype}) end

-- Computes the formula of a case and its gradients in float64.
local function expected_of(case, inputs, g)
   local wide = {}
   for i, x in ipairs(inputs) do wide[i] = x:detach():double():requires_grad_() end
   local result = wide[1]:matmul(wide[2]:t())
   if wide[3] then result = result + wide[3] end
   result = case.after(result)
   return result:detach(), {torch.autograd.grad(result, wide, {grad_outputs = g:double()})}
end

local function scale_of(x) return math.max(1, x:numel() > 0 and x:abs():max():item() or 0) end

describe("the pass of a product with", function()
   before_each(function() torch.manual_seed(5) end)

   for _, case in ipairs(activations) do
      it(case.name .. " has the formula's results and gradients", function()
         for dtype, unit in sorted {float64 = 2 ^ -46, float32 = 2 ^ -18, float16 = 2 ^ -9, bfloat16 = 2 ^ -6} do
            for _, s in ipairs(sizes) do
               local inputs = {normal(dtype, s[1], s[2]):requires_grad_(), normal(dtype, s[3], s[2]):requires_grad_(),
                  normal(dtype, s[3]):requires_grad_()}
               local g = normal(dtype, s[1], s[3])
               for n = 3, 2, -1 do -- the call has 3 arguments with a bias, and 2 without one
                  inputs[n + 1] = nil
                  local result = case.fused(table.unpack(inputs))
                  local expected, grads = expected_of(case, inputs, g)
                  assert.equal(dtype, result.dtype)
                  assert.close(expected, result:double(), unit * scale_of(expected))
                  for i, grad in ipairs {torch.autograd.grad(result, inputs, {grad_outputs = g})} do
                     assert.close(grads[i], grad:double(), 4 * unit * scale_of(grads[i]))
                  end
               end
            end
         end
      end)

      it(case.name .. " has the bits of the operators one by one", function()
         for _, dtype in ipairs {"float32", "float64"} do
            for i = 0, #sizes do
               -- this layer is large enough to be computed in blocks
               local s = sizes[i] or {500, 390, 130}
               local x, w, b = normal(dtype, s[1], s[2]), normal(dtype, s[3], s[2]), normal(dtype, s[3])
               assert.is_true(torch.equal(case.after(F.linear(x, w) + b), case.fused(x, w, b)))
               assert.is_true(torch.equal(case.after(F.linear(x, w)), case.fused(x, w)))
            end
         end
      end)

      it(case.name .. " takes operands as they lie in memory, of any rank", function()
         local x, w, b = normal("float64", 2, 3, 4, 9), normal("float64", 9, 10), normal("float64", 1, 2)
         local expected = case.after(x:matmul(w) + 1)
         assert.close(expected, case.fused(x, w:t(), torch.ones(1, {dtype = "float64"}):expand(10)), 1e-13)
         assert.close(case.after(x:transpose(1, 3):matmul(w)), case.fused(x:transpose(1, 3), w:t()), 1e-13)
         assert.close(case.after(x[1][1][1]:matmul(w) + b[1][1]), case.fused(x[1][1][1], w:t(), b[1][1]:expand(10)),
            1e-13)
         assert.same({2, 0, 10}, case.fused(normal("float64", 2, 0, 9), w:t(), w[1]).shape)
         assert.close(case.after(torch.ones(3, 2)), case.fused(torch.ones(3, 0), torch.ones(2, 0), torch.ones(2)), 1e-6)
         assert.same({3, 0}, case.fused(torch.ones(3, 2), torch.ones(0, 2), torch.ones(0)).shape)
      end)

      it(case.name .. " differentiates twice", function()
         local function leaf(...) return normal("float64", ...):requires_grad_() end
         local inputs = {leaf(2, 3, 4), leaf(5, 4), leaf(5)}
         assert.is_true(torch.autograd.gradgradcheck(case.fused, inputs))
         inputs[3] = nil
         assert.is_true(torch.autograd.gradgradcheck(case.fused, inputs))
      end)

      it(case.name .. " gives only the gradients that are asked for", function()
         for wanted = 1, 3 do
            local inputs = {normal("float64", 3, 4), normal("float64", 5, 4), normal("float64", 5)}
            inputs[wanted]:requires_grad_()
            local g = normal("float64", 3, 5)
            local _, grads = expected_of(case, inputs, g)
            case.fused(table.unpack(inputs)):backward(g)
            for i = 1, 3 do
               if i == wanted then
                  assert.close(grads[i], inputs[i].grad, 1e-13)
               else
                  assert.is_nil(inputs[i].grad)
               end
            end
         end
      end)

      it(case.name .. " names what does not fit", function()
         local fn = F[case.name:match("^[%w_]+")]
         assert.raises("linear", "last dimension of 4", function() fn(torch.ones(3, 5), torch.ones(2, 4)) end)
         assert.raises("linear", "bias", function() fn(torch.ones(3, 4), torch.ones(2, 4), torch.ones(3)) end)
         assert.raises("dtype", function() fn(torch.ones(3, 4), torch.ones(2, 4):double(), torch.ones(2)) end)
      end)
   end

   it("keeps NaN and infinities", function()
      local nan = 0 / 0
      local x = torch.tensor {{nan, 0}, {math.huge, 0}, {-math.huge, 0}}
      local w, b = torch.tensor {{1.0, 0}}, torch.zeros(1)
      for _, case in ipairs(activations) do
         local expected, got = case.after(F.linear(x, w)):flatten():tolist(), case.fused(x, w, b):flatten():tolist()
         for i = 1, 3 do assert.is_true(expected[i] == got[i] or expected[i] ~= expected[i] and got[i] ~= got[i]) end
      end
   end)

   it("rounds half types once", function()
      -- The sums 2048 + 1 and 1 - 2048 are not exact in float16, so the result is wrong if the sum is rounded before
      -- the bias is added.
      local x, w = torch.tensor {{2048.0, 1}}:half(), torch.tensor {{1.0, 1}}:half()
      assert.equal(1, F.linear(x, w, torch.tensor {-2048.0}:half()):item())
   end)

   it("refuses an unknown approximation", function()
      assert.raises("gelu", "approximate",
         function() F.linear_gelu(torch.ones(1, 1), torch.ones(1, 1), nil, "none of these") end)
   end)

   it("keeps the input of gelu only for a gradient", function()
      local x, w = torch.randn(1000, 100), torch.randn(1000, 100)
      collectgarbage()
      torch.set_memory_limit(torch.memory_stats().used + 4 * 1000 * 1000 + 1000000)
      local plain, message = pcall(F.linear_gelu, x, w)
      local recorded = pcall(F.linear_gelu, x:clone():requires_grad_(), w)
      torch.set_memory_limit(0)
      assert.is_true(plain, message)
      assert.equal(not x.is_cpu, recorded) -- The limit is on the CPU's memory, so only a CPU's call fails.
   end)
end)

describe("a Linear and the activation after it", function()
   local function title(model, x) return tostring(model(x).grad_fn):match("%a+Backward0") end
   local x = torch.randn(4, 3)

   it("are one pass of nn.Sequential", function()
      for _, pair in ipairs {{nn.ReLU(), F.relu}, {nn.ReLU {inplace = true}, F.relu}, {nn.GELU(), F.gelu},
                             {nn.GELU("tanh"), function(y) return F.gelu(y, "tanh") end}} do
         local model = nn.Sequential(nn.Linear(3, 5), pair[1])
         assert.equal("AddmmActivationBackward0", title(model, x))
         assert.close(pair[2](F.linear(x, model[1].weight, model[1].bias)), model(x), 0)
      end
      assert.equal("TanhBackward0", title(nn.Sequential(nn.Linear(3, 5), nn.Tanh()), x))
   end)

   it("are two passes if a hook or a subclass reads the value between them", function()
      local model, seen = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)), nil
      local handle = model[1]:register_forward_hook(function(_, _, result) seen = result end)
      model(x)
      assert.close(F.linear(x, model[1].weight, model[1].bias), seen, 0)
      handle:remove()
      handle = model[2]:register_forward_hook(function(_, inputs) seen = inputs[1] end)
      model(x)
      assert.is_true(seen:lt(0):any():item())
      handle:remove()
      model[1].forward = function(_, input) return input * -1 end
      assert.equal(0, model[2](model[1](torch.ones(1))):item())
      assert.raises("2", function() nn.Sequential(nn.ReLU(), nn.Linear(4, 2), nn.ReLU())(x) end)
   end)

   it("are one pass of the Transformer's layers", function()
      for _, name in ipairs {"relu", "gelu"} do
         torch.manual_seed(1)
         local layer = nn.TransformerEncoderLayer(4, 2, {dim_feedforward = 6, dropout = 0, activation = name})
         torch.manual_seed(1)
         local plain = nn.TransformerEncoderLayer(4, 2, {dim_feedforward = 6, dropout = 0,
            activation = function(y) return F[name](y) end})
         local y = torch.randn(5, 2, 4)
         assert.close(plain(y), layer(y), 0)
      end
   end)
end)
