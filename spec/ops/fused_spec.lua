-- Tests fused operators by comparing them with compositions of separate operators: swiglu, rotary_embedding, dropout,
-- dropout_add, add_layer_norm and add_rms_norm.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local F = torch.nn.functional

local dtypes <const> = {"float64", "float32", "float16", "bfloat16"}
-- The tolerances. A fused operator rounds once at the end, and separate operators round at each step. For float64 and
-- float32, only the order of sums differs.
local tolerance <const> = {float64 = 1e-13, float32 = 2e-6, float16 = 6e-3, bfloat16 = 5e-2}

-- Returns leaves with these sizes. Every call returns the same random numbers.
local function leaves(dtype, ...)
   torch.manual_seed(3)
   local out = {}
   for i, sizes in ipairs {...} do out[i] = torch.randn(sizes, {dtype = "float64"}):to(dtype):requires_grad_() end
   return table.unpack(out)
end

-- Returns the results of fn and the gradients of their weighted sum. The weights are always the same.
local function all_of(fn, inputs)
   local results = {fn(table.unpack(inputs))}
   local sum
   for i, r in ipairs(results) do
      local weights = torch.linspace(0.5, 1.5, r:numel(), {dtype = "float64"}):view(r.shape) * i
      local part = (r:double() * weights):sum()
      sum = sum and sum + part or part
   end
   local grads = {torch.autograd.grad(sum, inputs)}
   for i = 1, #results do results[i] = results[i]:detach() end
   return results, grads
end

