-- sampling.lua - chooses the next token of a text. The options are applied in llama.cpp's order.
-- Biases and penalties come first. They are followed by logits_processor, the grammar, top_k,
-- typical_p, top_p, min_p and temperature.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- The sampling options with their defaults.
M.defaults = {
   temperature = 0.8, top_k = 40, top_p = 0.95, min_p = 0.05, typical_p = 1.0,
   repeat_penalty = 1.0, presence_penalty = 0.0, frequency_penalty = 0.0, repeat_last_n = 64,
}
M.others = {seed = true, logit_bias = true, grammar = true, logits_processor = true}

local function refuse_unless(title, fits, name, expected, value)
   if not fits then args.refuse(title, name, expected, value) end
end

--- Checks the values of the sampling options.
---@param title string
---@param o table
---@param vocab integer
function M.check(title, o, vocab)
   local function number(name, low, high, expected)
      local value = o[name]
      refuse_unless(title, type(value) == "number" and value >= low and value <= high, name,
         expected, value)
   end
   number("temperature", 0, math.huge, "a number of at least 0")
   number("top_p", 0, 1, "a number from 0 to 1")
   number("min_p", 0, 1, "a number from 0 to 1")
   number("typical_p", 0, 1, "a number from 0 to 1")
   number("repeat_penalty", 1e-9, math.huge, "a positive number")
   number("presence_penalty", -1e9, 1e9, "a number")
   number("frequency_penalty", -1e9, 1e9, "a number")
   for _, name in ipairs {"top_k", "repeat_last_n"} do
      refuse_unless(title, math.type(o[name]) == "integer", name, "an integer", o[name])
   end
   refuse_unless(title, o.seed == nil or math.type(o.seed) == "integer", "seed", "an integer",
      o.seed)
   refuse_unless(title, o.logits_processor == nil or args.is_callable(o.logits_processor),
      "logits_processor", "a function", o.logits_processor)
   refuse_unless(title, o.logit_bias == nil or type(o.logit_bias) == "table", "logit_bias",
      "a table from tokens to numbers", o.logit_bias)
   for token, bias in pairs(o.logit_bias or {}) do
      refuse_unless(title, math.type(token) == "integer" and token >= 1 and token <= vocab
         and type(bias) == "number" and bias < math.huge, "logit_bias",
         ("a table from tokens, 1 to %d, to numbers below infinity"):format(vocab), o.logit_bias)
   end
end

