-- Tests 20 steps of every optimizer, with every option, by comparing them with PyTorch. spec/fixtures/optim_steps.py
-- has written the expected values to optim_steps.lua.

local torch = require "tlua"
local problem = require "spec.support.optim"
local sorted = require "spec.support.sorted"

for dtype, tolerance in sorted {float64 = 1e-12, float32 = 1e-6} do
   describe("20 steps in " .. dtype .. " match PyTorch:", function()
      for _, row in ipairs(problem.rows) do
         it(row[1] .. " " .. row[2], function()
            local found = problem.run(row[1], row[2], {dtype = dtype})
            assert.close({table.unpack(row, 3)}, found, tolerance)
         end)
      end
   end)
end

-- The steps do not use the mean of parameters, so the parameters would not show an error in the mean.
describe("the mean of parameters after 20 steps matches PyTorch:", function()
   for _, row in ipairs(problem.means) do
      it("ASGD " .. row[1], function()
         local _, optimizer = problem.run("ASGD", row[1], {dtype = "float64"})
         local means = {}
         for i, state in ipairs(optimizer:state_dict().state) do means[i] = state.ax end
         assert.close({table.unpack(row, 2)}, problem.values(means), 1e-12)
      end)
   end
end)

describe("20 steps match PyTorch:", function()
   local sizes = {{4, 3}, {2, 5}}
   for _, row in ipairs(problem.muon) do
      it("Muon " .. row[1], function()
         local params = {problem.parameter(1, sizes[1]), problem.parameter(2, sizes[2])}
         local optimizer = torch.optim.Muon(params, problem.options(row[1]))
         for t = 1, problem.steps do
            for k, p in ipairs(params) do p.grad = problem.gradient(k, sizes[k], t) end
            optimizer:step()
         end
         -- Directions are computed in bfloat16. Each of the 20 steps is about 0.02 long, and their errors add up.
         assert.close({table.unpack(row, 2)}, problem.values(params), 5e-3)
      end)
   end
end)
