-- Model.lua - a language model with its tokenizer. It continues texts, answers in conversations,
-- and returns embeddings. Methods and options have llama-cpp-python's names.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local gguf = require "tlua.io.gguf"
local source = require "tlua.io.source"
local architectures = require "tlua.llm.architectures"
local Tokenizer = require "tlua.llm.tokenizer"
local Scheduler = require "tlua.llm.scheduler"
local batches = require "tlua.llm.Batch"
local caches = require "tlua.text.models.rounded_caches"
local drafts = require "tlua.llm.drafts"
local loading = require "tlua.llm.loading"
local sampling = require "tlua.llm.sampling"
local text_stream = require "tlua.llm.text_stream"

local M = {}

--- A language model that was read from a GGUF file, with its tokenizer.
---
---     local ok, why = pcall(torch.llm.load, "nothing.gguf")
---     print(ok, why:match "nothing.*")
---     --> false	nothing.gguf: No such file or directory
---@class llm.Model
---@field model text.PreTrainedModel  a model whose layers have packed weights
---@field tokenizer llm.Tokenizer  the file's tokenizer
---@field metadata table<string, any>  the file's metadata. A list of at least 1024 items takes
--- little memory, and can be read like a table: by indices, `#`, ipairs, pairs, torch.tensor and
--- the functions of the library `table`, but not by `next`; its items can be replaced
---@field path string  the file's name
---@field n_ctx integer  the largest number of tokens in a text
---@field n_batch integer  the largest number of tokens that one call of the network computes
local Model = class.class("llm.Model")
M.Model = Model

local take_load = args.signature [[llm.load(path: string, n_ctx: count?, n_batch: count = 512,
   device: device?, dtype: string?, cache_type: string?)]]

local floating <const> = {float16 = true, bfloat16 = true, float32 = true, float64 = true}

