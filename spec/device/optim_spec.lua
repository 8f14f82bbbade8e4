-- Tests optimizers on the simulated device. Eagerly and in graphs, their results must equal the CPU's bit for bit, and
-- no step may wait for the device.

local torch = require "tlua"
local problem = require "spec.support.optim"
local sorted = require "spec.support.sorted"
local sim = torch.sim

local here <const>, there <const> = {device = "cpu"}, {device = "sim"}

-- Optimizers that update all parameters in one call, with options that do not need the norm of the gradients.
local rows = {}
for _, row in ipairs(problem.rows) do rows[#rows + 1] = row end

describe("an optimizer on a device", function()
   it("has the CPU's bits", function()
      for _, row in ipairs(rows) do
         local expected = problem.run(row[1], row[2], here)
         assert.close(expected, (problem.run(row[1], row[2], there)), 0)
         if row[1] ~= "Adafactor" then
            local how = {more = {capturable = true}}
            assert.close(expected, (problem.run(row[1], row[2], there, how)), 0)
         end
      end
   end)

   it("does not wait", function()
      for _, row in ipairs(rows) do
         local params = problem.parameters(there)
         local optimizer = problem.make(row[1], params, problem.options(row[2]))
         problem.set_gradients(params, 7)
         local before = sim.waits()
         optimizer:step()
         assert.equal(before, sim.waits(), row[1])
      end
   end)

   it("advances when a captured step is replayed", function()
      for _, row in ipairs(rows) do
         if row[1] ~= "Adafactor" then
            local function after(captured)
               local params = problem.parameters(there)
               local lr = torch.tensor(0.1, {dtype = "float64", device = "sim"})
               local optimizer = torch.optim[row[1]](params, problem.options(row[2], {capturable = true, lr = lr}))
               problem.set_gradients(params, 7)
               optimizer:step() -- the first step creates the optimizer's state
               local graph = sim.Graph()
               if captured then sim.graph(graph, function() optimizer:step() end) end
               for t = 8, 11 do
                  local new = problem.parameters(there)
                  -- at step 9, some parameters have no gradient
                  problem.set_gradients(new, t == 9 and 8 or t)
                  for i, p in ipairs(params) do p.grad:copy_(new[i].grad) end
                  if t == 10 then lr:fill_(0.05) end
                  if captured then graph:replay() else optimizer:step() end
               end
               return problem.values(params)
            end
            assert.close(after(false), after(true), 0)
         end
      end
   end)

   it("reads on the device whether to make a step", function()
      for capturable, expected in sorted {[true] = 2, [false] = 0} do
         local p = torch.ones(3, {device = "sim", requires_grad = true})
         local optimizer = torch.optim.Adam({p}, {lr = 0.1, capturable = capturable})
         optimizer.found_inf = torch.zeros({}, there)
         p.grad = torch.ones(3, there)
         if capturable then
            for _, found in ipairs {0, 1, 1, 0} do
               optimizer.found_inf:fill_(found)
               optimizer:step()
            end
            assert.equal(expected, optimizer.state[1].step:item())
            assert.close({0.8, 0.8, 0.8}, p)
         else
            assert.raises("found_inf: expected clocks on the device", "set capturable",
               function() optimizer:step() end)
            assert.close({1, 1, 1}, p, 0)
         end
      end
   end)

   it("steps parameters of several devices", function()
      local function after(devices)
         local params = {}
         for i = 1, 4 do params[i] = problem.parameter(i, {i}, {device = devices[i]}) end
         local lr = torch.tensor(0.1, {device = devices[2]})
         local optimizer = torch.optim.Adam(params, {lr = lr})
         for t = 1, 3 do
            for i, p in ipairs(params) do p.grad = problem.gradient(i, {i}, t, {device = p.device}) end
            torch.nn.utils.clip_grad_norm_(params, 0.5)
            optimizer:step()
         end
         return problem.values(params)
      end
      assert.close(after {"cpu", "cpu", "cpu", "cpu"}, after {"cpu", "sim:0", "sim:1", "cpu"}, 0)
   end)

   it("loads a state and moves clocks to their device", function()
      local _, first, params = problem.run("NAdam", "{lr = 0.1}", here)
      local copies = {}
      for i, p in ipairs(params) do copies[i] = p:detach():to("sim"):requires_grad_() end
      local second = problem.make("NAdam", copies, {lr = 1.0, capturable = true})
      local dict = first:state_dict()
      for _, group in ipairs(dict.param_groups) do group.capturable = true end
      second:load_state_dict(dict)
      for _, state in pairs(second.state) do
         for _, value in pairs(state) do assert.equal(torch.device "sim:0", value.device) end
      end
      problem.step(first, params, 21, 24)
      problem.step(second, copies, 21, 24)
      assert.close(problem.values(params), problem.values(copies), 0)
   end)
end)
