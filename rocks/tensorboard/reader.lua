-- reader.lua - reads the event files of TensorBoard.

local args = require "tlua.args"
local protobuf = require "tlua.utils.protobuf"
local wire = require "tlua.tensorboard.wire"

local M = {}

-- Decodes a message. Returns a function that returns the first value of a field, or `default` if
-- the message does not have the field. Files leave out fields whose value is 0 or an empty text.
local function reader_of(text)
   local fields = protobuf.fields(text or "") or {}
   local function get(number, default) return fields[number] and fields[number][1] or default end
   return get, fields
end

-- Returns the numbers of a packed list, each of `size` bytes, in the given format of string.unpack.
local function unpacked(packed, format, size)
   local numbers = {}
   for at = 1, #packed - size + 1, size do
      numbers[#numbers + 1] = format:unpack(packed, at)
   end
   return numbers
end

local function value_of(text)
   local field = reader_of(text)
   local value = {tag = field(1), simple_value = field(2)}
   if field(4) then
      local image = reader_of(field(4))
      value.image = {height = image(1, 0), width = image(2, 0), png = image(4, "")}
   end
   if field(6) then
      local audio = reader_of(field(6))
      value.audio = {sample_rate = audio(1, 0.0), channels = audio(2, 0), frames = audio(3, 0),
         wav = audio(4, "")}
   end
   if field(5) then
      local h = reader_of(field(5))
      value.histogram = {min = h(1, 0.0), max = h(2, 0.0), num = h(3, 0.0), sum = h(4, 0.0),
         sum_squares = h(5, 0.0), bucket_limit = unpacked(h(6, ""), "<d", 8),
         bucket = unpacked(h(7, ""), "<d", 8)}
   end
   if field(8) then
      local tensor, fields = reader_of(field(8))
      value.strings = fields[8]
      if tensor(5) then value.floats = unpacked(tensor(5), "<f", 4) end
   end
   if field(9) then
      local metadata = reader_of(field(9))
      value.plugin = reader_of(metadata(1))(1)
   end
   return value
end

local function event_of(text)
   local f = protobuf.fields(text)
   if not f then return nil end
   local event = {
      wall_time = f[1] and f[1][1], step = f[2] and f[2][1] or 0, file_version = f[3] and f[3][1],
      graph_def = f[4] and f[4][1], values = {},
   }
   local summary = f[5] and protobuf.fields(f[5][1])
   for i, value in ipairs(summary and summary[1] or {}) do
      event.values[i] = value_of(value)
   end
   return event
end

-- Decodes the events in a text from byte `at` on. Returns the events and the position after the
-- last complete record. If the rest of the text is truncated or damaged, the third result is a
-- message.
local function events_of(text, at)
   local events = {}
   while at <= #text do
      if at + 11 > #text then return events, at, "the last record is cut off" end
      local length, check = ("<I8I4"):unpack(text, at)
      if check ~= wire.masked_crc(text:sub(at, at + 7)) then
         return events, at, ("the length at byte %d is damaged"):format(at)
      end
      if at + 15 + length > #text then return events, at, "the last record is cut off" end
      local data = text:sub(at + 12, at + 11 + length)
      if ("<I4"):unpack(text, at + 12 + length) ~= wire.masked_crc(data) then
         return events, at, ("the record at byte %d is damaged"):format(at)
      end
      events[#events + 1] = event_of(data)
      at = at + 16 + length
   end
   return events, at
end

--- Reads the events of a file up to its end. If a record is truncated or damaged, reading stops
--- there and the second result is a message.
---@param path string
---@return table[]? events  nil if the file cannot be opened
---@return string? message
function M.read(path)
   if type(path) ~= "string" then
      args.refuse("utils.tensorboard.read", "path", "a string", path)
   end
   local file <close>, message = io.open(path, "rb")
   if not file then return nil, message end
   local text, why = file:read "a"
   if not text then return nil, ("%s: %s"):format(path, why) end
   local events, _, problem = events_of(text, 1)
   return events, problem
end

--- Returns a function that returns the events which were added to a file since its previous call.
--- It returns an empty list if there are none, if the last record is still incomplete, or if the
--- file cannot be opened.
---@param path string
---@return fun(): table[]
function M.follow(path)
   local read = 0 -- bytes
   return function()
      local file <close> = io.open(path, "rb")
      if not file or not file:seek("set", read) then return {} end
      local events, at = events_of(file:read "a" or "", 1)
      read = read + at - 1
      return events
   end
end

return M
