-- Tests operators on tensors that are not on the CPU.

local torch = require "tlua"
local table_of = require "spec.support.table"

local F <const> = torch.nn.functional

-- Returns a copy of a tensor on the simulated device.
local function there(t) return t:to("sim") end

-- Checks that fn gives bitwise equal results for tensors on the CPU and on the simulated device.
local function agree(fn, ...)
   local inputs = {...}
   local moved = {}
   for i, t in ipairs(inputs) do moved[i] = there(t) end
   local expected, actual = {fn(table.unpack(inputs))}, {fn(table.unpack(moved))}
   assert.equal(#expected, #actual)
   for i, t in ipairs(expected) do
      assert.equal(torch.device "sim:0", actual[i].device)
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
         return table.unpack(torch.autograd.grad(torch.linalg.inv(x):sum() + torch.linalg.det(x):sum(), {x}))
      end, spd)
   end)

   it("raises the same errors as on the CPU", function()
      assert.raises("linalg.inv", "matrix 2 of the batch is singular",
         function() torch.linalg.inv(there(torch.stack {spd[1], spd[2] * 0})) end)
      assert.raises("linalg.cholesky", "is not positive definite",
         function() torch.linalg.cholesky(there(-spd[1])) end)
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

describe("an operator that waits for the device", function()
   -- For these operators, it depends on the arguments whether the host waits.
   local asked <const> = {to = true, cpu = true}

   it("says so in its entry", function()
      local default = torch.get_default_device()
      torch.set_default_device("sim")
      finally(function() torch.set_default_device(default) end)
      local silent = {}
      for _, row in ipairs(table_of.rows()) do
         for _, text in ipairs(row.waits and {} or row.examples) do
            local args = table_of.arguments(text)
            torch.sim.synchronize()
            local before = torch.sim.waits()
            pcall(table_of.call, row, args)
            if torch.sim.waits() > before and not asked[row.name] then
               silent[#silent + 1] = ("%s(%s)"):format(row.path, text)
            end
         end
      end
      assert.same({}, silent)
   end)
end)

describe("a gradient on another device", function()
   local function input() return torch.ones(3, {requires_grad = true, device = "sim"}) end

   it("is an error when a hook returns it", function()
      local x = input()
      local y = x * 2
      y:register_hook(function(grad) return grad:cpu() end)
      assert.raises("mul: expected a hook to return a gradient on sim:0, got one on cpu",
         function() y:sum():backward() end)
   end)

   it("is an error when the hook of a leaf returns it", function()
      local x = input()
      x:register_hook(function(grad) return grad:cpu() end)
      assert.raises("expected a hook to return a gradient on sim:0, got one on cpu",
         function() (x * 2):sum():backward() end)
      assert.is_nil(x.grad)
   end)

   it("is an error when a function returns it", function()
      local Double = torch.class("Double", torch.autograd.Function)
      function Double.forward(_, x) return x * 2 end
      function Double.backward(_, grad) return grad:cpu() end
      local y = Double:apply(input()):sum()
      assert.raises("Double: got a gradient on cpu for a value on sim:0", function() y:backward() end)
   end)

   it("goes from device to device with the values", function()
      local x, w = input(), torch.ones(3, {requires_grad = true, device = "cpu"})
      torch.sum(w:to("sim") * x):backward()
      assert.equal(torch.device "cpu", w.grad.device)
      assert.equal(torch.device "sim:0", x.grad.device)
   end)
end)

describe("a model on another device", function()
   local nn <const> = torch.nn

   -- Trains a network for three optimizer steps, and returns its weights.
   local function trained(device, name)
      torch.manual_seed(3)
      local model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3),
         nn.Flatten(), nn.Linear(4 * 6 * 6, 3)):cpu():to(device)
      local x = torch.randn(5, 1, 8, 8, cpu):to(device)
      local classes = torch.tensor({1, 3, 2, 2, 1}, {dtype = "int64", device = device})
      local optimizer = torch.optim[name](model:parameters(), {lr = 0.1})
      torch.manual_seed(4) -- each device has its own generator
      for _ = 1, 3 do
         optimizer:zero_grad()
         F.cross_entropy(model(x), classes):backward()
         nn.utils.clip_grad_norm_(model:parameters(), 1)
         optimizer:step()
      end
      return model, optimizer
   end

   it("learns the same bits as on the CPU", function()
      for _, name in ipairs {"SGD", "Adam", "AdamW", "RMSprop"} do
         local expected, actual = trained("cpu", name), trained("sim", name)
         local state = actual:state_dict()
         for path, tensor in pairs(expected:state_dict()) do
            assert.equal(torch.device "sim:0", state[path].device)
            assert.is_true(torch.equal(tensor, state[path]:cpu()), name .. " " .. path)
         end
      end
   end)

   it("takes states from other devices, and keeps its own device", function()
      local here, of_here = trained("cpu", "Adam")
      local there_, of_there = trained("sim", "Adam")
      there_:load_state_dict(here:state_dict())
      of_there:load_state_dict(of_here:state_dict())
      here:load_state_dict(there_:state_dict())
      for _, parameter in ipairs(there_:parameters()) do assert.equal(torch.device "sim:0", parameter.device) end
      for _, parameter in ipairs(here:parameters()) do assert.equal(torch.device "cpu", parameter.device) end
      for _, state in pairs(of_there.state) do
         for name, value in pairs(state) do
            assert.equal(torch.device(name == "step" and "cpu" or "sim:0"), value.device)
         end
      end
   end)

   it("is clipped without a wait", function()
      local model = trained("sim", "SGD")
      torch.sim.synchronize()
      local before = torch.sim.waits()
      nn.utils.clip_grad_norm_(model:parameters(), 0.5)
      assert.equal(before, torch.sim.waits())
   end)
end)
