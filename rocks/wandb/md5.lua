-- md5.lua - the MD5 sum of a file, by which W&B identifies the files of artifacts (RFC 1321).

local SHIFTS <const> = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}
local PIECE <const> = 1 << 16

-- These lists have an element for each of the 64 steps: the step's constant, its rotation, and the
-- number of the word that it reads from the block.
local sines, shifts, words = {}, {}, {}
for i = 0, 63 do
   local round = i // 16
   sines[i] = math.floor(math.abs(math.sin(i + 1)) * 4294967296)
   shifts[i] = SHIFTS[round + 1][i % 4 + 1]
   words[i] = (round == 0 and i or round == 1 and 5 * i + 1 or round == 2 and 3 * i + 5 or 7 * i)
      % 16 + 1
end

-- Updates the four words of the state with the block of 64 bytes at `at`.
local function add_block(state, text, at)
   local block = {("<I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4"):unpack(text, at)}
   local a, b, c, d = state[1], state[2], state[3], state[4]
   for i = 0, 63 do
      local mix
      if i < 16 then
         mix = b & c | ~b & d
      elseif i < 32 then
         mix = d & b | ~d & c
      elseif i < 48 then
         mix = b ~ c ~ d
      else
         mix = c ~ (b | ~d & 0xffffffff)
      end
      local sum = a + mix + sines[i] + block[words[i]] & 0xffffffff
      local shift = shifts[i]
      a, d, c = d, c, b
      b = b + (sum << shift | sum >> 32 - shift) & 0xffffffff
   end
   state[1], state[2] = state[1] + a & 0xffffffff, state[2] + b & 0xffffffff
   state[3], state[4] = state[3] + c & 0xffffffff, state[4] + d & 0xffffffff
end

--- Computes the MD5 sum of all texts that `read` returns, one after another, as 16 bytes. The
--- length of each text except the last must be a multiple of 64 bytes.
---@param read fun(): string?
---@return string
local function sum(read)
   local state, length, rest = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}, 0, ""
   for text in read do
      length = length + #text
      local whole = #text - #text % 64
      for at = 1, whole, 64 do add_block(state, text, at) end
      rest = text:sub(whole + 1)
   end
   rest = rest .. "\128" .. ("\0"):rep((55 - length) % 64) .. ("<I8"):pack(length * 8)
   for at = 1, #rest, 64 do add_block(state, rest, at) end
   return ("<I4I4I4I4"):pack(table.unpack(state))
end

local M = {}

--- Returns the MD5 sum of a text as 16 bytes.
---@param text string
---@return string
function M.of_text(text)
   local left = text
   return sum(function()
      local now = left
      left = nil
      return now
   end)
end

--- Returns the MD5 sum of a file as 16 bytes, or nil and a message.
---@param path string
---@return string?
---@return string? message
function M.of_file(path)
   local file <close>, message = io.open(path, "rb")
   if not file then return nil, message end
   return sum(function() return file:read(PIECE) end)
end

return M
