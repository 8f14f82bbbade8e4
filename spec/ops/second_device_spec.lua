-- What operators do with tensors that do not lie on the CPU.

local torch = require "tlua"

local F <const> = torch.nn.functional

-- The same values on the simulated device.
local function there(t) return t:to("sim") end

-- fn's results for tensors on the CPU and on the simulated device are the same to the bit.
local function agree(fn, ...)
   local inputs = {...}
   local moved = {}
   for i, t in ipairs(inputs) do moved[i] = there(t) end
   local expected, actual = {fn(table.unpack(inputs))}, {fn(table.unpack(moved))}
   assert.equal(#expected, #actual)
   for i, t in ipairs(expected) do
      assert.equal("sim:0", actual[i].device)
      assert.same(t:stride(), actual[i]:stride())
      assert.is_true(torch.equal(t, actual[i]:cpu()))
   end
end

local cpu <const> = {device = "cpu"}

describe("an operator that only the CPU has", function()
   local a = torch.randn(2, 4, 4, cpu)
   local spd = a:matmul(a.mT) + torch.eye(4, cpu)

   it("gives results on the device of its inputs", function()
      agree(torch.linalg.cholesky, spd)
      agree(torch.linalg.inv, spd)
      agree(torch.linalg.det, a)
      agree(torch.linalg.slogdet, a)
      agree(torch.linalg.qr, a)
      agree(torch.linalg.svd, a)
      agree(torch.linalg.eigh, spd)
      agree(torch.linalg.solve, spd, a)
      agree(torch.linalg.lu, a)
      agree(torch.linalg.lstsq, a, a)
      agree(torch.linalg.pinv, a)
      agree(torch.linalg.matrix_exp, a)
   end)

   it("has its gradients there", function()
      agree(function(x)
         x = x:detach():requires_grad_()
         return table.unpack(torch.autograd.grad(
            torch.linalg.inv(x):sum() + torch.linalg.det(x):sum(), {x}))
      end, spd)
   end)

   it("raises what it raises on the CPU", function()
      assert.raises("linalg.inv", "matrix 2 of the batch is singular", function()
         torch.linalg.inv(there(torch.stack {spd[1], spd[2] * 0}))
      end)
      assert.raises("linalg.cholesky", "is not positive definite", function()
         torch.linalg.cholesky(there(-spd[1]))
      end)
   end)
end)

describe("tables that a kernel reads", function()
   it("lie on the device: interpolate", function()
      local x = torch.rand(2, 3, 5, 7, cpu)
      for _, mode in ipairs {"nearest", "bilinear", "bicubic", "area"} do
         agree(function(t)
            t = t:detach():requires_grad_()
            local y = F.interpolate(t, {9, 4}, {mode = mode})
            return y:detach(), table.unpack(torch.autograd.grad((y * y):sum(), {t}))
         end, x)
      end
   end)

   it("lie on the device: ctc_loss, whose lengths may lie anywhere", function()
      local x = torch.randn(6, 2, 4, cpu)
      local targets = torch.tensor({{2, 3}, {4, 1}}, {dtype = "int64", device = "cpu"})
      for _, lengths in ipairs {{{6, 5}, {2, 1}}, {torch.tensor({6, 5}, cpu), torch.tensor({2, 1}, cpu)}} do
         agree(function(t, labels)
            t = t:detach():requires_grad_()
            local y = F.ctc_loss(t:log_softmax(3), labels, lengths[1], lengths[2])
            return y:detach(), table.unpack(torch.autograd.grad(y, {t}))
         end, x, targets)
      end
   end)
end)
