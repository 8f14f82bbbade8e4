-- Tests F.linear_cross_entropy by comparing it with a linear layer that is followed by cross_entropy.

local torch = require "tlua"
local sorted = require "spec.support.sorted"
local F = torch.nn.functional

local function inputs(dtype, device)
   torch.manual_seed(6)
   local function leaf(...) return torch.randn({...}, {dtype = dtype}):to(device or "cpu"):requires_grad_() end
   return leaf(13, 5), leaf(7, 5), leaf(7), torch.randint(1, 8, {13}):to(device or "cpu")
end

local function gradients(loss, ...) return {torch.autograd.grad(loss:sum(), {...})} end

local kinds = {
   plain = {}, sum = {reduction = "sum"}, none = {reduction = "none"},
   ignored = {ignore_index = 3}, smooth = {label_smoothing = 0.2},
}

describe("linear_cross_entropy", function()
   for name, kind in sorted(kinds) do
      for _, chunk in ipairs {1, 4, 13, 100} do
         it(("is cross_entropy of linear: %s, %d rows at a time"):format(name, chunk), function()
            local x, w, b, y = inputs("float64", torch.get_default_device())
            local class_weights = torch.rand(7, {dtype = "float64"}) + 0.5
            local logits = F.linear(x, w, b)
            local expected = F.cross_entropy(logits, y, {
               weight = class_weights, reduction = kind.reduction,
               ignore_index = kind.ignore_index, label_smoothing = kind.label_smoothing,
            })
            local loss = F.linear_cross_entropy(x, w, y, {
               linear_bias = b, weight = class_weights, chunk_size = chunk, reduction = kind.reduction,
               ignore_index = kind.ignore_index, label_smoothing = kind.label_smoothing,
            })
            assert.close(expected:detach(), loss:detach(), 1e-12)
            local want = gradients(expected, x, w, b)
            for i, grad in ipairs(gradients(loss, x, w, b)) do assert.close(want[i], grad, 1e-12) end
         end)
      end
   end

   it("takes one sample, and no rows", function()
      local x, w, _, y = inputs("float64", torch.get_default_device())
      assert.close(F.cross_entropy(F.linear(x[1], w), y[1]):detach(),
         F.linear_cross_entropy(x[1], w, y[1]):detach(), 1e-12)
      local none = F.linear_cross_entropy(x[{{}}]:narrow(1, 1, 0), w, y:narrow(1, 1, 0), {reduction = "sum"})
      assert.equal(0, none:item())
      none:backward()
      assert.equal(0, w.grad:abs():sum():item())
   end)

   it("has the CPU's bits on a device, without waiting", function()
      local x, w, b, y = inputs "float32"
      local here = F.linear_cross_entropy(x, w, y, {linear_bias = b, chunk_size = 4})
      local want = gradients(here, x, w, b)
      local dx, dw, db, dy = inputs("float32", "sim")
      local before = torch.sim.waits()
      local there = F.linear_cross_entropy(dx, dw, dy, {linear_bias = db, chunk_size = 4})
      local found = gradients(there, dx, dw, db)
      assert.equal(before, torch.sim.waits())
      assert.equal(here:item(), there:item())
      for i, grad in ipairs(found) do assert.is_true(torch.equal(want[i], grad:cpu())) end
   end)

   it("computes the loss of half types in float32", function()
      local x, w, b, y = inputs "float32"
      local low = F.linear_cross_entropy(x:bfloat16(), w:bfloat16(), y, {linear_bias = b:bfloat16()})
      assert.equal("float32", low.dtype)
      assert.close(F.cross_entropy(F.linear(x:bfloat16(), w:bfloat16(), b:bfloat16()):float(), y)
         :detach(), low:detach(), 1e-6)
      local auto = torch.autocast("cpu", function() return F.linear_cross_entropy(x, w, y, {linear_bias = b}) end)
      assert.equal(low:item(), auto:item())
      auto:backward()
      assert.equal("float32", w.grad.dtype)
   end)

   it("never stores all logits at once", function()
      local n, classes = 512, 1024
      local x = torch.randn(n, 8):sim():requires_grad_()
      local w = torch.randn(classes, 8):sim():requires_grad_()
      local y = torch.randint(1, classes + 1, {n}):sim()
      local function peak(loss)
         collectgarbage()
         torch.sim.synchronize()
         torch.sim.reset_peak_memory_stats()
         local before = torch.sim.memory_allocated()
         loss():backward()
         torch.sim.synchronize()
         return torch.sim.max_memory_allocated() - before
      end
      local logits <const> = n * classes * 4
      assert.is_true(peak(function() return F.cross_entropy(F.linear(x, w), y) end) > logits)
      assert.is_true(peak(function() return F.linear_cross_entropy(x, w, y, {chunk_size = 32}) end) < logits / 2)
   end)

   it("names the mistake", function()
      local x, w, b, y = inputs "float32"
      assert.raises("linear_cross_entropy: input: expected (N, in) for linear_weight (C, in), got "
         .. "[13, 5] and [5, 7]", function() F.linear_cross_entropy(x, w:t(), y) end)
      assert.raises("linear_bias: expected shape [7], got [13]",
         function() F.linear_cross_entropy(x, w, y, {linear_bias = x[{{}, 1}]}) end)
      assert.raises("chunk_size: expected at least 1, got 0",
         function() F.linear_cross_entropy(x, w, y, {linear_bias = b, chunk_size = 0}) end)
      assert.raises("expected 1 to 7", function() -- a label
         F.linear_cross_entropy(x, w, y * 0 + 8)
      end)
   end)
end)
