-- Tests tensors of several devices in one program: which combinations are allowed, and the errors for all other
-- combinations.

local torch = require "tlua"
local nn = torch.nn

local function on(device, data, options)
   options = options or {}
   options.device = device
   return torch.tensor(data, options)
end

local function refuses(fn) assert.raises("index", "expected all tensors on one device, got self on", fn) end

describe("operands", function()
   local a, b = on("sim:0", {{1.0, 2}, {3, 4}}), on("cpu", {{1.0, 2}, {3, 4}})
   local single = torch.tensor(2.0, {device = "cpu"})
   local function names(text, fn) assert.raises("expected all tensors on one device, got " .. text, fn) end

   it("are named with their devices", function()
      names("self on sim:0 and other on cpu", function() return a + b end)
      names("self on cpu and other on sim:0", function() return b:mul(a) end)
      names("self on sim:0 and mat2 on cpu", function() return a:mm(b) end)
      names("tensors[1] on sim:0 and tensors[3] on sim:1",
         function() return torch.cat({a, a, on("sim:1", {{1.0, 2}})}) end)
      names("self on sim:0 and index on cpu", function() return a:gather(1, on("cpu", {{1, 1}, {2, 2}})) end)
      names("condition on sim:0 and other on cpu", function() return torch.where(a:gt(1), 0, b) end)
   end)

   it("of no dimensions on the CPU can be combined with any device, like numbers", function()
      assert.close({{2, 4}, {6, 8}}, (single * a):cpu())
      assert.close({{2, 4}, {6, 8}}, (a * single):cpu())
      assert.equal(torch.device "sim:0", (single + a).device)
      names("self on cpu and end on sim:0", function() return torch.lerp(single, a, b) end)
   end)
end)

describe("an index", function()
   it("must be on the tensor's device", function()
      local here, there = on("cpu", {1.0, 2, 3}), on("sim:0", {1.0, 2, 3})
      for _, x in ipairs {here, there} do
         for _, y in ipairs {here, there, on("sim:1", {1.0, 2, 3})} do
            if x.device ~= y.device then
               local index, mask = on(y.device, {1, 2}), y:gt(1)
               refuses(function() return x[index] end)
               refuses(function() return x[mask] end)
               refuses(function() return x[{index}] end)
               refuses(function() x[index] = 0 end)
               refuses(function() x[mask] = 0 end)
            end
         end
      end
      assert.close({1, 2, 3}, here)
      assert.close({1, 2, 3}, there:cpu())
   end)

   it("accepts a value of another device if it is copied or a single number", function()
      local x = on("sim:0", {{1.0, 2}, {3, 4}})
      x[1] = on("cpu", {5.0, 6})
      x[{2, {}}] = on("sim:1", {7.0, 8})
      assert.close({{5, 6}, {7, 8}}, x:cpu())
      x[x:gt(6)] = torch.tensor(0.0, {device = "cpu"})
      assert.close({{5, 6}, {0, 0}}, x:cpu())
      refuses(function() x[x:gt(0)] = on("cpu", {1.0, 2}) end)
      refuses(function() x[x:gt(0)] = on("sim:1", 1.0) end)
   end)
end)

describe("a gradient", function()
   it("can be computed over several devices", function()
      local x = on("sim:0", {1.0, 2}, {requires_grad = true})
      local w = on("sim:1", {3.0, 4}, {requires_grad = true})
      local function loss() return (x:to("sim:1") * w):cpu():pow(2):sum() end
      local dx, dw = torch.autograd.grad(loss(), {x, w})
      assert.equal(torch.device "sim:0", dx.device)
      assert.equal(torch.device "sim:1", dw.device)
      assert.close({18, 64}, dx:cpu())
      assert.close({6, 32}, dw:cpu())
      loss():backward(nil, {inputs = {x, w}})
      assert.close({18, 64}, x.grad:cpu())
      torch.autograd.backward({(x * 2):sum(), (w * 3):sum()})
      assert.close({20, 66}, x.grad:cpu())
   end)

   it("stays on its device in a hook", function()
      local x = on("sim:0", {1.0, 2}, {requires_grad = true})
      local hook = x:register_hook(function(grad) return grad:cpu() end)
      assert.raises("backward", "expected a hook to return a gradient on sim:0, got one on cpu",
         function() (x * 2):sum():backward() end)
      assert.is_nil(x.grad)
      hook:remove()
   end)

   it("is clipped with those of other devices", function()
      local a = on("sim:0", {0.0, 0}, {requires_grad = true})
      local b = on("sim:1", {0.0}, {requires_grad = true})
      a.grad, b.grad = on("sim:0", {2.0, 3}), on("sim:1", {6.0})
      local norm = nn.utils.clip_grad_norm_({a, b}, 3.5)
      assert.equal(torch.device "sim:0", norm.device)
      assert.close(7, norm:item())
      assert.close({1, 1.5}, a.grad:cpu(), 1e-5)
      assert.close({3}, b.grad:cpu(), 1e-5)
   end)
end)