local function compare(expected, actual, inputs, tol)
   local want, want_grads = all_of(expected, inputs)
   local got, got_grads = all_of(actual, inputs)
   assert.equal(#want, #got)
   for i = 1, #want do assert.close(want[i], got[i], tol) end
   for i = 1, #want_grads do
      assert.equal(want_grads[i].dtype, got_grads[i].dtype)
      assert.close(want_grads[i], got_grads[i], tol)
   end
end

-- Checks that fn's results and gradients on a device equal the CPU's bit for bit, and that the host does not wait.
local function is_as_on_the_cpu(fn, inputs)
   local here, there = {}, {}
   for i, x in ipairs(inputs) do
      here[i] = x:detach():cpu():requires_grad_()
      there[i] = x:detach():to("sim"):requires_grad_()
   end
   local function run(list)
      local results = {fn(table.unpack(list))}
      local sum = results[1]:sum()
      for i = 2, #results do sum = sum + results[i]:sum() * i end
      return results, {torch.autograd.grad(sum, list)}
   end
   local want, want_grads = run(here)
   local before = torch.sim.waits()
   local got, got_grads = run(there)
   assert.equal(before, torch.sim.waits())
   for i = 1, #want do assert.is_true(torch.equal(want[i], got[i]:cpu())) end
   for i = 1, #want_grads do assert.is_true(torch.equal(want_grads[i], got_grads[i]:cpu())) end
end

local nan <const>, inf <const> = 0 / 0, math.huge

describe("_gate_backward", function()
   -- Returns the gradients of sigmoid(a) * b, or of sigmoid(a) * tanh(b), as autograd computes them in float64, and
   -- as the operator computes them from the factors.
   local function both(a, b, g, squash, back)
      a, b = a:double():requires_grad_(), b:double():requires_grad_()
      local open, value = a:sigmoid(), squash and b:tanh() or b
      local want = {torch.autograd.grad(open * value, {a, b}, {grad_outputs = g:double()})}
      return want, {back(g, open:detach(), value:detach(), squash)}
   end

   it("equals autograd's gradients", function()
      for _, dtype in ipairs(dtypes) do
         local function back(g, open, value, squash)
            return torch._gate_backward(g, open:to(dtype), value:to(dtype), squash)
         end
         for _, sizes in ipairs {{}, {7}, {3, 17}, {1025}, {0, 4}} do
            for _, squash in ipairs {false, true} do
               local a, b, g = leaves(dtype, sizes, sizes, sizes)
               local want, got = both(a:detach(), b:detach(), g:detach(), squash, back)
               for i = 1, 2 do
                  assert.equal(dtype, got[i].dtype)
                  assert.close(want[i], got[i]:double(), tolerance[dtype])
               end
            end
         end
      end
   end)

   it("takes memory of any order, and has the CPU's bits on a device", function()
      local x = torch.randn(5, 3, 33)
      local g, open, value = x:select(2, 1), x:select(2, 2):sigmoid(), torch.randn(33, 5):t()
      local want = {torch._gate_backward(g:contiguous(), open:contiguous(), value:contiguous(), true)}
      local got = {torch._gate_backward(g, open, value, true)}
      local here = {torch._gate_backward(g:cpu(), open:cpu(), value:cpu(), true)}
      local there = {torch._gate_backward(g:to "sim", open:to "sim", value:to "sim", true)}
      for i = 1, 2 do
         assert.is_true(torch.equal(want[i], got[i]))
         assert.is_true(torch.equal(here[i], there[i]:cpu()))
      end
   end)

   it("refuses tensors that differ", function()
      local x = torch.ones(2)
      assert.raises("_gate_backward: expected tensors of one shape, got [2] and [3]",
         function() torch._gate_backward(x, x, torch.ones(3)) end)
      assert.raises("_gate_backward: expected tensors of one floating dtype, got float32 and int64",
         function() torch._gate_backward(x, x, x:long()) end)
   end)
end)

describe("swiglu", function()
   local function formula(x, gate, bias, gate_bias) return (x + (bias or 0)) * F.silu(gate + (gate_bias or 0)) end

   it("has the values worked out by hand", function()
      -- 3 * 2 / (1 + e^-2)
      local y = F.swiglu(torch.tensor {3, 5}:double(), torch.tensor {2, 0}:double())
      assert.close({6 / (1 + math.exp(-2)), 0}, y, 1e-15)
      assert.close(y, F.swiglu(torch.tensor {3, 5, 2, 0}:double()), 0)
   end)

   for _, dtype in ipairs(dtypes) do
      it("equals the composition, and so does its gradient: " .. dtype, function()
         for _, sizes in ipairs {{}, {1}, {7}, {16}, {3, 17}, {2, 3, 33}, {1025}, {0, 4}, {5, 0}} do
            compare(formula, F.swiglu, {leaves(dtype, sizes, sizes)}, tolerance[dtype])
         end
         compare(formula, F.swiglu, {leaves(dtype, {3, 17}, {3, 17}, {17}, {17})}, tolerance[dtype])
         compare(function(x, g, b) return formula(x, g, nil, b) end,
            function(x, g, b) return F.swiglu(x, g, nil, b) end,
            {leaves(dtype, {4, 9}, {4, 9}, {9})}, tolerance[dtype])
      end)
   end

   it("broadcasts all of its arguments", function()
      compare(formula, F.swiglu, {leaves("float64", {3, 1, 5}, {4, 5}, {1}, {4, 1})}, 1e-13)
      compare(formula, F.swiglu, {leaves("float64", {5}, {4, 5}, {}, {4, 5})}, 1e-13)
   end)

   it("halves one tensor along any dimension", function()
      for dim = 1, 3 do
         for _, with_bias in ipairs {false, true} do
            local x, bias = leaves("float64", {4, 6, 2}, {6, 1})
            local list = with_bias and {x, bias} or {x}
            compare(function(a, b)
               local parts = (a + (b or 0)):chunk(2, dim)
               return parts[1] * F.silu(parts[2])
            end, function(a, b) return F.swiglu(a, nil, b, {dim = dim}) end, list, 1e-13)
         end
      end
   end)

   it("takes memory of any order", function()
      local x, g = leaves("float32", {6, 40}, {40, 6})
      compare(function(a, b) return formula(a, b:t()) end, function(a, b) return F.swiglu(a, b:t()) end, {x, g}, 2e-6)
      compare(function(a) return formula(a[{{}, {1, 20, 3}}], a[{{}, {21, 40, 3}}]) end,
         function(a) return F.swiglu(a[{{}, {1, 20, 3}}], a[{{}, {21, 40, 3}}]) end, {x}, 2e-6)
   end)

   it("treats infinities and NaN as the composition does", function()
      local x = torch.tensor({nan, 1, inf, -inf, 1, 1, 0}, {dtype = "float64"})
      local g = torch.tensor({1, nan, 2, 2, inf, -800, -inf}, {dtype = "float64"})
      assert.close(formula(x, g), F.swiglu(x, g), 0)
   end)

   it("promotes, as the composition does", function()
      local y = F.swiglu(torch.randn(3):bfloat16(), torch.randn(3))
      assert.equal("float32", y.dtype)
   end)

   it("has the CPU's bits on a device, without waiting", function()
      is_as_on_the_cpu(F.swiglu, {leaves("float32", {5, 33}, {5, 33}, {33}, {33})})
      is_as_on_the_cpu(F.swiglu, {leaves("bfloat16", {5, 34})})
   end)

   it("names the wrong argument in its errors", function()
      assert.raises("swiglu", "input", "even size in dimension 2", "[2, 3]",
         function() F.swiglu(torch.randn(2, 3)) end)
      assert.raises("swiglu", "gate", "floating", "int64",
         function() F.swiglu(torch.randn(2), torch.ones(2, {dtype = "int64"})) end)
      assert.raises("swiglu", "gate_bias", "no gate",
         function() F.swiglu(torch.randn(2, 4), nil, nil, torch.randn(2)) end)
      assert.raises("swiglu", "bias", "[2, 4]", "[3]",
         function() F.swiglu(torch.randn(2, 4), torch.randn(2, 4), torch.randn(3)) end)
      assert.raises("swiglu", "[2]", "[3]", function() F.swiglu(torch.randn(2), torch.randn(3)) end)
   end)
end)

describe("rotary_embedding", function()
   local function formula(interleaved)
      return function(x, cos, sin)
         local pairs_ = cos:size(-1)
         local turned = x:narrow(-1, 1, 2 * pairs_)
         local rest = x:narrow(-1, 2 * pairs_ + 1, x:size(-1) - 2 * pairs_)
         local a, b
         if interleaved then
            local both = turned:unflatten(-1, {pairs_, 2})
            a, b = both:select(-1, 1), both:select(-1, 2)
         else
            a, b = turned:narrow(-1, 1, pairs_), turned:narrow(-1, pairs_ + 1, pairs_)
         end
         local first, second = a * cos - b * sin, b * cos + a * sin
         local out = interleaved and torch.stack({first, second}, -1):flatten(-2) or torch.cat({first, second}, -1)
         return torch.cat({out:to(x.dtype), rest}, -1)
      end
   end
   local function angles(positions, pairs_, dtype)
      local theta = torch.arange(0, pairs_, {dtype = "float64"}):mul(-2 / pairs_):exp()
      local at = torch.outer(torch.arange(0, positions, {dtype = "float64"}), theta)
      return at:cos():to(dtype):requires_grad_(), at:sin():to(dtype):requires_grad_()
   end

   it("turns by a quarter", function()
      local zero, one = torch.zeros(2), torch.ones(2)
      local x = torch.tensor {1.0, 2, 3, 4}
      assert.close({-2, 1, -4, 3}, F.rotary_embedding(x, zero, one), 0)
      assert.close({-3, -4, 1, 2}, F.rotary_embedding(x, zero, one, false), 0)
   end)

   it("makes products of queries and keys depend only on the distance", function()
      local cos, sin = angles(20, 4, "float64")
      local q, k = leaves("float64", {8}, {8})
      local function product(m, n)
         local a, b = F.rotary_embedding(q, cos[m], sin[m]), F.rotary_embedding(k, cos[n], sin[n])
         return a:dot(b):item()
      end
      assert.close(product(1, 4), product(12, 15), 1e-12)
      assert.is_true(math.abs(product(1, 4) - product(1, 6)) > 1e-3)
   end)

   for _, dtype in ipairs(dtypes) do
      for _, interleaved in ipairs {true, false} do
         it(("is the formula, and so is its gradient: %s, %s"):format(dtype,
            interleaved and "neighbours" or "halves"), function()
            local table_dtype = dtype == "float64" and dtype or "float32"
            for _, case in ipairs {{{2, 3, 5, 8}, 4}, {{5, 6}, 3}, {{2, 5, 7}, 3}, {{5, 34}, 17},
                                   {{5, 2}, 1}, {{0, 5, 4}, 2}} do
               local x = leaves(dtype, case[1])
               local cos, sin = angles(5, case[2], table_dtype)
               compare(formula(interleaved), function(a, c, s)
                  return F.rotary_embedding(a, c, s, interleaved)
               end, {x, cos, sin}, tolerance[dtype])
            end
         end)
      end
   end

   it("takes heads before and after positions, and views", function()
      local cos, sin = angles(5, 4, "float64")
      local x = leaves("float64", {2, 5, 3, 8})
      local inside = F.rotary_embedding(x, cos:unsqueeze(2), sin:unsqueeze(2))
      local outside = F.rotary_embedding(x:transpose(2, 3), cos, sin)
      assert.close(inside:transpose(2, 3):detach(), outside:detach(), 0)
      local qkv = leaves("float64", {2, 5, 24})
      local function of(f) return function(t, c, s) return f(t:narrow(-1, 9, 8), c, s) end end
      compare(of(formula(true)), of(F.rotary_embedding), {qkv, cos, sin}, 1e-13)
   end)

   it("spreads NaN only within its pair", function()
      local y = F.rotary_embedding(torch.tensor {nan, 1.0, 2, 3}, torch.ones(2), torch.zeros(2))
      assert.close({nan, nan, 2, 3}, y, 0)
   end)

   it("has the CPU's bits on a device, without waiting", function()
      local cos, sin = angles(5, 4, "float32")
      is_as_on_the_cpu(F.rotary_embedding, {leaves("bfloat16", {2, 3, 5, 9}), cos, sin})
      is_as_on_the_cpu(function(x, c, s) return F.rotary_embedding(x, c, s, false) end,
         {leaves("float32", {2, 3, 5, 9}), cos, sin})
   end)

   it("names the wrong argument in its errors", function()
      local x, c = torch.randn(2, 5, 8), torch.randn(5, 4)
      assert.raises("rotary_embedding", "sin", "[5, 4]", "[5, 3]",
         function() F.rotary_embedding(x, c, torch.randn(5, 3)) end)
      assert.raises("rotary_embedding", "cos", "[2, 5, 4]", "[6, 4]",
         function() F.rotary_embedding(x, torch.randn(6, 4), torch.randn(6, 4)) end)
      assert.raises("rotary_embedding", "cos", "[5, 5]",
         function() F.rotary_embedding(x, torch.randn(5, 5), torch.randn(5, 5)) end)
      assert.raises("rotary_embedding", "input", "floating", "int64",
         function() F.rotary_embedding(x:long(), c, c) end)
   end)
end)

describe("dropout in one pass", function()
   local function mask_of(x, p, seed)
      torch.manual_seed(seed)
      return torch.empty(x.shape, {dtype = "bool"}):bernoulli_(1 - p):to(x.dtype)
   end

   for _, dtype in ipairs(dtypes) do
      it("keeps what a Bernoulli mask of the same seed keeps: " .. dtype, function()
         for _, sizes in ipairs {{}, {1}, {255}, {256}, {257}, {3, 1000}, {0}} do
            local x, r = leaves(dtype, sizes, sizes)
            local mask = mask_of(x, 0.3, 8)
            torch.manual_seed(8)
            local y = F.dropout(x, 0.3)
            assert.close((x:double() * mask:double() / 0.7):to(dtype), y:detach(),
               dtype == "float64" and 1e-15 or tolerance[dtype] / 2)
            local weights = torch.rand(sizes, {dtype = "float64"}):to(dtype)
            local grad = torch.autograd.grad(y, {x}, {grad_outputs = {weights}})
            assert.close((weights:double() * mask:double() / 0.7):to(dtype), grad, tolerance[dtype] / 2)
            torch.manual_seed(8)
            local sum = F.dropout_add(x, r, 0.3)
            assert.close((x:double() * mask:double() / 0.7 + r:double()):to(dtype), sum:detach(), tolerance[dtype])
            local gx, gr = torch.autograd.grad(sum, {x, r}, {grad_outputs = {weights}})
            assert.close(grad, gx, 0)
            assert.close(weights, gr, 0)
         end
      end)
   end

   it("numbers elements by rows, however they lie in memory", function()
      local x = leaves("float32", {33, 20})
      torch.manual_seed(2)
      local straight = F.dropout(x, 0.5)
      torch.manual_seed(2)
      local turned = F.dropout(x:t():contiguous():t(), 0.5)
      assert.is_true(torch.equal(straight, turned))
      assert.is_false(turned:is_contiguous())
   end)

   it("is linear: the gradient of its gradient has the same mask", function()
      local x, g = leaves("float64", {40}, {40})
      torch.manual_seed(4)
      local y = F.dropout(x * x, 0.5)
      local first = torch.autograd.grad(y, {x}, {grad_outputs = {g}, create_graph = true})
      local mask = mask_of(x, 0.5, 4)
      assert.close((2 * x * g * mask * 2):detach(), first:detach(), 1e-13)
      local second = torch.autograd.grad(first:sum(), {g})
      assert.close((2 * x * mask * 2):detach(), second, 1e-13)
   end)

   it("drops nothing with p 0, all with p 1, and NaN stays NaN", function()
      local x, r = torch.tensor {1, nan, 3}, torch.tensor {4.0, 5, 6}
      assert.close(x, F.dropout(x, 0), 0)
      assert.close(x + r, F.dropout_add(x, r, 0), 0)
      assert.close(x + r, F.dropout_add(x, r, 0.5, false), 0)
      assert.close({0, nan, 0}, F.dropout(x, 1), 0)
      assert.close({4, nan, 6}, F.dropout_add(x, r, 1), 0)
   end)

   it("adds tensors that broadcast or have another dtype", function()
      local x = leaves("float32", {6, 5})
      for _, r in ipairs {torch.randn(5), torch.randn(6, 5):double()} do
         torch.manual_seed(1)
         local dropped = F.dropout(x, 0.4)
         torch.manual_seed(1)
         local sum = F.dropout_add(x, r, 0.4)
         assert.close((r + dropped):detach(), sum:detach(), 0)
         assert.equal((r + dropped).dtype, sum.dtype)
      end
   end)

   it("has the CPU's bits on a device, without waiting", function()
      local x, r = leaves("float32", {7, 101}, {7, 101})
      is_as_on_the_cpu(function(a, b)
         torch.manual_seed(5)
         return F.dropout_add(a, b, 0.4), F.dropout(a, 0.2)
      end, {x, r})
   end)

   it("draws anew at each replay of a graph, with its gradient", function()
      local x = torch.ones(400, {device = "sim"}):requires_grad_()
      torch.manual_seed(1)
      local y, grad
      local g = torch.sim.CUDAGraph()
      local function step()
         y = F.dropout(x, 0.5)
         grad = torch.autograd.grad(y:sum(), {x})
      end
      step()
      torch.sim.graph(g, step)
      local seen = {}
      for i = 1, 3 do
         g:replay()
         assert.is_true(torch.equal(y:detach():cpu(), grad:cpu()))
         seen[i] = y:detach():cpu()
      end
      assert.is_false(torch.equal(seen[1], seen[2]))
      assert.is_false(torch.equal(seen[2], seen[3]))
   end)

   it("names the wrong argument in its errors", function()
      assert.raises("dropout_add", "p", "0 to 1", "1.5",
         function() F.dropout_add(torch.randn(2), torch.randn(2), 1.5) end)
      assert.raises("dropout_add", "floating", "int64",
         function() F.dropout_add(torch.ones(2):long(), torch.randn(2)) end)
   end)
end)

describe("normalisation of a sum", function()
   local forms = {
      add_layer_norm = {
         fused = function(x, r, w, b) return F.add_layer_norm(x, r, {x:size(-1)}, w, b) end,
         plain = function(x, r, w, b)
            local sum = x + r
            return F.layer_norm(sum, {x:size(-1)}, w, b), sum
         end,
      },
      add_rms_norm = {
         fused = function(x, r, w) return F.add_rms_norm(x, r, {x:size(-1)}, w, 1e-3) end,
         plain = function(x, r, w)
            local sum = x + r
            return F.rms_norm(sum, {x:size(-1)}, w, 1e-3), sum
         end,
      },
   }
   for name, form in sorted(forms) do
      for _, dtype in ipairs(dtypes) do
         it(("%s is the composition, and so is its gradient: %s"):format(name, dtype), function()
            for _, n in ipairs {1, 2, 7, 16, 33, 1000} do
               local shift = name == "add_layer_norm" and {n} or nil
               if n > 1 or name == "add_rms_norm" then
                  compare(form.plain, form.fused, {leaves(dtype, {5, n}, {5, n}, {n}, shift)},
                     tolerance[dtype] * (n == 2 and 20 or 4))
               end
            end
            compare(form.plain, form.fused, {leaves(dtype, {0, 4}, {0, 4}, {4})}, 0)
         end)
      end

      it(name .. ": each of the results may be all that is used", function()
         local x, r, w = leaves("float64", {3, 6}, {3, 6}, {6})
         for k = 1, 2 do
            local function only(f) return function(...) return (select(k, f(...))) end end
            local list = k == 1 and {x, r, w} or {x, r}
            compare(only(form.plain), only(form.fused), list, 1e-12)
         end
      end)

      it(name .. ": takes views", function()
         local x, r = leaves("float64", {6, 4}, {4, 12})
         local function turned(f) return function(a, b) return f(a:t(), b[{{}, {1, 12, 2}}]) end end
         compare(turned(form.plain), turned(form.fused), {x, r}, 1e-12)
      end)

      it(name .. ": has the CPU's bits on a device, without waiting", function()
         is_as_on_the_cpu(form.fused, {leaves("bfloat16", {5, 34}, {5, 34}, {34})})
         is_as_on_the_cpu(form.fused, {leaves("float32", {5, 34}, {5, 34}, {34})})
      end)

      it(name .. ": NaN stays in its row", function()
         local x = torch.randn(2, 4)
         x[1][2] = nan
         local y, sum = form.fused(x, torch.ones(2, 4))
         assert.is_true(y[1]:isnan():all():item())
         assert.is_true(y[2]:isfinite():all():item())
         assert.equal(1, sum:isnan():sum():item())
      end)

      it(name .. ": says what is wrong with its arguments", function()
         assert.raises(name, "residual", "[2, 4]", "[4]",
            function() F[name](torch.randn(2, 4), torch.randn(4), 4) end)
         assert.raises(name, "normalized_shape [3]", "[2, 4]",
            function() F[name](torch.randn(2, 4), torch.randn(2, 4), 3) end)
         assert.raises(name, "residual", "floating", "int64",
            function() F[name](torch.randn(2, 4), torch.ones(2, 4):long(), 4) end)
      end)
   end
end)
