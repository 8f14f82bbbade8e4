-- saving.lua - writes a tokenizer as tokenizer.json. The parts that a program cannot change are
-- written as they were read. Added tokens, truncation and padding are written with their current
-- values.

local bytes = require "tlua.text.tokenizer.bytes"
local json = require "tlua.utils.json"
local ordered = require "tlua.text.template.ordered"
local replace_file = require "tlua.io.replace"
local torch = require "tlua"
local values = require "tlua.text.template.values"

local M = {}

local style <const> = {ascii = false, indent = "  ", comma = ",", colon = ": "}

-- Creates an ordered dict from a list {name, value, name, value, ...}.
local function dict(fields)
   local new = values.dict()
   for i = 1, #fields, 2 do values.put(new, fields[i], fields[i + 1]) end
   return new
end

local function flag(value) return value and true or false end

local function added_tokens(self)
   local list = values.list {}
   for i, token in ipairs(self.added_tokens) do
      local normalized = token.normalized
      if normalized == nil then normalized = not token.special end
      list[i] = dict {"id", token.id - 1, "content", token.content, "single_word",
         flag(token.single_word), "lstrip", flag(token.lstrip), "rstrip", flag(token.rstrip),
         "normalized", flag(normalized), "special", flag(token.special)}
   end
   table.sort(list, function(a, b) return a.values.id < b.values.id end)
   return list
end

local strategies <const> = {longest_first = "LongestFirst", only_first = "OnlyFirst",
   only_second = "OnlySecond"}

local function truncation(options)
   if not options then return values.none end
   return dict {"direction", options.direction == "left" and "Left" or "Right", "max_length",
      options.max_length, "strategy", strategies[options.strategy], "stride", options.stride}
end

local function padding(options)
   if not options then return values.none end
   local fixed, multiple = options.length, options.pad_to_multiple_of
   return dict {"strategy", fixed > 0 and dict {"Fixed", fixed} or "BatchLongest",
      "direction", options.direction == "left" and "Left" or "Right",
      "pad_to_multiple_of", multiple > 0 and multiple or values.none,
      "pad_id", options.pad_id - 1, "pad_type_id", options.pad_type_id - 1,
      "pad_token", options.pad_token}
end

-- Converts the bytes of a token to the characters that represent them in byte-level vocabularies.
function M.in_characters(token)
   return (token:gsub(".", function(c) return bytes.character[c:byte()] end))
end

