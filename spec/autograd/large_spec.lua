-- Tests long and wide graphs. A backward pass must not recurse, because the stack would overflow, and its time must not
-- grow with the square of the number of nodes.

local torch = require "tlua"

-- The graphs run on the host: on a device, a million calls would only fill the device's queue.
torch.set_default_device("cpu")

-- With a sanitizer, the stack overflows at a smaller recursion depth.
local million <const> = os.getenv "SPEC_SANITIZED" == "1" and 100000 or 1000000

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

describe("a chain of a million operators", function()
   it("is built, walked and freed", function()
      local x = leaf(1)
      local y = x
      for _ = 1, million do y = y + 1 end
      y:backward()
      assert.close(1, x.grad)
      y:release()
   end)

   it("is freed without a pass", function()
      local y = leaf(1)
      for _ = 1, million do y = -y end
      y:release()
   end)

   it("is freed although its nodes are linked only by saved tensors", function()
      local x = leaf(1)
      local y = x
      for _ = 1, million // 3 do y = y * y end
      y:release()
   end)
end)

describe("a chain of a million gradients of gradients", function()
   it("is freed", function()
      local x = torch.zeros(2)
      for _ = 1, million do
         local y = torch.zeros(2)
         y.grad = x
         x = y
      end
      assert.close({0, 0}, x.grad.grad.grad)
      x:release()
   end)

   it("is freed if it grew at its leaf's end", function()
      local x = torch.zeros(2)
      local last = x
      for _ = 1, million do
         last.grad = torch.zeros(2)
         last = last.grad
      end
      x:release()
      assert.is_nil(last.grad)
   end)

   it("is freed through views and graphs", function()
      local x = leaf {1, 2}
      for _ = 1, million // 5 do
         local y = leaf {1, 2}
         y.grad = (x * 1):view(2)
         x = y
      end
      x:release()
   end)
end)

describe("a wide graph", function()
   it("is traversed in time that grows with its size", function()
      local x = leaf(1)
      local all = {}
      for i = 1, 20000 do all[i] = x * i end
      torch.stack(all):sum():backward()
      assert.close(20000 * 20001 / 2, x.grad)
   end)

   it("does not visit shared parts again and again", function()
      local x = leaf(1)
      local y = x
      for _ = 1, 60 do y = y + y end -- 2^60 ways
      y:backward()
      assert.close(2.0 ^ 60, x.grad)
   end)

   it("takes many inputs", function()
      local inputs, sum = {}, 0
      for i = 1, 3000 do
         inputs[i] = leaf(i)
         sum = sum + inputs[i] * inputs[i]
      end
      local grads = table.pack(torch.autograd.grad(sum, inputs))
      assert.equal(3000, grads.n)
      assert.close(6000, grads[3000])
   end)
end)

it("many in-place changes of one buffer make a graph of that length", function()
   local w = leaf(2)
   local buffer = torch.zeros(300, {dtype = "float64"})
   for i = 1, 300 do buffer[i] = w * i end
   buffer:sum():backward()
   assert.close(300 * 301 / 2, w.grad)
end)
