-- Tokenizer.lua - Hugging Face's tokenizers. It loads tokenizer.json, converts texts to tokens (in
-- tokenize.lua) and converts tokens back to text.
--
-- Token numbers and types count from 1 in Lua, so that they can index an embedding, and from 0 in
-- files.

local args = require "tlua.args"
local class = require "tlua.class"
local torch = require "tlua"
local Encoding = require "tlua.text.Encoding"
local added = require "tlua.text.tokenizer.added"
local chat = require "tlua.text.tokenizer.chat"
local folder_files = require "tlua.text.tokenizer.folder"
local loading = require "tlua.text.tokenizer.loading"
local pieces = require "tlua.text.tokenizer.pieces"
local saving = require "tlua.text.tokenizer.saving"
local encode_one = require "tlua.text.tokenizer.tokenize".encode_one

--- Converts texts to tokens and tokens to texts, as Hugging Face's tokenizers do.
---
---     local Tokenizer = torch.text.Tokenizer
---     local tokenizer = assert(Tokenizer.from_str(Tokenizer.example))
---     local encoding = tokenizer:encode "low lower lowest"
---     print(table.concat(encoding.tokens, "|"), tokenizer:decode(encoding.ids))
---     --> low|Ġlow|er|Ġlow|e|s|t	low lower lowest
---@class text.Tokenizer
---@field vocab_size integer  the largest number of a token
---@field truncation? table  the options of enable_truncation
---@field padding? table  the options of enable_padding
---@field special_tokens? table<string, string>  the texts of bos_token, eos_token and so on, by
--- name
---@field chat_template? string|table<string, string>  a template, or several templates by name
local Tokenizer = class.class("text.Tokenizer")

--- A small tokenizer.json, for examples and experiments.
---@type string
Tokenizer.example = [[{"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
   "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"l": 0, "o": 1, "w": 2,
   "e": 3, "r": 4, "s": 5, "t": 6, "Ġ": 7, "lo": 8, "low": 9, "Ġlow": 10, "er": 11},
   "merges": ["l o", "lo w", "Ġ low", "e r"]}}]]

-- Loading ---------------------------------------------------------------------------------------

-- Builds the matchers that find added tokens in a text, and clears the cache of encoded chunks.
local function refresh(self)
   local raw, normalized = {}, {}
   self.chunked, self.wide = self.is_local, nil
   for _, token in ipairs(self.added_tokens) do
      local pattern = token.content
      if token.normalized and self.normalizer then
         local piece = pieces.new(pattern, 0)
         self.normalizer.apply(piece, {first = true, last = true})
         pattern = piece.text
      end
      local entry = {pattern = pattern, id = token.id, single_word = token.single_word,
         lstrip = token.lstrip, rstrip = token.rstrip}
      table.insert(token.normalized and normalized or raw, entry)
      if token.normalized and (token.rstrip or token.lstrip or pattern:find "[ \u{2581}]") then
         self.wide = self.wide or {}
         table.insert(self.wide, pattern)
      end
   end
   self.raw, self.normalized = added.new(raw), added.new(normalized)
   self.known = {{}, {}, {}, {}, {}, {}, {}, {}}
   self.known_count, self.words, self.word_count = 0, {}, 0
   self.inner = nil -- created when it is first used
end

-- Makes a tokenizer from the parts that loading.lua has read.
local function build(parts)
   local self = Tokenizer()
   for key, value in pairs(parts) do self[key] = value end
   refresh(self)
   return self
end

local function loaded(name, text, path, read, ...)
   local parts, message = loading.protect(read, text, ...)
   if parts then return build(parts) end
   return nil, ("%s: %s"):format(path or "text.Tokenizer." .. name, message)
end

local function from_path(name, path, read, ...)
   if type(path) ~= "string" then
      args.refuse("text.Tokenizer." .. name, "path", "a file's name", path)
   end
   local file <close>, message = io.open(path, "rb")
   if not file then return nil, message end
   local text, why = file:read "a"
   if not text then return nil, ("%s: %s"):format(path, why) end
   return loaded(name, text, path, read, ...)
end

-- Calls a reader of loading.lua with `data`, and builds a tokenizer from the result. Returns nil
-- and a message if the data are damaged.
function Tokenizer._from_parts(read, data)
   local parts, message = loading.protect(read, data)
   if parts then return build(parts) end
   return nil, message
