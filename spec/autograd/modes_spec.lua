-- Tests no_grad, enable_grad, inference_mode and their scopes.

local torch = require "tlua"

local x = torch.tensor({1, 2}, {dtype = "float64", requires_grad = true})

describe("no_grad", function()
   it("runs a function without recording", function()
      local a, b, c = torch.no_grad(function(...) return (x * 2).requires_grad, ... end, 7, nil)
      assert.same({false, 7, nil}, {a, b, c})
      assert.equal(4, select("#", torch.no_grad(function(...) return 1, ... end, 7, nil, nil)))
      assert.is_true((x * 2).requires_grad)
   end)

   it("ends with a block", function()
      do
         local _ <close> = torch.no_grad()
         assert.is_false((x * 2).requires_grad)
         assert.is_false(torch.is_grad_enabled())
      end
      assert.is_true((x * 2).requires_grad)
   end)

   it("can be closed explicitly in any order", function()
      local function close(scope) getmetatable(scope).__close(scope) end
      for _, order in ipairs {{1, 2, 3}, {2, 1, 3}, {3, 1, 2}, {2, 3, 1}, {1, 3, 2}, {3, 2, 1}} do
         local scopes = {torch.no_grad(), torch.enable_grad(), torch.no_grad()}
         local modes, open = {[0] = true, false, true, false}, {true, true, true}
         for _, k in ipairs(order) do
            close(scopes[k])
            open[k] = false
            local newest = open[3] and 3 or open[2] and 2 or open[1] and 1 or 0
            assert.equal(modes[newest], torch.is_grad_enabled())
            close(scopes[k])
         end
      end
      -- this scope is never closed and becomes garbage, so no_grad stays on
      do local _ = torch.no_grad() end
      collectgarbage()
      local after <close> = torch.enable_grad()
      assert.is_true(torch.is_grad_enabled())
      torch.set_grad_enabled(true)
      assert.truthy(after)
   end)

   it("may be opened by a hook and outlive its backward pass", function()
      for _, open in ipairs {torch.no_grad, torch.enable_grad} do
         local y, scope = (x * 2):sum(), nil
         y:register_hook(function() scope = open() end)
         y:backward()
         assert.equal(open == torch.enable_grad, torch.is_grad_enabled())
         getmetatable(scope).__close(scope)
         assert.is_true(torch.is_grad_enabled())
      end
   end)

   it("ends with an error", function()
      local ok, message = pcall(torch.no_grad, function() error("oops", 0) end)
      assert.same({false, "oops"}, {ok, message})
      assert.is_true(torch.is_grad_enabled())
      pcall(function()
         local _ <close> = torch.no_grad()
         error "oops"
      end)
      assert.is_true(torch.is_grad_enabled())
   end)

   it("nests with enable_grad", function()
      torch.no_grad(function()
         torch.enable_grad(function() assert.is_true((x * 2).requires_grad) end)
         assert.is_false((x * 2).requires_grad)
         local _ <close> = torch.enable_grad()
         assert.is_true(torch.is_grad_enabled())
      end)
      assert.is_true(torch.is_grad_enabled())
   end)

   it("accepts callable values", function()
      local callable = setmetatable({}, {__call = function(_, n) return n + 1 end})
      assert.equal(3, torch.no_grad(callable, 2))
      assert.raises("no_grad", "function", function() torch.no_grad(5) end)
   end)

   it("allows the function to yield", function()
      local co = coroutine.wrap(function() return torch.no_grad(function() return coroutine.yield(1) end) end)
      assert.equal(1, co())
      assert.equal(2, co(2))
      assert.is_true(torch.is_grad_enabled())
   end)

   it("allows a new leaf to require a gradient", function()
      local w = torch.no_grad(function() return torch.ones(2, {requires_grad = true}) end)
      assert.is_true(w.requires_grad)
   end)
end)

describe("set_grad_enabled", function()
   it("sets the mode until it is set again", function()
      torch.set_grad_enabled(false)
      assert.is_false(torch.is_grad_enabled())
      torch.set_grad_enabled(true)
      assert.is_true(torch.is_grad_enabled())
   end)

   it("also opens a scope", function()
      do
         local _ <close> = torch.set_grad_enabled(false)
         assert.is_false(torch.is_grad_enabled())
      end
      assert.is_true(torch.is_grad_enabled())
      assert.is_false(torch.set_grad_enabled(false, function() return torch.is_grad_enabled() end))
      assert.raises("true or false", function() torch.set_grad_enabled(1) end)
   end)
end)

describe("inference_mode", function()
   it("records no operators, even inside enable_grad", function()
      torch.inference_mode(function()
         assert.is_true(torch.is_inference_mode_enabled())
         assert.is_false((x * 2).requires_grad)
         torch.enable_grad(function() assert.is_false((x * 2).requires_grad) end)
      end)
      assert.is_false(torch.is_inference_mode_enabled())
      do
         local _ <close> = torch.inference_mode(false)
         assert.is_true((x * 2).requires_grad)
      end
   end)

   it("makes tensors that cannot take part in gradients", function()
      local y = torch.inference_mode(function() return x * 2 end)
      assert.raises("inference mode", function() return y * x end)
      assert.raises("inference mode", function() y:add_(1) end)
      assert.raises("inference mode", function() y:requires_grad_() end)
      assert.raises("inference mode", function() y[1] = 0 end)
      -- an inference tensor may take part here, because addition saves no tensor for its backward pass
      assert.is_true((y + x).requires_grad)
      assert.is_true((y:clone() * x).requires_grad)
      torch.inference_mode(function() y:add_(1) end)
      assert.close({3, 5}, y)
   end)

   it("does not change tensors from outside", function()
      local h = x * 1
      torch.inference_mode(function()
         h:mul_(2)
         h:view(2):mul_(2)
      end)
      assert.close({4, 8}, h)
      assert.equal(2, h._version)
      assert.is_true((h * x).requires_grad)
   end)

   it("allows a backward pass", function()
      local w = torch.tensor({1, 2}, {dtype = "float64", requires_grad = true})
      local y = (w * w):sum()
      torch.inference_mode(function() y:backward() end)
      assert.close({2, 4}, w.grad);
      (w * w):sum():backward()
      assert.close({4, 8}, w.grad)
   end)
end)

describe("a scope", function()
   it("refuses nil for its function, which may be a misspelt name", function()
      local keep <const> = function(t) return t end
      local device <const> = torch.ones(1).device
      local calls = {
         no_grad = function() torch.no_grad(nil) end, enable_grad = function() torch.enable_grad(nil) end,
         inference_mode = function() torch.inference_mode(nil) end,
         set_grad_enabled = function() torch.set_grad_enabled(false, nil) end,
         autocast = function() torch.autocast("cpu", nil) end,
         default_device = function() torch.default_device("meta", nil) end,
         saved_tensors_hooks = function() torch.autograd.graph.saved_tensors_hooks(keep, keep, nil) end,
      }
      for name, call in pairs(calls) do
         assert.raises(name .. ": expected a function or nothing, got nil", call)
      end
      assert.is_true(torch.is_grad_enabled())
      assert.is_false(torch.is_inference_mode_enabled())
      assert.equal(device, torch.ones(1).device)
   end)
end)
