local torch = require "tlua"
local sorted = require "spec.support.sorted"
local nn = torch.nn
local checkpoint = torch.utils.checkpoint

-- Returns the gradients of a loss with respect to a parameter and to the input. `run` calls the layer.
local function gradients(run)
   torch.manual_seed(3)
   local block = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 2))
   local x = torch.randn(4, 3, {requires_grad = true})
   run(block, x * 2):sum():backward()
   return {block[1].weight.grad:tolist(), block[4].bias.grad:tolist(), x.grad:tolist()}
end

describe("torch.utils.checkpoint", function()
   it("gives the same gradients, the same elements being dropped", function()
      local plain = gradients(function(block, x) return block(x) end)
      assert.close(plain, gradients(checkpoint.checkpoint), 1e-6)
      assert.close(plain, gradients(checkpoint), 1e-6)
      assert.close(plain, gradients(function(block, x)
         return checkpoint.checkpoint_sequential(block, 2, x)
      end), 1e-6)
   end)

   it("computes its part twice, and only if gradients are wanted", function()
      local count = 0
      local function fn(a, n)
         count = count + 1
         return a * n, a + n
      end
      local x = torch.ones(2, {requires_grad = true})
      local y, z = checkpoint(fn, x, 3)
      assert.equal(1, count)
      torch.add(y, z):sum():backward()
      assert.equal(2, count)
      assert.same({4, 4}, x.grad:tolist())
      torch.no_grad(function() checkpoint(fn, x, 3) end)
      assert.equal(3, count)
   end)

   it("learns parameters even if no argument has a gradient", function()
      local layer = nn.Linear(2, 1)
      checkpoint(layer, torch.ones(1, 2)):sum():backward()
      assert.same({{1, 1}}, layer.weight.grad:tolist())
   end)

   it("leaves the random state after backward as it was before", function()
      local layer = nn.Dropout(0.5)
      local x = torch.ones(8, {requires_grad = true})
      local y = checkpoint(layer, x)
      torch.manual_seed(9)
      y:sum():backward()
      local after = torch.rand(1):item()
      torch.manual_seed(9)
      assert.equal(torch.rand(1):item(), after)
   end)

   it("of an endlessly recursive function overflows the stack", function()
      local function endless(x) return checkpoint(endless, x) end
      local x = torch.ones(2, {requires_grad = true})
      assert.matches("stack overflow", select(2, pcall(endless, x)))
      assert.matches("stack overflow", select(2, pcall(torch.no_grad, endless, x)))
      assert.is_true(torch.is_grad_enabled())

      -- Makes a checkpoint whose recomputation makes another checkpoint, and so on without end.
      local function again(a)
         if torch.is_grad_enabled() then return checkpoint(again, a) end
         return a * 2
      end
      assert.matches("stack overflow", select(2, pcall(function() again(x):sum():backward() end)))
      assert.is_nil(x.grad)
   end)

   it("refuses a different result of the second call", function()
      for shape, second in sorted {
         ["nil"] = function() end,
         ["a tensor of shape (1)"] = function(a) return a:sum({1}, true) end,
      } do
         local calls = 0
         local x = torch.ones(2, {requires_grad = true})
         local y = torch.utils.checkpoint(function(a)
            calls = calls + 1
            if calls == 2 then return second(a) end
            return a * 2
         end, x)
         assert.raises("utils.checkpoint: result 1 of fn: expected a tensor of shape (2), as the "
            .. "first time, got " .. shape, function() y:sum():backward() end)
      end
   end)

   it("takes PyTorch's options behind the arguments of fn", function()
      local x, seen = torch.ones(2, {requires_grad = true}), {}
      local function fn(...)
         seen[#seen + 1] = select("#", ...)
         return (...) * torch.rand(2)
      end
      torch.manual_seed(1)
      local y = torch.utils.checkpoint(fn, x, {use_reentrant = false})
      y:sum():backward()
      assert.close(y, x.grad, 0)
      assert.same({1, 1}, seen)
      torch.utils.checkpoint(fn, x, {preserve_rng_state = false, determinism_check = "none"}):sum():backward()
      assert.same({1, 1, 1, 1}, seen)
      torch.utils.checkpoint(fn, x, {scale = 3}):sum():backward()
      assert.same({1, 1, 1, 1, 2, 2}, seen)
      assert.raises("utils.checkpoint", "use_reentrant: expected a boolean",
         function() torch.utils.checkpoint(fn, x, {use_reentrant = 1}) end)
      assert.raises("utils.checkpoint", "determinism_check",
         function() torch.utils.checkpoint(fn, x, {determinism_check = "no"}) end)
      assert.raises("utils.checkpoint", "selective",
         function() torch.utils.checkpoint(fn, x, {context_fn = print}) end)
   end)
end)
