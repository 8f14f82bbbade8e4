-- optim_search.lua - Torch7's optimizers with line searches (optim.lbfgs, optim.cg and optim.fista)
-- and their helpers optim.lswolfe and optim.polyinterp.

local tlua = require "tlua"
local torch = require "tlua.torch7.torch"

local M = {}

-- Interpolation -----------------------------------------------------------------------------------

-- Returns the position of the minimum of the cubic through two points. A point is {position, value,
-- derivative}. If the cubic has no minimum, the result is the midpoint. The result is between `low`
-- and `high`.
local function cubic(a, b, low, high)
   if a[1] > b[1] then a, b = b, a end
   local d1 = a[3] + b[3] - 3 * (a[2] - b[2]) / (a[1] - b[1])
   local square = d1 ^ 2 - a[3] * b[3]
   if square < 0 then return (low + high) / 2 end
   local d2 = math.sqrt(square)
   local t = b[1] - (b[1] - a[1]) * ((b[3] + d2 - d1) / (b[3] - a[3] + 2 * d2))
   return math.min(math.max(t, low), high)
end

-- Fits a polynomial to points with known values or derivatives. Returns the coefficients.
local function fit(points)
   local rows, right, n = {}, {}, 0
   for _, p in ipairs(points) do n = n + (p[2] and 1 or 0) + (p[3] and 1 or 0) end
   for _, p in ipairs(points) do
      for order, value in ipairs {p[2] or false, p[3] or false} do
         if value then
            local row = {}
            for k = 0, n - 1 do
               row[k + 1] = order == 1 and p[1] ^ k or (k > 0 and k * p[1] ^ (k - 1) or 0)
            end
            rows[#rows + 1], right[#right + 1] = row, {value}
         end
      end
   end
   return torch.gesv(torch.Tensor(right), torch.Tensor(rows)):view(-1):totable()
end

--- Returns the position of the minimum of a polynomial through points. Each row has a position, a
--- value and a derivative. NaN stands for an unknown value or derivative.
---@param points Tensor
---@param low? number
---@param high? number
---@return number
function M.polyinterp(points, low, high)
   if not tlua.is_tensor(points) or points:dim() ~= 2 or points:size(2) ~= 3 then
      tlua.raise "optim.polyinterp: points: expected a tensor (n, 3)"
   end
   for name, value in pairs {xmin_bound = low, xmax_bound = high} do
      if type(value) ~= "number" then
         tlua.raise(("optim.polyinterp: %s: expected a number, got %s"):format(name, type(value)))
      end
   end
   local list = {}
   for i = 1, points:size(1) do
      list[i] = {points[i][1]}
      for k = 2, 3 do
         local value = points[i][k]
         list[i][k] = value == value and value or nil
      end
      low = low or list[i][1]
      high = high or list[i][1]
   end
   for _, p in ipairs(list) do low, high = math.min(low, p[1]), math.max(high, p[1]) end
   if #list == 2 and list[1][2] and list[2][2] and list[1][3] and list[2][3] then
      return cubic(list[1], list[2], low, high)
   end
   local c = fit(list)
   local function value(t)
      local sum = 0
      for k = #c, 1, -1 do sum = sum * t + c[k] end
      return sum
   end
   local best, steps = low, 2000
   for i = 0, steps do
      local t = low + (high - low) * i / steps
      if value(t) < value(best) then best = t end
   end
   return best
end

-- Line search -------------------------------------------------------------------------------------

--- Finds a step along d that fulfils the strong Wolfe conditions, and moves x by this step. `f` and
--- `g` are the loss and the gradient at x. Returns the loss, the gradient, x, the step size and the
--- number of evaluations.
---@param opfunc fun(x: Tensor): number, Tensor
---@param x Tensor
---@param t number  the step size to try first
---@param d Tensor
---@param f number
---@param g Tensor
---@param gtd number  the directional derivative along d
---@param options? {c1: number?, c2: number?, maxIter: integer?, tolX: number?}
function M.lswolfe(opfunc, x, t, d, f, g, gtd, options)
   options = options or {}
   local c1, c2, most = options.c1 or 1e-4, options.c2 or 0.9, options.maxIter or 20
   local count, start = 0, x:clone()
   local function at(step)
      count = count + 1
      local value, gradient = opfunc(x:copy(start):add(step, d))
      gradient = gradient:clone()
      return {step, value, gradient:dot(d), gradient = gradient}
   end
   local function stop(best)
      return best[2], best.gradient, x:copy(start):add(best[1], d), best[1], count
   end
   local low, high = {0, f, gtd, gradient = g}, nil
   local now = at(t)
   while count < most do
      if now[2] ~= now[2] or now[2] > f + c1 * now[1] * gtd or now[2] >= low[2] and count > 1 then
         high = now
      elseif math.abs(now[3]) <= -c2 * gtd then
         return stop(now)
      elseif now[3] >= 0 then
         high, low = low, now
      elseif high and (high[1] - low[1]) * now[3] >= 0 then
         high, low = low, now
      else
         low = now
      end
      local step
      if not high then
         step = now[1] * 2
      else
         local a, b = math.min(low[1], high[1]), math.max(low[1], high[1])
         if b - a < (options.tolX or 1e-9) then break end
         step = high[2] == high[2] and cubic(low, high, a, b) or (a + b) / 2
         local margin = 0.1 * (b - a)
         step = math.min(math.max(step, a + margin), b - margin)
      end
      now = at(step)
   end
   return stop(now[2] <= low[2] and now or low)
end

-- Methods -----------------------------------------------------------------------------------------

-- Returns the direction of L-BFGS by the two-loop recursion. `steps` and `changes` are the last
-- changes of x and of the gradient.
local function direction(g, steps, changes)
   local q, alphas = g * -1, {}
   for i = #steps, 1, -1 do
      alphas[i] = steps[i]:dot(q) / changes[i]:dot(steps[i])
      q:add(-alphas[i], changes[i])
   end
   local n = #steps
   if n > 0 then q:mul(changes[n]:dot(steps[n]) / changes[n]:dot(changes[n])) end
   for i = 1, n do
      q:add(alphas[i] - changes[i]:dot(q) / changes[i]:dot(steps[i]), steps[i])
   end
   return q
end

--- Minimises by L-BFGS. Returns x, the losses and the number of evaluations.
function M.lbfgs(opfunc, x, config, state)
   config = config or {}
   state = state or config
   local most = config.maxIter or 20
   local evaluations = config.maxEval or most * 1.25
   local f, g = opfunc(x)
   g = g:clone()
   local losses, count = {f}, 1
   state.funcEval, state.nIter = (state.funcEval or 0) + 1, state.nIter or 0
   local function note(message) if config.verbose then print("<optim.lbfgs> " .. message) end end
   if g:clone():abs():sum() <= (config.tolFun or 1e-5) then
      note "optimality condition below tolFun"
      return x, losses, count
   end
   state.steps, state.changes = state.steps or {}, state.changes or {}
   for _ = 1, most do
      state.nIter = state.nIter + 1
      if state.old_g then
         local change = g - state.old_g
         if change:dot(state.step) > 1e-10 then
            table.insert(state.steps, state.step)
            table.insert(state.changes, change)
            if #state.steps > (config.nCorrection or 100) then
               table.remove(state.steps, 1)
               table.remove(state.changes, 1)
            end
         end
      end
      local d = direction(g, state.steps, state.changes)
      state.old_g = g:clone()
      local gtd = g:dot(d)
      if gtd > -(config.tolX or 1e-9) then break end
      local t = config.learningRate or 1
      if state.nIter == 1 then t = math.min(1, 1 / g:clone():abs():sum()) * t end
      local before, old_f = x:clone(), f
      if config.lineSearch then
         local position, used
         f, g, position, t, used = config.lineSearch(opfunc, x, t, d, f, g, gtd,
            config.lineSearchOptions)
         if position ~= x then x:copy(position) end
         count, state.funcEval = count + used, state.funcEval + used
      else
         x:add(t, d)
         f, g = opfunc(x)
         g = g:clone()
         count, state.funcEval = count + 1, state.funcEval + 1
      end
      losses[#losses + 1] = f
      state.step = x - before
      if count >= evaluations or g:clone():abs():sum() <= (config.tolFun or 1e-5)
         or (d * t):abs():sum() <= (config.tolX or 1e-9)
            or math.abs(f - old_f) < (config.tolX or 1e-9) then
         break
      end
   end
   return x, losses, count
end

--- Minimises by conjugate gradients (Polak-Ribiere). Returns x, the losses and the number of
--- evaluations.
function M.cg(opfunc, x, config, state)
   config = config or {}
   state = state or config
   local most, evaluations = config.maxIter or 20, config.maxEval or 25
   local f, g = opfunc(x)
   g = g:clone()
   local losses, count, d = {f}, 1, g * -1
   local t = 1 / (1 + g:dot(g))
   for _ = 1, most do
      local gtd = g:dot(d)
      if gtd >= 0 then
         d = g * -1
         gtd = g:dot(d)
      end
      if gtd > -(config.tolX or 1e-18) or count >= evaluations then break end
      local old = g
      local position, used, step
      f, g, position, step, used = M.lswolfe(opfunc, x, t, d, f, g, gtd, {c2 = config.c2 or 0.1,
         maxIter = math.ceil(math.min(20, evaluations - count + 1))})
      x:copy(position)
      count, losses[#losses + 1] = count + used, f
      local beta = math.max(0, (g:dot(g) - g:dot(old)) / old:dot(old))
      local last = gtd
      d:mul(beta):add(-1, g)
      t = math.min(10, step * math.max(last / math.min(g:dot(d), -1e-300), 1e-10))
   end
   state.evalCounter = (state.evalCounter or 0) + count
   return x, losses, count
end

--- Minimises f(x) + g(x) by FISTA, where f must be smooth. f(x, "dx") returns the loss and its
--- gradient, and g(x) returns only a loss. pl(x, L) makes a proximal step for g, in place. Returns
--- x and a list of the steps.
function M.FistaLS(f, g, pl, xinit, params)
   if type(g) ~= "function" or type(pl) ~= "function" or not tlua.is_tensor(xinit) then
      tlua.raise "optim.FistaLS: expected three functions and a tensor"
   end
   params = params or {}
   local L, step = params.L or 0.1, params.Lstep or 1.5
   local x = xinit
   local y, t, history = x:clone(), 1, {}
   local last = math.huge
   for k = 1, params.maxiter or 50 do
      local fy, gradient = f(y, "dx")
      gradient = gradient:clone()
      local next_x, fx
      for _ = 1, params.maxline or 20 do
         next_x = y - gradient / L
         pl(next_x, L)
         fx = f(next_x)
         local change = next_x - y
         local bound = fy + change:dot(gradient) + L / 2 * change:dot(change)
         if fx <= bound or not (params.doFistaLS or params.doFistaUpdate == nil) then break end
         L = L * step
      end
      local gx = g(next_x)
      history[k] = {k = k, F = fx + gx, f = fx, g = gx, L = L}
      local new_t = params.doFistaUpdate == false and 1 or (1 + math.sqrt(1 + 4 * t * t)) / 2
      y = next_x + (next_x - x) * ((t - 1) / new_t)
      x:copy(next_x)
      t = new_t
      if math.abs(last - history[k].F) <= (params.errthres or 1e-4) then break end
      last = history[k].F
   end
   return x, history
end

return M
