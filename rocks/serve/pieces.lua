-- pieces.lua - the bytes of each token of a tokenizer, in the form that torch.llm's grammars read:
-- `tokens`, `ends` (the tokens that end a text) and `piece(token)`.

local bytes = require "tlua.text.tokenizer.bytes"
local json = require "tlua.utils.json"

local M = {}

local Pieces = {}
Pieces.__index = Pieces

-- Returns whether a decoder of tokenizer.json has the given type. A decoder of the type Sequence
-- contains other decoders, which are searched too.
local function has(decoder, type_name)
   if type(decoder) ~= "table" then return false end
   if decoder.type == type_name then return true end
   for _, part in ipairs(type(decoder.decoders) == "table" and decoder.decoders or {}) do
      if has(part, type_name) then return true end
   end
   return false
end

--- Returns the bytes that a token adds to a text. A special token adds none.
---@param id integer
---@return string
function Pieces:piece(id)
   local tokenizer, token = self.tokenizer, self.tokens[id]
   if tokenizer.special[token] then return "" end
   if self.is_byte_level then return bytes.decode(token) or token end
   local code = token:match "^<0x(%x%x)>$"
   if code and self.has_bytes then return string.char(tonumber(code, 16)) end
   if self.has_spaces then return (token:gsub("\u{2581}", " ")) end
   return tokenizer:decode({id}, {skip_special_tokens = false})
end

--- Returns the pieces of a tokenizer of torch.text.
---@param tokenizer text.Tokenizer
---@param ends table<integer, boolean>
---@return table
function M.of(tokenizer, ends)
   local read, text = pcall(tokenizer.to_str, tokenizer)
   local config = read and json.decode(text)
   local decoder = type(config) == "table" and config.decoder or nil
   return setmetatable({tokenizer = tokenizer, tokens = tokenizer.tokens, ends = ends,
      is_byte_level = has(decoder, "ByteLevel"), has_bytes = has(decoder, "ByteFallback"),
      has_spaces = has(decoder, "Metaspace") or has(decoder, "Replace")}, Pieces)
end

return M