--- Loads a GGUF file. On the CPU, weights stay packed in the memory-mapped file, of which parts are
--- read when they are used. With the option dtype, and on a GPU, weights are unpacked when the file
--- is loaded.
---@param path string
---@param options? {n_ctx: integer, n_batch: integer, device: string|torch.device, dtype: string,
--- cache_type: string}  n_ctx: the largest number of tokens in a text, by default (or if it is 0)
--- the model's own limit; n_batch: the largest number of tokens that one call of the network
--- computes; dtype: the floating dtype to which weights are unpacked, float16 by default on a GPU;
--- cache_type: the form of cached keys and values: "f16", the default for packed weights; "f32",
--- which keeps them as they are, the default for other weights; or "q8_0", with about half the
--- memory of "f16"
---@return llm.Model
function M.load(...)
   local a = take_load(...)
   local device = torch.device(a.device or "cpu")
   local dtype = a.dtype
   if not dtype and device.type ~= "cpu" and device.type ~= "sim" then dtype = "float16" end
   if dtype and not floating[dtype] then
      args.refuse("llm.load", "dtype", "a floating dtype", dtype)
   end
   if a.n_batch < 1 then args.refuse("llm.load", "n_batch", "at least 1", a.n_batch) end
   local cache_type = a.cache_type or dtype and "f32" or "f16"
   if not caches.kinds[cache_type] then
      args.refuse("llm.load", "cache_type", '"f32", "f16" or "q8_0"', cache_type)
   end
   local file <close>, message = io.open(a.path, "rb")
   if not file then torch.raise("llm.load: " .. message) end
   local self = Model()
   local ok, why = source.protect(function()
      local bytes = source.bytes(file, a.path)
      if device.type == "sim" and not dtype then dtype = "float32" end
      local s, infos, metadata = gguf.open(bytes, true)
      architectures.of(metadata)
      self.path, self.metadata = a.path, metadata
      self.file, self.adapters = {bytes = bytes, infos = infos}, {}
      self.tokenizer = Tokenizer._read(metadata)
      self.model = loading.model(s, infos, metadata, {device = device, dtype = dtype})
      return true
   end)
   if not ok then torch.raise(("llm.load: %s: %s"):format(a.path, why)) end
   local config = self.model.config
   if config.vocab_size ~= #self.tokenizer.tokens then
      torch.raise(("llm.load: %s: token_embd.weight: expected a row for each of the %d tokens, got "
         .. "%d"):format(a.path, #self.tokenizer.tokens, config.vocab_size))
   end
   local fits, problem = caches.fits(cache_type, config.head_dim)
   if not fits then torch.raise(("llm.load: %s: %s"):format(a.path, problem)) end
   self.cache_type = cache_type
   self.n_ctx = a.n_ctx and a.n_ctx > 0 and a.n_ctx or config.max_position_embeddings
   self.n_batch, self.device = a.n_batch, device
   self.schedulers = setmetatable({}, {__mode = "k"})
   self.scheduler = self:_scheduler(1)
   return self
end

function Model:__tostring()
   local config = self.model.config
   return ("llm.Model(%s, %s, %d layers, %d tokens)"):format(
      tostring(self.metadata["general.name"] or self.path), config.model_type,
      config.num_hidden_layers, config.vocab_size)
end

-- Returns a scheduler that computes up to `n_parallel` sequences together.
function Model:_scheduler(n_parallel)
   local made = Scheduler(self.model, {n_parallel = n_parallel, n_batch = self.n_batch,
      device = self.device, new_cache = caches.kinds[self.cache_type]})
   self.schedulers[made] = true
   return made
end

-- Empties the caches of all batches. It is called when layers have changed, since cached keys and
-- values are then no longer valid.
local function reset_all(self)
   for scheduler in pairs(self.schedulers) do scheduler:reset(true) end
end

--- Empties the cache of keys and values, so that the next text is computed from its beginning.
function Model:reset() self.scheduler:reset() end

--- Returns the tokens of a text, as llm.Tokenizer:encode does.
---@param text string
---@param options? {add_bos: boolean, special: boolean}
---@return integer[]
function Model:tokenize(text, options) return self.tokenizer:encode(text, options) end

--- Returns the text of tokens, as llm.Tokenizer:decode does.
---@param tokens integer[]
---@param options? {special: boolean}
---@return string
function Model:detokenize(tokens, options) return self.tokenizer:decode(tokens, options) end

local take_lora = args.signature "llm.Model.load_lora(path: string, scale: number = 1.0)"

--- Adds a LoRA adapter from a GGUF file to the layers, in addition to earlier adapters. Returns the
--- number of layers that the adapter changes.
---@param path string
---@param scale? number  the adapter's output is multiplied by this factor
---@return integer
function Model:load_lora(...)
   local a = take_lora(...)
   if a.scale ~= a.scale or math.abs(a.scale) == math.huge then
      args.refuse("llm.Model.load_lora", "scale", "a finite number", a.scale)
   end
   local file <close>, message = io.open(a.path, "rb")
   if not file then torch.raise("llm.Model.load_lora: " .. message) end
   local sum
   local count, why = source.protect(function()
      local bytes = source.bytes(file, a.path)
      local s, infos, metadata = gguf.open(bytes)
      sum = torch.io._sha256(bytes)
      return loading.add_lora(self, s, infos, metadata, a.scale)
   end)
   if not count then torch.raise(("llm.Model.load_lora: %s: %s"):format(a.path, why)) end
   self.adapters[#self.adapters + 1] = {sum = sum, scale = a.scale}
   reset_all(self)
   return count
end

--- Removes all LoRA adapters.
function Model:remove_lora()
   for _, module in ipairs(self.model:modules()) do
      if torch.type(module) == "llm.Linear" then module.lora = nil end
   end
   self.adapters = {}
   reset_all(self)
end

local take_state = args.signature "llm.Model.save_state(path: string)"

--- Saves the keys and values of the last text to a file, so that later programs need not compute
--- its tokens again. Returns the number of tokens.
---@param path string
---@return integer
function Model:save_state(...)
   return require "tlua.llm.state".save(self, take_state(...).path)
end

local take_load_state = args.signature "llm.Model.load_state(path: string)"

--- Loads keys and values that save_state has saved. If the next text begins with the same tokens,
--- they are not computed again. A file that is damaged, or that belongs to another model, other
--- adapters or another cache_type, raises an error and leaves the model unchanged. Returns the
--- number of tokens.
---@param path string
---@return integer
function Model:load_state(...)
   return require "tlua.llm.state".load(self, take_load_state(...).path)
end

-- Computing -------------------------------------------------------------------------------------

local function check_tokens(self, title, tokens)
   if type(tokens) ~= "table" then
      args.refuse(title, "tokens", "a list with at least one token", tokens)
   elseif #tokens == 0 then
      torch.raise(title .. ": tokens: expected at least one token, got none")
   end
   local most = self.model.config.vocab_size
   for i = 1, #tokens do
      local token = tokens[i]
      if math.type(token) ~= "integer" or token < 1 or token > most then
         args.refuse(title, ("tokens[%d]"):format(i), ("a token from 1 to %d"):format(most), token)
      end
   end
   if #tokens > self.n_ctx then
      torch.raise(("%s: expected at most n_ctx = %d tokens, got %d"):format(title, self.n_ctx,
         #tokens))
   end
end

--- Returns the logits of all positions.
---@param tokens integer[]
---@return Tensor  (S, V) float32
function Model:logits(tokens)
   check_tokens(self, "llm.Model.logits", tokens)
   local _ <close> = torch.no_grad()
   return self.scheduler:logits(tokens, #tokens)
end

local take_perplexity = args.signature "llm.Model.perplexity(text: any, n_ctx: count?)"

--- Returns the perplexity of a text, by llama.cpp's formula. The tokens are divided into chunks of
--- n_ctx tokens. The first token of each chunk is replaced by the token that begins texts, if the
--- model has such a token. The result is the exponential of the mean negative log-likelihood of the
--- tokens in the second half of each chunk. Tokens after the last whole chunk are ignored.
---@param text string|integer[]  a text, or a list of tokens
---@param n_ctx? integer  the number of tokens of a chunk, by default 512 or the model's limit
---@return number perplexity
---@return number uncertainty  the standard error of the perplexity
---@return integer count  the number of tokens that were predicted
function Model:perplexity(text, ...)
   local title <const> = "llm.Model.perplexity"
   local a = take_perplexity(text, ...)
   local n = a.n_ctx or math.min(512, self.n_ctx)
   if n < 4 or n > self.n_ctx then
      args.refuse(title, "n_ctx", ("4 to %d, the model's limit"):format(self.n_ctx), n)
   end
   local tokens = a.text
   if type(tokens) == "string" then
      tokens = self.tokenizer:encode(tokens)
   elseif type(tokens) ~= "table" then
      args.refuse(title, "text", "a text, or a list of tokens", tokens)
   end
   if #tokens < 2 * n then
      torch.raise(("%s: expected at least 2 * n_ctx = %d tokens, got %d"):format(title, 2 * n,
         #tokens))
   end
   local _ <close> = torch.no_grad()
   local sum, squares, count, first = 0, 0, 0, n // 2 + 1
   for begin = 1, #tokens - n + 1, n do
      local chunk = table.move(tokens, begin, begin + n - 1, 1, {})
      if self.tokenizer.adds_bos and self.tokenizer.bos then chunk[1] = self.tokenizer.bos end
      check_tokens(self, title, chunk)
      local logits = self.scheduler:logits(chunk, n - first + 1):narrow(1, 1, n - first)
      local next_ones = torch.tensor({table.unpack(chunk, first + 1, n)},
         {dtype = "int64", device = "cpu"})
      local loss = torch.nn.functional.cross_entropy(logits, next_ones, {reduction = "none"})
         :double()
      sum, squares = sum + loss:sum():item(), squares + loss:square():sum():item()
      count = count + n - first
   end
   self:reset()
   local mean = sum / count
   local spread = math.max(0, squares / count - mean ^ 2)
   return math.exp(mean), math.exp(mean) * math.sqrt(spread / (count - 1)), count
end

-- Generation ------------------------------------------------------------------------------------

local defaults = {max_tokens = 16, echo = false}
for name, value in pairs(sampling.defaults) do defaults[name] = value end
for name, value in pairs(drafts.defaults) do defaults[name] = value end
local others = {draft_model = true, stop = true, stream = true, suffix = true, logprobs = true}
for name in pairs(sampling.others) do others[name] = true end
local kinds = {}

local function stops_of(title, stop)
   if stop == nil then return {} end
   if type(stop) ~= "table" then stop = {stop} end
   local list, count = {}, 0
   for i in pairs(stop) do
      if math.type(i) ~= "integer" or i < 1 then
         args.refuse(title, "stop", "a text, or a list of texts", stop)
      end
      count = math.max(count, i)
   end
   for i = 1, count do
      if type(stop[i]) ~= "string" or stop[i] == "" then
         args.refuse(title, "stop", "a text that is not empty, or a list of texts", stop[i])
      end
      list[i] = stop[i]
   end
   return list
end

local function options_of(self, title, given, own_defaults)
   local all = {}
   for name, value in pairs(defaults) do all[name] = value end
   for name, value in pairs(own_defaults or {}) do all[name] = value end
   local o = args.over_defaults(title, given or {}, all, kinds, others)
   sampling.check(title, o, self.model.config.vocab_size)
   local most = o.max_tokens
   if math.type(most) ~= "integer" then args.refuse(title, "max_tokens", "an integer", most) end
   if o.stream ~= nil and not args.is_callable(o.stream) then
      args.refuse(title, "stream", "a function", o.stream)
   end
   if o.suffix ~= nil or o.logprobs ~= nil then
      torch.raise(("%s: %s is not supported"):format(title, o.suffix and "suffix" or "logprobs"))
   end
   o.stops = stops_of(title, o.stop)
   o.draft = drafts.maker(title, o, self)
   if o.grammar ~= nil then
      o.grammar = require "tlua.llm.grammar"._matcher(title, o.grammar, self.tokenizer)
   end
   return o
end

-- Adds the tokens of a prompt to a scheduler, with the options `o`, a result of options_of. Returns
-- the internal fields of an llm.Sequence.
local function add(self, title, scheduler, prompt, o)
   check_tokens(self, title, prompt)
   local stream = text_stream.new(o.stops, o.stream)
   local most = self.n_ctx - #prompt
   if o.max_tokens > 0 then most = math.min(most, o.max_tokens) end
   local entry
   local function accept(token)
      if self.tokenizer.ends[token] then
         entry.tokens[#entry.tokens] = nil
         stream:finish()
         return "stop"
      end
      if o.grammar then o.grammar:accept(token) end
      if stream:add(self.tokenizer:piece(token)) then
         stream:finish()
         return "stop"
      end
      if #entry.tokens - entry.prompt >= most then
         stream:finish()
         return "length"
      end
   end
   local draft = o.draft and function(tokens, room)
      -- A step adds one token more than the draft has, so the draft must be shorter than the rest
      -- of the text.
      return o.draft(tokens, math.min(room, most - (#tokens - entry.prompt) - 1))
   end
   entry = scheduler:add(table.move(prompt, 1, #prompt, 1, {}),
      {sampler = sampling.sampler(o), accept = accept, draft = draft, owner = o.owner})
   if most <= 0 then scheduler:finish(entry, "length") end
   return {scheduler = scheduler, entry = entry, stream = stream}
end

-- Continues the tokens of a prompt. Returns the new text, the new tokens, and the reason why the
-- text ends: "stop" or "length".
local function continue(self, title, prompt, o)
   local scheduler = self.scheduler
   o.owner = Scheduler.weak_list()
   local own = add(self, title, scheduler, prompt, o)
   local entry = own.entry
   local _ <close> = setmetatable({}, {__close = function()
      scheduler:finish(entry, "cancelled")
   end})
   while not entry.reason do scheduler:step() end
   if entry.reason == "error" then error(entry.error, 0) end
   return own.stream.text, table.move(entry.tokens, #prompt + 1, #entry.tokens, 1, {}),
      entry.reason
end

local function prompt_of(self, title, prompt)
   if type(prompt) == "table" then return prompt end
   if type(prompt) ~= "string" then
      args.refuse(title, "prompt", "a text, or a list of tokens", prompt)
   end
   local tokens = self.tokenizer:encode(prompt, {special = true})
   if #tokens == 0 then
      tokens[1] = self.tokenizer.bos or self.tokenizer.eos
         or args.refuse(title, "prompt", "at least one token", prompt)
   end
   return tokens
end

local counter = 0

local function answer(self, kind, choice, prompt, tokens)
   counter = counter + 1
   return {
      id = ("%s-%d-%d"):format(kind == "text_completion" and "cmpl" or "chatcmpl", os.time(),
         counter),
      object = kind, created = os.time(), model = self.path, choices = {choice},
      usage = {prompt_tokens = #prompt, completion_tokens = #tokens,
         total_tokens = #prompt + #tokens},
   }
end

-- Continues a prompt. Returns the text, the new tokens, the reason why the text ends, and the
-- prompt's tokens.
local function complete(self, title, prompt, options)
   local o, tokens = options_of(self, title, options), prompt_of(self, title, prompt)
   local text, new, reason = continue(self, title, tokens, o)
   if o.echo then
      text = (type(prompt) == "string" and prompt or self.tokenizer:decode(prompt)) .. text
   end
   return text, new, reason, tokens
end

-- Adds a prompt to a scheduler. Returns an llm.Sequence.
function Model:_add(scheduler, title, prompt, options)
   local o = options_of(self, title, options)
   return batches._sequence(add(self, title, scheduler, prompt_of(self, title, prompt), o))
end

local take_batch = args.signature "llm.Model.batch(n_parallel: count = 16)"

--- Returns a batch, with which the model continues several texts together.
---@param n_parallel? integer  the largest number of texts that are computed together; each has its
--- own cache of keys and values
---@return llm.Batch
function Model:batch(...)
   local a = take_batch(...)
   if a.n_parallel < 1 then
      args.refuse("llm.Model.batch", "n_parallel", "at least 1", a.n_parallel)
   end
   return batches._new(self, self:_scheduler(a.n_parallel))
end

--- Continues a text and returns the new text.
---@param prompt string|integer[]
---@param options? {max_tokens: integer, temperature: number, top_k: integer, top_p: number, min_p:
--- number, typical_p: number, repeat_penalty: number, presence_penalty: number, frequency_penalty:
--- number, repeat_last_n: integer, stop: string|string[], stream: function, seed: integer,
--- logit_bias: table<integer, number>, logits_processor: function, grammar: any, echo: boolean,
--- draft_model: any, num_pred_tokens: integer, max_ngram_size: integer}  max_tokens: 16 by default;
--- 0 or less for as many tokens as n_ctx allows; temperature: 0 for the most likely token;
--- stream(text) is called with each new piece of text, and ends the generation by returning false;
--- grammar: a grammar in GBNF, or an llm.Grammar, which the text will obey; draft_model: a smaller
--- llm.Model with the same tokens, or "prompt_lookup", which proposes up to num_pred_tokens next
--- tokens that this model then verifies in one step (speculative decoding); max_ngram_size: the
--- largest number of tokens that prompt_lookup compares
---@return string text
---@return string reason  "stop" or "length"
function Model:generate(prompt, options)
   local text, _, reason = complete(self, "llm.Model.generate", prompt, options)
   return text, reason
end

--- Continues a text. Returns a table in the form of llama-cpp-python, with `choices[1].text`,
--- `choices[1].finish_reason` and `usage`.
---@param prompt string|integer[]
---@param options? table  the options of `generate`
---@return table
function Model:create_completion(prompt, options)
   local text, new, reason, tokens = complete(self, "llm.Model.create_completion", prompt, options)
   return answer(self, "text_completion", {text = text, index = 0, finish_reason = reason}, tokens,
      new)
end

Model.__call = Model.create_completion

local chat_options = {tools = true, template_variables = true, response_format = true}

--- Answers the last message of a conversation, with the file's chat template. Returns a table in
--- the form of llama-cpp-python, in which `choices[1].message` has the fields role and content.
---@param messages {role: string, content: string}[]
---@param options? table  those of `generate`, with 0 as the default of max_tokens, and: tools and
--- template_variables, which are passed to the template; response_format: {type =
--- "json_object"}, which may have a JSON schema in its field `schema`
---@return table
function Model:create_chat_completion(messages, options)
   local title = "llm.Model.create_chat_completion"
   local given, own = {}, {}
   if options ~= nil and type(options) ~= "table" then
      args.refuse(title, "options", "a table", options)
   end
   for name, value in pairs(options or {}) do
      if chat_options[name] then own[name] = value else given[name] = value end
   end
   local format = own.response_format
   if format ~= nil then
      if type(format) ~= "table" or format.type ~= "json_object" and format.type ~= "text" then
         args.refuse(title, "response_format", 'a table whose type is "json_object" or "text"',
            format)
      end
      if format.type == "json_object" then
         given.grammar = require "tlua.llm.grammar".Grammar.from_json_schema(format.schema or {})
      end
   end
   local o = options_of(self, title, given, {max_tokens = 0})
   if not self.tokenizer.chat_template then
      torch.raise(("%s: %s has no chat template"):format(title, self.path))
   end
   if own.template_variables ~= nil and type(own.template_variables) ~= "table" then
      args.refuse(title, "template_variables", "a table", own.template_variables)
   end
   local variables = {add_generation_prompt = true, tools = own.tools}
   for name, value in pairs(own.template_variables or {}) do variables[name] = value end
   local text = self.tokenizer:apply_chat_template(messages, variables)
   local bos = self.tokenizer.special_tokens.bos_token
   local adds = self.tokenizer.adds_bos and not (bos and text:sub(1, #bos) == bos)
   local tokens = self.tokenizer:encode(text, {special = true, add_bos = adds})
   local content, new, reason = continue(self, title, tokens, o)
   return answer(self, "chat.completion", {index = 0, finish_reason = reason,
      message = {role = "assistant", content = content}}, tokens, new)
end

-- Embeddings ------------------------------------------------------------------------------------

local take_embed = args.signature [[llm.Model.embed(input: any, normalize: boolean = false)]]

--- Returns a text's embedding, which is the mean of the last layer's normalised states over the
--- tokens. For a list of texts, returns one row for each text.
---@param input string|string[]  a text, or a list of texts
---@param options? {normalize: boolean}  normalize: whether embeddings are scaled to length 1
---@return Tensor  (features) or (texts, features)
function Model:embed(input, options)
   local title = "llm.Model.embed"
   local a = take_embed(input, options)
   local texts = type(input) == "table" and input or {input}
   local rows, count = {}, 0
   for i in pairs(texts) do
      if math.type(i) == "integer" and i > count then count = i end
   end
   local _ <close> = torch.no_grad()
   for i = 1, count do
      local text = texts[i]
      if type(text) ~= "string" then args.refuse(title, "input", "a text or texts", text) end
      local tokens = prompt_of(self, title, text)
      check_tokens(self, title, tokens)
      local ids = torch.tensor({tokens}, {dtype = "int64", device = self.device})
      local state = self.model.model(ids).last_hidden_state[1]:mean(1):to("cpu"):float()
      rows[i] = a.normalize and state / state:norm() or state
   end
   if #rows == 0 then args.refuse(title, "input", "a text or texts", input) end
   return type(input) == "table" and torch.stack(rows) or rows[1]
end

--- Returns embeddings in llama-cpp-python's form: `data[i].embedding` is a list of numbers, the
--- embedding of the i-th text.
---@param input string|string[]
---@return table
function Model:create_embedding(input)
   local rows = self:embed(input)
   if rows:dim() == 1 then rows = rows:unsqueeze(1) end
   local data = {}
   for i, row in ipairs(rows:tolist()) do
      data[i] = {object = "embedding", index = i - 1, embedding = row}
   end
   return {object = "list", data = data, model = self.path}
end

return M
