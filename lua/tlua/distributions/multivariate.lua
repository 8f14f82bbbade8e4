-- multivariate.lua - normal distributions of vectors, and the Wishart distribution of covariance
-- matrices.

local torch = require "tlua"
local args = require "tlua.args"
local base = require "tlua.distributions.Distribution"
local constraints = require "tlua.distributions.constraints"
local Chi2 = require "tlua.distributions.gamma".Chi2
local shapes = require "tlua.distributions.shapes"

local linalg = torch.linalg
local M = {}

local function define(name, signature, spec)
   M[name] = base.define(name, signature, spec)
end

local log_2pi <const> = math.log(2 * math.pi)
local lower <const> = {upper = false}

--- Returns half of log det(L L^T) for a triangular matrix L: the sum of the logarithms of its
--- diagonal.
---@param triangle Tensor
---@return Tensor
function M.half_log_det(triangle)
   return triangle:diagonal(0, -2, -1):log():sum(-1)
end

--- Returns the squared Mahalanobis distance x^T (L L^T)^-1 x, for L = `triangle`: the sum of the
--- squares of y, where L y = x.
---@param triangle Tensor
---@param x Tensor
---@return Tensor
function M.mahalanobis(triangle, x)
   if triangle:dim() > 2 or x:dim() == 1 then
      return linalg.solve_triangular(triangle, x:unsqueeze(-1), lower):square():sum({-2, -1})
   end
   local batch, event = shapes.split(x.shape, 1)
   local rows = x:reshape({torch.Size(batch):numel(), event[1]})
   return linalg.solve_triangular(triangle, rows.T, lower):square():sum(1):reshape(batch)
end

-- Returns the Cholesky factor L of the covariance matrix L L^T, given its inverse.
local function from_precision(precision)
   local flipped = linalg.cholesky(precision:flip({-2, -1}))
   local inverse = flipped:flip({-2, -1}).mT
   local eye = torch.eye(precision:size(-1), {dtype = precision.dtype, device = precision.device})
   return linalg.solve_triangular(inverse, eye:expand(precision.shape), lower)
end

-- Adds three parameters, exactly one of which must be given to define the covariance matrix. The
-- given matrix is not broadcast to the batch's shape, so that a matrix that the whole batch shares
-- is decomposed only once.
local function with_matrix(spec)
   spec.either = {"covariance_matrix", "precision_matrix", "scale_tril"}
   spec.constraints.covariance_matrix = constraints.positive_definite
   spec.constraints.precision_matrix = constraints.positive_definite
   spec.constraints.scale_tril = constraints.lower_cholesky
   function spec.prepare(self, made)
      for _, name in ipairs(spec.either) do
         local x = made[name]
         if x then
            local n = made.loc and made.loc:dim() > 0 and made.loc:size(-1)
               or x:dim() > 0 and x:size(-1) or 1
            if x:dim() < 2 or x:size(-1) ~= n or x:size(-2) ~= n then
               args.refuse(torch.type(self), name, ("%d x %d matrices"):format(n, n), x)
            end
            self._matrix, self._kind = x, name
         end
      end
   end
   function spec.cached:_triangle()
      local x = self._matrix
      return self._kind == "scale_tril" and x or self._kind == "covariance_matrix"
         and linalg.cholesky(x) or from_precision(x)
   end
   local function whole(self, x)
      return x:expand(shapes.join(self.batch_shape, {x:size(-2), x:size(-1)}))
   end
   function spec.cached:scale_tril() return whole(self, self._triangle) end
   function spec.cached:covariance_matrix()
      return whole(self, shapes.matmul(self._triangle, self._triangle.mT))
   end
   function spec.cached:precision_matrix()
      return whole(self, torch.cholesky_inverse(self._triangle))
   end
   return spec
end

--- The normal distribution of vectors with the mean loc. One of covariance_matrix, precision_matrix
--- (its inverse) and scale_tril (its Cholesky factor) is given.
---
---     local D = torch.distributions
---     local d = D.MultivariateNormal(torch.zeros(2), 4 * torch.eye(2))
---     print(d.variance, d:log_prob(torch.zeros(2)))
---     --> tensor([4., 4.])	tensor(-3.2242)
---@class distributions.MultivariateNormal : distributions.Distribution
---@field loc Tensor  the mean
---@field covariance_matrix Tensor  the covariance
---@field precision_matrix Tensor  the covariance's inverse
---@field scale_tril Tensor  the covariance's Cholesky factor
define("MultivariateNormal",
   "loc: any, covariance_matrix: any?, precision_matrix: any?, scale_tril: any?", with_matrix {
      constraints = {loc = constraints.real_vector}, support = constraints.real_vector,
      event = function(self) return {self.loc:size(-1)} end,
      mean = "loc", mode = "loc", cached = {},
      variance = function(self)
         return self._triangle:square():sum(-1):expand(self.loc.shape)
      end,
      rsample = function(self, shape)
         return self.loc + shapes.times(self._triangle, torch.randn(shape, self._like))
      end,
      log_prob = function(self, x)
         local distance = M.mahalanobis(self._triangle, x - self.loc)
         return -0.5 * (self.event_shape[1] * log_2pi + distance) - M.half_log_det(self._triangle)
      end,
      entropy = function(self)
         local half = M.half_log_det(self._triangle) + 0.5 * self.event_shape[1] * (1 + log_2pi)
         return half:expand(self.batch_shape)
      end,
   })

