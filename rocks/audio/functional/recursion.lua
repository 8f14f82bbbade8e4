-- recursion.lua - computes y[n] = x[n] - a[1] y[n - 1] - ... - a[K] y[n - K] without a loop over
-- samples.
--
-- The samples are cut into blocks. The response of a block to its own inputs is a product with a
-- triangular matrix, which has the filter's impulse response in its columns. Earlier blocks
-- contribute only through the state of the block, which is the last K outputs before the block. A K
-- x K matrix maps the state of a block to the state of the next block. All states are found by
-- doubling: the first step combines each block with the block before it, and the next steps combine
-- blocks that are 2, 4, 8 ... blocks apart. Everything is computed in float64, because rounding
-- errors grow if poles are near 1.

local torch = require "tlua"

local F = torch.nn.functional

local M = {}

local BLOCK <const> = 32

-- Returns the first n outputs of a filter for the list `inputs`; missing inputs are 0. `before`
-- lists the outputs before the first input, the latest output first.
local function respond(a, n, inputs, before)
   local y = {}
   for i = 1, n do
      local sum = inputs[i] or 0
      for k = 1, #a do
         local j = i - k
         local last = j >= 1 and y[j] or before[1 - j] or 0
         sum = sum - a[k] * last
      end
      y[i] = sum
   end
   return y
end

-- Elements of matrices are limited to this magnitude, so that the powers of an unstable filter's
-- matrix do not become infinite.
local LARGEST <const> = 1e300

local function limit(value)
   if value > LARGEST then return LARGEST end
   return value < -LARGEST and -LARGEST or value
end

local function square(m)
   local n, result = #m, {}
   for i = 1, n do
      result[i] = {}
      for j = 1, n do
         local sum = 0
         for k = 1, n do sum = sum + m[i][k] * m[k][j] end
         result[i][j] = limit(sum)
      end
   end
   return result
end

-- Returns three tables of a filter: the impulse response with a zero in front, the responses of a
-- block to its state (size, K), and the transposed matrices that map the state of a block to the
-- state 1, 2, 4 ... blocks later.
local function tables_of(a, size, doublings)
   local order = #a
   local impulse = respond(a, size, {1}, {})
   table.insert(impulse, 1, 0.0)
   local states, step = {}, {}
   for i = 1, size do states[i] = {} end
   for k = 1, order do
      local before = {}
      before[k] = 1
      for i, value in ipairs(respond(a, size, {}, before)) do states[i][k] = limit(value) end
   end
   for r = 1, order do step[r] = states[size + 1 - r] end
   local steps = {}
   for s = 1, doublings do
      local transposed = {}
      for i = 1, order do
         transposed[i] = {}
         for j = 1, order do transposed[i][j] = step[j][i] end
      end
      steps[s] = transposed
      step = square(step)
   end
   return impulse, states, steps
end

-- Returns an index for each element of the transposed triangular matrix: the position of the
-- element's value in an impulse response that has a zero in front.
local function triangle(size, device)
   local i = torch.arange(size, {device = device})
   return (i:unsqueeze(1) - i:unsqueeze(2) + 1):clamp(0):view(-1) + 1
end

