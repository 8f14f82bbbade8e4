-- optim_population.lua - Torch7's optimizers without gradients: optim.de (differential evolution)
-- and optim.cmaes (covariance matrix adaptation).

local torch = require "tlua.torch7.torch"

local M = {}

--- Minimises by differential evolution. Returns the best x and the best loss of each generation.
---@param opfunc fun(x: Tensor): number
---@param x Tensor
---@param config? {popsize: integer?, scaleFactor: number?, crossOver: number?, maxFEval: integer?,
--- targetCost: number?}
function M.de(opfunc, x, config)
   config = config or {}
   local n = x:nElement()
   local size, scale, cross = config.popsize or 5 * n, config.scaleFactor or 0.7, config.crossOver
      or 0.9
   local most, target = config.maxFEval or 500, config.targetCost or -math.huge
   local function loss(v) return (opfunc(v:viewAs(x))) end
   local people, losses, count, best = {}, {}, 0, 1
   for i = 1, size do
      people[i] = i == 1 and x:clone():view(-1) or torch.randn(n):typeAs(x)
      losses[i], count = loss(people[i]), count + 1
      if losses[i] < losses[best] then best = i end
   end
   local history = {losses[best]}
   while count < most and losses[best] > target do
      for i = 1, size do
         local a, b = people[torch.random(1, size)], people[torch.random(1, size)]
         local trial = people[best] + (a - b) * scale
         local keep = torch.rand(n):gt(cross)
         keep[torch.random(1, n)] = 0
         trial:maskedCopy(keep, people[i]:maskedSelect(keep))
         local value = loss(trial)
         count = count + 1
         if value <= losses[i] then people[i], losses[i] = trial, value end
      end
      for i = 1, size do
         if losses[i] < losses[best] then best = i end
      end
      history[#history + 1] = losses[best]
   end
   x:copy(people[best])
   return x, history
end

--- Minimises by CMA-ES. Returns the best x, a list with the best loss of each generation, and the
--- number of evaluations.
---@param opfunc fun(x: Tensor): number
---@param x Tensor
---@param config? {sigma: number?, maxEval: integer?, ftarget: number?, popsize: integer?}
function M.cmaes(opfunc, x, config)
   config = config or {}
   local n = x:nElement()
   local lambda = config.popsize or 4 + math.floor(3 * math.log(n))
   local mu = lambda // 2
   local weights, sum, squares = {}, 0, 0
   for i = 1, mu do
      weights[i] = math.log(lambda / 2 + 0.5) - math.log(i)
      sum = sum + weights[i]
   end
   for i = 1, mu do
      weights[i] = weights[i] / sum
      squares = squares + weights[i] ^ 2
   end
   local mueff = 1 / squares
   local cc, cs = (4 + mueff / n) / (n + 4 + 2 * mueff / n), (mueff + 2) / (n + mueff + 5)
   local c1 = 2 / ((n + 1.3) ^ 2 + mueff)
   local cmu = math.min(1 - c1, 2 * (mueff - 2 + 1 / mueff) / ((n + 2) ^ 2 + mueff))
   local damps = 1 + 2 * math.max(0, math.sqrt((mueff - 1) / (n + 1)) - 1) + cs
   local chi = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
   local mean, sigma = x:clone():view(-1):double(), config.sigma or 1
   local C, pc, ps = torch.eye(n):double(), torch.zeros(n):double(), torch.zeros(n):double()
   local count, best, best_loss, history = 0, mean:clone(), math.huge, {}
   local most, target = config.maxEval or 1e3 * n * n, config.ftarget or -math.huge
   while count < most and best_loss > target do
      local values, vectors = torch.symeig(C, "V")
      values:clamp(1e-20, 1e20):sqrt()
      local B = vectors:double()
      local people = {}
      for i = 1, lambda do
         local y = torch.mv(B, torch.cmul(values, torch.randn(n):double()))
         local position = mean + y * sigma
         people[i] = {y = y, x = position, loss = (opfunc(position:typeAs(x):viewAs(x)))}
         count = count + 1
      end
      table.sort(people, function(a, b) return a.loss < b.loss end)
      if people[1].loss < best_loss then best, best_loss = people[1].x, people[1].loss end
      history[#history + 1] = best_loss
      local step = torch.zeros(n):double()
      for i = 1, mu do step:add(weights[i], people[i].y) end
      mean:add(sigma, step)
      local white = torch.mv(B, torch.cdiv(torch.mv(B:t(), step), values))
      ps:mul(1 - cs):add(math.sqrt(cs * (2 - cs) * mueff), white)
      local generations = count / lambda
      local moving = ps:norm() / math.sqrt(
         1 - (1 - cs) ^ (2 * generations)) / chi < 1.4 + 2 / (n + 1)
      pc:mul(1 - cc)
      if moving then pc:add(math.sqrt(cc * (2 - cc) * mueff), step) end
      C:mul(1 - c1 - cmu):add(c1, torch.ger(pc, pc))
      for i = 1, mu do C:add(cmu * weights[i], torch.ger(people[i].y, people[i].y)) end
      sigma = sigma * math.exp(cs / damps * (ps:norm() / chi - 1))
   end
   x:copy(best)
   return x, history, count
end

return M
