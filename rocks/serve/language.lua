-- language.lua - serves a language model with OpenAI's protocol: chats, completions and embeddings.
-- Each request is a coroutine that yields while the engine computes. The engine advances the texts
-- of all requests together, in one batch.

local json = require "tlua.utils.json"
local counters = require "tlua.serve.counters"
local constraints = require "tlua.serve.constraints"
local errors = require "tlua.serve.errors"
local logprobs = require "tlua.serve.logprobs"
local engine_of = require "tlua.serve.engine"

local M = {}

local Language = {}
Language.__index = Language

local function refuse(param, message, ...)
   error({status = 400, param = param, message = ("%s: %s"):format(param, message:format(...))}, 0)
end

local function reply_error(request, problem)
   local body
   if type(problem) == "table" and problem.message then
      body = {message = errors.text(problem.message), type = "invalid_request_error",
         param = problem.param or json.null, code = json.null}
   else
      body = {message = errors.text(problem):match "^[^\n]*", type = "server_error",
         param = json.null, code = json.null}
      problem = {status = 500}
   end
   return request:reply(problem.status, "application/json", json.encode {error = body})
end

-- Reading requests --------------------------------------------------------------------------------

local function take_number(body, name, default, least, most)
   local value = body[name]
   if value == nil or value == json.null then return default end
   if type(value) ~= "number" or value < least or value > most then
      refuse(name, "expected a number from %s to %s, got %s", tostring(least), tostring(most),
         errors.kind(value))
   end
   return value
end

local function take_integer(body, name, default, least, most)
   local value = take_number(body, name, default, least, most)
   if value ~= nil and math.type(value) ~= "integer" then
      refuse(name, "expected an integer, got %s", tostring(value))
   end
   return value
end

local function take_flag(body, name)
   local value = body[name]
   if value == nil or value == json.null then return false end
   if type(value) ~= "boolean" then
      refuse(name, "expected true or false, got %s", errors.kind(value))
   end
   return value
end

