-- LBFGS.lua - limited-memory BFGS (Liu and Nocedal, 1989): a quasi-Newton method for smooth
-- functions of all parameters at once. Each step calls a closure several times; the closure
-- computes the loss and its gradients.
--
-- Notation of the paper: s are differences of parameters, y are differences of gradients, and rho =
-- 1 / (y s).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.optim.checks"
local json = require "tlua.utils.json"
local Optimizer = require "tlua.optim.Optimizer"
local strong_wolfe = require "tlua.optim.strong_wolfe"

--- Limited-memory BFGS, a quasi-Newton method. Each step calls a closure several times; the closure
--- computes the loss and its gradients.
---
---     local w = torch.tensor({3.0}):requires_grad_()
---     local optimizer = torch.optim.LBFGS({w}, {line_search_fn = "strong_wolfe"})
---     optimizer:step(function() -- evaluates the model as often as it needs
---        optimizer:zero_grad()
---        local loss = ((w - 1) ^ 2):sum()
---        loss:backward()
---        return loss
---     end)
---     print(w:detach():round {decimals = 3})
---     --> tensor([1.])
---@class optim.LBFGS: optim.Optimizer
---@overload fun(params: Tensor[], options?: table): optim.LBFGS
local LBFGS, parent = class.class("optim.LBFGS", Optimizer)
LBFGS.needs_whole, LBFGS.needs_all = true, true

-- The options. line_search_fn is "none" for steps of length lr, or "strong_wolfe". A max_eval of 0
-- means 1.25 * max_iter.
local defaults = {
   lr = 1.0, max_iter = 20, max_eval = 0, tolerance_grad = 1e-7, tolerance_change = 1e-9,
   history_size = 100, line_search_fn = "none", maximize = false,
}

local function check(o)
   local option, expected = checks.not_negative(o,
      {"lr", "max_iter", "max_eval", "tolerance_grad", "tolerance_change", "history_size"})
   if option then return option, expected end
   if o.line_search_fn ~= "none" and o.line_search_fn ~= "strong_wolfe" then
      return "line_search_fn", "none or strong_wolfe"
   end
end

function LBFGS:check_parameter(i, parameter)
   parent.check_parameter(self, i, parameter)
   if parameter.layout ~= "strided" then checks.refuse_sparse(self, parameter) end
end

