-- companding.lua - the two laws of G.711, mu-law and A-law, which store a 16-bit sample in 8 bits.
-- The range is divided into segments, and the quantization step doubles from one segment to the
-- next. The tables are built on first use.

local torch = require "tlua"

local M = {}

-- For each law, a function that returns the 16-bit sample for a byte.
local expand = {}

function expand.ULAW(byte)
   local code = ~byte & 0xFF
   local value = ((code & 15) << 3) + 132 << (code >> 4 & 7)
   return code & 128 ~= 0 and 132 - value or value - 132
end

function expand.ALAW(byte)
   local code = byte ~ 0x55
   local segment, value = code >> 4 & 7, (code & 15) << 4
   value = segment == 0 and value + 8 or value + 264 << segment - 1
   return code & 128 ~= 0 and value or -value
end

-- Returns the segment of a magnitude: the number of its highest bit minus `lowest`, limited to 0 to
-- 7.
local function segment_of(value, lowest)
   local segment = 0
   while segment < 7 and value >> segment + lowest + 1 > 0 do segment = segment + 1 end
   return segment
end

-- For each law, a function that returns the byte for a 16-bit sample.
local compress = {}

function compress.ULAW(sample)
   local sign = sample < 0 and 0x80 or 0
   local value = math.min(math.abs(sample), 32635) + 132
   local segment = segment_of(value, 7)
   return ~(sign | segment << 4 | value >> segment + 3 & 15) & 0xFF
end

function compress.ALAW(sample)
   local sign = sample >= 0 and 0x80 or 0
   local value = math.min(sample < 0 and ~sample or sample, 32767)
   local segment = segment_of(value, 7)
   local step = segment == 0 and value >> 4 or value >> segment + 3 & 15
   return (sign | segment << 4 | step) ~ 0x55
end

local decoders, encoders = {}, {}

--- Decodes bytes to float32 samples from -1 to 1.
---@param bytes Tensor  (n) uint8
---@param law string  "ULAW" or "ALAW"
---@return Tensor samples  (n)
function M.decode(bytes, law)
   if not decoders[law] then
      local values = {}
      for byte = 0, 255 do values[byte + 1] = expand[law](byte) / 32768 end
      decoders[law] = torch.tensor(values, {device = "cpu"})
   end
   return decoders[law]:to(bytes.device):index_select(1, bytes:long() + 1)
end

--- Encodes 16-bit samples as bytes.
---@param samples Tensor  int64
---@param law string  "ULAW" or "ALAW"
---@return Tensor bytes  uint8, with the shape of `samples`
function M.encode(samples, law)
   if not encoders[law] then
      local values = {}
      for sample = -32768, 32767 do values[sample + 32769] = compress[law](sample) end
      encoders[law] = torch.tensor(values, {dtype = "uint8", device = "cpu"})
   end
   return encoders[law]:to(samples.device):index_select(1, samples:reshape(-1) + 32769)
      :view(samples.shape)
end

return M