local function take_stops(body)
   local stop = body.stop
   if stop == nil or stop == json.null then return {} end
   if type(stop) == "string" then stop = json.as_array {stop} end
   if not json.is_array(stop) or #stop > 16 then
      refuse("stop", "expected a text or up to 16 texts, got %s", not json.is_array(stop)
         and errors.kind(stop) or ("%d texts"):format(#stop))
   end
   for _, text in ipairs(stop) do
      if type(text) ~= "string" or text == "" then
         refuse("stop", "expected texts that are not empty, got %s", errors.kind(text))
      end
   end
   return stop
end

local function take_bias(self, body)
   local bias = {}
   if body.logit_bias == nil or body.logit_bias == json.null then return bias end
   if type(body.logit_bias) ~= "table" or json.is_array(body.logit_bias) then
      refuse("logit_bias", "expected an object, got %s", errors.kind(body.logit_bias))
   end
   for name, value in pairs(body.logit_bias) do
      local token = math.tointeger(tonumber(name))
      if not token or token < 0 or token >= self.engine.vocab then
         refuse("logit_bias", "expected tokens from 0 to %d, got %s", self.engine.vocab - 1,
            tostring(name))
      end
      if type(value) ~= "number" or value ~= value or math.abs(value) > 1e9 then
         refuse("logit_bias", "expected numbers from -1e9 to 1e9, got %s for token %s",
            errors.kind(value), name)
      end
      bias[token + 1] = value
   end
   return bias
end

local function check_unoffered(body)
   for _, name in ipairs {"functions", "audio", "modalities", "best_of", "suffix"} do
      local value = body[name]
      if value ~= nil and value ~= json.null and value ~= false and value ~= 0
         and not (name == "best_of" and value == 1) then
         refuse(name, "not supported by this server")
      end
   end
end

-- Returns how many of the most probable tokens the answer must list at each position. Returns nil
-- if the client wants no log probabilities. In a chat, the field `logprobs` is a boolean, and
-- another field has the number. In a completion, `logprobs` is the number.
local function take_logprobs(body, is_chat)
   local most <const> = 20
   if not is_chat then
      return body.logprobs ~= false and take_integer(body, "logprobs", nil, 0, most) or nil
   end
   local count = take_integer(body, "top_logprobs", nil, 0, most)
   if take_flag(body, "logprobs") then return count or 0 end
   if count then refuse("top_logprobs", "expected none without logprobs = true, got %d", count) end
end

-- Reads the options for generation from a request's body.
local function read_options(self, body, default_most)
   check_unoffered(body)
   -- A completion may ask for 0 tokens, to get the log probabilities of its prompt.
   local most = take_integer(body, "max_completion_tokens", nil, 1, 1 << 20)
      or take_integer(body, "max_tokens", default_most, body.messages == nil and 0 or 1, 1 << 20)
   local stream = take_flag(body, "stream")
   local more = body.stream_options
   return {
      max_new_tokens = most, temperature = take_number(body, "temperature", 1.0, 0, 10),
      top_p = take_number(body, "top_p", 1.0, 1e-6, 1),
      top_k = take_integer(body, "top_k", 0, 0, 1 << 20),
      seed = take_integer(body, "seed", nil, math.mininteger, math.maxinteger),
      presence_penalty = take_number(body, "presence_penalty", 0, -2, 2),
      frequency_penalty = take_number(body, "frequency_penalty", 0, -2, 2),
      logit_bias = take_bias(self, body), stops = take_stops(body), stream = stream,
      n = take_integer(body, "n", 1, 1, 16),
      logprobs = take_logprobs(body, body.messages ~= nil),
      grammar = constraints.read(self.grammars, body, refuse),
      usage = stream and type(more) == "table" and more.include_usage == true,
   }
end

local function content_text(content, where)
   if type(content) == "string" then return content end
   if content == nil or content == json.null then return "" end
   if type(content) ~= "table" then
      refuse(where, "expected a text, got %s", errors.kind(content))
   end
   local pieces = {}
   for _, part in ipairs(content) do
      if type(part) ~= "table" or part.type ~= "text" or type(part.text) ~= "string" then
         refuse(where, "expected parts of type text, got %s; this model reads no other",
            errors.field(part, type(part) == "table" and part.type == "text" and "text" or "type"))
      end
      pieces[#pieces + 1] = part.text
   end
   return table.concat(pieces)
end

-- Returns the tools that a request gives to the chat template, or nil if it gives none.
local function take_tools(body)
   local tools, how = body.tools, body.tool_choice
   if tools ~= nil and tools ~= json.null and not json.is_array(tools) then
      refuse("tools", "expected a list, got %s", errors.kind(tools))
   end
   if how ~= nil and how ~= json.null and how ~= "auto" and how ~= "none" then
      refuse("tool_choice", 'expected "auto" or "none", got %s; the model alone decides whether it '
         .. "calls a tool", errors.kind(how))
   end
   return json.is_array(tools) and #tools > 0 and how ~= "none" and tools or nil
end

local function chat_prompt(self, body)
   if not json.is_array(body.messages) or #body.messages == 0 then
      refuse("messages", "expected a list of messages, got %s", json.is_array(body.messages)
         and "an empty list" or errors.kind(body.messages))
   end
   local messages = {}
   for i, message in ipairs(body.messages) do
      local where = ("messages[%d]"):format(i - 1)
      if type(message) ~= "table" or type(message.role) ~= "string" then
         refuse(where, "expected an object with role and content, got %s",
            errors.field(message, "role"))
      end
      local copy = {}
      for key, value in pairs(message) do
         if value ~= json.null then copy[key] = value end
      end
      copy.content = content_text(message.content, where .. ".content")
      messages[i] = copy
   end
   local tokenizer = self.engine.tokenizer
   if not tokenizer.chat_template then
      refuse("messages", "model %s has no chat template: ask at /v1/completions", self.name)
   end
   local tools = take_tools(body)
   local ok, result = pcall(tokenizer.apply_chat_template, tokenizer, messages,
      {add_generation_prompt = true, tools = tools})
   if not ok then refuse("messages", "the chat template fails: %s", result) end
   return result.input_ids
end

-- Returns a list of tokens, which count from 1. `value` comes from the client: a text, or a list of
-- tokens, which count from 0.
local function tokens_of(self, value, where)
   local tokenizer = self.engine.tokenizer
   if type(value) == "string" then
      local valid, at = utf8.len(value)
      if not valid then refuse(where, "expected UTF-8, byte %d is not", at) end
      return tokenizer:encode(value).ids
   end
   local ids = {}
   for i, token in ipairs(type(value) == "table" and value or {}) do
      if math.type(token) ~= "integer" or token < 0 or token >= tokenizer.vocab_size then
         refuse(where, "expected tokens from 0 to %d, got %s", tokenizer.vocab_size - 1,
            errors.kind(token))
      end
      ids[i] = token + 1
   end
   if type(value) ~= "table" then
      refuse(where, "expected texts or lists of tokens, got %s", errors.kind(value))
   end
   return ids
end

-- Returns a list of prompts, each as a list of tokens. `value` is one prompt or a list of prompts;
-- a prompt is a text or a list of tokens.
local function many(self, value, where)
   if type(value) == "string" then return {tokens_of(self, value, where)} end
   if type(value) ~= "table" or #value == 0 then
      refuse(where, "expected a text or a list, got %s", json.is_array(value) and "an empty list"
         or errors.kind(value))
   end
   if type(value[1]) == "number" then return {tokens_of(self, value, where)} end
   local list = {}
   for i, item in ipairs(value) do list[i] = tokens_of(self, item, where) end
   return list
end

-- Returns how many new tokens a text may have at most, by the options and by the size of the
-- model's context.
local function fit(self, ids, options, where)
   local context = self.engine.context
   if #ids == 0 then refuse(where, "expected at least one token, got none") end
   for _, token in ipairs(ids) do
      if token > self.engine.vocab then
         refuse(where, "the model has the tokens 0 to %d, and the prompt token %d",
            self.engine.vocab - 1, token - 1)
      end
   end
   local room = context and context - #ids or 4096
   if room < math.min(1, options.max_new_tokens or 1) then
      refuse(where, "the model's context has %d tokens, and the prompt %d", context, #ids)
   end
   return math.min(options.max_new_tokens or room, room)
end

-- Generating --------------------------------------------------------------------------------------

-- Returns the new part of a growing text: the part of `after` that follows the common beginning of
-- `before` and `after`. If `before` ends with U+FFFD in place of an incomplete character which is
-- complete in `after`, the new part begins with this character.
local function grown(before, after)
   local n = 0
   while n < #before and before:byte(n + 1) == after:byte(n + 1) do n = n + 1 end
   while n > 0 and ((after:byte(n + 1) or 0) & 0xC0) == 0x80 do n = n - 1 end
   return after:sub(n + 1)
end

-- Returns an object to which the tokens of an answer are added one by one. It returns text as soon
-- as no later token can change this text.
local function new_text(tokenizer, prompt, stops)
   local ids = {table.unpack(prompt, math.max(1, #prompt - 5))}
   local first, read = 1, #ids + 1
   local text, given, longest = "", 0, 0
   for _, stop in ipairs(stops) do longest = math.max(longest, #stop) end
   local self = {}

   -- Adds a token. Returns the text that no later token can change any more, and whether a stop
   -- text has ended the answer.
   function self.add(token)
      ids[#ids + 1] = token
      local before = tokenizer:decode {table.unpack(ids, first, read - 1)}
      local after = tokenizer:decode {table.unpack(ids, first)}
      local new = grown(before, after)
      if new == "" or after:sub(-3) == "\u{FFFD}" then return "", false end
      local from = math.max(1, #text - longest + 1)
      text = text .. new
      first, read = read, #ids + 1
      local stop_at
      for _, stop in ipairs(stops) do
         local at = text:find(stop, from, true)
         if at and (not stop_at or at < stop_at) then stop_at = at end
      end
      if stop_at then text = text:sub(1, stop_at - 1) end
      local ready = stop_at and #text or math.max(given, #text - math.max(0, longest - 1))
      -- This loop moves `ready` back to the first byte of a character.
      while ready < #text and ready > given and (text:byte(ready + 1) & 0xC0) == 0x80 do
         ready = ready - 1
      end
      local piece = text:sub(given + 1, ready)
      given = math.max(given, ready)
      return piece, stop_at ~= nil
   end

   -- These functions return the number of bytes and the number of characters of the text so far.
   function self.bytes() return #text end
   function self.characters() return utf8.len(text) end

   -- Returns the rest of the text after the last token. If it ends within a character, this
   -- character is not held back any more.
   function self.rest(stopped)
      if not stopped and read <= #ids then
         local before = tokenizer:decode {table.unpack(ids, first, read - 1)}
         text = text .. grown(before, tokenizer:decode {table.unpack(ids, first)})
      end
      local piece = text:sub(given + 1)
      given = #text
      return piece
   end

   return self
end

local last_id = 0
local function new_id(prefix)
   last_id = last_id + 1
   return ("%s-%x%06x%04x"):format(prefix, os.time(), math.random(0, 0xFFFFFF), last_id & 0xFFFF)
end

local function event(request, value)
   return request:write("data: " .. json.encode(value) .. "\n\n")
end

-- The functions and names that differ between the answers for chats and for completions.
local forms <const> = {
   chat = {
      name = "chat", id = "chatcmpl", object = "chat.completion", chunk = "chat.completion.chunk",
      first = function() return {delta = {role = "assistant", content = ""}} end,
      piece = function(text) return {delta = {content = text}} end,
      last = function() return {delta = {}} end,
      whole = function(text)
         return {message = {role = "assistant", content = text, refusal = json.null}}
      end,
   },
   completion = {
      name = "completion", id = "cmpl", object = "text_completion", chunk = "text_completion",
      piece = function(text) return {text = text} end,
      last = function() return {text = ""} end,
      whole = function(text) return {text = text} end,
   },
}

local function choice(part, index, reason, described)
   part.index, part.finish_reason, part.logprobs = index, reason or json.null,
      described or json.null
   return part
end

-- Returns an object that collects the descriptions of tokens, with their log probabilities, until
-- they are sent to the client. If the answer repeats its prompt, the descriptions of the prompt's
-- tokens come first.
local function new_description(self, job, options, text, echo)
   local list, own = table.move(echo.described, 1, #echo.described, 1, {}), {}

   function own.add(token, sampler)
      if not options.logprobs then return end
      local entry = logprobs.describe(self.engine, token, echo.characters + text.characters(),
         sampler:log_probabilities(token, options.logprobs))
      entry.first = text.bytes()
      list[#list + 1] = entry
   end

   -- Drops the tokens of the stop text, since the answer's text ends before it.
   function own.drop_stop()
      while #list > 0 and list[#list].first >= text.bytes() do list[#list] = nil end
   end

   -- Returns the collected descriptions and removes them from the collection. If there are none,
   -- returns nil, or an empty result if `always` is true.
   function own.take(always)
      if not options.logprobs or #list == 0 and not always then return nil end
      local all = list
      list = {}
      return logprobs.format(job.form.name, all)
   end

   return own
end

local no_echo <const> = {text = "", characters = 0, described = {}}

-- Returns the beginning of an answer that repeats its prompt: the prompt's text and the
-- descriptions of its tokens. Yields while they are computed.
local function echo_of(self, prompt, count)
   local engine = self.engine
   local echo = {text = engine.tokenizer:decode(prompt), described = {}}
   echo.characters = utf8.len(echo.text)
   if not count then return echo end
   local found = engine:log_probabilities(prompt, count, coroutine.yield)
   local text = new_text(engine.tokenizer, {}, {})
   for i, token in ipairs(prompt) do
      local entry = logprobs.describe(engine, token, text.characters(),
         table.unpack(found[i] or {}))
      -- This position is smaller than the positions of all tokens of the answer, so drop_stop never
      -- drops a token of the prompt.
      entry.first = -1
      echo.described[i] = entry
      text.add(token)
   end
   return echo
end

-- Begins to generate one text. Returns a table with the index of the text, the engine's entry, and
-- the function `finish`. This function sends or returns the rest of the text, and returns the
-- descriptions of the tokens that were not sent.
local function start(self, job, p, options, index, send)
   local prompt, echo = job.prompts[p], job.echo and job.echo[p] or no_echo
   local text = new_text(self.engine.tokenizer, prompt, options.stops)
   local own, stopped, pieces = {index = index, new_tokens = 0}, false, {}
   local description = new_description(self, job, options, text, echo)
   local function take(piece)
      if piece == "" then return end
      if send then
         send(job.form.piece(piece), index, nil, description.take(true))
      else
         pieces[#pieces + 1] = piece
      end
   end
   take(echo.text)
   own.entry = self.engine:start(prompt, options, function(token, sampler)
      own.new_tokens = own.new_tokens + 1
      description.add(token, sampler)
      local piece
      piece, stopped = text.add(token)
      if stopped then description.drop_stop() end
      take(piece)
      return stopped
   end)
   function own.finish()
      take(text.rest(stopped))
      return table.concat(pieces), description.take(not send)
   end
   return own
end

-- Begins to generate the text number `index` of a request. The request's texts have the indices 0,
-- 1, 2, ...
local function start_text(self, job, index, send)
   local options = job.options
   local p, k = index // options.n + 1, index % options.n
   if send and job.form.first then send(job.form.first(), index) end
   local own = setmetatable({max_new_tokens = job.most[p],
      seed = options.seed and options.seed + k}, {__index = options})
   return start(self, job, p, own, index, send)
end

-- Generates all texts of a request. Each text is added to `list` when it begins, and `on_end` is
-- called when it ends. At most the request's share of the batch is generated at the same time.
-- Returns false if the client has disconnected.
local function generate_all(self, request, job, list, send, on_end)
   local open, total = {}, #job.prompts * job.options.n
   while #list < total or #open > 0 do
      local share = math.max(1, self.options.max_batch_size // math.max(1, self.requests))
      while #list < total and #open < share do
         list[#list + 1] = start_text(self, job, #list, send)
         open[#open + 1] = list[#list]
      end
      coroutine.yield()
      if request:gone() then return false end
      for i = #open, 1, -1 do
         local own = open[i]
         if own.entry.reason == "error" then error(own.entry.error, 0) end
         if own.entry.reason then
            table.remove(open, i)
            on_end(own)
         end
      end
   end
   return true
end

-- Answers a request with generated texts. Runs in a coroutine and yields while the engine computes.
local function generate(self, request, job)
   local form, options = job.form, job.options
   local head = {id = new_id(form.id), created = os.time(), model = self.name}
   local function chunk(choices)
      local value = {object = form.chunk, choices = json.as_array(choices)}
      for key, v in pairs(head) do value[key] = v end
      if options.usage then value.usage = json.null end
      return value
   end
   local send = options.stream and function(...)
      event(request, chunk {choice(...)})
   end or nil
   if send then request:stream(200, "text/event-stream", {["Cache-Control"] = "no-cache"}) end
   local list <close> = setmetatable({}, {__close = function(list)
      for _, own in ipairs(list) do self.engine:cancel(own.entry) end
   end})
   local choices = {}
   local stayed = generate_all(self, request, job, list, send, function(own)
      local text, described = own.finish()
      local reason = own.entry.reason
      if send then return send(form.last(), own.index, reason, described) end
      choices[own.index + 1] = choice(form.whole(text), own.index, reason, described)
   end)
   local prompt_tokens, new_tokens, cached = 0, 0, 0
   for _, prompt in ipairs(job.prompts) do prompt_tokens = prompt_tokens + #prompt end
   for _, own in ipairs(list) do
      new_tokens, cached = new_tokens + own.new_tokens, cached + own.entry.cached
   end
   if not stayed then return "gone", prompt_tokens, new_tokens end
   local usage = {prompt_tokens = prompt_tokens, completion_tokens = new_tokens,
      total_tokens = prompt_tokens + new_tokens,
      prompt_tokens_details = {cached_tokens = math.min(cached, prompt_tokens)}}
   if options.stream then
      if options.usage then
         local value = chunk {}
         value.usage = usage
         event(request, value)
      end
      request:write "data: [DONE]\n\n"
      request:finish()
   else
      head.object, head.choices, head.usage = form.object, json.as_array(choices), usage
      request:reply(200, "application/json", json.encode(head))
   end
   return "answered", prompt_tokens, new_tokens
end

local function need_generation(self)
   if not self.engine.can_generate then
      refuse("model", "%s does not generate text", self.name)
   end
end

local tasks = {}

tasks["/v1/chat/completions"] = function(self, request, body)
   need_generation(self)
   local options = read_options(self, body, nil)
   local prompt = chat_prompt(self, body)
   return generate(self, request, {form = forms.chat, options = options, prompts = {prompt},
      most = {fit(self, prompt, options, "messages")}})
end

tasks["/v1/completions"] = function(self, request, body)
   need_generation(self)
   local options = read_options(self, body, 16)
   local prompts, most = many(self, body.prompt, "prompt"), {}
   for i, prompt in ipairs(prompts) do most[i] = fit(self, prompt, options, "prompt") end
   local echo
   if take_flag(body, "echo") then
      echo = {}
      for i, prompt in ipairs(prompts) do
         echo[i] = echo_of(self, prompt, options.logprobs)
         if request:gone() then return "gone", 0, 0 end
      end
   end
   return generate(self, request, {form = forms.completion, options = options, prompts = prompts,
      most = most, echo = echo})
end

tasks["/v1/embeddings"] = function(self, request, body)
   local batch = many(self, body.input, "input")
   local format = body.encoding_format
   if format ~= nil and format ~= json.null and format ~= "float" and format ~= "base64" then
      refuse("encoding_format", 'expected "float" or "base64"')
   end
   local size = take_integer(body, "dimensions", nil, 1, 1 << 20)
   local data, count = {}, 0
   for i, ids in ipairs(batch) do
      if #ids == 0 then refuse("input", "expected at least one token in each text") end
      if self.engine.context and #ids > self.engine.context then
         refuse("input", "the model's context has %d tokens, and text %d has %d",
            self.engine.context, i, #ids)
      end
      count = count + #ids
      local vector = self.engine:embed({ids})[1]
      if size then
         if size > #vector then
            refuse("dimensions", "expected at most %d, got %d", #vector, size)
         end
         local sum, cut = 0, {}
         for k = 1, size do sum = sum + vector[k] ^ 2 end
         for k = 1, size do cut[k] = vector[k] / math.max(math.sqrt(sum), 1e-12) end
         vector = cut
      end
      data[i] = {object = "embedding", index = i - 1, embedding = format == "base64"
         and self.http.base64(("<" .. ("f"):rep(#vector)):pack(table.unpack(vector)))
         or json.as_array(vector)}
      coroutine.yield()
      if request:gone() then return "gone", count, 0 end
   end
   request:reply(200, "application/json", json.encode {object = "list", model = self.name,
      data = json.as_array(data), usage = {prompt_tokens = count, total_tokens = count}})
   return "answered", count, 0
end

-- Serving -----------------------------------------------------------------------------------------

--- Loads a language model.
---@param spec table  has the fields name, version, path and options
---@param http table
---@return table
function M.load(spec, http)
   local self = setmetatable({name = spec.name, http = http, options = spec.options,
      created = os.time(), grammars = {}}, Language)
   self.engine = engine_of.load(spec.path, spec.options)
   return self
end

--- Returns a description of the model for clients and for the server.
function Language:describe()
   return {kind = "language", inputs = {}, outputs = {}, max_batch_size = 0,
      created = self.created, can_generate = self.engine.can_generate,
      chats = self.engine.tokenizer.chat_template ~= nil}
end

-- Returns a coroutine that answers a request. `count` adds to the counters of the model.
local function begin(self, request, count)
   return coroutine.wrap(function()
      local waited = request:age()
      local ok, result, prompt_tokens, new_tokens = pcall(function()
         local task = tasks[request:path()]
         local body = json.decode(request:body())
         if not task then error({status = 404, message = "no such task"}, 0) end
         return task(self, request, body)
      end)
      if not ok then
         if not reply_error(request, result) then request:finish() end
         count(counters.failed, 1)
         return true
      end
      count(counters[result], 1)
      count(counters.queue_ns, math.floor(waited * 1e9))
      count(counters.total_ns, math.floor(request:age() * 1e9))
      count(counters.prompt_tokens, prompt_tokens)
      count(counters.new_tokens, new_tokens)
      count(counters.examples, 1)
      return true
   end)
end

--- Answers requests until the queue is closed and empty. Up to max_batch_size requests are
--- processed at the same time.
function Language:serve(server, queue, stopped, count)
   local open, closed = {}, false
   while not stopped() and not (closed and #open == 0) do
      local room = self.options.max_batch_size - #open
      if room > 0 and not closed then
         local requests = server:take(queue, room, #open > 0 and 0 or 0.25)
         closed = requests == nil
         for _, request in ipairs(requests or {}) do
            open[#open + 1] = begin(self, request, count)
         end
      end
      self.requests = #open
      for i = #open, 1, -1 do
         if open[i]() then table.remove(open, i) end
      end
      if #open > 0 and self.engine.scheduler then
         self.engine:step()
         count(counters.runs, 1)
      end
   end
end

return M
