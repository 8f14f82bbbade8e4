-- Tests hooks on the tensors that graph nodes save, and hooks that wait for the gradients of several tensors.

local torch = require "tlua"
local graph = torch.autograd.graph

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

local function same(x) return x end

describe("saved_tensors_hooks", function()
   it("calls pack with a saved tensor, and unpack with pack's result", function()
      local packed, unpacked = {}, {}
      local a, b = leaf {1, 2}, leaf {3, 4}
      local y = graph.saved_tensors_hooks(function(t)
         packed[#packed + 1] = t:tolist()
         assert.is_false(torch.is_grad_enabled())
         return {kept = t:detach():clone()}
      end, function(kept)
         unpacked[#unpacked + 1] = kept.kept:tolist()
         return kept.kept
      end, function() return (a * b):exp() end)
      local e = {math.exp(3), math.exp(8)}
      table.sort(packed, function(p, q) return p[1] < q[1] end)
      assert.same({{1, 2}, {3, 4}}, {packed[1], packed[2]})
      assert.close(e, torch.tensor(packed[3], {dtype = "float64"}))
      assert.same({}, unpacked)
      y:sum():backward()
      assert.close({3 * e[1], 4 * e[2]}, a.grad)
      assert.close({1 * e[1], 2 * e[2]}, b.grad)
      assert.equal(3, #unpacked)
   end)

   it("holds until its scope is closed, and the innermost pair alone", function()
      local x = leaf {2}
      local seen = {}
      local function noting(name)
         return graph.saved_tensors_hooks(function(t) seen[#seen + 1] = name return t end, same)
      end
      do
         local _ <close> = noting "outer"
         x:exp()
         do
            local _ <close> = noting "inner" -- luacheck: ignore 411 421
            x:exp()
         end
         x:exp()
         pcall(function()
            local _ <close> = noting "failed" -- luacheck: ignore 411 421
            error "here"
         end)
         x:exp()
      end
      x:exp()
      assert.same({"outer", "inner", "outer", "outer"}, seen)
   end)

   it("uses the tensor that unpack returns in the derivative", function()
      local x = leaf {1.0009765625, 2}
      local y = graph.saved_tensors_hooks(function(t) return t:to "bfloat16" end,
         function(t) return t:to "float64" end, function() return (x * x):sum() end)
      y:backward()
      assert.close({2, 4}, x.grad) -- the hook casts to bfloat16, which rounds 1 + 2^-10 to 1
   end)

   it("works for second derivatives of leaves, results and intermediate tensors", function()
      for _, pack in ipairs {same, function(t) return t:detach():clone() end} do
         local x = leaf {0.5, 2}
         local g, gg, ggg
         graph.saved_tensors_hooks(pack, same, function()
            local y = (x ^ 3 + (x * 2):exp()):sum()
            g = torch.autograd.grad(y, x, {create_graph = true})
            gg = torch.autograd.grad(g:sum(), x, {create_graph = true})
            ggg = torch.autograd.grad(gg:sum(), x)
         end)
         assert.close({3 * 0.25 + 2 * math.exp(1), 12 + 2 * math.exp(4)}, g)
         assert.close({3 + 4 * math.exp(1), 12 + 4 * math.exp(4)}, gg)
         assert.close({6 + 8 * math.exp(1), 6 + 8 * math.exp(4)}, ggg)
      end
   end)

   it("belongs to a coroutine, which otherwise inherits its resumer's pair", function()
      local count = 0
      local x = leaf {1}
      local function pack(t) count = count + 1 return t end
      local other = coroutine.wrap(function()
         local _ <close> = graph.saved_tensors_hooks(pack, same)
         x:exp()
         coroutine.yield()
         x:exp()
      end)
      other()
      assert.equal(1, count)
      x:exp()
      assert.equal(1, count)
      other()
      assert.equal(2, count)
      graph.saved_tensors_hooks(pack, same, coroutine.wrap(function() x:exp() end))
      assert.equal(3, count)
   end)

   it("drops pairs that abandoned coroutines have left open", function()
      local x = leaf {1}
      for _ = 1, 300 do
         local co = coroutine.create(function()
            graph.saved_tensors_hooks(same, same)
            x:exp()
            coroutine.yield()
         end)
         assert(coroutine.resume(co))
         collectgarbage()
      end
      assert.close({math.exp(1)}, x:exp())
   end)

   it("raises the error of a hook unchanged, and keeps the state", function()
      local x = leaf {1, 2}
      local mine = {}
      local ok, message = pcall(graph.saved_tensors_hooks, function() error(mine) end, same,
         function() return x * x end)
      assert.is_false(ok)
      assert.equal(mine, message)
      local y = graph.saved_tensors_hooks(same, function() error(mine) end, function() return (x * x):sum() end)
      ok, message = pcall(y.backward, y)
      assert.is_false(ok)
      assert.equal(mine, message)
      assert.is_nil(x.grad);
      (x * x):sum():backward()
      assert.close({2, 4}, x.grad)
      assert.is_true(torch.is_grad_enabled())
   end)

   it("refuses impossible arguments", function()
      local x = leaf {1, 2}
      local function with(pack, unpack)
         return function() graph.saved_tensors_hooks(pack, unpack, function() return (x * x):sum() end):backward() end
      end
      assert.raises("saved_tensors_hooks: pack: expected a function, got 3", with(3, same))
      assert.raises("saved_tensors_hooks: unpack: expected a function, got nil", with(same, nil))
      assert.raises("expected unpack to return a Tensor, got string 'no'", with(same, function() return "no" end))
      assert.raises("expected unpack to return a Tensor as the one that was packed, float64 [2] on "
         .. torch.tensor(0).device .. ", got float32 [3] on",
         with(same, function() return torch.ones(3) end))
      assert.raises("pack has changed its argument in place", function()
         local y = x * 2
         graph.saved_tensors_hooks(function(t) return t:mul_(2) end, same, function() return y * y end)
      end)
      assert.raises("saved_tensors_hooks: expected a function or nothing, got 3",
         function() graph.saved_tensors_hooks(same, same, 3) end)
   end)

   it("survives a pack that releases the operator's tensors, and one that calls operators", function()
      local x = leaf {1, 2}
      local h = x * 1
      local y = graph.saved_tensors_hooks(function(t)
         h:release()
         local copy = (t * 2):detach()
         for _ = 1, 50 do torch.randn(1000) end
         return copy
      end, function(t) return t / 2 end, function() return h * h end)
      assert.close({1, 4}, y)
      y:sum():backward()
      assert.close({2, 4}, x.grad)
   end)

   it("survives a pack that drops all references to the operator's tensors and collects", function()
      local function matrices()
         local list = {}
         for i = 1, 4 do list[i] = (torch.arange(0, 16) % 5):view(4, 4):double() + i end
         return list
      end
      local function product(list)
         for i, x in ipairs(list) do list[i] = x:requires_grad_() end
         return torch.linalg.multi_dot(list)
      end
      local packs = {
         function(list) for i = 1, 4 do list[i] = nil end end,
         function(list) for i = 1, 4 do list[i]:release() end end,
      }
      local expected = product(matrices()):tolist()
      for _, let_go in ipairs(packs) do
         local list = matrices()
         local y = graph.saved_tensors_hooks(function(t)
            if list then let_go(list) end
            list = nil
            collectgarbage()
            collectgarbage()
            for _ = 1, 20 do torch.zeros(4, 4) end
            return t
         end, same, function() return product(list) end)
         assert.same(expected, y:tolist())
      end
   end)

   it("refuses a pack that gives the operator's tensors other memory or sizes", function()
      local refused = {}
      local x, w = leaf {{1, 2}, {3, 4}}, leaf {{1, 0}, {0, 1}}
      local function pack(t)
         for _, change in ipairs {
            function() w.data = torch.ones(1, {dtype = "float64"}) end,
            function() w:requires_grad_(false):resize_(1) end,
            function() torch.no_grad(function() w:unsqueeze_(1) end) end,
         } do
            refused[#refused + 1] = select(2, pcall(change))
         end
         local fresh = t:detach():clone()
         return torch.add(fresh, 0, {out = torch.empty({0}, {dtype = "float64"})})
      end
      graph.saved_tensors_hooks(pack, same, function() return x:exp() end)
      assert.equal(3, #refused)
      for _, message in ipairs(refused) do
         assert.matches("a hook that an operator has called in its midst", message)
      end
      w:requires_grad_(false):resize_(1)
      assert.same({1}, w:tolist())
   end)

   it("packs for an operator during which a finalizer has failed", function()
      local x = leaf(0):to "cpu":detach():requires_grad_()
      local failed, y
      collectgarbage "stop" -- the garbage must stay until an operator runs out of memory
      local garbage = torch.ones(1 << 19, {dtype = "float64", device = "cpu"}) -- luacheck: ignore 231
      setmetatable({}, {__gc = function() failed = not pcall(torch.matmul, x, 3) end})
      garbage = nil
      torch.set_memory_limit(torch.memory_stats().used + (1 << 20))
      local ok, message = pcall(function()
         y = graph.saved_tensors_hooks(same, same, function() return x:expand(1 << 19):exp() end)
      end)
      torch.set_memory_limit(0)
      collectgarbage "restart"
      assert.is_true(ok, message)
      assert.is_true(failed)
      assert.equal(1 << 19, y:sum():item())
   end)

   it("keeps tensors that pack has made within a torch.scope", function()
      local x = leaf {1, 2}
      local y = torch.scope(function()
         return graph.saved_tensors_hooks(function(t) return {t:clone()} end,
            function(packed) return packed[1] end, function() return (x * x):sum() end)
      end)
      y:backward()
      assert.close({2, 4}, x.grad)
   end)

   it("packs the tensors that a Function saves", function()
      local Square = torch.class("HookedSquare", torch.autograd.Function)
      function Square.forward(ctx, x)
         local y = x * x
         ctx:save_for_backward(x, y)
         return y
      end
      function Square.backward(ctx, grad)
         local x = ctx:saved_tensors()
         return grad * 2 * x
      end
      local count = 0
      local x = leaf {3}
      local y = graph.saved_tensors_hooks(function(t) count = count + 1 return t:tolist() end,
         function(list) return torch.tensor(list, {dtype = "float64", device = x.device}) end,
         function() return Square:apply(x) end)
      assert.equal(2, count)
      y:backward()
      assert.close({6}, x.grad)
   end)

   it("releases packed values with the graph", function()
      local x = leaf {1}
      local kept = setmetatable({}, {__mode = "v"})
      local y = graph.saved_tensors_hooks(function(t)
         local box = {t:clone()}
         kept[#kept + 1] = box
         return box
      end, function(box) return box[1] end, function() return x:exp():exp() end)
      collectgarbage()
      assert.equal(2, #kept)
      y:backward()
      torch.zeros(1)
      x = x * 1
      collectgarbage()
      collectgarbage()
      assert.is_nil(next(kept))
   end)

   it("can be disabled", function()
      local function enter() return graph.saved_tensors_hooks(same, same, function() return 7 end) end
      assert.equal(7, graph.disable_saved_tensors_hooks("not with mine", function() return 7 end))
      assert.raises("not with mine", function() graph.disable_saved_tensors_hooks("not with mine", enter) end)
      assert.raises("not in here", function()
         graph.saved_tensors_hooks(same, same, function() graph.disable_saved_tensors_hooks("not in here") end)
      end)
      assert.raises("error_message: expected a string, got 3", function() graph.disable_saved_tensors_hooks(3) end)
      assert.equal(7, enter())
   end)
end)

it("save_on_cpu has the same gradients", function()
   local x = leaf {{1, 2}, {3, 4}}
   local function loss() return (x:matmul(x):tanh() * x):sum() end
   loss():backward()
   local expected = x.grad
   x.grad = nil
   graph.save_on_cpu(loss):backward()
   assert.close(expected:tolist(), x.grad)
   x.grad = nil
   do
      local scope <close> = graph.save_on_cpu(true) -- luacheck: ignore 211
      x.grad = torch.autograd.grad(loss(), x)
   end
   assert.close(expected:tolist(), x.grad)
   assert.raises("save_on_cpu: pin_memory: expected a boolean, got 3", function() graph.save_on_cpu(3) end)
end)

describe("register_multi_grad_hook", function()
   -- the example is from PyTorch's documentation:
   -- https://docs.pytorch.org/docs/stable/autograd.html
   it("waits for all gradients that the pass computes", function()
      local a, b = leaf {1, 2}, leaf {3, 4}
      local c, d = a * b, a + b
      local seen = {}
      local handle = graph.register_multi_grad_hook({a, b, c, d}, function(grads)
         local has = {}
         for i = 1, 4 do has[i] = grads[i] ~= nil end
         seen[#seen + 1] = has
      end)
      c:sum():backward {retain_graph = true}
      c:sum():backward {inputs = {a}, retain_graph = true};
      (c:sum() + d:sum()):backward {retain_graph = true}
      assert.same({{true, true, true, false}, {true, false, true, false}, {true, true, true, true}}, seen)
      handle:remove()
      c:sum():backward()
      assert.equal(3, #seen)
   end)

   it("calls once with the first gradient in mode any", function()
      local a, b = leaf {1, 2}, leaf {3, 4}
      local seen = {}
      graph.register_multi_grad_hook({a, b}, function(grad) seen[#seen + 1] = grad:tolist() end, {mode = "any"});
      (a * 2 + b * 2):sum():backward();
      (a * 3 + b * 3):sum():backward()
      assert.same({{2, 2}, {3, 3}}, seen)
   end)

   it("starts again after a failed pass", function()
      local a, b = leaf {1, 2}, leaf {3, 4}
      local calls, fail = 0, true
      graph.register_multi_grad_hook({a, b}, function() calls = calls + 1 end)
      local middle = a * 1
      middle:register_hook(function() if fail then error "stop" end end)
      local y = (b * 2):sum() + middle:sum()
      assert.is_false(pcall(y.backward, y, {retain_graph = true}))
      fail = false
      y:backward()
      assert.equal(1, calls)
   end)

   it("refuses bad arguments", function()
      assert.raises('mode: expected "all" or "any", got "some"',
         function() graph.register_multi_grad_hook({leaf {1}}, print, {mode = "some"}) end)
      assert.raises("tensors[2]: expected a tensor, got 3",
         function() graph.register_multi_grad_hook({leaf {1}, 3}, print) end)
   end)
end)
