-- optim.lua - defines the optimization problem of spec/fixtures/optim_steps.py, with the same parameters and gradients.
-- They are small multiples of 1/8.

local torch = require "tlua"

local M = {steps = 20}

local fixture <const> = dofile "spec/fixtures/optim_steps.lua"

--- Rows have the form {name, options, values...}. The rows of Muon and of ASGD's means have no name.
M.rows, M.muon, M.means = fixture.others, fixture.muon, fixture.means

local sizes <const> = {{2, 3}, {}, {2, 3}, {4}}

local function eighths(count, factor, offset)
   local list = {}
   for i = 1, count do list[i] = ((factor * i + offset) % 20 - 10) / 8 end
   return list
end

local function tensor(size, values, place) return torch.tensor(values, place or {}):reshape(size) end

local function count_of(size)
   local n = 1
   for _, s in ipairs(size) do n = n * s end
   return n
end

--- Returns the initial value of parameter k.
function M.parameter(k, size, place)
   return tensor(size, eighths(count_of(size), 7, 5 * (k - 1)), place):detach():requires_grad_()
end

--- Returns the gradient of parameter k at step t.
function M.gradient(k, size, t, place)
   return tensor(size, eighths(count_of(size), 2 * k + 1 + 4 * t, 11 * t + k - 1), place)
end

--- Returns the parameters. The optimizer gets a transposed view of the third one.
---@param place table  {dtype =, device =}
function M.parameters(place)
   local list = {}
   for k, size in ipairs(sizes) do list[k] = M.parameter(k, size, place) end
   list[3] = list[3]:detach():t():requires_grad_()
   return list
end

--- Sets the gradients of step t. If `change` is given, each gradient is replaced by change(gradient).
function M.set_gradients(params, t, change)
   for k, p in ipairs(params) do
      local grad = M.gradient(k, sizes[k], t, {dtype = p.dtype, device = p.device})
      if k == 3 then grad = grad:t() end
      p.grad = change and change(grad) or grad
   end
   if t % 3 == 0 then params[1].grad = nil end
   if t < 6 then params[4].grad = nil end
end

--- Returns the options of a row, together with further options.
function M.options(text, more)
   local options = load("return " .. text)()
   for key, value in pairs(more or {}) do options[key] = value end
   return options
end

--- Makes an optimizer with two groups of parameters.
function M.make(name, params, options)
   options.lr = options.lr or 0.01
   return torch.optim[name]({
      {params = {params[1], params[2]}}, {params = {params[3], params[4]}, lr = options.lr * 2},
   }, options)
end

-- Halves the learning rate of a group. A rate that is a tensor is changed in place.
local function halve(group)
   if torch.is_tensor(group.lr) then group.lr:mul_(0.5) else group.lr = group.lr / 2 end
end

--- Makes the steps from number `from` to number `to`.
function M.step(optimizer, params, from, to, change)
   for t = from, to do
      if t == 10 then
         for _, group in ipairs(optimizer.param_groups) do halve(group) end
      end
      M.set_gradients(params, t, change)
      optimizer:step()
   end
end

--- Returns the elements of all parameters as one list.
function M.values(params)
   local list = {}
   for _, p in ipairs(params) do
      for _, value in ipairs(p:detach():reshape(-1):tolist()) do list[#list + 1] = value end
   end
   return list
end

--- Returns the values of the parameters after 20 steps.
---@param name string  the optimizer's name
---@param text string  the optimizer's options
---@param place table  {dtype =, device =}
---@param how? table  {more = further options, change = a function applied to each gradient}
function M.run(name, text, place, how)
   how = how or {}
   local params = M.parameters(place)
   local optimizer = M.make(name, params, M.options(text, how.more))
   M.step(optimizer, params, 1, M.steps, how.change)
   return M.values(params), optimizer, params
end

return M
