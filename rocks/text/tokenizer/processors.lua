-- processors.lua - the post-processors of tokenizer.json, which add special tokens around texts. A
-- post-processor is a table with these fields:
--
--    added(is_pair)              returns how many special tokens are added
--    process(encodings, adds)    returns the list of encodings whose concatenation is the result;
--                                `adds` tells whether special tokens are added

local Encoding = require "tlua.text.Encoding"

local M = {}

local makers = {}

-- Offsets ---------------------------------------------------------------------------------------

local leading = setmetatable({}, {__index = function(self, token)
   local at, count = 1, 0
   local space = require "tlua.text.tokenizer.characters".class "space"
   while at <= #token do
      local code = utf8.codepoint(token, at)
      if code ~= 0x120 and not space[code] then break end
      at, count = utf8.offset(token, 2, at), count + 1
   end
   self[token] = count
   return count
end, __mode = "k"})

local trailing = setmetatable({}, {__index = function(self, token)
   local last, count = #token, 0
   local space = require "tlua.text.tokenizer.characters".class "space"
   while last >= 1 do
      local at = utf8.offset(token, -1, last + 1)
      local code = utf8.codepoint(token, at)
      if code ~= 0x120 and not space[code] then break end
      last, count = at - 1, count + 1
   end
   self[token] = count
   return count
end, __mode = "k"})

-- Shrinks the offsets of the tokens from `from` to `to`, so that they exclude white space at both
-- ends.
local function trim(encoding, has_prefix, from, to)
   local first, last, ids = encoding.first, encoding.last, encoding.ids
   local tokens, surface = encoding.vocabulary, encoding.surface
   for i = from, to do
      local token = surface and surface[i] or tokens[ids[i]]
      local left, right = leading[token], trailing[token]
      if left > 0 or right > 0 then
         local text = encoding.texts and encoding.texts[encoding.words[i]] or encoding.text
         local is_first = i == from or first[i] == 1
         if left > 0 and not (is_first and has_prefix and left == 1) then
            local at = utf8.offset(text, left + 1, first[i]) or #text + 1
            first[i] = math.min(at, last[i] + 1)
         end
         if right > 0 and last[i] >= right then
            local at = utf8.offset(text, -right, last[i] + 1) or 1
            last[i] = math.max(at - 1, first[i] - 1)
         end
      end
   end
end

-- Makes an encoding trim its offsets as soon as they are computed, which happens when they are
-- first read.
local function trim_later(encoding, has_prefix)
   local count = #encoding.ids
   local function trims(self)
      local before = self.before or 0
      trim(self, has_prefix, before + 1, before + count)
   end
   if rawget(encoding, "parts") then
      local earlier = encoding.trims
      encoding.trims = function(self)
         if earlier then earlier(self) end
         trims(self)
      end
   else
      trims(encoding)
      encoding.offsets = nil
   end
end

local function each_part(encodings, fn)
   for i, encoding in ipairs(encodings) do
      fn(encoding, i)
      for _, part in ipairs(rawget(encoding, "overflowing") or {}) do fn(part, i) end
   end
end

makers.ByteLevel = function(config)
   local trims, has_prefix = config.trim_offsets ~= false, config.add_prefix_space ~= false
   return {
      added = function() return 0 end,
      process = function(encodings)
         if trims then each_part(encodings, function(part) trim_later(part, has_prefix) end) end
         return encodings
      end,
   }
end

-- Special tokens --------------------------------------------------------------------------------

local function pair_of(config, name, fail)
   local pair = config[name]
   if type(pair) ~= "table" or type(pair[1]) ~= "string" or math.type(pair[2]) ~= "integer"
      or pair[2] < 0 then
      fail(("expected a token and its number as %s"):format(name))
   end
   return {ids = {pair[2] + 1}, tokens = {pair[1]}}
end

-- Returns an encoding of special tokens with the given type. It is created once for each type and
-- then reused.
local function special(encoding, token, kind)
   local vocabulary = encoding.vocabulary
   if token.vocabulary ~= vocabulary then token.vocabulary, token.made = vocabulary, {} end
   if not token.made[kind] then
      token.made[kind] = Encoding._special(vocabulary, token.ids, token.tokens, kind)
   end
   return token.made[kind]
end