-- Computes the recursion in blocks for x (batch, filters, time), whose elements must be finite.
local function by_blocks(x, a)
   local batch, filters, length = table.unpack(x.shape)
   local order = a:size(2) - 1
   local size = math.max(BLOCK, order)
   local blocks = (length + size - 1) // size
   local doublings = 0
   while 1 << doublings < blocks do doublings = doublings + 1 end
   local impulses, states, steps = {}, {}, {}
   for f, row in ipairs(a:double():tolist()) do
      table.remove(row, 1)
      local by_step
      impulses[f], states[f], by_step = tables_of(row, size, doublings)
      for s = 1, doublings do
         steps[s] = steps[s] or {}
         steps[s][f] = by_step[s]
      end
   end
   local options = {dtype = "float64", device = x.device}
   local toeplitz = torch.tensor(impulses, options):index_select(2, triangle(size, x.device))
      :view(filters, size, size)
   local padded = x:double()
   if blocks * size > length then padded = F.pad(padded, {0, blocks * size - length}) end
   padded = padded:view(batch, filters, blocks, size)
   local y = filters == 1 and padded:matmul(toeplitz[1]) or padded:matmul(toeplitz)
   if blocks > 1 then
      local ends = y:narrow(-1, size - order + 1, order):flip(-1)
      for s = 1, doublings do
         local far = 1 << s - 1
         local moved = ends:narrow(3, 1, blocks - far):matmul(torch.tensor(steps[s], options))
         local later = ends:narrow(3, far + 1, blocks - far) + moved
         ends = torch.cat({ends:narrow(3, 1, far), later}, 3)
      end
      local answer = torch.tensor(states, options):transpose(2, 3)
      y:narrow(3, 2, blocks - 1):add_(ends:narrow(3, 1, blocks - 1):matmul(answer))
   end
   y = y:view(batch, filters, blocks * size)
   return y:narrow(3, 1, length):to(x.dtype)
end

-- Recomputes the outputs of one channel, from sample `first` on, by a loop over samples. After a
-- NaN, all outputs are NaN, so the loop ends there.
local function loop_from(first, x, y, a)
   local inputs, outputs, order = x:double():tolist(), y:double():tolist(), #a - 1
   local new = {}
   for n = first, #inputs do
      local sum = inputs[n]
      for k = 1, order do sum = sum - a[k + 1] * (outputs[n - k] or 0) end
      outputs[n], new[#new + 1] = sum, sum
      if sum ~= sum then break end
   end
   y:narrow(1, first, #new):copy_(torch.tensor(new, {dtype = "float64"}))
   y:narrow(1, first + #new - 1, #inputs - first - #new + 2):fill_(new[#new])
end

-- Computes the recursion of x (batch, filters, time) with coefficients a (filters, K + 1), where
-- a[f][1] is 1. In by_blocks, a NaN or an infinity would also change earlier samples, because 0 *
-- inf is NaN. So a loop over samples recomputes a channel with such an input, from this input on.
local function solve(x, a)
   if a:size(2) == 1 or x:numel() == 0 then return x:clone() end
   local finite = x:isfinite()
   if finite:all():item() then return by_blocks(x, a) end
   local y = by_blocks(x:masked_fill(finite:logical_not(), 0), a)
   local coefficients = a:double():tolist()
   for b, filters in ipairs(finite:logical_not():long():argmax(-1):tolist()) do
      for f, first in ipairs(filters) do
         if not finite[{b, f, first}]:item() then
            loop_from(first, x[{b, f}], y[{b, f}], coefficients[f])
         end
      end
   end
   return y
end

local Recursion = torch.class("audio.Recursion", torch.autograd.Function)

function Recursion.forward(ctx, x, a)
   local y = solve(x, a)
   ctx:save_for_backward(y, a)
   return y
end

-- The gradient of the input is the same recursion, run backwards in time.
function Recursion.backward(ctx, grad)
   local y, a = ctx:saved_tensors()
   local d = Recursion:apply(grad:flip(-1), a):flip(-1)
   if not ctx.needs_input_grad[2] then return d end
   local length, list = y:size(3), {a:new_zeros(a:size(1))}
   for k = 1, a:size(2) - 1 do
      if k < length then
         local product = d:narrow(3, k + 1, length - k) * y:narrow(3, 1, length - k)
         list[k + 1] = -product:sum({1, 3})
      else
         list[k + 1] = a:new_zeros(a:size(1))
      end
   end
   return d, torch.stack(list, 2)
end

--- Returns the outputs y of the recursion that the header of this file defines.
---@param x Tensor  (batch, filters, time)
---@param a Tensor  (filters, K + 1), in which the first column is 1
---@return Tensor
function M.run(x, a) return Recursion:apply(x, a) end

return M
