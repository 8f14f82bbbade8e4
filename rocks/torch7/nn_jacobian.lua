-- nn_jacobian.lua - nn.Jacobian: checks the gradients of a module's `backward` against finite
-- differences of its `forward`.

local torch = require "tlua.torch7.torch"

local M = {}

--- Returns the derivatives that a module's `backward` computes, as a matrix (inputs or parameters,
--- outputs).
---@param module table
---@param input any
---@param param? any  the tensor by which the output is differentiated; the input by default
---@param dparam? any  the gradient of `param`
---@return any
function M.backward(module, input, param, dparam)
   local output = module:forward(input)
   local gradOutput = output:clone():zero()
   local flat = gradOutput:view(-1)
   local jacobian = torch.Tensor((param or input):nElement(), output:nElement())
   for i = 1, output:nElement() do
      flat:zero()
      flat[i] = 1
      module:zeroGradParameters()
      local gradInput = module:updateGradInput(input, gradOutput)
      module:accGradParameters(input, gradOutput)
      jacobian:select(2, i):copy(dparam or gradInput)
   end
   return jacobian
end

--- Approximates the derivatives that M.backward returns by central differences: each element is
--- moved by +-perturbation.
function M.forward(module, input, param, perturbation)
   perturbation = perturbation or 1e-6
   param = param or input
   local output = module:forward(input)
   local jacobian = torch.Tensor(param:nElement(), output:nElement())
   local flat = param:storage()
   local first = param:storageOffset()
   for i = 1, param:nElement() do
      local old = flat[first + i - 1]
      flat[first + i - 1] = old - perturbation
      local below = module:forward(input):clone()
      flat[first + i - 1] = old + perturbation
      local above = module:forward(input):clone()
      flat[first + i - 1] = old
      jacobian:select(1, i):copy(above:add(-1, below):div(2 * perturbation))
   end
   return jacobian
end

local function difference(a, b) return (a - b):abs():max() end

--- Returns the largest difference between M.forward's and M.backward's derivatives with respect to
--- the input, which is filled with random numbers from `low` to `high`.
function M.testJacobian(module, input, low, high, perturbation)
   low, high = low or -2, high or 2
   input:copy(torch.rand(input:nElement()):mul(high - low):add(low))
   return difference(M.forward(module, input, nil, perturbation), M.backward(module, input))
end

--- Compares the gradient of the parameter `param`, which `backward` computes, with finite
--- differences. Returns the largest difference.
function M.testJacobianParameters(module, input, param, dparam, low, high, perturbation)
   low, high = low or -2, high or 2
   input:copy(torch.rand(input:nElement()):mul(high - low):add(low))
   param:copy(torch.rand(param:nElement()):mul(high - low):add(low))
   return difference(M.forward(module, input, param, perturbation),
      M.backward(module, input, param, dparam))
end

--- Tests accUpdateGradParameters with the learning rate 1: compares the change of the parameter
--- with finite differences. Returns the largest difference.
function M.testJacobianUpdateParameters(module, input, param, low, high, perturbation)
   low, high = low or -2, high or 2
   input:copy(torch.rand(input:nElement()):mul(high - low):add(low))
   param:copy(torch.rand(param:nElement()):mul(high - low):add(low))
   local output = module:forward(input)
   local updated = torch.Tensor(param:nElement(), output:nElement())
   local before = param:clone()
   for i = 1, output:nElement() do
      local gradOutput = output:clone():zero()
      gradOutput:view(-1)[i] = 1
      module:forward(input)
      module:updateGradInput(input, gradOutput)
      module:accUpdateGradParameters(input, gradOutput, 1)
      updated:select(2, i):copy(before - param)
      param:copy(before)
   end
   return difference(M.forward(module, input, param, perturbation), updated)
end

--- Writes a module to a file and reads it back. Compares the module with the copy, and returns the
--- differences between their outputs and between their gradients.
function M.testIO(module, input)
   local again = torch.deserialize(torch.serialize(module))
   local output = module:forward(input):clone()
   local gradInput = module:backward(input, output):clone()
   return difference(output, again:forward(input)),
      difference(gradInput, again:backward(input, output))
end

-- Returns how far a parameter is from the expected value `before - step`.
local function missed(module, name, before, step)
   return (before - step - module[name]):norm()
end

