-- decoders.lua - the decoders of tokenizer.json. A decoder is a function from a list of tokens to a
-- list of texts, which are then concatenated.

local bytes = require "tlua.text.tokenizer.bytes"
local normalizers = require "tlua.text.tokenizer.normalizers"
local pieces = require "tlua.text.tokenizer.pieces"

local M = {}

local makers = {}

-- Returns the number of bytes of the character at byte `at`, and true. For invalid UTF-8 it returns
-- the number of bytes that one U+FFFD replaces, and false.
local function whole_length(text, at)
   local lead = text:byte(at)
   if lead < 0x80 then return 1, true end
   local length = lead >= 0xF0 and 4 or lead >= 0xE0 and 3 or 2
   if lead < 0xC2 or lead > 0xF4 then return 1, false end
   local low, high = 0x80, 0xBF
   if lead == 0xE0 then low = 0xA0 elseif lead == 0xED then high = 0x9F end
   if lead == 0xF0 then low = 0x90 elseif lead == 0xF4 then high = 0x8F end
   for i = 1, length - 1 do
      local b = text:byte(at + i)
      if not b or b < low or b > high then return i, false end
      low, high = 0x80, 0xBF
   end
   return length, true
end

--- Replaces each invalid part of a UTF-8 text by U+FFFD.
---@param text string
---@return string
function M.repair(text)
   if utf8.len(text) then return text end
   local parts, at = {}, 1
   while at <= #text do
      local length, good = whole_length(text, at)
      parts[#parts + 1] = good and text:sub(at, at + length - 1) or "\u{FFFD}"
      at = at + length
   end
   return table.concat(parts)
end

makers.ByteLevel = function()
   return function(tokens)
      local parts = {}
      for i, token in ipairs(tokens) do parts[i] = bytes.decode(token) or token end
      return {M.repair(table.concat(parts))}
   end
end

makers.ByteFallback = function()
   return function(tokens)
      local list, run = {}, {}
      local function close()
         if #run == 0 then return end
         local text = table.concat(run)
         if utf8.len(text) then
            list[#list + 1] = text
         else
            for _ = 1, #run do list[#list + 1] = "\u{FFFD}" end
         end
         run = {}
      end
      for _, token in ipairs(tokens) do
         local code = #token == 6 and token:match "^<0x(%x%x)>$"
         if code then
            run[#run + 1] = string.char(tonumber(code, 16))
         else
            close()
            list[#list + 1] = token
         end
      end
      close()
      return list
   end
end

makers.Fuse = function()
   return function(tokens) return {table.concat(tokens)} end
end

makers.Strip = function(config, fail)
   local content, start, stop = config.content, config.start, config.stop
   if type(content) ~= "string" or utf8.len(content) ~= 1 then
      fail "expected one character as content"
   end
   if math.type(start) ~= "integer" or math.type(stop) ~= "integer" then
      fail "expected integers as start and stop"
   end
   return function(tokens)
      local list, width = {}, #content
      for i, token in ipairs(tokens) do
         local first, last = 1, #token
         for _ = 1, start do
            if token:sub(first, first + width - 1) ~= content then break end
            first = first + width
         end
         for _ = 1, stop do
            local at = last - width + 1
            if at < first or token:sub(at, last) ~= content then break end
            last = at - 1
         end
         list[i] = token:sub(first, last)
      end
      return list
   end
end

makers.Replace = function(config, fail)
   local pattern, content = normalizers.pattern(config.pattern, fail), config.content
   if type(content) ~= "string" then fail "expected a text as content" end
   return function(tokens)
      local list = {}
      for i, token in ipairs(tokens) do
         local parts, found = {}, pieces.by_regex(token, pattern)
         for k = 1, #found, 3 do
            parts[#parts + 1] = found[k + 2] and content or token:sub(found[k], found[k + 1])
         end
         list[i] = table.concat(parts)
      end
      return list
   end
end

-- Replaces all occurrences of a plain text, without interpreting it as a pattern.
local function replace(text, old, new)
   if old == "" then return text end
   return (text:gsub((old:gsub("%p", "%%%0")), (new:gsub("%%", "%%%%"))))
end

makers.BPEDecoder = function(config, fail)
   local suffix = config.suffix or "</w>"
   if type(suffix) ~= "string" then fail "expected a text as suffix" end
   return function(tokens)
      local list = {}
      for i, token in ipairs(tokens) do
         list[i] = replace(token, suffix, i == #tokens and "" or " ")
      end
      return list
   end
end

local cleanups <const> = {{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"},
   {" n't", "n't"}, {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"},
   {" 're", "'re"}}

local function clean(text)
   for _, pair in ipairs(cleanups) do text = replace(text, pair[1], pair[2]) end
   return text
end

makers.WordPiece = function(config, fail)
   local prefix, cleans = config.prefix or "##", config.cleanup ~= false
   if type(prefix) ~= "string" then fail "expected a text as prefix" end
   return function(tokens)
      local list = {}
      for i, token in ipairs(tokens) do
         if i > 1 then
            local continues = token:sub(1, #prefix) == prefix
            token = continues and token:sub(#prefix + 1) or " " .. token
         end
         list[i] = cleans and clean(token) or token
      end
      return list
   end
end

makers.CTC = function(config)
   local pad, word = config.pad_token or "<pad>", config.word_delimiter_token or "|"
   local cleans = config.cleanup ~= false
   return function(tokens)
      local list, before = {}, nil
      for _, token in ipairs(tokens) do
         if token ~= before then
            local text = replace(token, pad, "")
            if cleans then text = replace(clean(text), word, " ") end
            if text ~= "" then list[#list + 1] = text end
         end
         before = token
      end
      return list
   end
end

makers.Metaspace = function(config)
   local mark = config.replacement or "\u{2581}"
   local scheme = config.prepend_scheme
   if not scheme then scheme = config.add_prefix_space == false and "never" or "always" end
   return function(tokens)
      local list = {}
      for i, token in ipairs(tokens) do
         list[i] = replace(token, mark, i == 1 and scheme ~= "never" and "" or " ")
      end
      return list
   end
end

makers.Sequence = function(config, fail)
   if type(config.decoders) ~= "table" then fail "expected a list of decoders" end
   local list = {}
   for i, part in ipairs(config.decoders) do
      list[i] = M.make(part, function(why) fail(("decoders[%d]: %s"):format(i, why)) end)
   end
   return function(tokens)
      for i = 1, #list do tokens = list[i](tokens) end
      return tokens
   end
end

--- Creates a decoder from its configuration. Calls fail(why) if the configuration is invalid.
---@param config table
---@param fail fun(why: string)
---@return fun(tokens: string[]): string[]
function M.make(config, fail)
   local maker = type(config) == "table" and makers[config.type]
   if not maker then
      fail(("expected a known type of decoder, got %s"):format(
         tostring(type(config) == "table" and config.type or config)))
   end
   return maker(config, fail)
end

return M
