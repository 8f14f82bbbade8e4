-- CTCDecoder.lua - beam search over the scores of CTC tokens, with the rules of flashlight's
-- decoders, which torchaudio uses.
--
-- A hypothesis is a table {score, token, word, is_blank, prefix, node, parent}. `token` is the
-- token of the last step, `word` is the word that ended with this step, and `parent` is the
-- hypothesis one step before. `prefix` is a state of the language model. Each sequence of tokens,
-- or with a lexicon of words, has one state. `node` is a position in the lexicon. Hypotheses are
-- merged if they have the same prefix, node, token and is_blank.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local checks = require "tlua.audio.checks"
local arpa = require "tlua.audio.models.decoder.arpa"
local lists = require "tlua.audio.models.decoder.lists"

local M = {}

local prefix <const> = "audio.models.decoder."
local none <const> = -math.huge

--- Decodes emissions (batch, time, tokens) by beam search. `ctc_decoder` creates it. A call returns
--- for each example a list of hypotheses, the best first. A hypothesis is a table with `tokens` (a
--- tensor of positions from 1), `words` (a list, which is empty without a lexicon), `score`, and
--- `timesteps` (the step of each token, from 1). As in torchaudio, the tokens begin and end with
--- sil_token, at the steps 0 and time + 1, unless this silence is merged with silence at the end of
--- the emissions.
---
---     local ctc_decoder = torch.audio.models.decoder.ctc_decoder
---     local decoder = ctc_decoder {tokens = {"-", "|", "a"}, nbest = 2}
---     for _, found in ipairs(decoder(torch.eye(3):unsqueeze(1))[1]) do
---        print(found.score, found.tokens)
---     end
---     --> 3.0	tensor([2, 2, 3, 2])
---     --> 2.0	tensor([2, 2, 2])
---@class audio.models.decoder.CTCDecoder
local CTCDecoder = class.class "audio.models.decoder.CTCDecoder"

-- The beam ----------------------------------------------------------------------------------------

-- Returns the language model's state after it has read `word` in `state`, and the score that it
-- gives to the word.
local function advance(self, state, word)
   local next_state = state.next[word]
   if not next_state then
      self.states = self.states + 1
      next_state = {id = self.states, next = {}, score = 0.0}
      if self.lm then
         local name = self.root and word or self.names[word]
         next_state.score, next_state.context = arpa.score(self.lm, state.context, name)
      end
      state.next[word] = next_state
   end
   return next_state, next_state.score
end

