-- wav.lua - reads and writes WAV files. A file is a list of chunks: the chunk "fmt " describes the
-- samples, and the chunk "data" holds them as (frames, channels) in row-major order. RF64 files,
-- whose sizes have 64 bits, are read too.
--
-- source.fail reports a malformed file by an error, which source.protect turns into nil and a
-- message.

local torch = require "tlua"
local source = require "tlua.io.source"

local companding = require "tlua.audio.companding"

local fail = source.fail

local M = {}

local PCM <const>, FLOAT <const>, ALAW <const>, ULAW <const> = 1, 3, 6, 7
local EXTENSIBLE <const> = 0xFFFE
local MOST_CHANNELS <const> = 1024

-- The bytes after the first two of the subformat in WAVE_FORMAT_EXTENSIBLE, which is a GUID. The
-- first two bytes give the format.
local guid_tail <const> = "\0\0\0\0\x10\0\x80\0\0\xAA\0\x38\x9B\x71"

local encodings <const> = {[PCM] = "PCM_S", [FLOAT] = "PCM_F", [ALAW] = "ALAW", [ULAW] = "ULAW"}

local widths <const> = {
   [PCM] = {[8] = true, [16] = true, [24] = true, [32] = true},
   [FLOAT] = {[32] = true, [64] = true}, [ALAW] = {[8] = true}, [ULAW] = {[8] = true},
}

-- Reading -----------------------------------------------------------------------------------------