end

--- Reads a tokenizer.json.
---@param path string
---@return text.Tokenizer?
---@return string? message
function Tokenizer.from_file(path) return from_path("from_file", path, loading.json) end

--- Makes a tokenizer from the text of a tokenizer.json.
---@param text string
---@return text.Tokenizer?
---@return string? message
function Tokenizer.from_str(text)
   if type(text) ~= "string" then
      args.refuse("text.Tokenizer.from_str", "text", "a string", text)
   end
   return loaded("from_str", text, nil, loading.json)
end

--- Reads a model file of SentencePiece, such as tokenizer.model. Its type may be unigram or BPE.
---@param path string
---@return text.Tokenizer?
---@return string? message
function Tokenizer.from_sentencepiece(path)
   return from_path("from_sentencepiece", path, loading.sentencepiece)
end

--- Reads a file of ranks in tiktoken's format. Each line has a token in base64 and the token's
--- number.
---@param path string
---@param options? {pattern: string, special_tokens: table<string, integer>}  the pattern that
--- splits texts into words, cl100k_base's by default; the special tokens with their numbers in
--- files, from 0
---@return text.Tokenizer?
---@return string? message
function Tokenizer.from_tiktoken(path, options)
   local name = "text.Tokenizer.from_tiktoken"
   args.check_options(name, options, "pattern", "special_tokens")
   for option, kind in pairs {pattern = "string", special_tokens = "table"} do
      local value = options and options[option]
      if value ~= nil and type(value) ~= kind then
         args.refuse(name, option, "a " .. kind, value)
      end
   end
   return from_path("from_tiktoken", path, loading.tiktoken, options or {})
end

--- Reads the tokenizer of a model's folder: tokenizer.json or tokenizer.model, and the special
--- tokens and chat templates of tokenizer_config.json and chat_template.jinja.
---@param folder string
---@return text.Tokenizer?
---@return string? message
function Tokenizer.from_pretrained(folder)
   local name = "text.Tokenizer.from_pretrained"
   if type(folder) ~= "string" then args.refuse(name, "folder", "a folder's name", folder) end
   local self, why = Tokenizer.from_file(folder .. "/tokenizer.json")
   local probe = not self and io.open(folder .. "/tokenizer.json", "rb")
   if probe then
      probe:close()
   elseif not self then
      local model, reason = Tokenizer.from_sentencepiece(folder .. "/tokenizer.model")
      self, why = model, model and why or ("%s; %s"):format(why, reason)
   end
   if not self then return nil, why end
   return folder_files.read(self, folder)
end

-- Returns the number of elements of a list. Raises an error if an element before the last one is
-- nil.
local function length_of(name, what, list)
   local count, keys = #list, 0
   -- Counting the keys is faster than comparing them. It is enough for a list without other keys.
   for _ in next, list do keys = keys + 1 end
   if keys ~= count then
      for i in next, list do
         if math.type(i) == "integer" and i > count then count = i end
      end
   end
   for i = 1, count do
      if list[i] == nil then
         torch.raise(("%s: %s[%d]: expected no nil in a list of %d elements"):format(name, what, i,
            count))
      end
   end
   return count
end

-- Raises an error if `options` has a field other than the one that `option` names, or if the value
-- of this field is not a boolean.
local function check_flag(name, options, option)
   args.check_options(name, options, option)
   local value = options and options[option]
   if value ~= nil and type(value) ~= "boolean" then
      args.refuse(name, option, "a boolean", value)
   end
end

-- Truncation ------------------------------------------------------------------------------------

-- Returns the lengths of two texts after truncation to `most` tokens in total. The longer text is
-- cut first.
local function longest_first(n1, n2, most)
   local short = math.min(n1, n2)
   local long = short > most and short or math.max(short, most - short)
   if short + long > most then short, long = most // 2, most - most // 2 end
   if n1 > n2 then return long, short end
   return short, long
end