-- Returns (D^-1 W)^T; see LowRankMultivariateNormal.
local function scaled(self) return self._factor.mT / self._diagonal:unsqueeze(-2) end
local function log_det(self)
   return 2 * M.half_log_det(self._capacitance) + self._diagonal:log():sum(-1)
end
local function distance(self, x)
   return (x:square() / self._diagonal):sum(-1)
      - M.mahalanobis(self._capacitance, shapes.times(scaled(self), x))
end
M.log_det, M.distance, M.scaled = log_det, distance, scaled

--- The normal distribution of vectors with the mean loc and the covariance W W^T + D. cov_factor,
--- W, is a matrix with few columns; cov_diag is the diagonal of the diagonal matrix D.
---
---     local d = torch.distributions.LowRankMultivariateNormal(torch.zeros(2),
---        torch.tensor {{1.0}, {0.0}}, torch.ones(2))
---     print(d.variance, d:log_prob(torch.zeros(2)))
---     --> tensor([2., 1.])	tensor(-2.1845)
---@class distributions.LowRankMultivariateNormal : distributions.Distribution
---@field loc Tensor  the mean
---@field cov_factor Tensor  the covariance's part of few columns
---@field cov_diag Tensor  the covariance's diagonal part
---@field covariance_matrix Tensor  the covariance
---@field precision_matrix Tensor  its inverse
---@field scale_tril Tensor  its Cholesky factor
define("LowRankMultivariateNormal", "loc: any, cov_factor: any, cov_diag: any", {
   constraints = {
      loc = constraints.real_vector, cov_factor = constraints.independent(constraints.real, 2),
      cov_diag = constraints.independent(constraints.positive, 1),
   },
   support = constraints.real_vector, mean = "loc", mode = "loc",
   event = function(self) return {self.loc:size(-1)} end,
   prepare = function(self, made)
      local n = made.loc:dim() > 0 and made.loc:size(-1)
      local who = torch.type(self)
      if n and (made.cov_factor:dim() < 2 or made.cov_factor:size(-2) ~= n) then
         args.refuse(who, "cov_factor", ("matrices of %d rows"):format(n), made.cov_factor)
      end
      if n and (made.cov_diag:dim() < 1 or made.cov_diag:size(-1) ~= n) then
         args.refuse(who, "cov_diag", ("vectors of %d numbers"):format(n), made.cov_diag)
      end
      self._factor, self._diagonal = made.cov_factor, made.cov_diag
   end,
   cached = {
      -- The Cholesky factor of I + W^T D^-1 W.
      _capacitance = function(self)
         local inner = shapes.matmul(scaled(self), self._factor)
         return linalg.cholesky(inner + torch.eye(inner:size(-1), self._like))
      end,
      covariance_matrix = function(self)
         local of_factor = shapes.matmul(self.cov_factor, self.cov_factor.mT)
         return of_factor + self.cov_diag:diag_embed()
      end,
      scale_tril = function(self) return linalg.cholesky(self.covariance_matrix) end,
      precision_matrix = function(self)
         local a = linalg.solve_triangular(self._capacitance, scaled(self), lower)
         local precision = self._diagonal:reciprocal():diag_embed() - shapes.matmul(a.mT, a)
         local n = self.event_shape[1]
         return precision:expand(shapes.join(self.batch_shape, {n, n}))
      end,
   },
   variance = function(self) return self.cov_factor:square():sum(-1) + self.cov_diag end,
   rsample = function(self, shape)
      local batch = shapes.split(shape, 1)
      local of_factor = torch.randn(shapes.join(batch, {self.cov_factor:size(-1)}), self._like)
      return self.loc + shapes.times(self._factor, of_factor)
         + self._diagonal:sqrt() * torch.randn(shape, self._like)
   end,
   log_prob = function(self, x)
      return -0.5 * (self.event_shape[1] * log_2pi + log_det(self) + distance(self, x - self.loc))
   end,
   entropy = function(self)
      local half = 0.5 * (self.event_shape[1] * (1 + log_2pi) + log_det(self))
      return half:expand(self.batch_shape)
   end,
})

