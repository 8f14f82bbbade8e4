-- engine.lua - a common interface to language models in GGUF files and in folders that Hugging
-- Face's library has saved. An engine has the fields `tokenizer`, `context` (the largest number of
-- tokens, or nil), `vocab` (the number of tokens that both the tokenizer and the model know) and
-- `can_generate`, and the methods `start`, `step`, `cancel`, `log_probabilities` and `embed`. All
-- texts are generated in one batch.

local torch = require "tlua"
local caches = require "tlua.text.models.rounded_caches"
local drafts = require "tlua.llm.drafts"
local grammars = require "tlua.llm.grammar"
local pieces = require "tlua.serve.pieces"
local sampling = require "tlua.llm.sampling"
local Scheduler = require "tlua.llm.scheduler"

local Engine = {}
Engine.__index = Engine

-- The largest number of tokens that one step computes. The limit keeps a long prompt from delaying
-- the texts that are being generated.
local step_tokens <const> = 256
-- The largest amount of memory for keys and values that are kept after a text has ended, for a
-- later prompt with the same beginning.
local idle_bytes <const> = 512 << 20

local function make_scheduler(self, options)
   local config = self.model.config
   local size = config.head_dim or (config.hidden_size or config.n_embd)
      // (config.num_attention_heads or config.n_head)
   local fits, problem = caches.fits(options.cache_type, size)
   if not fits then torch.raise("serve: " .. problem) end
   self.scheduler = Scheduler(self.model, {n_parallel = options.max_batch_size,
      n_batch = step_tokens, new_cache = caches.kinds[options.cache_type],
      device = self.device, vocab = self.tokenizer.vocab_size,
      idle_bytes = idle_bytes})
   self.vocab = math.min(self.tokenizer.vocab_size, self.model.config.vocab_size)
   self.ends = {}
   for _, token in ipairs(self.eos) do self.ends[token] = true end
end