--- Compares the ways in which a module can update a parameter. Returns a table that maps each way
--- to an error, which is about 0 if the module's methods agree. The ways are accGradParameters and
--- accUpdateGradParameters, each for one module and for two modules that share the parameter.
---@param module table
---@param input any
---@param weight string  the name of the parameter's field
---@param gradWeight string  the name of the field with its gradient
---@return table<string, number>
function M.testAllUpdate(module, input, weight, gradWeight)
   local rate, errors, gradOutput = torch.uniform(0.1, 1), {}, nil
   local before = module[weight]:clone()
   -- Updates clones of the module, which share the parameter, and returns the list of clones. If
   -- `accumulate` is true, they are updated by accGradParameters and updateParameters, and
   -- otherwise by accUpdateGradParameters.
   local function updated(count, accumulate)
      local list = {}
      for k = 1, count do
         list[k] = module:clone()
         if k > 1 then list[k]:share(list[1], weight) end
         list[k]:forward(input)
         gradOutput = gradOutput or torch.rand(list[k].output:size()):typeAs(list[k].output)
         list[k]:zeroGradParameters()
         list[k]:updateGradInput(input, gradOutput)
         if accumulate then list[k]:accGradParameters(input, gradOutput) end
      end
      for k = 1, count do
         if accumulate then list[k]:updateParameters(rate)
         else list[k]:accUpdateGradParameters(input, gradOutput, rate) end
      end
      return list
   end
   local single = updated(1, true)[1]
   local step = single[gradWeight] * rate
   errors["accGradParameters"] = missed(single, weight, before, step)
   errors["accUpdateGradParameters"] = missed(updated(1, false)[1], weight, before, step)
   for name, accumulate in pairs {accGradParameters = true, accUpdateGradParameters = false} do
      local pair = updated(2, accumulate)
      errors[name .. " [shared]"] = missed(pair[1], weight, before, step * 2)
         + missed(pair[2], weight, before, step * 2)
   end
   return errors
end

-- Sparse inputs -----------------------------------------------------------------------------------

-- An input of nn.SparseLinear is a table (n, 2) of positions and values. Only the values are
-- varied.
local sparse = {}
M.sparse = sparse

local function values_of(input) return input:select(input:dim(), 2) end

--- Returns the derivatives with respect to the values of a sparse input, as a matrix (values,
--- outputs).
function sparse.backward(module, input, param, dparam)
   if param then return M.backward(module, input, param, dparam) end
   local output = module:forward(input)
   local count = values_of(input):nElement()
   local jacobian = torch.Tensor(count, output:nElement())
   for i = 1, output:nElement() do
      local gradOutput = output:clone():zero()
      gradOutput:view(-1)[i] = 1
      module:zeroGradParameters()
      local gradInput = module:updateGradInput(input, gradOutput)
      module:accGradParameters(input, gradOutput)
      jacobian:select(2, i):copy(values_of(gradInput):clone():view(-1))
   end
   return jacobian
end

--- Approximates the derivatives that sparse.backward returns by central differences.
function sparse.forward(module, input, param, perturbation)
   if param then return M.forward(module, input, param, perturbation) end
   perturbation = perturbation or 1e-6
   local values = values_of(input)
   local count = values:nElement()
   local jacobian = torch.Tensor(count, module:forward(input):nElement())
   local base = values:clone():view(-1)
   local function at(i, step)
      local moved = base:clone()
      moved[i] = moved[i] + step
      values:copy(moved:viewAs(values))
      return module:forward(input):clone()
   end
   for i = 1, count do
      jacobian:select(1, i):copy(at(i, perturbation):add(-1, at(i, -perturbation))
         :div(2 * perturbation))
   end
   values:copy(base:viewAs(values))
   return jacobian
end

local function fill_values(input, low, high)
   local values = values_of(input)
   values:copy(torch.rand(values:nElement()):mul(high - low):add(low):viewAs(values))
end

--- Compares the derivatives with respect to the values of a sparse input. The values are drawn from
--- `low` to `high`.
function sparse.testJacobian(module, input, low, high, perturbation)
   fill_values(input, low or -2, high or 2)
   return difference(sparse.forward(module, input, nil, perturbation),
      sparse.backward(module, input))
end

--- Compares the gradient of a parameter with finite differences, for a sparse input. Returns the
--- largest difference.
function sparse.testJacobianParameters(module, input, param, dparam, low, high, perturbation)
   low, high = low or -2, high or 2
   fill_values(input, low, high)
   param:copy(torch.rand(param:nElement()):mul(high - low):add(low):viewAs(param))
   return difference(M.forward(module, input, param, perturbation),
      M.backward(module, input, param, dparam))
end

return M