-- Applies the penalties, in place, to the logits of those tokens that are among the last
-- `repeat_last_n` tokens of the text. With `penalty_from`, the first `penalty_from` tokens of the
-- text are ignored.
local function penalise(o, logits, history)
   if o.repeat_penalty == 1 and o.presence_penalty == 0 and o.frequency_penalty == 0 then return end
   local counts, list = {}, {}
   local last = o.repeat_last_n < 0 and #history or o.repeat_last_n
   for i = math.max(1, #history - last + 1, (o.penalty_from or 0) + 1), #history do
      local token = history[i]
      if not counts[token] then list[#list + 1] = token end
      counts[token] = (counts[token] or 0) + 1
   end
   if #list == 0 then return end
   local index = torch.tensor(list, {dtype = "int64", device = "cpu"})
   local values = logits:index_select(1, index):tolist()
   for i, token in ipairs(list) do
      local v = values[i]
      v = v > 0 and v / o.repeat_penalty or v * o.repeat_penalty
      values[i] = v - counts[token] * o.frequency_penalty - o.presence_penalty
   end
   logits:index_copy_(1, index, torch.tensor(values, {device = "cpu"}))
end

local function softmax(logits, n)
   local p, sum = {}, 0
   for i = 1, n do
      p[i] = math.exp(logits[i] - logits[1])
      sum = sum + p[i]
   end
   for i = 1, n do p[i] = p[i] / sum end
   return p
end

-- Keeps the candidates whose negative log-probability is nearest to the entropy. Their number is
-- the least for which the sum of their probabilities exceeds typical_p.
local function typical(o, logits, ids, n)
   local p, entropy = softmax(logits, n), 0
   for i = 1, n do
      if p[i] > 0 then entropy = entropy - p[i] * math.log(p[i]) end
   end
   local order, distance = {}, {}
   for i = 1, n do
      order[i], distance[i] = i, math.abs(-math.log(math.max(p[i], 1e-300)) - entropy)
   end
   table.sort(order, function(a, b)
      if distance[a] ~= distance[b] then return distance[a] < distance[b] end
      return a < b
   end)
   local kept, sum = {}, 0
   for _, i in ipairs(order) do
      kept[#kept + 1], sum = i, sum + p[i]
      if sum > o.typical_p then break end
   end
   table.sort(kept)
   local new_logits, new_ids = {}, {}
   for k, i in ipairs(kept) do new_logits[k], new_ids[k] = logits[i], ids[i] end
   return new_logits, new_ids, #kept
end

-- Returns the number of candidates that remain after top_p and min_p. `logits` has the candidates'
-- logits in decreasing order. `whole` is the logarithm of the sum of the exponentials of all
-- tokens' logits; if it is nil, the probabilities are relative to the n candidates.
local function cut(o, logits, n, whole)
   if o.top_p < 1 then
      local p, sum = not whole and softmax(logits, n), 0
      for i = 1, n do
         sum = sum + (p and p[i] or math.exp(logits[i] - whole))
         if sum >= o.top_p then
            n = i
            break
         end
      end
   end
   if o.min_p > 0 then
      local least = logits[1] + math.log(o.min_p)
      while n > 1 and logits[n] < least do n = n - 1 end
   end
   return n
end

-- Distributions ---------------------------------------------------------------------------------
--
-- A distribution has either `ids` and `p`, lists of tokens and of their probabilities, or `all`, a
-- tensor (V) of the probabilities of all tokens.

local function fail_unless_finite(best)
   if best ~= best then
      torch.raise "llm: the logits are NaN: the file's weights are damaged, or overflow"
   elseif best == -math.huge then
      torch.raise "llm: the logits of all tokens are minus infinity"
   elseif best == math.huge then
      torch.raise "llm: a logit is infinite: the file's weights are damaged, or overflow"
   end
end

-- Returns the temperature, limited to a range in which float32 logits can be divided by it without
-- overflow.
local function divisor(temperature) return math.min(math.max(temperature, 1e-20), 1e20) end

-- Returns the distribution that remains after top_p and min_p. It sorts all logits, so it is used
-- when many tokens remain. `whole` is the logarithm of the sum of the exponentials of all logits.
local function nucleus(o, logits, whole)
   local values, ids = logits:sort(1, true)
   local n = values:numel()
   if o.top_p < 1 then
      local sums = (values:double() - whole):exp():cumsum(1)
      local wanted = torch.tensor({o.top_p}, {dtype = "float64", device = "cpu"})
      n = math.min(n, torch.searchsorted(sums, wanted):item())
   end
   if o.min_p > 0 then
      local least = values[1]:item() + math.log(o.min_p)
      n = math.max(1, math.min(n, values:ge(least):sum():item()))
   end
   local p = (values:narrow(1, 1, n) / divisor(o.temperature)):softmax(1)
   return {all = torch.zeros_like(logits):index_copy_(1, ids:narrow(1, 1, n), p)}
end

-- Returns the best logits in decreasing order, their tokens and their number. With top_k or
-- typical_p, these options determine the number. Otherwise there are as many as top_p and min_p
-- need, and the fourth result is the logarithm of the sum of the exponentials of all logits. If
-- top_p and min_p need very many, it returns nil and this logarithm.
local function best_of(o, logits)
   local most = logits:numel()
   if o.top_k > 0 or o.typical_p < 1 then
      local n = o.top_k > 0 and math.min(o.top_k, most) or most
      local values, indices = logits:topk(n)
      return values:tolist(), indices:tolist(), n
   end
   local n, whole = math.min(256, most), logits:double():logsumexp(1):item()
   local values, indices = logits:topk(n)
   local list, sum = values:tolist(), 0
   for i = 1, n do sum = sum + math.exp(list[i] - whole) end
   if n == most or sum >= o.top_p or list[n] < list[1] + math.log(o.min_p) then
      return list, indices:tolist(), n, whole
   end
   return nil, whole
end

local function distribution_of(o, logits)
   local value, index = logits:max(1)
   fail_unless_finite(value:item())
   if o.temperature == 0 then return {ids = {index:item()}, p = {1.0}} end
   if o.top_k <= 0 and o.typical_p >= 1 and o.top_p >= 1 and o.min_p == 0 then
      return {all = (logits / divisor(o.temperature)):softmax(1)}
   end
   local list, ids, n, whole = best_of(o, logits)
   if not list then return nucleus(o, logits, ids) end
   while n > 1 and list[n] == -math.huge do n = n - 1 end
   if o.typical_p < 1 then list, ids, n = typical(o, list, ids, n) end
   n = cut(o, list, n, whole)
   for i = 1, n do list[i] = list[i] / divisor(o.temperature) end
   return {ids = ids, p = softmax(list, n)}
end

--- Returns a token's probability in a distribution.
---@param d table
---@param token integer
---@return number
function M.probability(d, token)
   if d.all then return d.all[token]:item() end
   for i, p in ipairs(d.p) do
      if d.ids[i] == token then return p end
   end
   return 0.0
end

local Sampler = {}
Sampler.__index = Sampler

--- Creates a sampler. `o.grammar`, if given, is an object with the methods allow(logits) and
--- accept(token).
---@param o table  the options, with defaults
---@return table
function M.sampler(o)
   local self = setmetatable({o = o}, Sampler)
   if o.seed then
      self.generator = torch.Generator "cpu"
      self.generator:manual_seed(o.seed)
   end
   local ids, bias = {}, {}
   for token, value in pairs(o.logit_bias or {}) do
      ids[#ids + 1], bias[#bias + 1] = token, value
   end
   if #ids > 0 then
      self.bias_ids = torch.tensor(ids, {dtype = "int64", device = "cpu"})
      self.bias = torch.tensor(bias, {dtype = "float32", device = "cpu"})
   end
   return self
end

-- Returns the logits after a call of the user's function, which may change them in place or return
-- other logits.
local function process(fn, history, logits)
   local most = logits:numel()
   local changed = fn(table.move(history, 1, #history, 1, {}), logits)
   if changed == nil then changed = logits end
   if not torch.is_tensor(changed) or not changed:is_floating_point() or changed:dim() ~= 1
      or changed:numel() ~= most or changed.layout ~= "strided" or changed.is_meta then
      torch.raise(("llm: logits_processor: expected floating logits of shape (%d), or nil, got %s")
         :format(most, args.describe(changed)))
   end
   return changed:detach():to("cpu", "float32")
end

--- Returns the distribution of the next token.
---@param logits Tensor  (V) float32 on the CPU, which is overwritten
---@param history integer[]  all tokens so far
---@return table
function Sampler:distribution(logits, history)
   local o = self.o
   if o.logprobs then self.log_softmax = logits:log_softmax(1) end
   if self.bias then logits:index_add_(1, self.bias_ids, self.bias) end
   penalise(o, logits, history)
   if o.logits_processor then logits = process(o.logits_processor, history, logits) end
   if o.grammar then logits = o.grammar:allow(logits) end
   return distribution_of(o, logits)
end

--- Returns the logarithm of a token's probability in the model's last distribution, before the
--- options changed it. Also returns the most probable tokens and the logarithms of their
--- probabilities. The option `logprobs` must be set.
---@param token integer
---@param count integer  the number of the most probable tokens
---@return number
---@return integer[]
---@return number[]
function Sampler:log_probabilities(token, count)
   local all = self.log_softmax
   if count == 0 then return all[token]:item(), {}, {} end
   local values, ids = all:topk(math.min(count, all:numel()))
   return all[token]:item(), ids:tolist(), values:tolist()
end

--- Returns a random number that is at least 0 and less than 1.
---@return number
function Sampler:uniform()
   return torch.rand(1, {generator = self.generator, device = "cpu"}):item()
end

-- Returns the distribution from which a rejected token x of a draft is replaced: the positive part
-- of p - q, scaled to the sum 1. q is the distribution from which x was drawn. If q is nil, x was
-- certain.
local function residual(p, q, x)
   local rest = {}
   if p.all then
      rest.all = p.all:clone()
      if not q then
         rest.all[x] = 0
      elseif q.all then
         rest.all:sub_(q.all):clamp_(0)
      else
         for i, value in ipairs(q.p) do
            rest.all[q.ids[i]] = math.max(0, rest.all[q.ids[i]]:item() - value)
         end
      end
      local sum = rest.all:sum():item()
      if sum <= 0 then return p end
      return {all = rest.all / sum}
   end
   local sum = 0
   rest.p, rest.ids = {}, p.ids
   for i, value in ipairs(p.p) do
      local own = q and M.probability(q, p.ids[i]) or not q and p.ids[i] == x and 1 or 0
      rest.p[i] = math.max(0, value - own)
      sum = sum + rest.p[i]
   end
   if sum <= 0 then return p end
   for i, value in ipairs(rest.p) do rest.p[i] = value / sum end
   return rest
end

--- Accepts or replaces a token of a draft, so that the result has the distribution `p` (Leviathan
--- et al., Fast Inference from Transformers via Speculative Decoding, 2023). It accepts x with the
--- probability min(1, p(x) / q(x)), and otherwise draws from the positive part of p - q.
---@param p table  the distribution
---@param x integer  the draft's token
---@param q? table  the distribution from which x was drawn; nil if x was certain
---@return integer token
---@return boolean is_accepted
function Sampler:verify(p, x, q)
   local ratio = M.probability(p, x) / (q and M.probability(q, x) or 1)
   if ratio >= 1 or ratio > 0 and self:uniform() < ratio then return x, true end
   return self:draw(residual(p, q, x)), false
end

--- Draws a token from a distribution.
---@param d table
---@return integer
function Sampler:draw(d)
   -- This branch uses one random number, whereas multinomial would draw a number for each token.
   if d.all then
      local sums = d.all:double():cumsum(1)
      local r = torch.rand(1, {dtype = "float64", generator = self.generator, device = "cpu"})
      local total = sums:narrow(1, sums:numel(), 1)
      local token = torch.searchsorted(sums, r * total, {right = true}):item()
      -- The product r * total may be rounded up to the total. In this case the last token with a
      -- probability above 0 is taken. It is the first token whose cumulative sum is the total.
      return token <= sums:numel() and token or torch.searchsorted(sums, total):item()
   end
   if #d.p == 1 then return d.ids[1] end
   local r = self:uniform()
   for i, p in ipairs(d.p) do
      r = r - p
      if r < 0 then return d.ids[i] end
   end
   return d.ids[1]
end

return M
