-- sampling.lua - chooses the next token. Applies biases and penalties, then the grammar, top_k,
-- typical_p, top_p, min_p and temperature, in llama.cpp's order.

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

--- Checks the sampling options.
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
         and type(bias) == "number", "logit_bias",
         ("a table from tokens, 1 to %d, to numbers"):format(vocab), o.logit_bias)
   end
end

-- Applies the penalties to the logits of the last `repeat_last_n` tokens, in place.
local function penalise(o, logits, history)
   if o.repeat_penalty == 1 and o.presence_penalty == 0 and o.frequency_penalty == 0 then return end
   local counts, list = {}, {}
   local last = o.repeat_last_n < 0 and #history or o.repeat_last_n
   for i = math.max(1, #history - last + 1), #history do
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

-- Keeps the candidates whose negative log-probability is nearest to the entropy, until their
-- probabilities sum to more than typical_p.
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

-- Returns the number of candidates that top_p and min_p keep; `logits` are in decreasing order.
local function cut(o, logits, n)
   if o.top_p < 1 then
      local p, sum = softmax(logits, n), 0
      for i = 1, n do
         sum = sum + p[i]
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

local nan_message <const> = "llm: the logits are NaN: the file's weights are damaged, or overflow"

--- Returns a function that chooses a token from logits (V), which are overwritten, and the list of
--- all tokens so far. `o.grammar` is an object with the methods allow(logits) and accept(token).
---@param o table  the options, with defaults
---@return fun(logits: Tensor, history: integer[]): integer
function M.sampler(o)
   local generator
   if o.seed then
      generator = torch.Generator "cpu"
      generator:manual_seed(o.seed)
   end
   local bias_ids, bias = {}, {}
   for token, value in pairs(o.logit_bias or {}) do
      bias_ids[#bias_ids + 1], bias[#bias + 1] = token, value
   end
   return function(logits, history)
      if #bias > 0 then
         logits:index_add_(1, torch.tensor(bias_ids, {dtype = "int64", device = "cpu"}),
            torch.tensor(bias, {dtype = "float32", device = "cpu"}))
      end
      penalise(o, logits, history)
      if o.logits_processor then
         local changed = o.logits_processor(history, logits)
         if changed ~= nil then logits = changed end
      end
      if o.grammar then logits = o.grammar:allow(logits) end
      if o.temperature == 0 then
         local value, index = logits:max(1)
         if value:item() ~= value:item() then torch.raise(nan_message) end
         return index:item()
      end
      local n = o.top_k > 0 and math.min(o.top_k, logits:numel()) or logits:numel()
      local values, indices = logits:topk(n)
      local list, ids = values:tolist(), indices:tolist()
      if list[1] ~= list[1] then torch.raise(nan_message) end
      while n > 1 and list[n] == -math.huge do n = n - 1 end
      if o.typical_p < 1 then list, ids, n = typical(o, list, ids, n) end
      n = cut(o, list, n)
      for i = 1, n do list[i] = list[i] / o.temperature end
      local p, r = softmax(list, n), torch.rand(1, {generator = generator, device = "cpu"}):item()
      for i = 1, n do
         r = r - p[i]
         if r < 0 then return ids[i] end
      end
      return ids[1]
   end
end

return M
