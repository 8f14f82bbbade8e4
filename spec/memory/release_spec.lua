-- Tests that a program can release memory explicitly, and that the library does not keep objects that are no longer
-- used.

local torch = require "tlua"

-- Returns the bytes in use after several garbage collections. Several are needed, because objects that a finalizer
-- releases are freed only by the next collection.
local function used()
   for _ = 1, 4 do
      collectgarbage()
      torch.memory_stats()
   end
   return torch.memory_stats().used
end

-- Returns how many bytes are still allocated after fn has returned.
local function leaves(fn)
   fn() -- the first call also makes objects that are kept for later calls, so it is not measured
   local before = used()
   fn()
   return used() - before
end

-- Passes 3000 tables to fn. Returns whether most of these tables are collected in the end, although their tensors are
-- small.
local function few_stay(fn)
   local tokens = setmetatable({}, {__mode = "k"})
   for _ = 1, 3000 do
      local token = {}
      tokens[token] = true
      fn(token)
   end
   used()
   local n = 0
   for _ in pairs(tokens) do n = n + 1 end
   return n < 1500
end

describe("release", function()
   it("frees memory at once", function()
      local before = used()
      local x = torch.zeros(1000, 1000)
      assert.is_true(torch.memory_stats().used >= before + 4000000)
      x:release()
      assert.equal(before, torch.memory_stats().used)
   end)

   it("may be repeated", function()
      local x = torch.zeros(3)
      x:release()
      x:release()
   end)

   it("leaves views of the memory usable", function()
      local x = torch.ones(4)
      local view = x[{{2, 3}}]
      x:release()
      assert.close({1, 1}, view)
   end)

   it("makes every later use an error that names the release", function()
      local x, y = torch.zeros(3), torch.ones(3)
      x:release()
      assert.raises("add", "released", function() return x + y end)
      assert.raises("add", "released", function() return y + x end)
      assert.raises("add", "released", function() return x:add(1) end)
      assert.raises("sum", "released", function() return torch.sum(x) end)
      assert.raises("cat", "released", function() return torch.cat {y, x} end)
      assert.raises("released", function() return x.shape end)
      assert.raises("released", function() return x[1] end)
      assert.raises("released", function() x[1] = 0 end)
      assert.raises("released", function() return #x end)
      assert.raises("released", function() return x:item() end)
      assert.raises("released", function() y:copy_(x) end)
      assert.raises("released", function() y[1] = x end)
      assert.equal("tensor(released)", tostring(x))
   end)

   it("is called by <close>", function()
      local before = used()
      do
         local x <close> = torch.zeros(1000, 1000)
         assert.is_true(torch.memory_stats().used > before + 3999999)
         assert.equal(0, x:sum():item())
      end
      collectgarbage()
      assert.equal(before, used())
   end)

   it("is called by <close> after an error, too", function()
      local kept
      pcall(function()
         local x <close> = torch.zeros(1000, 1000)
         kept = x
         error("on purpose")
      end)
      assert.equal("tensor(released)", tostring(kept))
   end)
end)

describe("a value that a hook needs", function()
   it("stays as long as the hook's tensor, its graph or another handle of the tensor", function()
      local calls = 0
      local function hooked()
         local x, factor = torch.ones(3, {requires_grad = true}), torch.ones(3) * 2
         x:register_hook(function(grad)
            calls = calls + 1
            return grad * factor
         end)
         return x
      end
      local x = hooked()
      local sum = (hooked() * 1):sum()
      local middle = hooked() * 1
      middle:register_hook(function(grad) return grad + middle:sum() end)
      middle = middle:sum()
      local holder = torch.ones(3)
      holder.grad = hooked()
      for _ = 1, 5 do
         for _ = 1, 100 do hooked() end
         used()
      end
      x:sum():backward()
      sum:backward()
      middle:backward()
      holder.grad:sum():backward()
      assert.equal(4, calls)
      assert.close({2, 2, 2}, x.grad)
   end)
end)

describe("no memory stays allocated", function()
   it("after a training step", function()
      assert.equal(0, leaves(function()
         local nn, optim = torch.nn, torch.optim
         local net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
         local optimizer = optim.Adam(net:parameters(), {lr = 1e-3})
         local loss = nn.functional.cross_entropy(net(torch.randn(5, 8)), torch.randint(1, 4, {5}))
         optimizer:zero_grad()
         loss:backward()
         optimizer:step()
      end))
   end)

   it("after a graph that is never differentiated", function()
      assert.equal(0, leaves(function()
         local x = torch.randn(10, 10, {requires_grad = true})
         return (x:exp():sum() * x):relu()
      end))
   end)

   it("after second derivatives", function()
      assert.equal(0, leaves(function()
         local x = torch.randn(10, {requires_grad = true})
         local g = torch.autograd.grad((x ^ 3):sum(), x, {create_graph = true})
         g:sum():backward()
      end))
   end)

   it("after hooks and functions of the user's", function()
      local Double = torch.class("Double", torch.autograd.Function)
      function Double.forward(_, x) return x * 2 end
      function Double.backward(_, grad) return grad * 2 end
      assert.equal(0, leaves(function()
         local x = torch.randn(10, {requires_grad = true})
         local y = Double:apply(x)
         y:register_hook(function(grad) return grad + y:sum():item() end)
         y:sum():backward()
      end))
   end)

   it("after hooks that refer to their own tensor or module", function()
      assert.is_true(few_stay(function(token)
         local x = torch.randn(10, {requires_grad = true})
         x:register_hook(function(grad) return token and grad + x end)
      end))
      assert.is_true(few_stay(function(token)
         local y = torch.randn(10, {requires_grad = true}) * 2
         y:register_hook(function(grad) return token and grad + y end)
      end))
   end)

   it("after a function whose context refers to its results", function()
      local Double = torch.class("Double", torch.autograd.Function)
      function Double.forward(ctx, x, token)
         ctx.results = {x * 2, x * 3}
         ctx.token = token
         return table.unpack(ctx.results)
      end
      function Double.backward(_, grad) return grad * 2 end
      assert.is_true(few_stay(function(token) Double:apply(torch.randn(10, {requires_grad = true}), token) end))
   end)

   it("after a function whose graph is dropped", function()
      local Double = torch.class("Double", torch.autograd.Function)
      local gone = setmetatable({}, {__mode = "v"})
      function Double.forward(ctx, x)
         ctx.mine = {}
         gone[1] = ctx.mine
         return x * 2
      end
      function Double.backward(_, grad) return grad * 2 end
      Double:apply(torch.randn(10, {requires_grad = true})):release()
      collectgarbage()
      assert.is_nil(gone[1])
   end)

   it("after an error in the middle of a backward pass", function()
      assert.equal(0, leaves(function()
         local x = torch.randn(10, {requires_grad = true})
         local y = x * 2
         y:register_hook(function() error("on purpose") end)
         assert.is_false(pcall(function() (y:exp() * y):sum():backward() end))
      end))
   end)

   it("after errors of operators", function()
      assert.equal(0, leaves(function()
         local x = torch.randn(10, {requires_grad = true})
         assert.is_false(pcall(function() return (x * 2):matmul(torch.ones(3, 3)) end))
         assert.is_false(pcall(function() return torch.cat({x, torch.ones(3, 3)}) end))
      end))
   end)
end)