-- Adds a candidate for the next beam to the list `pool` if its score is at most the threshold below
-- the best score so far.
local function add(pool, parent, score, token, state, node, is_blank, word)
   if score > pool.best then pool.best = score end
   if score >= pool.best - pool.threshold then
      pool[#pool + 1] = {score = score, token = token, prefix = state, node = node,
         is_blank = is_blank, word = word, parent = parent, rank = #pool}
   end
end

local function is_before(a, b)
   if a.score ~= b.score then return a.score > b.score end
   return a.rank < b.rank
end

local function log_add(a, b)
   local high, low = math.max(a, b), math.min(a, b)
   if low == none then return high end
   return high + math.log(1 + math.exp(low - high))
end

-- Merges equal candidates of `pool`, and returns at most beam_size of them, the best first.
local function select_best(self, pool)
   local kept, index, o = {}, {}, self.options
   local nodes = self.root and #self.nodes + 1 or 1
   table.sort(pool, is_before)
   for _, one in ipairs(pool) do
      if one.score < pool.best - pool.threshold then break end
      local key = (one.prefix.id * nodes + (one.node and one.node.id or 0)) * 2 * #self.names
         + 2 * (one.token - 1) + (one.is_blank and 1 or 0)
      local first = index[key]
      if not first then
         index[key], kept[#kept + 1] = one, one
      elseif o.log_add then
         first.score = log_add(first.score, one.score)
      end
   end
   if o.log_add then table.sort(kept, is_before) end
   return table.move(kept, 1, math.min(#kept, o.beam_size), 1, {})
end

-- Extends a hypothesis by each token of the list `order`, in a search without a lexicon.
local function extend_free(self, pool, one, row, order)
   local o, blank, sil = self.options, self.blank, self.sil
   for _, token in ipairs(order) do
      local score = one.score + row[token] + (token == sil and o.sil_score or 0)
      if token == blank then
         add(pool, one, score, token, one.prefix, nil, true)
      elseif token ~= one.token or one.is_blank then
         local state, lm_score = advance(self, one.prefix, token)
         add(pool, one, score + o.lm_weight * lm_score, token, state, nil, false)
      else
         add(pool, one, score, token, one.prefix, nil, false)
      end
   end
end

-- Adds the hypotheses that extend `one` by a token that leads to `node` of the lexicon: one that
-- stays at `node`, if longer words continue there, and one at the root for each word that ends at
-- `node`. If no word ends there, adds one at the root for an unknown word, if unk_score allows
-- this.
local function enter(self, pool, one, score, token, node)
   local o, root = self.options, self.root
   local most = one.node.most
   if (one.is_blank or token ~= one.token) and next(node.children) then
      add(pool, one, score + o.lm_weight * (node.most - most), token, one.prefix, node, false)
   end
   local function finish(word, extra)
      local state, lm_score = advance(self, one.prefix, word)
      add(pool, one, score + o.lm_weight * (lm_score - most) + extra, token, state, root, false,
         word)
   end
   -- A repeated token cannot begin a word, since CTC needs a blank between two equal tokens.
   if one.node ~= root or token ~= one.token then
      for _, word in ipairs(node.words) do finish(word, o.word_score) end
   end
   if #node.words == 0 and o.unk_score > none then finish(o.unk_word, o.unk_score) end
end

local function extend_by_lexicon(self, pool, one, row, order)
   local o, blank, sil = self.options, self.blank, self.sil
   local node, is_root = one.node, one.node == self.root
   for _, token in ipairs(order) do
      local child = node.children[token]
      if child then
         local score = one.score + row[token] + (token == sil and o.sil_score or 0)
         enter(self, pool, one, score, token, child)
      end
   end
   if not one.is_blank or is_root then
      local token = is_root and sil or one.token
      local score = one.score + row[token] + (token == sil and o.sil_score or 0)
      add(pool, one, score, token, one.prefix, node, false)
   end
   add(pool, one, one.score + row[blank], blank, one.prefix, node, true)
end

-- Returns the positions of the tokens that a step considers: all tokens, or the beam_size_token
-- tokens with the highest scores.
local function order_of(self, row)
   local order, most = {}, self.options.beam_size_token
   for i = 1, #row do order[i] = i end
   if not most or most >= #row then return order end
   table.sort(order, function(a, b)
      if row[a] ~= row[b] then return row[a] > row[b] end
      return a < b
   end)
   return table.move(order, 1, most, 1, {})
end

local function begin(self)
   self.states, self.steps, self.is_ended = 1, 0, false
   local start = {id = 1, next = {}, score = 0.0,
      context = self.lm and (self.lm.order > 1 and {"<s>"} or {})}
   self.beam = {{score = 0.0, token = self.sil, prefix = start, node = self.root,
      is_blank = false}}
end

local function new_pool(self) return {best = none, threshold = self.options.beam_threshold} end

local function step(self, rows)
   local extend = self.root and extend_by_lexicon or extend_free
   for _, row in ipairs(rows) do
      local pool, order = new_pool(self), order_of(self, row)
      for _, one in ipairs(self.beam) do extend(self, pool, one, row, order) end
      -- The old hypotheses are kept as parents of the new ones. Without these fields, states that
      -- the new beam does not use can be collected.
      for _, one in ipairs(self.beam) do one.prefix, one.node = nil, nil end
      self.beam = select_best(self, pool)
      self.steps = self.steps + 1
   end
end

local function finish(self)
   local pool, o, is_complete = new_pool(self), self.options, false
   for _, one in ipairs(self.beam) do is_complete = is_complete or one.node == self.root end
   for _, one in ipairs(self.beam) do
      if not is_complete or one.node == self.root then
         local score, state = one.score, one.prefix
         if self.lm then
            score = score + o.lm_weight * arpa.score(self.lm, state.context, "</s>")
         end
         add(pool, one, score, self.sil, state, one.node, false)
      end
   end
   self.beam, self.is_ended = select_best(self, pool), true
end

-- Returns the result for a final hypothesis, whose steps are found through its parents.
local function result_of(self, last)
   local path, words, count = {}, {}, self.steps + 1
   local one = last
   for t = count, 0, -1 do
      path[t] = one.token
      if one.word then table.insert(words, 1, one.word) end
      one = one.parent
   end
   local tokens, steps = {}, {}
   for t = 0, count do
      if path[t] ~= self.blank and path[t] ~= path[t - 1] then
         tokens[#tokens + 1], steps[#steps + 1] = path[t], t
      end
   end
   return {words = words, score = last.score,
      tokens = torch.tensor(tokens, {dtype = "int64"}),
      timesteps = torch.tensor(steps, {dtype = "int32"})}
end

local function results_of(self)
   local results = {}
   for i = 1, math.min(self.options.nbest, #self.beam) do
      results[i] = result_of(self, self.beam[i])
   end
   return results
end

-- Checks emissions, and returns their scores as lists of numbers.
local function rows_of(self, title, emissions, dims)
   local count = #self.names
   local shape = ("(%stime, %d), one score for each token"):format(dims == 3 and "batch, " or "",
      count)
   if not emissions:is_floating_point() or emissions:dim() ~= dims
      or emissions:size(dims) ~= count then
      args.refuse(title, "emissions", "floating-point numbers of shape " .. shape, emissions)
   end
   local x = emissions:detach():cpu():double()
   local wrong = x:isnan():logical_or(x:eq(math.huge))
   if wrong:any():item() then
      local where = wrong:nonzero()[1]:tolist()
      torch.raise(("%s: emissions: expected no NaN and no infinity, got %s at [%s]"):format(title,
         x[wrong][1]:item() ~= math.huge and "NaN" or "inf", table.concat(where, ", ")))
   end
   return x:tolist()
end

-- The class ---------------------------------------------------------------------------------------

local take_call = args.signature(prefix .. "CTCDecoder(emissions: tensor, lengths: tensor?)")

function CTCDecoder:__call(...)
   local title, a = prefix .. "CTCDecoder", take_call(...)
   local all, results = rows_of(self, title, a.emissions, 3), {}
   local count, steps = a.emissions:size(1), a.emissions:size(2)
   local lengths = a.lengths
   if lengths and (lengths:dim() ~= 1 or lengths:size(1) ~= count
      or lengths:is_floating_point()) then
      args.refuse(title, "lengths", ("integers of shape (%d)"):format(count), lengths)
   end
   lengths = lengths and lengths:tolist()
   for i = 1, count do
      local n = lengths and lengths[i] or steps
      if n < 0 or n > steps then
         args.refuse(title, "lengths", ("lengths from 0 to %d"):format(steps), n)
      end
   end
   for i = 1, count do
      begin(self)
      step(self, table.move(all[i], 1, lengths and lengths[i] or steps, 1, {}))
      finish(self)
      results[i] = results_of(self)
   end
   self.beam = nil
   return results
end

local function check_begun(self, name)
   if not self.beam or self.is_ended then
      torch.raise(("%sCTCDecoder.%s: expected a call of decode_begin before"):format(prefix, name))
   end
end

--- Begins to decode emissions that arrive in parts.
---
---     local ctc_decoder = torch.audio.models.decoder.ctc_decoder
---     local decoder = ctc_decoder {tokens = {"-", "|", "a"}}
---     decoder:decode_begin()
---     for _ = 1, 3 do decoder:decode_step(torch.randn(5, 3):log_softmax(2)) end
---     decoder:decode_end()
---     print(#decoder:get_final_hypothesis())
---     --> 1
function CTCDecoder:decode_begin() begin(self) end

local take_step = args.signature(prefix .. "CTCDecoder.decode_step(emissions: tensor)")

--- Continues with the next steps.
---@param emissions Tensor  (time, tokens)
function CTCDecoder:decode_step(...)
   local a = take_step(...)
   check_begun(self, "decode_step")
   step(self, rows_of(self, prefix .. "CTCDecoder.decode_step", a.emissions, 2))
end

--- Ends the decoding of emissions that arrive in parts.
function CTCDecoder:decode_end()
   check_begun(self, "decode_end")
   finish(self)
end

--- Returns the best hypotheses after `decode_end`, as a call of the decoder does for one example.
---@return table[] hypotheses
function CTCDecoder:get_final_hypothesis()
   if not self.beam or not self.is_ended then
      torch.raise(prefix .. "CTCDecoder.get_final_hypothesis: expected a call of decode_end before")
   end
   return results_of(self)
end

local take_tokens = args.signature(prefix .. "CTCDecoder.idxs_to_tokens(idxs: tensor|table)")

--- Returns the names of tokens, given their positions.
---
---     local ctc_decoder = torch.audio.models.decoder.ctc_decoder
---     local decoder = ctc_decoder {tokens = {"-", "|", "a"}}
---     print(table.concat(decoder:idxs_to_tokens(torch.tensor {2, 3, 2}), " "))
---     --> | a |
---@param idxs Tensor|integer[]  positions of tokens
---@return string[]
function CTCDecoder:idxs_to_tokens(...)
   local title, a = prefix .. "CTCDecoder.idxs_to_tokens", take_tokens(...)
   local idxs, names = a.idxs, {}
   if torch.is_tensor(idxs) then
      if idxs:dim() ~= 1 then args.refuse(title, "idxs", "a tensor of shape (length)", idxs) end
      idxs = idxs:tolist()
   end
   for i, token in ipairs(idxs) do
      names[i] = self.names[token]
      if not names[i] then
         args.refuse(title, "idxs", ("positions from 1 to %d"):format(#self.names), token)
      end
   end
   return names
end

-- Sets `most` of each node except the root to the best score of all words at or below the node.
-- Words with the same spelling count as one word, and its score is the log_add of their scores.
-- Nodes are visited from last to first, because each node comes before its children in the list.
local function spread(nodes, score_of)
   for i = #nodes, 2, -1 do
      local node = nodes[i]
      for _, word in ipairs(node.words) do node.most = log_add(node.most, score_of(word)) end
      for _, child in pairs(node.children) do node.most = math.max(node.most, child.most) end
   end
end

local function check_options(title, a)
   checks.at_least(title, "nbest", a.nbest, 1)
   checks.at_least(title, "beam_size", a.beam_size, 1)
   if a.beam_size_token then checks.at_least(title, "beam_size_token", a.beam_size_token, 1) end
   checks.at_least(title, "beam_threshold", a.beam_threshold, 0)
   for _, name in ipairs {"lm_weight", "word_score", "unk_score", "sil_score"} do
      local value, can_be_none = a[name], name == "unk_score"
      if value ~= value or value == math.huge or value == none and not can_be_none then
         args.refuse(title, name, can_be_none and "a number or -inf" or "a number", value)
      end
   end
end

local take = args.signature(prefix .. [[ctc_decoder(lexicon: string|table?, tokens: string|table?,
   lm: string?, nbest: integer = 1, beam_size: integer = 50, beam_size_token: integer?,
   beam_threshold: number = 50, lm_weight: number = 2, word_score: number = 0,
   unk_score: number = -inf, sil_score: number = 0, log_add: boolean = false,
   blank_token: string = '-', sil_token: string = '|', unk_word: string = '<unk>')]])

--- Creates a decoder of CTC emissions. Each line of a lexicon has a word and then the tokens of its
--- spelling, which ends with sil_token. Without a lexicon, every sequence of tokens is allowed. The
--- language model scores words or, without a lexicon, tokens. Its scores are logarithms to base 10,
--- as in KenLM.
---
---     local ctc_decoder = torch.audio.models.decoder.ctc_decoder
---     local decoder = ctc_decoder({"ab a b |", "ba b a |"}, {"-", "|", "a", "b"})
---     local emissions = torch.eye(4)[torch.tensor {{3, 4, 2}}]
---     print(table.unpack(decoder(emissions)[1][1].words))
---     --> ab
---@param lexicon? string|string[]  a file or a list of lines
---@param tokens string|string[]  a file or a list
---@param lm? string  the file of a language model in the ARPA text format
---@param options? {nbest: integer, beam_size: integer, beam_size_token: integer,
--- beam_threshold: number, lm_weight: number, word_score: number, unk_score: number, sil_score:
--- number, log_add: boolean, blank_token: string, sil_token: string, unk_word: string}  nbest: the
--- number of hypotheses in the result; beam_size: the number of hypotheses after each step;
--- beam_size_token: the number of best tokens considered in each step, all by default;
--- beam_threshold: hypotheses that score lower than the best by more than this are dropped;
--- lm_weight: the factor of the language model's scores; word_score: the score of each word;
--- unk_score: the score of an unknown word; sil_score: the score of each step of silence; log_add:
--- whether merged hypotheses add their probabilities instead of keeping the larger one;
--- blank_token: CTC's blank; sil_token: silence between words; unk_word: the word that stands for
--- words outside the language model
---@return audio.models.decoder.CTCDecoder
function M.ctc_decoder(...)
   local title, a = prefix .. "ctc_decoder", take(...)
   if not a.tokens then args.refuse(title, "tokens", "a file or a list of tokens", a.tokens) end
   check_options(title, a)
   local self = CTCDecoder()
   self.options = a
   local positions
   self.names, positions = lists.tokens(title, a.tokens)
   self.blank, self.sil = positions[a.blank_token], positions[a.sil_token]
   for _, key in ipairs {"blank_token", "sil_token"} do
      if not positions[a[key]] then args.refuse(title, key, "one of the tokens", a[key]) end
   end
   self.lm = a.lm and arpa.read(title, a.lm)
   if a.lexicon then
      self.nodes = lists.lexicon(title, a.lexicon, positions, self.blank)
      self.root = self.nodes[1]
      local start = self.lm and self.lm.order > 1 and {"<s>"} or {}
      spread(self.nodes, function(word)
         return self.lm and (arpa.score(self.lm, start, word)) or 0.0
      end)
   end
   return self
end

return M
