-- tokenizer.lua - the tokenizers of GGUF files. There are two kinds: SentencePiece's BPE, which
-- merges pairs by their scores ("llama"), and byte-level BPE ("gpt2"). This file finds special
-- tokens; a tokenizer of torch.text encodes the text between them. Token numbers count from 1.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local added = require "tlua.text.tokenizer.added"
local chat = require "tlua.text.tokenizer.chat"
local loading = require "tlua.text.tokenizer.loading"
local source = require "tlua.io.source"

local fail = source.fail

-- The kinds of tokens, with their numbers in GGUF files.
local UNKNOWN <const>, CONTROL <const>, USER <const>, UNUSED <const>, BYTE <const> = 2, 3, 4, 5, 6

-- Regular expressions that split texts into words. `patterns` maps the values of the metadata field
-- tokenizer.ggml.pre to these expressions.
local contractions <const> = [[(?i:'s|'t|'re|'ve|'m|'ll|'d)]]
local function llama3(digits)
   return contractions .. [[|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}]] .. digits
      .. [[| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+]]
end
local gpt2 <const> = [['s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+]]
local tekken <const> = table.concat({
   [=[[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+]=],
   [=[[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*]=],
   [=[\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+]=]}, "|")
local patterns <const> = {
   ["default"] = gpt2, ["gpt-2"] = gpt2, ["gpt2"] = gpt2, ["phi-2"] = gpt2, ["jina-en"] = gpt2,
   ["llama-bpe"] = llama3 "{1,3}", ["llama3"] = llama3 "{1,3}", ["llama-v3"] = llama3 "{1,3}",
   ["dbrx"] = llama3 "{1,3}", ["smaug-bpe"] = llama3 "{1,3}", ["falcon3"] = llama3 "{1,3}",
   ["pixtral"] = llama3 "{1,3}", ["qwen2"] = llama3 "", ["deepseek-r1-qwen"] = llama3 "",
   ["stablelm2"] = llama3 "", ["megrez"] = llama3 "", ["hunyuan"] = llama3 "", ["tekken"] = tekken,
}
-- The names of tokenizers that do not apply merges to a word that is a token itself.
local ignores_merges <const> = {["llama-bpe"] = true, ["llama3"] = true, ["llama-v3"] = true,
   ["falcon3"] = true, ["pixtral"] = true, ["tekken"] = true}

--- The tokenizer of a GGUF file.
---
---     local tokenizer = torch.llm.Tokenizer.from_metadata {
---        ["tokenizer.ggml.model"] = "gpt2",
---        ["tokenizer.ggml.tokens"] = {"a", "b", "ab"},
---        ["tokenizer.ggml.merges"] = {"a b"},
---     }
---     print(table.unpack(tokenizer:encode "abb"))
---     --> 3	2
---@class llm.Tokenizer
---@field kind string  "llama" or "gpt2"
---@field tokens string[]  the texts of the tokens in the file
---@field kinds integer[]  the tokens' kinds: 1 ordinary, 2 unknown, 3 control, 4 defined by the
--- user, 5 unused, 6 a byte
---@field bos? integer  the token that begins a text
---@field eos? integer  the token that ends a text
---@field chat_template? string  the template of conversations
---@field special_tokens table<string, string>  the texts of bos_token and eos_token
local Tokenizer = class.class("llm.Tokenizer")

-- Reading ---------------------------------------------------------------------------------------

local function field(metadata, name) return metadata["tokenizer.ggml." .. name] end

local function list_of(metadata, name, kind, count)
   local list = field(metadata, name)
   if list == nil then return nil end
   if type(list) ~= "table" then
      fail("tokenizer.ggml.%s: expected a list, got %s", name, type(list))
   end
   if count and #list ~= count then
      fail("tokenizer.ggml.%s: expected %d items, got %d", name, count, #list)
   end
   for i, value in ipairs(list) do
      if type(value) ~= kind then
         fail("tokenizer.ggml.%s: item %d: expected a %s, got a %s", name, i, kind, type(value))
      end
   end
   return list
end

-- Returns the number, counted from 1, of a token that the metadata give under `name`. Returns nil
-- if the metadata have no such field.
local function token_of(self, metadata, name)
   local id = field(metadata, name)
   if id == nil then return nil end
   if math.type(id) ~= "integer" or id < 0 or id > #self.tokens then
      if id == 0xffffffff or id == -1 then return nil end
      fail("tokenizer.ggml.%s: expected a token's number, got %s", name, tostring(id))
   end
   if id == #self.tokens then fail("tokenizer.ggml.%s: expected less than %d", name, id) end
   return id + 1
end

-- Makes torch.text's tokenizer for a SentencePiece model. If several tokens have the same text, the
-- first one is used.
local function sentencepiece(self, scores)
   local texts, kinds, seen, unknown = {}, {}, {}, false
   for i, token in ipairs(self.tokens) do
      local kind, text = self.kinds[i], token
      if seen[token] then kind, text = UNUSED, ("<twice %d>"):format(i) end
      if kind == UNKNOWN then unknown = true end
      if kind < 1 or kind > 6 then kind = 1 end
      -- The method `encode` has already split off user-defined tokens, so SentencePiece must not
      -- search for them.
      if kind == USER then kind = UNUSED end
      seen[text] = true
      texts[i], kinds[i] = text, kind
   end
   if not unknown then fail "tokenizer.ggml.token_type: expected an unknown token" end
   -- This is a BPE model whose normalizer adds no prefix, keeps all spaces, and replaces them by
   -- U+2581.
   local made, why = torch.text.Tokenizer._from_parts(loading.pieces, {texts = texts,
      scores = scores, kinds = kinds, kind = 2, byte_fallback = true, has_prefix = false,
      collapses = false, escapes = true})
   return made or fail("tokenizer.ggml.tokens: %s", why)
end

local function byte_pairs(self, metadata)
   local name = field(metadata, "pre") or "default"
   local pattern = patterns[name]
   if not pattern then
      local known = {}
      for key in pairs(patterns) do known[#known + 1] = key end
      table.sort(known)
      fail("tokenizer.ggml.pre: expected one of %s, got %s", table.concat(known, ", "),
         tostring(name))
   end
   local merges = list_of(metadata, "merges", "string")
   if not merges then fail "tokenizer.ggml.merges: expected a list, got nil" end
   local vocab, seen = {}, {}
   for i, token in ipairs(self.tokens) do
      if not seen[token] then vocab[token], seen[token] = i - 1, true end
   end
   local made, why = torch.text.Tokenizer._from_parts(loading.decoded, {
      model = {type = "BPE", vocab = vocab, merges = merges,
         ignore_merges = ignores_merges[name] or false},
      pre_tokenizer = {type = "Sequence", pretokenizers = {
         {type = "Split", pattern = {Regex = pattern}, behavior = "Isolated", invert = false},
         {type = "ByteLevel", add_prefix_space = false, trim_offsets = true, use_regex = false}}},
      decoder = {type = "ByteLevel", add_prefix_space = false, trim_offsets = true,
         use_regex = false},
   })
   return made or fail("tokenizer.ggml.tokens: %s", why)
end

-- Returns a table that maps characters to bytes, for a byte-level BPE, in which each byte is
-- represented by a character.
local function byte_table()
   local map, next_code = {}, 256
   for byte = 0, 255 do
      local plain = byte >= 33 and byte <= 126 or byte >= 161 and byte <= 172 or byte >= 174
      local code = byte
      if not plain then code, next_code = next_code, next_code + 1 end
      map[utf8.char(code)] = string.char(byte)
   end
   return map
end

-- Reads a tokenizer from a file's metadata. If the metadata are damaged, the function `fail` of
-- io.source throws an error.
function Tokenizer._read(metadata)
   local self = Tokenizer()
   self.kind = field(metadata, "model")
   if self.kind ~= "llama" and self.kind ~= "gpt2" then
      fail('tokenizer.ggml.model: expected "llama" or "gpt2", got %s', tostring(self.kind))
   end
   self.tokens = list_of(metadata, "tokens", "string") or fail "tokenizer.ggml.tokens is missing"
   local count = #self.tokens
   if count == 0 then fail "tokenizer.ggml.tokens: expected at least one token" end
   self.kinds = list_of(metadata, "token_type", "number", count)
   if not self.kinds then
      self.kinds = {}
      for i = 1, count do self.kinds[i] = 1 end
   end
   for i, kind in ipairs(self.kinds) do
      if math.type(kind) ~= "integer" then
         fail("tokenizer.ggml.token_type: item %d: expected an integer, got %s", i, tostring(kind))
      end
   end
   local is_spm = self.kind == "llama"
   self.bos, self.eos = token_of(self, metadata, "bos_token_id"), token_of(self, metadata,
      "eos_token_id")
   self.ends = {}
   for _, name in ipairs {"eos_token_id", "eot_token_id", "eom_token_id"} do
      local id = token_of(self, metadata, name)
      if id then self.ends[id] = true end
   end
   local adds = field(metadata, "add_bos_token")
   if adds == nil then adds = is_spm end
   self.adds_bos, self.adds_eos = adds and self.bos ~= nil, field(metadata, "add_eos_token") == true
   local prefix = field(metadata, "add_space_prefix")
   self.has_prefix = is_spm and prefix ~= false
   if is_spm then
      local scores = list_of(metadata, "scores", "number", count)
         or fail "tokenizer.ggml.scores is missing"
      self.inner = sentencepiece(self, scores)
   else
      self.inner, self.bytes = byte_pairs(self, metadata), byte_table()
   end
   self:_find_special()
   local template = metadata["tokenizer.chat_template"]
   if template ~= nil and type(template) ~= "string" then
      fail("tokenizer.chat_template: expected a string, got %s", type(template))
   end
   self.chat_template = template
   self.special_tokens = {
      bos_token = self.bos and self.tokens[self.bos],
      eos_token = self.eos and self.tokens[self.eos],
   }
   return self
end

--- Creates a tokenizer from the metadata of a GGUF file.
---@param metadata table<string, any>
---@return llm.Tokenizer
function Tokenizer.from_metadata(metadata)
   local name = "llm.Tokenizer.from_metadata"
   if type(metadata) ~= "table" then args.refuse(name, "metadata", "a table", metadata) end
   local self, why = source.protect(Tokenizer._read, metadata)
   return self or torch.raise(("%s: %s"):format(name, why))
end

-- Tokens that end an answer in the chat templates of known models. As in llama.cpp, they are
-- treated as control tokens even if the file declares them as user-defined.
local end_texts <const> = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
   "<|end_of_text|>", "<EOT>"}

-- Builds two functions that find special tokens in a text: `all_special` finds all of them, and
-- `user_special` finds only the tokens that the user has defined.
function Tokenizer:_find_special()
   local control, user = {}, {}
   for _, text in ipairs(end_texts) do
      local id = self.inner:token_to_id(text)
      if id and (self.kinds[id] == CONTROL or self.kinds[id] == USER) then
         self.ends[id], self.kinds[id] = true, CONTROL
      end
   end
   for i, token in ipairs(self.tokens) do
      local kind = self.kinds[i]
      if token ~= "" and (kind == CONTROL or kind == USER or kind == UNKNOWN) then
         local entry = {pattern = token, id = i}
         control[#control + 1] = entry
         if kind == USER then user[#user + 1] = entry end
      end
   end
   self.all_special, self.user_special = added.new(control), added.new(user)
end

-- Use -------------------------------------------------------------------------------------------

--- Returns the tokens of a text. If the file asks for the token `eos` at the end of each text
--- (add_eos_token), it is added if there are no options.
---@param text string  UTF-8
---@param options? {add_bos: boolean, special: boolean}  add_bos: whether to begin with the token
--- `bos`, by default as the file says; special: whether texts such as "<|end|>" in the input become
--- control tokens, false by default
---@return integer[]
function Tokenizer:encode(text, options)
   local name = "llm.Tokenizer.encode"
   if type(text) ~= "string" then args.refuse(name, "text", "a string", text) end
   local length, wrong = utf8.len(text)
   if not length then
      torch.raise(("%s: text: expected UTF-8, byte %d is not"):format(name, wrong))
   end
   args.check_options(name, options, "add_bos", "special")
   for _, option in ipairs {"add_bos", "special"} do
      local value = options and options[option]
      if value ~= nil and type(value) ~= "boolean" then
         args.refuse(name, option, "a boolean", value)
      end
   end
   local list, n = {}, 0
   local adds = options and options.add_bos
   if adds == nil then adds = self.adds_bos end
   if adds and self.bos then list[1], n = self.bos, 1 end
   local finder = options and options.special and self.all_special or self.user_special
   -- `previous` is true if a special token, or nothing, comes before the text.
   local at, previous = 1, true
   local function add_text(part)
      if part == "" then return end
      if self.has_prefix and previous then part = " " .. part end
      local ids = self.inner:encode(part, {add_special_tokens = false}).ids
      table.move(ids, 1, #ids, n + 1, list)
      n, previous = n + #ids, false
   end
   local found = finder:find(text)
   for k = 1, #found, 3 do
      add_text(text:sub(at, found[k] - 1))
      n = n + 1
      list[n], previous, at = found[k + 2], true, found[k + 1] + 1
   end
   add_text(text:sub(at))
   if self.adds_eos and options == nil and self.eos then list[n + 1] = self.eos end
   return list
end

--- Returns the bytes that a token adds to a text. A control token adds none unless `special` is
--- true.
---@param id integer
---@param special? boolean
---@return string
function Tokenizer:piece(id, special)
   local token, kind = self.tokens[id], self.kinds[id]
   if not token then
      args.refuse("llm.Tokenizer.piece", "id", ("a token from 1 to %d"):format(#self.tokens), id)
   end
   if kind == CONTROL or kind == UNKNOWN or kind == UNUSED then return special and token or "" end
   if kind == USER then return token end
   if kind == BYTE then
      local code = token:match "^<0x(%x%x)>$"
      return code and string.char(tonumber(code, 16)) or token
   end
   if self.kind == "llama" then return (token:gsub("\u{2581}", " ")) end
   local bytes = self.bytes
   return (token:gsub("[\0-\x7f\xc2-\xf4][\x80-\xbf]*", function(c) return bytes[c] or c end))
end

--- Returns the text of tokens, without the space that encoding adds at the beginning of a text.
---@param ids integer[]
---@param options? {special: boolean}  special: whether control tokens appear in the text
---@return string
function Tokenizer:decode(ids, options)
   args.check_options("llm.Tokenizer.decode", options, "special")
   if type(ids) ~= "table" then
      args.refuse("llm.Tokenizer.decode", "ids", "a list of tokens", ids)
   end
   local parts, first = {}, 1
   if ids[1] ~= nil and ids[1] == self.bos and not (options and options.special) then first = 2 end
   for i = first, #ids do
      parts[#parts + 1] = self:piece(ids[i], options and options.special)
   end
   local text = table.concat(parts)
   if self.has_prefix and text:sub(1, 1) == " " then text = text:sub(2) end
   return text
end

--- Converts a conversation to one text, with the file's chat template.
---@param messages table[]  each has the fields role and content
---@param options? table  variables of the template, such as add_generation_prompt and tools;
--- chat_template: a template in place of the file's
---@return string
function Tokenizer:apply_chat_template(messages, options)
   local given = {}
   for key, value in pairs(options or {}) do given[key] = value end
   return chat.render(self, messages, given)[1]
end

function Tokenizer:__tostring()
   return ("llm.Tokenizer(%s, %d tokens)"):format(self.kind, #self.tokens)
end

return Tokenizer