-- Reads n bytes of a file. If the file ends before, the error message calls these bytes `what`.
local function take(file, n, what)
   local text = n == 0 and "" or file:read(n)
   if not text or #text < n then
      fail("the file ends in %s: expected %d bytes, got %d", what, n, text and #text or 0)
   end
   return text
end

-- Decodes the content of the chunk "fmt ".
local function read_format(text)
   if #text < 16 then fail("the fmt chunk has %d bytes; expected at least 16", #text) end
   local format, channels, rate, _, frame, bits = ("<I2I2I4I4I2I2"):unpack(text)
   if format == EXTENSIBLE then
      if #text < 40 then
         fail("the fmt chunk has %d bytes; WAVE_FORMAT_EXTENSIBLE has 40", #text)
      end
      if text:sub(27, 40) ~= guid_tail then fail "the subformat of the fmt chunk is not known" end
      format = ("<I2"):unpack(text, 25)
   end
   local names = encodings[format]
   if not names then
      fail("format %d; expected PCM (1), float (3), A-law (6) or mu-law (7)", format)
   end
   if channels < 1 or channels > MOST_CHANNELS then
      fail("%d channels; expected 1 to %d", channels, MOST_CHANNELS)
   end
   if rate < 1 then fail("a sample rate of %d", rate) end
   if frame % channels ~= 0 then
      fail("frames of %d bytes for %d channels", frame, channels)
   end
   -- A sample may have fewer bits than the bytes that hold it, such as 20 bits in 3 bytes.
   local held = frame // channels * 8
   if bits < 1 or bits > held or held - bits > 7 or not widths[format][held] then
      fail("samples of %d bits in %d bytes", bits, frame // channels)
   end
   local encoding = format == PCM and held == 8 and "PCM_U" or names
   return {format = format, num_channels = channels, sample_rate = rate, frame = frame,
      held = held, bits_per_sample = bits, encoding = encoding}
end

-- Returns the number of bytes in the chunk "data". A program that writes to a pipe does not know
-- this size, and writes 0 or the largest number instead; the data then extend to the end of the
-- file. But if the size is 0 and the header has the file's length (`is_sized`), the file has no
-- samples.
local function data_size(size, first, length, is_sized)
   local left = length - first
   if size == 0xFFFFFFFF or (size == 0 and left > 0 and not is_sized)
         or size == 0x7FFFFFFF - 36 then
      return left
   end
   if size > left then
      fail("the data chunk says %d bytes, but %d follow; the file is cut off", size, left)
   end
   return size
end

--- Reads the chunks of an open file up to its samples.
---@param file file*
---@return table format  with `first`, the offset of the samples, and `num_frames`
function M.read_header(file)
   local length = file:seek "end"
   if not length or not file:seek "set" then fail "the file has no known length" end
   local head = take(file, 12, "the RIFF header")
   local riff, wave = head:sub(1, 4), head:sub(9, 12)
   if riff ~= "RIFF" and riff ~= "RF64" or wave ~= "WAVE" then
      fail "no WAV file: it does not begin with RIFF and WAVE"
   end
   local is_sized = ("<I4"):unpack(head, 5) + 8 == length
   local format, long_size
   for _ = 1, 10000 do
      local at = file:seek()
      if at >= length then
         fail(format and "there is no data chunk" or "there is no fmt chunk")
      end
      local name, size = ("<c4I4"):unpack(take(file, 8, "a chunk's header"))
      if name == "data" then
         if not format then fail "the data chunk comes before the fmt chunk" end
         local bytes = long_size and size == 0xFFFFFFFF and data_size(long_size, at + 8, length)
            or data_size(size, at + 8, length, is_sized)
         format.first, format.num_frames = at + 8, bytes // format.frame
         return format
      elseif name == "fmt " then
         if size > 4096 then fail("the fmt chunk says %d bytes", size) end
         format = read_format(take(file, size, "the fmt chunk"))
      elseif name == "ds64" and size >= 24 then
         long_size = ("<i8"):unpack(take(file, 24, "the ds64 chunk"), 9)
         if long_size < 0 then fail "the ds64 chunk has a negative size" end
      end
      file:seek("set", at + 8 + size + size % 2)
   end
   fail "there are more than 10000 chunks"
end

-- Reads 3-byte samples into the upper three bytes of int32.
local function read_24(file, samples)
   local bytes, message = torch.io.read(file, {samples, 3}, "uint8")
   if not bytes then fail("%s", message) end
   local wide = torch.zeros(samples, 4, {dtype = "uint8", device = "cpu"})
   wide:narrow(2, 2, 3):copy_(bytes)
   return (assert(torch.io.bytes_as(wide:view(-1), 1, {samples}, "int32")))
end

local stored <const> = {[PCM] = {[8] = "uint8", [16] = "int16", [32] = "int32"},
   [FLOAT] = {[32] = "float32", [64] = "float64"}}

local scales <const> = {uint8 = 1 / 128, int16 = 1 / 32768, int32 = 1 / 2147483648}

--- Reads frames of a file whose header has been read.
---@param file file*
---@param format table
---@param first integer  the number of frames to skip
---@param count integer
---@param normalize boolean  whether integers become floats from -1 to 1
---@return Tensor samples  (frames, channels)
function M.read_frames(file, format, first, count, normalize)
   local channels = format.num_channels
   local samples, shape = count * channels, {count, channels}
   file:seek("set", format.first + first * format.frame)
   if format.format == ALAW or format.format == ULAW then
      local bytes, message = torch.io.read(file, {samples}, "uint8")
      if not bytes then fail("%s", message) end
      return companding.decode(bytes, format.encoding):view(shape)
   end
   local data, message
   if format.held == 24 then
      data = read_24(file, samples)
   else
      data, message = torch.io.read(file, {samples}, stored[format.format][format.held])
      if not data then fail("%s", message) end
   end
   local scale = scales[data.dtype]
   if normalize and scale then
      local floats = data:float()
      if data.dtype == "uint8" then floats:sub_(128) end
      data = floats:mul_(scale)
   elseif normalize then
      data = data:float()
   end
   return data:view(shape)
end

-- Writing -----------------------------------------------------------------------------------------

local numbers <const> = {PCM_S = PCM, PCM_U = PCM, PCM_F = FLOAT, ALAW = ALAW, ULAW = ULAW}

-- Maps each dtype to the encoding and the number of bits with which its samples are stored by
-- default.
local plain <const> = {uint8 = {"PCM_U", 8}, int16 = {"PCM_S", 16}, int32 = {"PCM_S", 32},
   float32 = {"PCM_F", 32}, float64 = {"PCM_F", 64}}
local usual_bits <const> = {PCM_S = 16, PCM_U = 8, PCM_F = 32, ALAW = 8, ULAW = 8}

--- Returns the encoding and the number of bits for samples of a dtype. Either may be given, and is
--- then returned. Returns nil and a message if dtype, encoding and bits do not fit together.
---@param dtype string
---@param encoding? string
---@param bits? integer
---@return string? encoding
---@return integer|string bits
function M.choose(dtype, encoding, bits)
   if encoding and not numbers[encoding] then
      return nil, "encoding: expected PCM_S, PCM_U, PCM_F, ULAW or ALAW, got " .. encoding
   end
   if not encoding then
      encoding = bits == 8 and "PCM_U" or bits == 64 and "PCM_F" or bits and bits ~= 32 and "PCM_S"
         or plain[dtype][1]
      bits = bits or plain[dtype][2]
   end
   bits = bits or encoding == plain[dtype][1] and plain[dtype][2] or usual_bits[encoding]
   local fits = widths[numbers[encoding]][bits] and (encoding == "PCM_U") == (bits == 8
      and numbers[encoding] == PCM)
   if not fits then
      return nil, ("bits_per_sample: a WAV file has no %s of %d bits"):format(encoding, bits)
   end
   return encoding, bits
end

-- Returns samples as float64 from -1 to 1. This dtype holds 32-bit integers exactly.
local function as_real(samples)
   local scale = scales[samples.dtype]
   local real = samples:double()
   if samples.dtype == "uint8" then real:sub_(128) end
   return scale and real:mul_(scale) or real
end

local function rounded(samples, bits)
   local top = 2.0 ^ (bits - 1)
   return (as_real(samples) * top):round_():clamp_(-top, top - 1)
end

--- Converts samples to the numbers that the file stores.
---@param samples Tensor  any shape
---@param encoding string
---@param bits integer
---@return Tensor
function M.encode(samples, encoding, bits)
   if encoding == "ALAW" or encoding == "ULAW" then
      return companding.encode(rounded(samples, 16):long(), encoding)
   elseif encoding == "PCM_F" then
      return bits == 64 and as_real(samples) or samples.dtype == "float32" and samples
         or as_real(samples):float()
   end
   local dtype = stored[PCM][bits]
   if dtype == samples.dtype then return samples end
   if bits == 8 then return (rounded(samples, 8) + 128):to "uint8" end
   if bits ~= 24 then return rounded(samples, bits):to(dtype) end
   local value = rounded(samples, 24):long():unsqueeze(-1)
   return (value >> torch.tensor({0, 8, 16}, {device = samples.device}) & 255):to "uint8"
end

--- Returns the header of a WAV file.
---@param channels integer
---@param rate integer
---@param frames integer
---@param encoding string
---@param bits integer
---@return string
function M.compose_header(channels, rate, frames, encoding, bits)
   local frame = channels * bits // 8
   local bytes = frames * frame
   local format = numbers[encoding]
   local fmt = ("<I2I2I4I4I2I2"):pack(format, channels, rate, rate * frame & 0xFFFFFFFF, frame,
      bits)
   local fact = ""
   if channels > 2 or bits > 16 and format == PCM then
      fmt = fmt:gsub("^..", ("<I2"):pack(EXTENSIBLE)) .. ("<I2I2I4I2"):pack(22, bits, 0, format)
         .. guid_tail
   elseif format ~= PCM then
      fmt = fmt .. "\0\0"
   end
   if format ~= PCM then fact = "fact" .. ("<I4I4"):pack(4, math.min(frames, 0xFFFFFFFF)) end
   local middle = "fmt " .. ("<s4"):pack(fmt) .. fact
   local all = 4 + #middle + 8 + bytes + bytes % 2
   if all <= 0xFFFFFFFF then
      return "RIFF" .. ("<I4"):pack(all) .. "WAVE" .. middle .. "data" .. ("<I4"):pack(bytes)
   end
   local ds64 = "ds64" .. ("<I4i8i8i8I4"):pack(28, all + 36, bytes, frames, 0)
   return "RF64\xFF\xFF\xFF\xFFWAVE" .. ds64 .. middle .. "data\xFF\xFF\xFF\xFF"
end

return M
