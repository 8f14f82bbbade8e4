-- engine.lua - the same interface to language models in GGUF files and in Hugging Face's folders:
-- `tokenizer`, `context` (the largest number of tokens, or nil), `generate` and `embed`.

local torch = require "tlua"

local Engine = {}
Engine.__index = Engine

-- Returns a logits processor for the penalties and biases of a request; nil if there are none.
local function adjust(options, prompt_length)
   local presence, frequency = options.presence_penalty, options.frequency_penalty
   local bias = options.logit_bias
   if presence == 0 and frequency == 0 and not next(bias) then return nil end
   return function(ids, scores)
      local changes = {}
      for token, value in pairs(bias) do changes[token] = value end
      if presence ~= 0 or frequency ~= 0 then
         local counts = {}
         for i = prompt_length + 1, ids:size(2) do
            local token = ids[1][i]:item()
            counts[token] = (counts[token] or 0) + 1
         end
         for token, n in pairs(counts) do
            changes[token] = (changes[token] or 0) - presence - frequency * n
         end
      end
      local tokens, values = {}, {}
      for token, value in pairs(changes) do
         tokens[#tokens + 1], values[#values + 1] = token, value
      end
      if #tokens == 0 then return scores end
      local index = torch.tensor({tokens}, {dtype = "int64", device = scores.device})
      return scores:scatter_add(2, index, torch.tensor({values}, {dtype = scores.dtype,
         device = scores.device}))
   end
end

--- Continues a text. Token numbers count from 1.
---@param ids integer[]  the tokens of the prompt
---@param options table  max_new_tokens, temperature, top_p, top_k, seed, presence_penalty,
--- frequency_penalty, logit_bias (maps tokens to numbers that are added to their logits)
---@param on_token fun(token: integer): boolean?  called for each new token; returns true to end the
--- generation
---@return string reason  "stop" at an end token, "length" after max_new_tokens, or "ended" if
--- on_token returned true
function Engine:generate(ids, options, on_token)
   local reason = "length"
   local eos = {}
   for _, token in ipairs(self.eos) do eos[token] = true end
   local function streamer(new)
      local token = new[1]:item()
      if eos[token] then
         reason = "stop"
         return true
      end
      if on_token(token) then
         reason = "ended"
         return true
      end
   end
   local generator
   if options.temperature > 0 then
      generator = torch.Generator()
      generator:manual_seed(options.seed or math.random(0, 1 << 31))
   end
   local processor = adjust(options, #ids)
   local given = {
      max_new_tokens = options.max_new_tokens, do_sample = options.temperature > 0,
      streamer = streamer, eos_token_id = self.eos, logits_processor = processor and {processor},
      generator = generator, pad_token_id = self.eos[1],
   }
   if options.temperature > 0 then
      given.temperature, given.top_p, given.top_k = options.temperature, options.top_p,
         options.top_k
   end
   self.model:generate(torch.tensor({ids}, {dtype = "int64", device = self.device}), given)
   return reason
end

--- Returns an embedding for each list of tokens: the mean of the last layer's states, scaled to
--- length 1.
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

-- Replaces bytes that are not UTF-8, such as an incomplete character, by U+FFFD.
local function clean(text)
   local length, wrong = utf8.len(text)
   while not length do
      text = text:sub(1, wrong - 1) .. "\u{FFFD}" .. text:sub(wrong + 1)
      length, wrong = utf8.len(text)
   end
   return text
end

-- Adapts a GGUF file's tokenizer to the methods of text.Tokenizer that the server calls.
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

local function load_gguf(path, options)
   local llm = torch.llm.load(path, {device = options.device})
   local self = setmetatable({}, Engine)
   self.model, self.device, self.context = llm.model, llm.device, llm.n_ctx
   self.can_generate = true
   self.tokenizer = setmetatable({inner = llm.tokenizer, vocab_size = #llm.tokenizer.tokens,
      chat_template = llm.tokenizer.chat_template}, Packed)
   self.eos = {}
   for token in pairs(llm.tokenizer.ends) do self.eos[#self.eos + 1] = token end
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
   return self
end

return M