-- Returns the two tokens that are merged to a token. They are found by applying all merges of lower
-- rank to the token's bytes. Returns nil if these merges leave more than two tokens.
local function parts_of(token, ranks)
   local parts, own = {}, ranks[token]
   for c in token:gmatch "." do parts[#parts + 1] = c end
   while #parts > 2 do
      local least, at = own, nil
      for i = 1, #parts - 1 do
         local rank = ranks[parts[i] .. parts[i + 1]]
         if rank and rank < least then least, at = rank, i end
      end
      if not at then return nil end
      parts[at] = parts[at] .. table.remove(parts, at + 1)
   end
   return parts[1], parts[2]
end

-- Returns the configuration, as in tokenizer.json, of a tokenizer that was read from tiktoken's
-- ranks.
local function from_ranks(self)
   local vocab, merges, order = values.dict(), values.list {}, {}
   for token in pairs(self.ranks) do order[#order + 1] = token end
   table.sort(order, function(a, b) return self.ranks[a] < self.ranks[b] end)
   for _, token in ipairs(order) do
      values.put(vocab, M.in_characters(token), self.ranks[token] - 1)
      local a, b = parts_of(token, self.ranks)
      if #token > 1 and a then
         merges[#merges + 1] = values.list {M.in_characters(a), M.in_characters(b)}
      end
   end
   local function byte_level(use_regex)
      return dict {"type", "ByteLevel", "add_prefix_space", false, "trim_offsets", true,
         "use_regex", use_regex}
   end
   local split = dict {"type", "Split", "pattern", dict {"Regex", self.pattern}, "behavior",
      "Isolated", "invert", false}
   local none = values.none
   return dict {"version", "1.0", "truncation", none, "padding", none, "added_tokens", none,
      "normalizer", none, "pre_tokenizer", dict {"type", "Sequence", "pretokenizers",
         values.list {split, byte_level(false)}},
      "post_processor", none, "decoder", byte_level(true), "model", dict {"type", "BPE",
         "dropout", none, "unk_token", none, "continuing_subword_prefix", none,
         "end_of_word_suffix", none, "fuse_unk", false, "byte_fallback", false, "ignore_merges",
         true, "vocab", vocab, "merges", merges}}
end

--- Returns a tokenizer as the text of a tokenizer.json, or nil and a message.
---@param self table
---@param is_pretty boolean
---@return string? text
---@return string? message
function M.text(self, is_pretty)
   local config
   if self.source then
      config = assert(ordered.decode(self.source))
   elseif self.ranks then
      config = from_ranks(self)
   else
      return nil, "expected a tokenizer of tokenizer.json or of tiktoken's ranks; SentencePiece's "
         .. "model is a file of its own"
   end
   local new = dict {"version", config.values.version or "1.0",
      "truncation", truncation(self.truncation), "padding", padding(self.padding),
      "added_tokens", added_tokens(self)}
   for _, key in ipairs(config.keys) do
      if new.values[key] == nil then values.put(new, key, config.values[key]) end
   end
   return values.to_json(new, is_pretty and style or {ascii = false, comma = ",", colon = ":"})
end

-- Writes a file. Returns true, or nil and a message.
local function write(path, text)
   local failure = replace_file(path, function(file) return select(2, file:write(text)) end)
   if failure then return nil, ("%s: %s"):format(path, failure) end
   return true
end

-- Returns the content of tokenizer_config.json: the fields that were read, with the current special
-- tokens.
local function folder_config(self)
   local config = {}
   for key, value in pairs(self.config or {}) do config[key] = value end
   for name, text in pairs(self.special_tokens or {}) do config[name] = text end
   for _, side in ipairs {"padding_side", "truncation_side"} do config[side] = self[side] end
   config.tokenizer_class = config.tokenizer_class or "PreTrainedTokenizerFast"
   config.chat_template = nil
   if type(self.chat_template) == "table" then
      local list = json.as_array {}
      for name, template in pairs(self.chat_template) do
         list[#list + 1] = {name = name, template = template}
      end
      table.sort(list, function(a, b) return a.name < b.name end)
      config.chat_template = list
   end
   return json.encode(config)
end

--- Returns this tokenizer's tokenizer.json, as text, with another vocabulary.
---@param self table
---@param model table  the model's new fields; `tokens`: the vocabulary; or `scored`: the vocabulary
--- with scores
---@return string
function M.with_vocabulary(self, model)
   local config = assert(ordered.decode(self.source))
   local vocab, merges = values.dict(), values.list {}
   for id, token in ipairs(model.tokens or {}) do values.put(vocab, token, id - 1) end
   if model.scored then
      vocab = values.list {}
      for i, entry in ipairs(model.scored) do vocab[i] = values.list {entry[1], entry[2]} end
   end
   for i, pair in ipairs(model.merges or {}) do merges[i] = values.list {pair[1], pair[2]} end
   local part = config.values.model
   for _, key in ipairs {"continuing_subword_prefix", "end_of_word_suffix"} do
      if model[key] then values.put(part, key, model[key]) end
   end
   values.put(part, "vocab", vocab)
   if model.scored then values.put(part, "unk_id", model.unk_id or values.none) end
   if model.merges then values.put(part, "merges", merges) end
   values.put(config, "added_tokens", values.list {})
   return values.to_json(config, {ascii = false, comma = ",", colon = ":"})
end

--- Writes a tokenizer.json.
---@param self table
---@param path string
---@param is_pretty boolean
---@return boolean? ok
---@return string? message
function M.save(self, path, is_pretty)
   local text, why = M.text(self, is_pretty)
   if not text then return nil, ("%s: %s"):format(path, why) end
   return write(path, text)
end

--- Writes tokenizer.json, tokenizer_config.json and chat_template.jinja into a folder.
---@param self table
---@param folder string
---@return boolean? ok
---@return string? message
function M.save_folder(self, folder)
   local made, message = torch.io.make_folder(folder)
   if not made then return nil, ("%s: %s"):format(folder, message) end
   local ok, why = M.save(self, folder .. "/tokenizer.json", true)
   if ok then ok, why = write(folder .. "/tokenizer_config.json", folder_config(self)) end
   if ok and type(self.chat_template) == "string" then
      ok, why = write(folder .. "/chat_template.jinja", self.chat_template)
   end
   if not ok then return nil, why end
   return true
end

return M
