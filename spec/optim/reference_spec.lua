-- Tests LBFGS and schedules by comparing them with PyTorch. spec/fixtures/optim.py has written the expected values to
-- optim.lua. steps_spec.lua tests the other optimizers.
local torch = require "tlua"
local optim = torch.optim
local rows = dofile "spec/fixtures/optim.lua"

local float64 = {dtype = "float64"}

-- Returns the optimization problem of optim.py.
local function problem()
   return {
      torch.tensor({1.0, -2.0, 3.0}, float64):requires_grad_(),
      torch.tensor({{0.5, -0.25}}, float64):requires_grad_(),
   }
end

local function loss_of(params)
   local a, b = params[1], params[2]
   local curve = (a * a * torch.tensor({1.0, 0.5, 2.0}, float64)):sum() + a:cos():sum()
   return curve + (b ^ 4):sum() + (b * b):sum() + (a[{{1, 2}}] * b[1]):sum()
end

local function after_8_steps(optimizer, params)
   local function closure()
      optimizer:zero_grad()
      local loss = loss_of(params)
      loss:backward()
      return loss
   end
   for _ = 1, 8 do optimizer:step(closure) end
   local values = params[1]:tolist()
   values[4], values[5] = params[2][{1, 1}]:item(), params[2][{1, 2}]:item()
   return values
end

describe("LBFGS matches PyTorch:", function()
   for _, row in ipairs(rows.lbfgs) do
      it(row[1], function()
         local params = problem()
         local optimizer = optim.LBFGS(params, load("return " .. row[1])())
         assert.close({table.unpack(row, 2)}, after_8_steps(optimizer, params), 1e-10)
      end)
   end
end)

describe("a schedule matches PyTorch:", function()
   for _, row in ipairs(rows.schedules) do
      it(row[1] .. " " .. row[2], function()
         local optimizer = optim.SGD({{params = {torch.zeros(1)}},
            {params = {torch.zeros(1)}, lr = 0.2}}, {lr = 0.1, momentum = 0.9})
         local schedule = load(("local make, optimizer = ...; return make(optimizer, %s)"):format(
            row[2]))(optim.lr_scheduler[row[1]], optimizer)
         local rates = {}
         for _ = 1, 12 do
            for _, rate in ipairs(schedule:get_last_lr()) do rates[#rates + 1] = rate end
            schedule:step()
         end
         assert.close({table.unpack(row, 3)}, rates, 1e-12)
      end)
   end
end)

describe("a program of schedules matches PyTorch:", function()
   for _, row in ipairs(rows.programs) do
      it(row[1] .. " of " .. row[2], function()
         local groups = {{params = {torch.zeros(1)}}, {params = {torch.zeros(1)}, lr = 0.2}}
         local optimizer = row[2] == "SGD" and optim.SGD(groups, {lr = 0.1, momentum = 0.9})
            or optim.Adam(groups, {lr = 0.1})
         local names = setmetatable({o = optimizer, S = optim.lr_scheduler, torch = torch}, {__index = _G})
         assert(load(row[1], "=program", "t", names))()
         local found = {}
         for i = 0, 11 do
            for _, group in ipairs(optimizer.param_groups) do
               found[#found + 1] = group.lr
               found[#found + 1] = group.betas and group.betas[1] or group.momentum
            end
            if names.step then names.step(i) else names.s:step() end
         end
         assert.close({table.unpack(row, 3)}, found, 1e-12)
      end)
   end
end)
