-- Tests backward passes on several streams. The backward of each node runs on the stream of its forward call, and the
-- gradients of leaves are ready on the stream that called backward.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local sim = torch.sim

local function program(device, s1, s2)
   local function on(stream, fn) return stream and sim.stream(stream, fn) or fn() end
   torch.manual_seed(5)
   local x = torch.randn(16, 16):to(device)
   local w = torch.randn(16, 16):to(device):requires_grad_()
   local v = torch.randn(16, 16):to(device):requires_grad_()
   if s1 then
      s1:wait_stream(sim.current_stream())
      s2:wait_stream(sim.current_stream())
   end
   local a = on(s1, function() return (x:matmul(w)):tanh() end)
   local b = on(s2, function() return (x * v):sigmoid():matmul(w) end)
   if s1 then
      s2:wait_stream(s1)
      for _, t in ipairs {a, w, x} do t:record_stream(s2) end
      for _, t in ipairs {x, w, v} do t:record_stream(s1) end
   end
   local loss = on(s2, function() return (a * b):sum() end)
   return loss, w, v, a
end

local function gradients(device, s1, s2, backward)
   local loss, w, v, a = program(device, s1, s2)
   local extra = backward(loss, w, v, a)
   return {w.grad and w.grad:tolist(), v.grad and v.grad:tolist(), extra and extra:tolist()}
end

describe("backward", function()
   teardown(function() sim.configure {seed = 1} end)

   for name, backward in sorted {
      ["from a loss"] = function(loss) loss:backward() end,
      ["with hooks that change modes"] = function(loss, _, _, a)
         a:register_hook(function(grad) return torch.no_grad(function() return grad * 2 end) end)
         loss:backward()
      end,
      ["for inputs that are no leaves"] = function(loss, _, _, a) return (torch.autograd.grad(loss, a)) end,
   } do
      it(name .. " gives the CPU's bits, whatever the seed", function()
         local expected = gradients("cpu", nil, nil, backward)
         for seed = 1, 60 do
            sim.configure {seed = seed}
            local s1, s2 = sim.Stream(), sim.Stream()
            assert.same(expected, gradients("sim", s1, s2, backward), "seed " .. seed)
         end
      end)
   end

   it("runs on the streams of the forward calls", function()
      local s = sim.Stream()
      local x = torch.ones(4, {device = "sim", requires_grad = true})
      s:wait_stream(sim.current_stream())
      local seen
      local y = sim.stream(s, function() return x * 2 end)
      y:register_hook(function() seen = sim.current_stream() end)
      sim.current_stream():wait_stream(s)
      y:sum():backward()
      assert.equal(s, seen)
      assert.equal(sim.default_stream(), sim.current_stream())
      assert.equal(8, x.grad:sum():item())
   end)
end)
