-- recurrent.lua - the operators RNN, GRU and LSTM. In the standard, the gates of a GRU are in the
-- order z r h, and those of an LSTM in the order i o f c; an RNN has only i.

local torch = require "tlua"
local values = require "tlua.onnx.values"

local F = torch.nn.functional

local M = {}

local functions <const> = {
   relu = F.relu, tanh = torch.tanh, sigmoid = torch.sigmoid, softsign = F.softsign,
   softplus = F.softplus,
   affine = function(x, alpha, beta) return x * (alpha or 1) + (beta or 0) end,
   leakyrelu = function(x, alpha) return F.leaky_relu(x, alpha or 0.01) end,
   thresholdedrelu = function(x, alpha)
      return torch.where(x:gt(alpha or 1), x, torch.zeros_like(x))
   end,
   scaledtanh = function(x, alpha, beta) return torch.tanh(x * (beta or 1)) * (alpha or 1) end,
   hardsigmoid = function(x, alpha, beta)
      return (x * (alpha or 0.2) + (beta or 0.5)):clamp(0, 1)
   end,
   elu = function(x, alpha) return F.elu(x, alpha or 1) end,
}

-- Activation functions with the parameters alpha and beta. Other functions use no element of the
-- attributes activation_alpha and activation_beta.
local with_alpha <const> = {affine = true, leakyrelu = true, thresholdedrelu = true,
   scaledtanh = true, hardsigmoid = true, elu = true}
local with_beta <const> = {affine = true, scaledtanh = true, hardsigmoid = true}

