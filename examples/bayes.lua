-- Variational inference: finds the posterior distributions of two models by gradients, and prints
-- them beside the exact results, which have a closed form for these models.
--
--    tlua examples/bayes.lua
--    tlua examples/bayes.lua --steps 6000 --draws 64
--
-- The first posterior, of a line through noisy points, is a multivariate normal distribution; the
-- second, of the rate of events, is a gamma distribution. Each is found by maximizing a lower bound
-- of the data's log-probability: the expected log-likelihood minus the divergence from the prior.
local torch = require "tlua"
local optim, D = torch.optim, torch.distributions

local parser = torch.utils.options("bayes.lua", "Finds posterior distributions by gradients.")
parser:option("--steps", "steps of Adam for each model", 3000)
parser:option("--draws", "draws of the parameters in a step", 16)
parser:option("--lr", "learning rate of Adam at first", 0.05)
parser:option("--points", "points of the line", 40)
parser:option("--seed", "what the random numbers start from", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- Maximizes the lower bound over `parameters`, which are tensors of any numbers. guess() returns
-- the posterior distribution that the current parameters describe.
local function infer(label, parameters, guess, prior, log_likelihood)
   local optimizer = optim.Adam(parameters, {lr = opt.lr})
   local schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, opt.steps)
   local bar = torch.utils.Progress {total = opt.steps, label = label, unit = "steps"}
   for _ = 1, opt.steps do
      optimizer:zero_grad()
      local posterior = guess()
      local drawn = posterior:rsample {opt.draws}
      local bound = log_likelihood(drawn):mean() - D.kl_divergence(posterior, prior)
      bound:neg():backward()
      optimizer:step()
      schedule:step()
      bar:step()
   end
   bar:finish()
   local _ <close> = torch.no_grad()
   return guess()
end

local function numbers(x)
   local list = {}
   for i, value in ipairs(x:flatten():tolist()) do list[i] = ("%8.3f"):format(value) end
   return table.concat(list, " ")
end

local function compare(name, found, exact)
   print(("%-22s %s   exact %s"):format(name, numbers(found), numbers(exact)))
end

-- A line ----------------------------------------------------------------------------------------

local noise <const> = 0.5
local x = torch.linspace(-1, 2, opt.points)
local design = torch.stack({torch.ones_like(x), x}, 2) -- (N, 2): 1 and x
local y = design:matmul(torch.tensor {0.7, -1.3}) + noise * torch.randn(opt.points)

local prior = D.MultivariateNormal(torch.zeros(2), 4 * torch.eye(2))
local to_triangle = D.transform_to(D.constraints.lower_cholesky)
local loc, free = torch.zeros(2):requires_grad_(), torch.zeros(2, 2):requires_grad_()
local line = infer("line", {loc, free},
   function() return D.MultivariateNormal {loc = loc, scale_tril = to_triangle(free)} end, prior,
   function(weights) -- (draws, 2)
      return D.Normal(weights:matmul(design.T), noise):log_prob(y):sum(-1)
   end)

local precision = prior.precision_matrix + design.T:matmul(design) / noise ^ 2
local exact = D.MultivariateNormal {
   loc = torch.linalg.solve(precision, design.T:matmul(y) / noise ^ 2),
   precision_matrix = precision,
}
print "\nintercept and slope of a line: mean and covariance"
compare("mean", line.loc, exact.loc)
compare("covariance", line.covariance_matrix, exact.covariance_matrix)
print(("divergence             %8.4f"):format(D.kl_divergence(line, exact):item()))

-- A rate ----------------------------------------------------------------------------------------

local counts = D.Poisson(3.5):sample {20}
local rates = D.Gamma(2, 0.5)
local to_positive = D.transform_to(D.constraints.positive)
local shape_and_mean = torch.zeros(2):requires_grad_()
local rate = infer("rate", {shape_and_mean},
   function()
      local shape, mean = table.unpack(to_positive(shape_and_mean):unbind())
      return D.Gamma(shape, shape / mean)
   end, rates,
   function(drawn) return D.Poisson(drawn:unsqueeze(-1)):log_prob(counts):sum(-1) end)

local posterior = D.Gamma(rates.concentration + counts:sum(), rates.rate + counts:numel())
print "\nrate of events: mean and standard deviation"
compare("mean", rate.mean, posterior.mean)
compare("standard deviation", rate.stddev, posterior.stddev)
print(("divergence             %8.4f"):format(D.kl_divergence(rate, posterior):item()))