-- Appends an encoding to a list. Special tokens are put around it and around each part that
-- truncation has cut off from it.
local function wrap(list, encoding, before, after, kind)
   local first = before and special(encoding, before, kind)
   local last = special(encoding, after, kind)
   if not rawget(encoding, "overflowing") then
      if first then list[#list + 1] = first end
      list[#list + 1], list[#list + 2] = encoding, last
      return
   end
   local whole = first and first:_merge(encoding) or encoding
   list[#list + 1] = whole:_merge(last)
end

local function retype(encoding, kind)
   for _, run in ipairs(encoding.runs) do run.type = kind end
   encoding.type_ids = nil
end

makers.BertProcessing = function(config, fail)
   local sep, cls = pair_of(config, "sep", fail), pair_of(config, "cls", fail)
   return {
      added = function(is_pair) return is_pair and 3 or 2 end,
      process = function(encodings, adds)
         if not adds then return encodings end
         local list = {}
         wrap(list, encodings[1], cls, sep, 1)
         if encodings[2] then wrap(list, encodings[2], nil, sep, 2) end
         return list
      end,
   }
end

makers.RobertaProcessing = function(config, fail)
   local sep, cls = pair_of(config, "sep", fail), pair_of(config, "cls", fail)
   local trims, has_prefix = config.trim_offsets ~= false, config.add_prefix_space ~= false
   return {
      added = function(is_pair) return is_pair and 4 or 2 end,
      process = function(encodings, adds)
         if trims then each_part(encodings, function(part) trim_later(part, has_prefix) end) end
         for _, encoding in ipairs(encodings) do retype(encoding, 1) end
         if not adds then return encodings end
         each_part(encodings, function(part) retype(part, 1) end)
         local list = {}
         wrap(list, encodings[1], cls, sep, 1)
         if encodings[2] then wrap(list, encodings[2], sep, sep, 1) end
         return list
      end,
   }
end

local function read_template(list, tokens, fail)
   local template = {}
   if type(list) ~= "table" then fail "expected lists as single and pair" end
   for i, entry in ipairs(list) do
      if type(entry) ~= "table" then fail(("entry %d: expected an object"):format(i)) end
      local sequence, token = entry.Sequence, entry.SpecialToken
      if sequence and sequence.id ~= "A" and sequence.id ~= "B" then
         fail(("entry %d: expected the Sequence A or B, got %s"):format(i, tostring(sequence.id)))
      end
      local kind = (sequence or token or {}).type_id
      if math.type(kind) ~= "integer" then
         fail(("entry %d of a template: expected a Sequence or a SpecialToken"):format(i))
      end
      if token and not tokens[token.id] then
         fail(("special_tokens: expected an entry for %q"):format(tostring(token.id)))
      end
      template[i] = {sequence = sequence and (sequence.id == "A" and 1 or 2), kind = kind + 1,
         token = token and tokens[token.id]}
   end
   return template
end

local function read_tokens(config, fail)
   local tokens = {}
   for name, entry in pairs(config.special_tokens or {}) do
      local ids = {}
      if type(entry) ~= "table" or not entry.ids or not entry.tokens
         or #entry.ids ~= #entry.tokens then
         fail(("special_tokens: %q: expected as many ids as tokens"):format(name))
      end
      for i, id in ipairs(entry.ids) do
         if math.type(id) ~= "integer" or id < 0 then
            fail(("the ids of %q are no numbers"):format(name))
         end
         ids[i] = id + 1
      end
      tokens[name] = {ids = ids, tokens = entry.tokens}
   end
   return tokens
end

makers.TemplateProcessing = function(config, fail)
   local tokens = read_tokens(config, fail)
   local single = read_template(config.single, tokens, fail)
   local pair = read_template(config.pair, tokens, fail)
   return {
      added = function(is_pair)
         local count = 0
         for _, entry in ipairs(is_pair and pair or single) do
            count = count + (entry.token and #entry.token.ids or 0)
         end
         return count
      end,
      process = function(encodings, adds)
         local list = {}
         for _, entry in ipairs(#encodings == 2 and pair or single) do
            local encoding = entry.sequence and encodings[entry.sequence]
            if encoding then
               retype(encoding, entry.kind)
               list[#list + 1] = encoding
            elseif entry.token and adds then
               list[#list + 1] = special(encodings[1], entry.token, entry.kind)
            end
         end
         return list
      end,
   }
end

makers.Sequence = function(config, fail)
   local list = {}
   if type(config.processors) ~= "table" then fail "expected a list of processors" end
   for i, part in ipairs(config.processors) do
      list[i] = M.make(part, function(why) fail(("processors[%d]: %s"):format(i, why)) end)
   end
   return {
      added = function(is_pair)
         local count = 0
         for i = 1, #list do count = count + list[i].added(is_pair) end
         return count
      end,
      process = function(encodings, adds)
         for i = 1, #list do encodings = list[i].process(encodings, adds) end
         return encodings
      end,
   }
end

--- Creates a post-processor from its configuration. Calls fail(why) if the configuration is
--- invalid.
---@param config table
---@param fail fun(why: string)
---@return table
function M.make(config, fail)
   local maker = type(config) == "table" and makers[config.type]
   if not maker then
      fail(("expected a known type of post-processor, got %s"):format(
         tostring(type(config) == "table" and config.type or config)))
   end
   return maker(config, fail)
end

return M