-- Returns the activation functions of all directions as a list, in the order of the attribute
-- `activations`.
local function read_activations(node, directions, defaults)
   local names = node:texts "activations"
   if not names or #names == 0 then
      names = {}
      for i = 1, directions * #defaults do names[i] = defaults[(i - 1) % #defaults + 1] end
   end
   if #names ~= directions * #defaults then
      node:fail("attribute activations: expected %d names, got %d", directions * #defaults, #names)
   end
   local alphas, betas = node:floats("activation_alpha", {}), node:floats("activation_beta", {})
   local list, a, b = {}, 0, 0
   for i, name in ipairs(names) do
      local key = name:lower()
      local fn = functions[key] or node:fail("attribute activations: %q is unknown", name)
      local alpha, beta
      if with_alpha[key] then
         a = a + 1
         alpha = alphas[a]
      end
      if with_beta[key] then
         b = b + 1
         beta = betas[b]
      end
      list[i] = with_alpha[key] and function(x) return fn(x, alpha, beta) end or fn
   end
   return list
end

local function clipper(node)
   local limit = node:float "clip"
   if not limit then return function(x) return x end end
   return function(x) return x:clamp(-limit, limit) end
end

-- These functions compute one step of a layer. They get the part of the gates that comes from the
-- input, {batch, gates * hidden}, and the state. They return the new state, whose first element is
-- the output.
local cells = {}

function cells.RNN(w, f, clip)
   return function(x, state)
      return {f[1](clip(x + F.linear(state[1], w.r, w.rb)))}
   end
end

function cells.GRU(w, f, clip, node)
   local n = w.r:size(2)
   local zr, h = w.r:narrow(1, 1, 2 * n), w.r:narrow(1, 2 * n + 1, n)
   local zr_bias = w.rb and w.rb:narrow(1, 1, 2 * n)
   local h_bias = w.rb and w.rb:narrow(1, 2 * n + 1, n)
   local reset_after = node:int("linear_before_reset", 0) ~= 0
   return function(x, state)
      local before = state[1]
      local gates = f[1](clip(x:narrow(2, 1, 2 * n) + F.linear(before, zr, zr_bias)))
      local z, r = gates:narrow(2, 1, n), gates:narrow(2, n + 1, n)
      local inner
      if reset_after then
         inner = r * F.linear(before, h, h_bias)
      else
         inner = F.linear(r * before, h, h_bias)
      end
      local new = f[2](clip(x:narrow(2, 2 * n + 1, n) + inner))
      return {(1 - z) * new + z * before}
   end
end

function cells.LSTM(w, f, clip, node)
   local n, peep = w.r:size(2), w.peep
   local joined = node:int("input_forget", 0) ~= 0
   return function(x, state)
      local h, c = state[1], state[2]
      local gates = x + F.linear(h, w.r, w.rb)
      local i, o = gates:narrow(2, 1, n), gates:narrow(2, n + 1, n)
      local forget, new = gates:narrow(2, 2 * n + 1, n), gates:narrow(2, 3 * n + 1, n)
      if peep then
         i = i + peep:narrow(1, 1, n) * c
         forget = forget + peep:narrow(1, 2 * n + 1, n) * c
      end
      i = f[1](clip(i))
      forget = joined and 1 - i or f[1](clip(forget))
      local next_c = forget * c + i * f[2](clip(new))
      if peep then o = o + peep:narrow(1, n + 1, n) * next_c end
      return {f[1](clip(o)) * f[3](next_c), next_c}
   end
end

-- Runs one direction of a layer. x is {time, batch, input}, and a state is {batch, hidden}.
local function run(cell, w, x, state, lengths, back)
   local steps, batch = x:size(1), x:size(2)
   local gates = F.linear(x, w.w, w.wb)
   local outputs = {}
   for k = 1, steps do
      local t = back and steps - k + 1 or k
      local new = cell(gates:select(1, t), state)
      local out = new[1]
      if lengths then -- after the end of a sequence, its state stays unchanged and its output is 0
         local live = lengths:ge(t):reshape(batch, 1)
         for i = 1, #new do new[i] = torch.where(live, new[i], state[i]) end
         out = torch.where(live, out, torch.zeros_like(out))
      end
      outputs[t], state = out, new
   end
   return torch.stack(outputs, 1), state
end

local gates_of <const> = {RNN = 1, GRU = 3, LSTM = 4}
local defaults <const> = {RNN = {"Tanh"}, GRU = {"Sigmoid", "Tanh"},
   LSTM = {"Sigmoid", "Tanh", "Tanh"}}

local function weights(node, d, w, r, b, p)
   local n = gates_of[node.type] * r:size(3)
   local list = {w = w:select(1, d), r = r:select(1, d), peep = p and p:select(1, d)}
   if b then
      local both = b:select(1, d)
      list.wb, list.rb = both:narrow(1, 1, n), both:narrow(1, n + 1, n)
   end
   return list
end

local function layer(node, x, w, r, b, lengths, h, c, p)
   if x:dim() ~= 3 or w:dim() ~= 3 or r:dim() ~= 3 then
      node:fail("expected inputs of 3 dimensions, got %s, %s and %s", values.describe(x),
         values.describe(w), values.describe(r))
   end
   local kind, by_batch = node.type, node:int("layout", 0) ~= 0
   if by_batch then x = x:transpose(1, 2) end
   local direction = node:text("direction", "forward")
   if direction ~= "forward" and direction ~= "reverse" and direction ~= "bidirectional" then
      node:fail("attribute direction: %q is unknown", direction)
   end
   local directions, hidden = w:size(1), r:size(3)
   if directions ~= (direction == "bidirectional" and 2 or 1) then
      node:fail("attribute direction: %s, but the weight is %s", direction, values.describe(w))
   end
   local activations = read_activations(node, directions, defaults[kind])
   local batch, per = x:size(2), #defaults[kind]
   local ys, hs, cs = {}, {}, {}
   local function initial(state, d)
      if not state then
         return torch.zeros({batch, hidden}, {dtype = x.dtype, device = x.device})
      end
      return by_batch and state:select(2, d) or state:select(1, d)
   end
   for d = 1, directions do
      local own = weights(node, d, w, r, b, p)
      local f = table.move(activations, (d - 1) * per + 1, d * per, 1, {})
      local cell = cells[kind](own, f, clipper(node), node)
      local state = {initial(h, d), kind == "LSTM" and initial(c, d) or nil}
      local back = direction == "reverse" or d == 2
      ys[d], state = run(cell, own, x, state, lengths, back)
      hs[d], cs[d] = state[1], state[2]
   end
   if by_batch then
      return torch.stack(ys, 3):transpose(1, 2), torch.stack(hs, 2), cs[1] and torch.stack(cs, 2)
   end
   return torch.stack(ys, 2), torch.stack(hs, 1), cs[1] and torch.stack(cs, 1)
end

function M.RNN(node, x, w, r, b, lengths, h) return layer(node, x, w, r, b, lengths, h) end
function M.GRU(node, x, w, r, b, lengths, h) return layer(node, x, w, r, b, lengths, h) end
function M.LSTM(node, x, w, r, b, lengths, h, c, p)
   return layer(node, x, w, r, b, lengths, h, c, p)
end

return M
