-- text_stream.lua - joins the pieces of a generated text. A stop text ends the stream. The stream
-- holds back incomplete characters, and text that may be the beginning of a stop text, and emits
-- all other text at once. Invalid UTF-8 becomes U+FFFD.

local decoders = require "tlua.text.tokenizer.decoders"

local M = {}

local Stream = {}
Stream.__index = Stream

--- Creates a stream.
---@param stops string[]  texts at which the stream ends
---@param emit? fun(text: string): boolean?  is called with each new piece of text, and ends the
--- stream by returning false
---@return table
function M.new(stops, emit)
   return setmetatable({stops = stops, emit = emit, text = "", sent = 0, bytes = ""}, Stream)
end

-- Returns the number of bytes of an incomplete UTF-8 character at the end of a text.
local function unfinished(text)
   for back = 1, math.min(3, #text) do
      local byte = text:byte(-back)
      if byte >= 0xc0 then
         local need = byte >= 0xf0 and 4 or byte >= 0xe0 and 3 or 2
         return back < need and back or 0
      elseif byte < 0x80 then
         return 0
      end
   end
   return 0
end

-- Returns the length of the longest suffix of the text with which a stop text begins.
local function begun(text, stops)
   local most = 0
   for _, stop in ipairs(stops) do
      for n = math.min(#stop - 1, #text), most + 1, -1 do
         if text:sub(-n) == stop:sub(1, n) then
            most = n
            break
         end
      end
   end
   return most
end

local function send(self, last)
   if last <= self.sent then return false end
   local part = self.text:sub(self.sent + 1, last)
   self.sent = last
   return self.emit ~= nil and self.emit(part) == false
end

-- If the text contains stop texts, cuts the text off before the first of them. Returns whether it
-- contained one.
local function stopped(self)
   local first
   for _, stop in ipairs(self.stops) do
      local at = self.text:find(stop, self.sent + 1, true)
      if at and (not first or at < first) then first = at end
   end
   if first then
      self.text, self.bytes = self.text:sub(1, first - 1), ""
      send(self, #self.text)
   end
   return first ~= nil
end

--- Adds a piece of text. Returns whether the stream ends, either at a stop text or because `emit`
--- returned false.
---@param piece string
---@return boolean
function Stream:add(piece)
   local bytes = self.bytes .. piece
   local kept = unfinished(bytes)
   self.bytes = bytes:sub(#bytes - kept + 1)
   self.text = self.text .. decoders.repair(bytes:sub(1, #bytes - kept))
   return stopped(self) or send(self, #self.text - begun(self.text, self.stops))
end

--- Emits the text that was held back, and returns the whole text.
---@return string
function Stream:finish()
   self.text, self.bytes = self.text .. decoders.repair(self.bytes), ""
   if not stopped(self) then send(self, #self.text) end
   return self.text
end

return M
