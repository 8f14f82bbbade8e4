-- gradients.lua - compares the gradients of a module with finite differences, for specs of recurrent modules.

local torch = require "torch7"

local function near(a, b, tolerance)
   assert(math.abs(a - b) <= (tolerance or 1e-12), ("%s and %s"):format(a, b))
end

local function list_of(tree) return torch.isTensor(tree) and {tree} or tree end

-- Checks the gradients of inputs and parameters, computed by `backward` and then by updateGradInput and
-- accGradParameters. Only DoubleTensor inputs are varied; all others are constants.
local function check_gradients(module, input)
   local parameters, grads = module:getParameters()
   local weights = {}
   for i, x in ipairs(list_of(module:forward(input))) do weights[i] = torch.randn(x:size()) end
   local gradOutput = torch.isTensor(module.output) and weights[1] or weights
   local function loss()
      local sum = 0
      for i, x in ipairs(list_of(module:forward(input))) do sum = sum + x:dot(weights[i]) end
      return sum
   end
   local function slope(tensors, along)
      local function move(h)
         for i, x in ipairs(tensors) do x:add(h, along[i]) end
         return loss()
      end
      local above, below = move(1e-5), move(-2e-5)
      move(1e-5)
      return (above - below) / 2e-5
   end
   for half = 1, 2 do
      grads:zero()
      module:forward(input)
      local gradInput
      if half == 1 then
         gradInput = module:backward(input, gradOutput)
      else
         gradInput = module:updateGradInput(input, gradOutput)
         module:accGradParameters(input, gradOutput, 1)
      end
      if parameters:nElement() > 0 then
         local along = torch.randn(parameters:size())
         near(slope({parameters}, {along}), grads:dot(along), 1e-6)
      end
      local tensors, moves, sum = {}, {}, 0
      for i, x in ipairs(list_of(input)) do
         if x:type() == "torch.DoubleTensor" then
            local g = list_of(gradInput)[i]
            tensors[#tensors + 1], moves[#moves + 1] = x, torch.randn(g:size())
            sum = sum + g:dot(moves[#moves])
         end
      end
      near(slope(tensors, moves), sum, 1e-6)
   end
end

return {near = near, list_of = list_of, check = check_gradients}