---@param params Tensor[]  parameters, or a list with one group
---@param options? table  any of `defaults`
function LBFGS:__init(params, options)
   parent.__init(self, params, options, defaults, check)
   if #self.param_groups ~= 1 then
      torch.raise("optim.LBFGS: params: expected one group, got " .. #self.param_groups)
   end
end

--- Converts options to PyTorch's values: "none" becomes None, and a max_eval of 0 becomes 1.25 *
--- max_iter.
function LBFGS:options_to_pytorch(group)
   if group.line_search_fn == "none" then group.line_search_fn = json.null end
   if group.max_eval == 0 then group.max_eval = group.max_iter * 5 // 4 end
end

-- Returns a view of a complex tensor as pairs of real numbers. A real tensor is returned unchanged.
local function real_of(tensor)
   return tensor:is_complex() and tensor:view_as_real() or tensor
end

local function flat_gradient(o)
   local rows = {}
   for i, parameter in ipairs(o.params) do
      local grad = parameter.grad or torch.zeros_like(parameter)
      if grad.layout ~= "strided" then grad = grad:to_dense() end
      rows[i] = real_of(grad):reshape(-1)
   end
   local flat = torch.cat(rows)
   return o.maximize and flat:neg_() or flat
end

-- Moves all parameters by t times the direction.
local function move(params, t, direction)
   local start = 1
   for _, parameter in ipairs(params) do
      parameter = real_of(parameter)
      local n = parameter:numel()
      parameter:add_(direction:narrow(1, start, n):view_as(parameter), {alpha = t})
      start = start + n
   end
end

-- Returns the direction -H g, where g is the gradient and H the approximate inverse of the Hessian.
-- The two-loop recursion computes it from the history.
local function find_direction(state, gradient)
   local s, y, rho = state.old_stps, state.old_dirs, state.ro
   local q = -gradient
   local alpha = {}
   for i = #y, 1, -1 do
      alpha[i] = s[i]:dot(q):item() * rho[i]
      q:add_(y[i], {alpha = -alpha[i]})
   end
   q:mul_(state.H_diag)
   for i = 1, #y do
      local beta = y[i]:dot(q):item() * rho[i]
      q:add_(s[i], {alpha = alpha[i] - beta})
   end
   return q
end

-- Adds the differences s and y of the last step to the history, unless the curvature along the step
-- is too small.
local function remember(state, gradient, o)
   local y = gradient - state.prev_flat_grad
   local s = state.d * state.t
   local ys = y:dot(s):item()
   if ys <= 1e-10 then return end
   if #state.old_dirs >= o.history_size then
      table.remove(state.old_dirs, 1)
      table.remove(state.old_stps, 1)
      table.remove(state.ro, 1)
   end
   table.insert(state.old_dirs, y)
   table.insert(state.old_stps, s)
   table.insert(state.ro, 1 / ys)
   state.H_diag = ys / y:dot(y):item()
end

local function largest(tensor)
   return tensor:abs():max():item()
end

-- Searches for a step length along the direction state.d, beginning with t, and moves the
-- parameters by that length. Returns the loss and the gradient at the new point, the length, and
-- the number of evaluations.
local function search(state, o, t, loss, gradient, slope, measure, most)
   local start = {}
   for i, parameter in ipairs(o.params) do start[i] = parameter:clone() end
   local function try(length)
      move(o.params, length, state.d)
      local value, found = measure()
      for i, parameter in ipairs(o.params) do parameter:copy_(start[i]) end
      return value, found
   end
   local used
   loss, gradient, t, used = strong_wolfe(try, t, state.d, loss, gradient, slope,
      o.tolerance_change, most)
   move(o.params, t, state.d)
   return loss, gradient, t, used
end

-- Computes the direction of the next move, state.d. The first direction is the negative gradient.
local function set_direction(state, gradient, o)
   state.n_iter = state.n_iter + 1
   if state.n_iter == 1 then
      state.d, state.H_diag = -gradient, 1.0
      state.old_dirs, state.old_stps, state.ro = {}, {}, {}
   else
      remember(state, gradient, o)
      state.d = find_direction(state, gradient)
   end
   state.prev_flat_grad = gradient:clone()
end

--- Makes a step, which consists of up to max_iter iterations.
---@param closure fun(): Tensor  computes the loss and the gradients anew, returns the loss
---@return Tensor loss  the loss before the step
function LBFGS:make_step(closure, options)
   if options then
      torch.raise "optim.LBFGS.step: max_norm: not supported; clip gradients in the closure"
   end
   if type(closure) ~= "function" then
      args.refuse("optim.LBFGS.step", "closure", "a function", closure)
   end
   local o = self.param_groups[1]
   local max_eval = o.max_eval > 0 and o.max_eval or o.max_iter * 5 // 4
   local lr = checks.rate(self, o)
   local state = self:state_of(1)
   state.func_evals, state.n_iter = state.func_evals or 0, state.n_iter or 0
   local _ <close> = torch.no_grad()
   local function measure()
      local result
      do
         local _ <close> = torch.enable_grad() -- luacheck: ignore 421
         result = closure()
      end
      local loss = args.to_number("optim.LBFGS.step", "the closure's result", result)
      return o.maximize and -loss or loss, flat_gradient(o), result
   end

   local loss, gradient, first_loss = measure()
   local evaluations = 1
   state.func_evals = state.func_evals + 1
   if largest(gradient) <= o.tolerance_grad then return first_loss end

   for iteration = 1, o.max_iter do
      -- (1) computes the direction
      set_direction(state, gradient, o)
      local last_loss = loss
      -- (2) chooses the step length, which is shorter in the first step, because the function's
      -- scale is not known yet
      local t = lr
      if state.n_iter == 1 then t = math.min(1, 1 / gradient:abs():sum():item()) * lr end
      local slope = gradient:dot(state.d):item()
      if slope > -o.tolerance_change then break end
      -- (3) moves the parameters
      local used = 0
      if o.line_search_fn == "strong_wolfe" then
         loss, gradient, t, used = search(state, o, t, loss, gradient, slope, measure,
            max_eval - evaluations)
      else
         move(o.params, t, state.d)
         if iteration < o.max_iter then
            loss, gradient = measure()
            used = 1
         end
      end
      state.t = t
      evaluations = evaluations + used
      state.func_evals = state.func_evals + used
      -- (4) stops if one of these conditions holds
      if evaluations >= max_eval or largest(gradient) <= o.tolerance_grad
         or largest(state.d * t) <= o.tolerance_change
         or math.abs(loss - last_loss) < o.tolerance_change then
         break
      end
   end
   return first_loss
end

return LBFGS
