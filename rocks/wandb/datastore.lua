-- datastore.lua - the format of the file run-ID.wandb. It is a header of 7 bytes and then blocks of
-- 32,768 bytes, as in LevelDB's logs. A record is split into pieces that fit into blocks. Each
-- piece begins with:
--
--    CRC-32 of kind and data (4 bytes), length (2), kind (1): 1 whole, 2 first, 3 middle, 4 last
--
-- A record's data are a message Record of wandb_internal.proto, encoded as a protocol buffer.

local torch = require "tlua"
local protobuf = require "tlua.utils.protobuf"

local M = {}

local BLOCK <const>, HEAD <const>, PIECE <const> = 32768, 7, 7
local WHOLE <const>, FIRST <const>, MIDDLE <const>, LAST <const> = 1, 2, 3, 4

--- The file's header: a name, a magic number and the version 0.
M.head = ("<c4I2B"):pack(":W&B", 0xBEE1, 0)

--- Encodes a field of a protobuf message: an integer, a boolean, a text or an encoded message.
---@param field integer
---@param value integer|boolean|string?  nil gives an empty string
---@return string
function M.field(field, value)
   if value == nil then return "" end
   if type(value) == "boolean" then value = value and 1 or 0 end
   return type(value) == "number" and protobuf.int(field, value) or protobuf.bytes(field, value)
end

-- Records -----------------------------------------------------------------------------------------

local function sum_of(kind, data)
   return torch.io.crc32(data, torch.io.crc32(string.char(kind)))
end

--- Encodes a record that will be written at the position `at` of the file.
---@param at integer  the position in bytes, from 0
---@param data string
---@return string
function M.encode(at, data)
   local pieces, from, first = {}, 1, true
   repeat
      local left = BLOCK - at % BLOCK
      if left < PIECE then
         pieces[#pieces + 1] = ("\0"):rep(left)
         at, left = at + left, BLOCK
      end
      local n = math.min(left - PIECE, #data - from + 1)
      local part, is_last = data:sub(from, from + n - 1), from + n > #data
      local kind = first and (is_last and WHOLE or FIRST) or is_last and LAST or MIDDLE
      pieces[#pieces + 1] = ("<I4I2B"):pack(sum_of(kind, part), n, kind) .. part
      at, from, first = at + PIECE + n, from + n, false
   until is_last
   return table.concat(pieces)
end

--- Reads the records of a file up to its end or up to the first damaged record. Returns a list with
--- the data of each record and the position of its end. If the file has another format, returns nil
--- and a message.
---@param text string  the file's contents
---@return {data: string, last: integer}[]? records
---@return string? message
---@return boolean? whole  whether the last record ends at the file's end
function M.decode(text)
   if text:sub(1, HEAD) ~= M.head then return nil, "expected a file of W&B's library" end
   local records, at, parts = {}, HEAD, nil
   while #text - at >= PIECE do
      local left = BLOCK - at % BLOCK
      if left < PIECE then
         at = at + left
         if #text - at < PIECE then break end
      end
      local sum, n, kind = ("<I4I2B"):unpack(text, at + 1)
      local data = text:sub(at + PIECE + 1, at + PIECE + n)
      local fits = kind >= WHOLE and kind <= LAST and (kind == WHOLE or kind == FIRST) == not parts
      if not fits or #data < n or sum ~= sum_of(kind, data) then break end
      parts = parts or {}
      parts[#parts + 1] = data
      at = at + PIECE + n
      if kind == WHOLE or kind == LAST then
         records[#records + 1] = {data = table.concat(parts), last = at}
         parts = nil
      end
   end
   local last = #records > 0 and records[#records].last or HEAD
   return records, nil, last == #text
end

return M