local function truncate(self, list, adds)
   local options = self.truncation
   if not options then return end
   local most = options.max_length
   if adds and self.processor then most = most - self.processor.added(#list == 2) end
   if most < 0 then
      torch.raise(("text.Tokenizer.encode: max_length: expected at least %d, for the special "
         .. "tokens, got %d"):format(options.max_length - most, options.max_length))
   end
   local a, b = list[1], list[2]
   local total = #a.ids + (b and #b.ids or 0)
   if total <= most and most > 0 then return end
   local function cut(i, length)
      if length > 0 and length < #list[i].ids and options.stride >= length then
         torch.raise(("text.Tokenizer.encode: stride: expected less than the %d tokens that are "
            .. "left, got %d"):format(length, options.stride))
      end
      list[i] = list[i]:_truncate(length, options.stride, options.direction)
   end
   if most == 0 then
      for i = 1, #list do cut(i, 0) end
   elseif options.strategy == "longest_first" then
      if b then
         local n1, n2 = longest_first(#a.ids, #b.ids, most)
         cut(1, n1)
         cut(2, n2)
      else
         cut(1, most)
      end
   else
      local i = options.strategy == "only_first" and 1 or 2
      local rest = list[i] and #list[i].ids - (total - most)
      if not rest or rest <= 0 then
         torch.raise(("text.Tokenizer.encode: strategy %s: expected %s"):format(options.strategy,
            rest and "a text with more tokens than are to be cut off" or "a second text"))
      end
      cut(i, rest)
   end
end

local truncation_arguments = args.signature [[text.Tokenizer.enable_truncation(max_length: integer,
   stride: integer = 0, strategy: string = 'longest_first', direction: string = 'right')]]

--- Makes `encode` and `encode_batch` truncate their results to a number of tokens, special tokens
--- included. The tokens that are cut off go to the field `overflowing` of the results.
---@param max_length integer  the largest number of tokens
---@param options? {stride: integer, strategy: string, direction: string}  stride: how many tokens
--- adjacent parts share; strategy: which text is cut, "longest_first", "only_first" or
--- "only_second"; direction: the end that is cut, "right" or "left"
---@return text.Tokenizer self
function Tokenizer:enable_truncation(max_length, options)
   local a = truncation_arguments(max_length, options)
   local name = "text.Tokenizer.enable_truncation"
   if a.max_length < 0 then args.refuse(name, "max_length", "at least 0", a.max_length) end
   if a.stride < 0 then args.refuse(name, "stride", "at least 0", a.stride) end
   if not loading.strategies[a.strategy] then
      args.refuse(name, "strategy", "longest_first, only_first or only_second", a.strategy)
   end
   if a.direction ~= "right" and a.direction ~= "left" then
      args.refuse(name, "direction", "right or left", a.direction)
   end
   self.truncation = a
   return self
end

--- Turns off truncation.
---@return text.Tokenizer self
function Tokenizer:no_truncation()
   self.truncation = nil
   return self
end

local padding_arguments = args.signature [[text.Tokenizer.enable_padding(
   direction: string = 'right', pad_id: integer = 1, pad_type_id: integer = 1,
   pad_token: string = '[PAD]', length: integer = 0, pad_to_multiple_of: integer = 0)]]

--- Makes `encode` and `encode_batch` pad their results to `length` tokens or, without this option,
--- to the length of the longest encoding of the batch.
---@param options? table  direction: the end at which padding is added, "right" or "left"; pad_id:
--- the padding's number, from 1; pad_type_id: the padding's type, from 1; pad_token: the padding's
--- text; length: the number of tokens, 0 for the longest encoding's; pad_to_multiple_of: if it is
--- above 0, the number of tokens is rounded up to a multiple of it
---@return text.Tokenizer self
function Tokenizer:enable_padding(options)
   local a = padding_arguments(options)
   if a.direction ~= "right" and a.direction ~= "left" then
      args.refuse("text.Tokenizer.enable_padding", "direction", "right or left", a.direction)
   end
   for _, name in ipairs {"pad_id", "pad_type_id"} do
      if a[name] < 1 then
         args.refuse("text.Tokenizer.enable_padding", name, "at least 1", a[name])
      end
   end
   for _, name in ipairs {"length", "pad_to_multiple_of"} do
      if a[name] < 0 then
         args.refuse("text.Tokenizer.enable_padding", name, "at least 0", a[name])
      end
   end
   self.padding = a
   return self
end

--- Turns off padding.
---@return text.Tokenizer self
function Tokenizer:no_padding()
   self.padding = nil
   return self
end

local function pad(self, list)
   local options = self.padding
   if not options then return end
   local length, multiple = options.length, options.pad_to_multiple_of
   if length == 0 then
      for _, encoding in ipairs(list) do length = math.max(length, #encoding.ids) end
   end
   if multiple > 0 then length = (length + multiple - 1) // multiple * multiple end
   for _, encoding in ipairs(list) do
      encoding:pad(length, {direction = options.direction, pad_id = options.pad_id,
         pad_type_id = options.pad_type_id, pad_token = options.pad_token})
   end
end

-- Training --------------------------------------------------------------------------------------

-- Learns a vocabulary with the given trainer. Each call of next_text returns one text, and nil at
-- the end.
local function train(self, name, next_text, trainer)
   local training = require "tlua.text.tokenizer.training"
   local parts = training.parts(self, name, next_text, trainer)
   parts.truncation, parts.padding = self.truncation, self.padding
   for _, key in ipairs {"is_local", "splits", "chunked"} do self[key] = nil end
   for key, value in pairs(parts) do self[key] = value end
   refresh(self)
   self:add_special_tokens(trainer.special_tokens)
   return self
end

--- Learns a new vocabulary from texts. The tokenizer keeps its normaliser, pre-tokeniser,
--- post-processor and decoder.
---@param iterator string[]|fun(): string?  a list of texts, or a function that returns the next one
---@param trainer table  a trainer of text.trainers
---@return text.Tokenizer self
function Tokenizer:train_from_iterator(iterator, trainer)
   local name = "text.Tokenizer.train_from_iterator"
   if type(iterator) == "table" and not getmetatable(iterator) then
      local list, i = iterator, 0
      length_of(name, "iterator", list)
      iterator = function()
         i = i + 1
         return list[i]
      end
   elseif not args.is_callable(iterator) then
      args.refuse(name, "iterator", "a list of texts or a function", iterator)
   end
   return train(self, name, iterator, trainer)
end

--- Learns a new vocabulary from the lines of files.
---@param files string[]  the names of the files
---@param trainer table  a trainer of text.trainers
---@return text.Tokenizer? self  nil if a file cannot be read
---@return string? message
function Tokenizer:train(files, trainer)
   local name = "text.Tokenizer.train"
   if type(files) ~= "table" or getmetatable(files) then
      args.refuse(name, "files", "a list of names", files)
   end
   local lines = {}
   length_of(name, "files", files)
   for i, path in ipairs(files) do
      if type(path) ~= "string" then
         args.refuse(name, ("files[%d]"):format(i), "a file's name", path)
      end
      local file <close>, why = io.open(path, "rb")
      if not file then return nil, why end
      for line in file:lines "L" do lines[#lines + 1] = line end
   end
   return self:train_from_iterator(lines, trainer)
end

-- Use -------------------------------------------------------------------------------------------

local function encode(self, text, pair, adds)
   local list = {encode_one(self, "text", text, 1)}
   if pair then list[2] = encode_one(self, "pair", pair, 2) end
   truncate(self, list, adds)
   if self.processor then list = self.processor.process(list, adds) end
   return Encoding._join(list, self.tokens)
end

-- Splits the arguments after the first text into the second text, or nil, and the options. A call
-- without a second text may pass the options in its place.
local function pair_and_options(pair, options)
   if type(pair) == "table" and pair[1] == nil and next(pair) ~= nil and options == nil then
      return nil, pair
   end
   return pair, options
end

--- Returns the tokens of a text, or of two texts.
---@param text string|string[]  a text, or its words; offsets then count within each word
---@param pair? string|string[]  a second text
---@param options? {add_special_tokens: boolean}  true by default
---@return text.Encoding
function Tokenizer:encode(text, pair, options)
   pair, options = pair_and_options(pair, options)
   check_flag("text.Tokenizer.encode", options, "add_special_tokens")
   local encoding = encode(self, text, pair, not options or options.add_special_tokens ~= false)
   if self.padding then pad(self, {encoding}) end
   return encoding
end

--- Returns the tokens of each text of a list.
---@param texts (string|string[])[]  a list {a, b} of two strings is a pair of texts
---@param options? {add_special_tokens: boolean}  true by default
---@return text.Encoding[]
function Tokenizer:encode_batch(texts, options)
   check_flag("text.Tokenizer.encode_batch", options, "add_special_tokens")
   if type(texts) ~= "table" then
      args.refuse("text.Tokenizer.encode_batch", "texts", "a list", texts)
   end
   length_of("text.Tokenizer.encode_batch", "texts", texts)
   local list, adds = {}, not options or options.add_special_tokens ~= false
   for i, text in ipairs(texts) do
      if type(text) == "table" then
         if #text > 2 then
            args.refuse("text.Tokenizer.encode_batch", ("texts[%d]"):format(i),
               "a text or a pair {a, b}", ("a list of %d"):format(#text))
         end
         list[i] = encode(self, text[1], text[2], adds)
      else
         list[i] = encode(self, text, nil, adds)
      end
   end
   pad(self, list)
   return list
end

--- Returns the text that tokens stand for. Special tokens are left out by default.
---@param ids integer[]|Tensor  the numbers of the tokens, from 1
---@param options? {skip_special_tokens: boolean}  true by default
---@return string
function Tokenizer:decode(ids, options)
   check_flag("text.Tokenizer.decode", options, "skip_special_tokens")
   if torch.is_tensor(ids) then
      if ids:dim() > 1 and ids:size(-1) ~= ids:numel() then
         args.refuse("text.Tokenizer.decode", "ids",
            "the numbers of one text; decode_batch takes several", ids)
      end
      ids = ids:reshape(-1):tolist()
   end
   if type(ids) ~= "table" then
      args.refuse("text.Tokenizer.decode", "ids", "a list of numbers or a tensor", ids)
   end
   length_of("text.Tokenizer.decode", "ids", ids)
   local skips = not options or options.skip_special_tokens ~= false
   local list = {}
   for i, id in ipairs(ids) do
      local token = self.tokens[id]
      if not token then
         args.refuse("text.Tokenizer.decode", "id " .. i, ("the number of a token, from 1 to %d")
            :format(self.vocab_size), id)
      end
      if not (skips and self.special[token]) then list[#list + 1] = token end
   end
   if not self.decoder then return table.concat(list, " ") end
   return table.concat(self.decoder(list))
end

--- Returns the texts of several lists of tokens.
---@param batch (integer[]|Tensor)[]  a list of numbers or a tensor for each text
---@param options? {skip_special_tokens: boolean}  true by default
---@return string[]
function Tokenizer:decode_batch(batch, options)
   if type(batch) ~= "table" or getmetatable(batch) then
      args.refuse("text.Tokenizer.decode_batch", "batch", "a list", batch)
   end
   length_of("text.Tokenizer.decode_batch", "batch", batch)
   local list = {}
   for i, ids in ipairs(batch) do list[i] = self:decode(ids, options) end
   return list
end

--- Renders a conversation with the tokenizer's chat template, and tokenizes it. Returns a table
--- with input_ids, which count from 1, and attention_mask. Options that are not listed here become
--- variables of the template.
---@param messages table[]  a list of {role =, content =}, or a list of such lists
---@param options? table  tokenize: false to return the text; add_generation_prompt: whether to
--- append the beginning of the model's answer; continue_final_message: whether to leave the last
--- message open; tools, documents: lists of tables; chat_template: a template or the name of one;
--- return_dict: false to return only input_ids; return_tensors: true or "pt" to return tensors;
--- padding: true or "longest", "max_length" or "do_not_pad"; truncation: whether texts are cut to
--- max_length tokens; return_assistant_tokens_mask: whether to return assistant_masks, which are 1
--- for tokens inside {% generation %}
---@return any
function Tokenizer:apply_chat_template(messages, options)
   if options ~= nil and (type(options) ~= "table" or getmetatable(options)) then
      args.refuse("text.Tokenizer.apply_chat_template", "options", "a table", options)
   end
   return chat.apply(self, messages, options or {})
end

--- Returns the chat template that apply_chat_template would use. Raises an error if the tokenizer
--- has none.
---@param chat_template? string  a template, which is returned unchanged, or the name of one
---@param tools? table[]  if given, a template for tool use is preferred
---@return string
function Tokenizer:get_chat_template(chat_template, tools)
   return chat.template(self, chat_template, tools ~= nil, "text.Tokenizer.get_chat_template")
end

--- Returns the number of a token, or nil for an unknown token.
---@param token string
---@return integer?
function Tokenizer:token_to_id(token)
   if type(token) ~= "string" then
      args.refuse("text.Tokenizer.token_to_id", "token", "a string", token)
   end
   return self.ids[token]
end

--- Returns the token with a number, or nil if there is none.
---@param id integer  from 1
---@return string?
function Tokenizer:id_to_token(id)
   if type(id) ~= "number" then
      args.refuse("text.Tokenizer.id_to_token", "id", "an integer", id)
   end
   return self.tokens[id]
end

--- Returns all tokens with their numbers.
---@return table<string, integer>
function Tokenizer:get_vocab()
   local vocab = {}
   for token, id in pairs(self.ids) do vocab[token] = id end
   return vocab
end

local function add_tokens(self, name, list, is_special)
   if type(list) ~= "table" or list.content ~= nil then
      args.refuse(name, "tokens", "a list of tokens", list)
   end
   local copies, count = {}, 0
   for i = 1, length_of(name, "tokens", list) do
      local token = list[i]
      local entry = type(token) == "string" and {content = token} or token
      if type(entry) ~= "table" or type(entry.content) ~= "string" or entry.content == "" then
         args.refuse(name, ("token %d"):format(i), "a text, or a table with content", token)
      end
      args.check_options(name, entry, "content", "single_word", "lstrip", "rstrip", "normalized",
         "special", "id")
      local copy = {}
      for key, value in pairs(entry) do copy[key] = value end
      for _, flag in ipairs {"single_word", "lstrip", "rstrip", "normalized", "special"} do
         if copy[flag] ~= nil and type(copy[flag]) ~= "boolean" then
            args.refuse(name, ("token %d: %s"):format(i, flag), "a boolean", copy[flag])
         end
      end
      copy.special = is_special or entry.special or false
      if copy.normalized == nil then copy.normalized = not copy.special end
      copy.id = nil
      copies[i] = copy
   end
   -- Tokens are added only once all of them have been checked.
   for _, copy in ipairs(copies) do
      if loading.add_token(self, copy) then count = count + 1 end
   end
   refresh(self)
   return count
end

--- Adds tokens. The tokenizer finds them in a text before it splits the rest with its model.
---@param tokens (string|table)[]  texts, or tables with content, single_word, lstrip, rstrip,
--- normalized, special
---@return integer count  the number of tokens that are new
function Tokenizer:add_tokens(tokens)
   return add_tokens(self, "text.Tokenizer.add_tokens", tokens, false)
end

--- Adds special tokens. `decode` leaves special tokens out.
---@param tokens (string|table)[]  as in add_tokens
---@return integer count  the number of tokens that are new
function Tokenizer:add_special_tokens(tokens)
   return add_tokens(self, "text.Tokenizer.add_special_tokens", tokens, true)
end

--- Writes a tokenizer.json, which Hugging Face's library reads. A tokenizer that was read from a
--- SentencePiece file cannot be written in this format.
---@param path string
---@param options? {pretty: boolean}  pretty: whether each value has its own line, true by default
---@return boolean? ok
---@return string? message
function Tokenizer:save(path, options)
   if type(path) ~= "string" then
      args.refuse("text.Tokenizer.save", "path", "a file's name", path)
   end
   check_flag("text.Tokenizer.save", options, "pretty")
   return saving.save(self, path, not options or options.pretty ~= false)
end

--- Returns the text of a tokenizer.json, or nil and a message if the tokenizer was read from a
--- SentencePiece file.
---@param options? {pretty: boolean}  pretty: false by default
---@return string? text
---@return string? message
function Tokenizer:to_str(options)
   check_flag("text.Tokenizer.to_str", options, "pretty")
   return saving.text(self, options ~= nil and options.pretty or false)
end

--- Writes tokenizer.json, tokenizer_config.json and chat_template.jinja into a folder.
---@param folder string  created if it does not exist
---@return boolean? ok
---@return string? message
function Tokenizer:save_pretrained(folder)
   if type(folder) ~= "string" then
      args.refuse("text.Tokenizer.save_pretrained", "folder", "a folder's name", folder)
   end
   return saving.save_folder(self, folder)
end

function Tokenizer:__tostring()
   return ("text.Tokenizer(%d tokens)"):format(self.vocab_size)
end

return Tokenizer