--- Begins to continue a text; each call of `step` then adds tokens. Token numbers count from 1.
---@param ids integer[]  the tokens of the prompt
---@param options table  max_new_tokens, temperature, top_p, top_k, seed, presence_penalty,
--- frequency_penalty, logit_bias (maps tokens to numbers that are added to their logits), grammar
--- (an llm.Grammar), logprobs (whether on_token may call its sampler's log_probabilities)
---@param on_token fun(token: integer, sampler: table): boolean?  called for each new token; returns
--- true to end the generation
---@return table entry  its field `reason` is nil until the end, and then "stop" at an end token or
--- if on_token returned true, "length" after max_new_tokens, "cancelled", or "error"; `cached` is
--- the number of tokens of the prompt that were not computed again
function Engine:start(ids, options, on_token)
   if options.max_new_tokens == 0 then return {reason = "length", cached = 0} end
   local o = {
      temperature = options.temperature, top_p = options.top_p, top_k = options.top_k, min_p = 0.0,
      typical_p = 1.0, repeat_penalty = 1.0, repeat_last_n = -1, penalty_from = #ids,
      presence_penalty = options.presence_penalty, frequency_penalty = options.frequency_penalty,
      logit_bias = options.logit_bias, seed = options.seed, logprobs = options.logprobs,
      draft_model = self.draft_model,
      grammar = options.grammar and grammars._matcher("serve", options.grammar, self.pieces),
   }
   for name, value in pairs(drafts.defaults) do o[name] = value end
   local draft, sampler, count = drafts.maker("serve", o, self.llm), sampling.sampler(o), 0
   return self.scheduler:add(table.move(ids, 1, #ids, 1, {}), {sampler = sampler,
      draft = draft and function(tokens, room)
         return draft(tokens, math.min(room, options.max_new_tokens - count - 1))
      end,
      accept = function(token)
         if self.ends[token] then return "stop" end
         count = count + 1
         if o.grammar then o.grammar:accept(token) end
         if on_token(token, sampler) then return "stop" end
         return count >= options.max_new_tokens and "length" or nil
      end})
end

--- Computes the next token of each text. If the computation fails, all texts that are being
--- computed end with an error.
function Engine:step()
   local scheduler = self.scheduler
   local ok, problem = pcall(scheduler.step, scheduler)
   if ok then return end
   for i = #scheduler.open, 1, -1 do scheduler:finish(scheduler.open[i], "error", problem) end
end

--- Ends the generation of a text.
---@param entry table
function Engine:cancel(entry) self.scheduler:finish(entry, "cancelled") end

-- Log probabilities of a text are computed for this many positions together.
local block <const> = 64

-- Appends to `list` the log probabilities of the tokens from first + 1 to last + 1.
local function log_probabilities(self, ids, first, last, count, cache, list)
   local _ <close> = torch.no_grad()
   local like = {dtype = "int64", device = self.device}
   local result = self.model {input_ids = torch.tensor({table.move(ids, first, last, 1, {})}, like),
      past_key_values = cache, logits_to_keep = last - first + 1}
   local all = result.logits[1]:to("cpu"):float():narrow(2, 1, self.vocab):log_softmax(2)
   local next_ones = torch.tensor({table.move(ids, first + 1, last + 1, 1, {})},
      {dtype = "int64", device = "cpu"}):t()
   local own, best, places = all:gather(2, next_ones):flatten():tolist(), {}, {}
   if count > 0 then
      local values, indices = all:topk(math.min(count, self.vocab), 2)
      best, places = values:tolist(), indices:tolist()
   end
   for i, value in ipairs(own) do
      if value ~= value then
         torch.raise "the logits are NaN: the file's weights are damaged, or overflow"
      end
      list[first + i] = {value, places[i] or {}, best[i] or {}}
   end
end

--- Returns a table {[position] = {number, integer[], number[]}} with an entry for each token after
--- the first. The number is the log probability of the token, given the tokens before it. The lists
--- have the `count` most probable tokens at this position and their log probabilities.
---@param ids integer[]
---@param count integer
---@param wait fun()  called after each part of the computation
---@return table<integer, table>
function Engine:log_probabilities(ids, count, wait)
   local cache, list = self.scheduler.new_cache(), {}
   for first = 1, #ids - 1, block do
      log_probabilities(self, ids, first, math.min(#ids - 1, first + block - 1), count, cache, list)
      wait()
   end
   return list
end

--- Returns an embedding for each list of tokens: the mean of the last layer's hidden states, scaled
--- to length 1.
---@param batch integer[][]
---@return number[][]
function Engine:embed(batch)
   local out = {}
   for i, ids in ipairs(batch) do
      local input = torch.tensor({ids}, {dtype = "int64", device = self.device})
      local result = self.model(input, {output_hidden_states = true})
      local states = result.last_hidden_state or result.hidden_states[#result.hidden_states]
      local mean = states[1]:float():mean(1)
      out[i] = (mean / mean:norm():clamp(1e-12)):cpu():tolist()
   end
   return out
end

local function list_of(value)
   if value == nil then return {} end
   return type(value) == "table" and value or {value}
end

-- GGUF ------------------------------------------------------------------------------------------

-- Replaces bytes that are not valid UTF-8 by U+FFFD. Such bytes occur in an incomplete character,
-- for example.
local function clean(text)
   local length, wrong = utf8.len(text)
   while not length do
      text = text:sub(1, wrong - 1) .. "\u{FFFD}" .. text:sub(wrong + 1)
      length, wrong = utf8.len(text)
   end
   return text
end

-- Wraps the tokenizer of a GGUF file so that it has the methods of text.Tokenizer which the server
-- calls.
local Packed = {}
Packed.__index = Packed

function Packed:encode(text) return {ids = self.inner:encode(text)} end

function Packed:decode(ids) return clean(self.inner:decode(ids)) end

function Packed:apply_chat_template(messages, options)
   local inner = self.inner
   local text = inner:apply_chat_template(messages, options)
   local bos = inner.special_tokens.bos_token
   local adds = inner.adds_bos and not (bos and text:sub(1, #bos) == bos)
   return {input_ids = inner:encode(text, {special = true, add_bos = adds})}
end

-- Returns the draft for speculative decoding: the model that proposes tokens, or "prompt_lookup".
-- Returns nil if the options name no draft.
local function draft_model_of(path, options, llm)
   local draft = options.draft_model
   if not draft or draft == "prompt_lookup" then return draft or nil end
   if not llm then
      torch.raise('serve: draft_model: expected "prompt_lookup", since only GGUF files have draft '
         .. "models, got " .. draft)
   end
   if draft:sub(1, 1) ~= "/" then draft = (path:match "^.*/" or "") .. draft end
   local model = torch.llm.load(draft, {device = options.device})
   drafts.maker("serve", {draft_model = model, num_pred_tokens = 1, max_ngram_size = 1}, llm)
   return model
end

local function load_gguf(path, options)
   local llm = torch.llm.load(path, {device = options.device})
   local self = setmetatable({llm = llm, pieces = llm.tokenizer}, Engine)
   self.draft_model = draft_model_of(path, options, llm)
   self.model, self.device, self.context = llm.model, llm.device, llm.n_ctx
   self.can_generate = true
   self.tokenizer = setmetatable({inner = llm.tokenizer, vocab_size = #llm.tokenizer.tokens,
      chat_template = llm.tokenizer.chat_template}, Packed)
   self.eos = {}
   for token in pairs(llm.tokenizer.ends) do self.eos[#self.eos + 1] = token end
   make_scheduler(self, options)
   return self
end

local M = {}

--- Loads a language model.
---@param path string  a folder that Hugging Face's library has saved, or a GGUF file
---@param options table
---@return table engine
function M.load(path, options)
   if path:find "%.gguf$" then return load_gguf(path, options) end
   local text = torch.text
   local self = setmetatable({}, Engine)
   self.model = text.from_pretrained(path):eval()
   self.device = torch.device(options.device or "cpu")
   if options.device then self.model:to(options.device) end
   local message
   self.tokenizer, message = text.Tokenizer.from_pretrained(path)
   if not self.tokenizer then torch.raise("serve: " .. message) end
   local config, own = self.model.config, self.model.generation_config or {}
   self.context = config.max_position_embeddings or config.n_positions
   self.can_generate = self.model.can_generate and self.model.inputs ~= "seq2seq" or false
   self.eos = {}
   for _, token in ipairs(list_of(own.eos_token_id or config.eos_token_id)) do
      if math.type(token) == "integer" then self.eos[#self.eos + 1] = token + 1 end
   end
   if self.can_generate then
      make_scheduler(self, options)
      self.pieces = pieces.of(self.tokenizer, self.ends)
      self.draft_model = draft_model_of(path, options, nil)
   end
   self.vocab = self.vocab or self.tokenizer.vocab_size
   return self
end

return M
