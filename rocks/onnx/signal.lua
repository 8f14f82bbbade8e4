-- signal.lua - Fourier transforms, window functions, and mel weights.

local torch = require "tlua"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"

local M = {}

local function as_complex(node, x)
   local last = x:size(-1)
   if last == 1 then return torch.complex(x:select(-1, 1), torch.zeros_like(x:select(-1, 1))) end
   if last ~= 2 then
      node:fail("expected a last dimension of 1 or 2, got %s", values.describe(x))
   end
   return torch.complex(x:select(-1, 1):contiguous(), x:select(-1, 2):contiguous())
end

local function whole(x)
   return x:to "float64"
end

function M.DFT(node, x, length, axis)
   local n = length and node:list(length, nil, "dft_length")[1]
   local number = axis and node:list(axis, nil, "axis")[1]
   if not number then number = node:int("axis", node.version < 20 and 1 or -2) end
   local dim = node:dim(number, x:dim())
   local back, one_sided = node:int("inverse", 0) ~= 0, node:int("onesided", 0) ~= 0
   local complex = as_complex(node, whole(x))
   local y
   if back and one_sided then
      y = torch.fft.irfft(complex, {n = n or 2 * (x:size(dim) - 1), dim = dim}):unsqueeze(-1)
   else
      local transform = back and torch.fft.ifft or torch.fft.fft
      y = torch.view_as_real(transform(complex, {n = n, dim = dim}))
      if one_sided then y = y:narrow(dim, 1, y:size(dim) // 2 + 1) end
   end
   return y:to(x.dtype)
end

function M.STFT(node, x, step, window, length)
   local hop = step:item()
   local size = length and length:item() or window and window:numel() or x:size(2)
   if hop < 1 or size < 1 or size > x:size(2) then
      node:fail("frame_step %d and frame_length %d do not fit into %s", hop, size,
         values.describe(x))
   end
   local frames = as_complex(node, whole(x)):unfold(2, size, hop)
   if window then frames = frames * window:to "float64" end
   local y = torch.view_as_real(torch.fft.fft(frames, {dim = -1}))
   if node:int("onesided", 1) ~= 0 then y = y:narrow(3, 1, size // 2 + 1) end
   return y:to(x.dtype)
end

-- Defines a window function that is a sum of cosines with the given coefficients.
local function window(...)
   local factors = {...}
   return function(node, size)
      local n = node:list(size, nil, "size")[1]
      local dtype = schema.dtypes[node:int("output_datatype", 1)]
      local periods = node:int("periodic", 1) ~= 0 and n or n - 1
      local angle = torch.arange(0, n, {dtype = "float64"}) * (2 * math.pi / periods)
      local y = torch.zeros({n}, {dtype = "float64"})
      for k, factor in ipairs(factors) do y = y + torch.cos(angle * (k - 1)) * factor end
      return y:to(dtype)
   end
end

M.HannWindow = window(0.5, -0.5)
M.HammingWindow = window(25 / 46, -21 / 46)
M.BlackmanWindow = window(0.42, -0.5, 0.08)

function M.MelWeightMatrix(node, bins, length, rate, low, high)
   local count, n = bins:item(), length:item()
   local function mel(hertz) return 2595 * math.log(1 + hertz / 700, 10) end
   local first = mel(low:item())
   local step = (mel(high:item()) - first) / (count + 2)
   local places = {}
   for i = 0, count + 1 do
      local hertz = 700 * (10 ^ ((i * step + first) / 2595) - 1)
      places[i] = math.floor((n + 1) * hertz / rate:item())
   end
   local rows = n // 2 + 1
   local y = support.fill(rows * count, 0)
   local function set(row, column, value)
      if row >= 0 and row < rows then y[row * count + column + 1] = value end
   end
   for i = 0, count - 1 do
      local left, centre, right = places[i], places[i + 1], places[i + 2]
      if left == centre then set(centre, i, 1) end
      for row = left, centre do
         if centre > left then set(row, i, (row - left) / (centre - left)) end
      end
      for row = centre, right - 1 do set(row, i, (right - row) / (right - centre)) end
   end
   return torch.tensor(y, {dtype = "float64"}):reshape(rows, count)
      :to(schema.dtypes[node:int("output_datatype", 1)])
end

return M
