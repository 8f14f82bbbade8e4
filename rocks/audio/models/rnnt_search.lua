-- rnnt_search.lua - beam search for recurrent transducers (Graves, 2012). In each time step, a
-- hypothesis may emit several tokens. A blank then ends the time step for this hypothesis.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local class = require "tlua.class"
local RNNT = require "tlua.audio.models.rnnt".RNNT

local prefix <const> = "audio.models.RNNTBeamSearch"

--- Finds the most probable tokens of sound by beam search with a recurrent transducer. A call takes
--- features (time + right context, features) and the number of frames without the right context. It
--- returns a list of hypotheses, the best first. A hypothesis is a table with `tokens`, whose first
--- token is blank, and `score`, the logarithm of a probability. `infer` decodes a stream in
--- segments.
---
---     torch.manual_seed(1)
---     local models = torch.audio.models
---     local model = models.emformer_rnnt_model {input_dim = 4,
---        encoding_dim = 8, num_symbols = 5, segment_length = 4,
---        right_context_length = 2, time_reduction_input_dim = 4,
---        time_reduction_stride = 2, transformer_num_heads = 2,
---        transformer_ffn_dim = 8, transformer_num_layers = 1,
---        symbol_embedding_dim = 6, num_lstm_layers = 1}
---     local options = {step_max_tokens = 3}
---     local search = models.RNNTBeamSearch(model:eval(), 5, options)
---     print(#search(torch.randn(10, 4), torch.tensor {8}, 2), search.blank)
---     --> 2	5
---@class audio.models.RNNTBeamSearch: nn.Module
---@field model audio.models.RNNT  the transducer
---@field blank integer  the number of the blank token, which is the last one
---@overload fun(model: audio.models.RNNT, blank: integer, options?: table): nn.Module
local Search = class.class("audio.models.RNNTBeamSearch", torch.nn.Module)

local take = args.signature [[audio.models.RNNTBeamSearch(model: object, blank: count,
   temperature: number = 1, hypo_sort_key: callable?, step_max_tokens: count = 100)]]

-- Returns a hypothesis's score divided by its number of tokens plus 1.
local function mean_score(hypothesis) return hypothesis.score / (#hypothesis.tokens + 1) end

function Search:__init(...)
   local a = take(...)
   if not class.isinstance(a.model, RNNT) then
      args.refuse(prefix, "model", "an audio.models.RNNT", a.model)
   end
   local symbols = a.model.joiner.linear.out_features
   if a.blank ~= symbols then
      args.refuse(prefix, "blank", ("the last token, %d"):format(symbols), a.blank)
   end
   checks.positive(prefix, "temperature", a.temperature)
   self.model, self.blank, self.temperature = a.model, a.blank, a.temperature
   self.sort_key, self.step_max_tokens = a.hypo_sort_key or mean_score, a.step_max_tokens
end

local function key_of(hypothesis) return table.concat(hypothesis.tokens, " ") end

local function log_add(a, b)
   local high, low = math.max(a, b), math.min(a, b)
   return high + math.log(1 + math.exp(low - high))
end

-- Sorts a list by key(item). Items with equal keys keep their order.
local function sorted(list, key, is_descending)
   local rows = {}
   for i, item in ipairs(list) do rows[i] = {item, key(item), i} end
   table.sort(rows, function(a, b)
      if a[2] ~= b[2] then return (a[2] > b[2]) == is_descending end
      return a[3] < b[3]
   end)
   for i, row in ipairs(rows) do rows[i] = row[1] end
   return rows
end

-- Returns a new hypothesis for each n: hypothesis n of `bases` followed by token n of `tokens`,
-- with the score scores[n].
local function extended(self, bases, tokens, scores, device)
   local states
   if bases[1] then
      states = {}
      for i, state in ipairs(bases[1].state) do
         states[i] = {}
         for k = 1, #state do
            local parts = {}
            for n, base in ipairs(bases) do parts[n] = base.state[i][k] end
            states[i][k] = torch.cat(parts, 1)
         end
      end
   end
   local column = torch.tensor(tokens, {dtype = "int64", device = device}):unsqueeze(2)
   local out, _, new = self.model:predict(column, torch.ones_like(column:squeeze(2)), states)
   local list = {}
   for n, token in ipairs(tokens) do
      local all, state = bases[n] and {table.unpack(bases[n].tokens)} or {}, {}
      all[#all + 1] = token
      for i, pair in ipairs(new) do
         state[i] = {pair[1]:narrow(1, n, 1), pair[2]:narrow(1, n, 1)}
      end
      list[n] = {tokens = all, predictor_out = out[n], state = state, score = scores[n]}
   end
   return list
end

-- Returns the log-probabilities of the next token after each hypothesis, (hypotheses, tokens), on
-- the CPU.
local function next_scores(self, encoding, hypotheses)
   local rows = {}
   for i, item in ipairs(hypotheses) do rows[i] = item.predictor_out end
   local one = torch.ones(#rows, {dtype = "int64", device = encoding.device})
   local joined = self.model:join(encoding, one:narrow(1, 1, 1), torch.stack(rows, 1), one)
   return (joined:select(3, 1):select(2, 1) / self.temperature):log_softmax(-1):cpu()
end

-- Ends the time step of all hypotheses in `open`: adds the score of a blank to their scores, and
-- adds them to `closed`. The blank does not become one of their tokens. Hypotheses with the same
-- tokens are merged. Returns `closed` with the worst hypothesis first.
local function close(open, closed, scores, known)
   local blanks = scores:select(2, -1):tolist()
   for i, item in ipairs(open) do
      local score, key = item.score + blanks[i], key_of(item)
      local old = known[key]
      if old then
         for n, other in ipairs(closed) do
            if other == old then
               table.remove(closed, n)
               break
            end
         end
         score = log_add(old.score, score)
      end
      known[key] = {tokens = item.tokens, predictor_out = item.predictor_out, state = item.state,
         score = score}
      closed[#closed + 1] = known[key]
   end
   return sorted(closed, function(item) return item.score end, false)
end

-- Extends the hypotheses in `open` by a token other than blank. Returns at most `width` extensions,
-- the best ones, without those that are worse than `width` hypotheses in `closed`.
local function continued(self, open, closed, scores, width, device)
   local own = {}
   for i, item in ipairs(open) do own[i] = item.score end
   local count = scores:size(2) - 1
   if count == 0 then return {} end
   local all = (scores:narrow(2, 1, count)
      + torch.tensor(own, {dtype = scores.dtype, device = "cpu"}):unsqueeze(2)):flatten()
   local best, at = all:topk(math.min(width, all:size(1)), 1)
   local least = #closed < width and -math.huge or closed[#closed - width + 1].score
   local bases, tokens, totals = {}, {}, {}
   local places = at:tolist()
   for i, score in ipairs(best:tolist()) do
      if score > least then
         bases[#bases + 1] = open[(places[i] - 1) // count + 1]
         tokens[#tokens + 1], totals[#totals + 1] = (places[i] - 1) % count + 1, score
      end
   end
   return #bases > 0 and extended(self, bases, tokens, totals, device) or {}
end

local function search(self, encodings, hypotheses, width)
   local device = encodings.device
   local best = hypotheses or extended(self, {}, {self.blank}, {0.0}, device)
   for t = 1, encodings:size(2) do
      local open, closed, known, made = best, {}, {}, 0
      while #open > 0 do
         local scores = next_scores(self, encodings:narrow(2, t, 1), open)
         closed = close(open, closed, scores, known)
         if made == self.step_max_tokens then break end
         open = continued(self, open, closed, scores, width, device)
         made = made + 1
      end
      local ranked = sorted(closed, self.sort_key, true)
      best = table.move(ranked, 1, math.min(width, #ranked), 1, {})
   end
   return best
end

-- Checks the input and the length of a search. Returns the input as (1, time, features) and the
-- length as (1).
local function checked(title, input, length, width)
   if not torch.is_tensor(input) or not (input:dim() == 2 or input:dim() == 3
         and input:size(1) == 1) then
      args.refuse(title, "input", "a tensor of shape (time, features) or (1, time, features)",
         input)
   end
   if math.type(length) == "integer" then
      length = torch.tensor({length}, {device = input.device})
   end
   if not torch.is_tensor(length) or length:numel() ~= 1 or length:dim() > 1 then
      args.refuse(title, "length", "a number of frames", length)
   end
   if math.type(width) ~= "integer" or width < 1 then
      args.refuse(title, "beam_width", "a positive integer", width)
   end
   return input:dim() == 2 and input:unsqueeze(1) or input, length:view(1)
end

--- Finds the best hypotheses.
---@param input Tensor  (time + right context, features)
---@param length Tensor|integer  the number of frames without right context
---@param beam_width integer  the number of hypotheses that are kept
---@return {tokens: integer[], score: number, predictor_out: Tensor, state: table}[]
function Search:forward(input, length, beam_width)
   input, length = checked(prefix, input, length, beam_width)
   local _ <close> = torch.no_grad()
   return search(self, (self.model:transcribe(input, length)), nil, beam_width)
end

--- Finds the best hypotheses for a stream up to the end of its next segment.
---@param input Tensor  (segment_length + right_context_length, features)
---@param length Tensor|integer  the number of frames, right context included
---@param beam_width integer
---@param state? table[]  the state that the call for the previous segment returned
---@param hypothesis? table[]  the hypotheses that the call for the previous segment returned
---@return {tokens: integer[], score: number, predictor_out: Tensor, state: table}[] hypotheses
---@return table[] state
function Search:infer(input, length, beam_width, state, hypothesis)
   input, length = checked(prefix .. ":infer", input, length, beam_width)
   local _ <close> = torch.no_grad()
   local encodings, _, new = self.model:transcribe_streaming(input, length, state)
   return search(self, encodings, hypothesis, beam_width), new
end

return Search