local function as_matrices(x) return x:unsqueeze(-1):unsqueeze(-1) end

--- The Wishart distribution: the distribution of the sum of x x^T over df normal vectors x with
--- mean 0. The vectors' covariance_matrix is given or, in its place, its inverse precision_matrix
--- or its Cholesky factor scale_tril. df need not be a whole number.
---
---     local d = torch.distributions.Wishart(3, torch.eye(2))
---     print(d.mean, d:log_prob(torch.eye(2)))
---     --> tensor([[3., 0.],
---     -->         [0., 3.]])	tensor(-3.5310)
---@class distributions.Wishart : distributions.ExponentialFamily
---@field df Tensor  the degrees of freedom, more than the matrices' size - 1
---@field covariance_matrix Tensor  the vectors' covariance
---@field precision_matrix Tensor  the covariance's inverse
---@field scale_tril Tensor  the covariance's Cholesky factor
define("Wishart", "df: any, covariance_matrix: any?, precision_matrix: any?, scale_tril: any?",
   with_matrix {
      parent = base.ExponentialFamily, constraints = {df = constraints.real},
      support = constraints.positive_definite,
      arg_constraints = function(self)
         local list = {df = constraints.greater_than(self.event_shape[1] - 1)}
         for name, constraint in pairs(self._constraints) do
            list[name] = list[name] or constraint
         end
         return list
      end,
      event = function(self) return {self._matrix:size(-2), self._matrix:size(-1)} end,
      cached = {},
      mean = function(self) return as_matrices(self.df) * self.covariance_matrix end,
      mode = function(self)
         local factor = self.df - self.event_shape[1] - 1
         factor = torch.where(factor:gt(0), factor, torch.nan)
         return as_matrices(factor) * self.covariance_matrix
      end,
      variance = function(self)
         local v = self.covariance_matrix
         local diagonal = v:diagonal(0, -2, -1)
         local outer = diagonal:unsqueeze(-1) * diagonal:unsqueeze(-2)
         return as_matrices(self.df) * (v:square() + outer)
      end,
      -- Bartlett's decomposition: the Cholesky factor of a Wishart matrix whose covariance is the
      -- identity has independent elements, normal ones below the diagonal and roots of chi-squared
      -- ones on the diagonal.
      rsample = function(self, shape, size)
         local n = self.event_shape[1]
         local df = self.df:unsqueeze(-1) - torch.arange(n, self._like)
         local function draw()
            local diagonal = Chi2(df, false):rsample(size):sqrt()
            diagonal = diagonal:clamp {min = torch.finfo(diagonal.dtype).eps}
            local noise = torch.randn(shape, self._like):tril(-1) + diagonal:diag_embed()
            local factor = shapes.matmul(self._triangle, noise)
            return shapes.matmul(factor, factor.mT)
         end
         local drawn = draw()
         for _ = 1, 10 do -- draws again if rounding has made a matrix singular
            local valid = self.support:check(drawn:detach())
            if valid:all():item() then break end
            drawn = torch.where(as_matrices(valid), drawn, draw())
         end
         return drawn
      end,
      log_prob = function(self, x)
         local nu, n, triangle = self.df, self.event_shape[1], self._triangle
         local _, log_abs = linalg.slogdet(x)
         local trace = torch.cholesky_solve(x, triangle:expand_as(x)):diagonal(0, -2, -1):sum(-1)
         return -nu * (n * math.log(2) / 2 + M.half_log_det(triangle)) - (nu / 2):mvlgamma(n)
            + (nu - n - 1) / 2 * log_abs - trace / 2
      end,
      entropy = function(self)
         local nu, n = self.df, self.event_shape[1]
         local digammas = (nu:unsqueeze(-1) / 2 - torch.arange(n, self._like) / 2):digamma():sum(-1)
         return (n + 1) * (n * math.log(2) / 2 + M.half_log_det(self._triangle))
            + (nu / 2):mvlgamma(n) - (nu - n - 1) / 2 * digammas + nu * n / 2
      end,
      natural_params = function(self)
         return {-self.precision_matrix / 2, (self.df - self.event_shape[1] - 1) / 2}
      end,
      log_normalizer = function(self, x, y)
         local n = self.event_shape[1]
         local _, log_abs = linalg.slogdet(-2 * x)
         local half = y + (n + 1) / 2
         return half * (n * math.log(2) - log_abs) + half:mvlgamma(n)
      end,
   })

return M
