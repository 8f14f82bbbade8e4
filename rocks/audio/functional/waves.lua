-- waves.lua - functions of waveforms: convolution, added noise, loudness and mu-law coding. It also
-- has the Fréchet distance.

local torch = require "tlua"
local args = require "tlua.args"
local biquads = require "tlua.audio.functional.biquads"
local checks = require "tlua.audio.checks"

local F = torch.nn.functional

local M = {}

local prefix <const> = "audio.functional."

local modes <const> = {full = true, valid = true, same = true}

--- Raises an error unless `mode` is a known mode of convolution.
function M.check_mode(title, mode) checks.among(title, "mode", mode, modes) end

local function check_pair(title, a)
   checks.real(title, "x", a.x, 1, "(..., time)")
   checks.real(title, "y", a.y, 1, "(..., time)")
   M.check_mode(title, a.mode)
   if a.x:size(-1) == 0 then args.refuse(title, "x", "at least one sample", a.x) end
   local fits = a.x:dim() == a.y:dim() and a.y:size(-1) > 0
   for i = 1, fits and a.x:dim() - 1 or 0 do
      local m, n = a.x:size(i), a.y:size(i)
      fits = fits and (m == n or m == 1 or n == 1)
   end
   if not fits then
      args.refuse(title, "y", ("leading dimensions that fit to x of shape (%s)"):format(
         table.concat(a.x.shape, ", ")), a.y)
   end
end

-- Returns the part of a full convolution of n and m samples that `mode` selects.
local function part(full, n, m, mode)
   if mode == "full" then return full end
   local size = mode == "same" and n or math.max(n, m) - math.min(n, m) + 1
   return full:narrow(-1, (full:size(-1) - size) // 2 + 1, size)
end

local function by_fft(x, y)
   local n = x:size(-1) + y:size(-1) - 1
   -- The size is a power of two, or three quarters of a power of two, since Fourier transforms of
   -- such sizes are fast.
   local size = 1
   while size < n do size = size * 2 end
   if size // 4 * 3 >= n then size = size // 4 * 3 end
   local product = torch.fft.rfft(x, size) * torch.fft.rfft(y, size)
   return torch.fft.irfft(product, size):narrow(-1, 1, n)
end

local take_fft = args.signature(prefix
   .. "fftconvolve(x: tensor, y: tensor, mode: string = 'full')")

--- Returns the convolution of two waveforms, computed by Fourier transforms.
---@param x Tensor  (..., n)
---@param y Tensor  (..., m)
---@param mode? string
---@return Tensor  (..., n + m - 1) for "full", (..., n) for "same"
function M.fftconvolve(...)
   local a = take_fft(...)
   check_pair(prefix .. "fftconvolve", a)
   return part(by_fft(a.x, a.y), a.x:size(-1), a.y:size(-1), a.mode)
end

local take_convolve = args.signature(prefix
   .. "convolve(x: tensor, y: tensor, mode: string = 'full')")

-- Filters with at most this many samples are applied by direct convolution, and longer ones by
-- Fourier transforms, which are then faster.
local DIRECT <const> = 128

--- Returns the convolution of two waveforms.
---
---     local convolve = torch.audio.functional.convolve
---     print(convolve(torch.tensor {1.0, 2, 3}, torch.tensor {1.0, 1}))
---     --> tensor([1., 3., 5., 3.])
---@param x Tensor  (..., n)
---@param y Tensor  (..., m)
---@param mode? string
---@return Tensor  (..., n + m - 1) for "full", (..., n) for "same"
function M.convolve(...)
   local a = take_convolve(...)
   check_pair(prefix .. "convolve", a)
   local n, m = a.x:size(-1), a.y:size(-1)
   local long, short = a.x, a.y
   if n < m then long, short = short, long end
   if short:size(-1) > DIRECT then return part(by_fft(long, short), n, m, a.mode) end
   local shape, rows = {}, 1
   for i = 1, long:dim() - 1 do
      shape[i] = math.max(long:size(i), short:size(i))
      rows = rows * shape[i]
   end
   shape[#shape + 1] = long:size(-1)
   local signal = long:expand(shape):reshape(1, rows, -1)
   shape[#shape] = short:size(-1)
   local kernel = short:flip(-1):expand(shape):reshape(rows, 1, -1)
   shape[#shape] = n + m - 1
   local full = F.conv1d(signal, kernel, {groups = rows, padding = short:size(-1) - 1})
   return part(full:reshape(shape), n, m, a.mode)
end

local take_noise = args.signature(prefix .. [[add_noise(waveform: tensor, noise: tensor,
   snr: tensor, lengths: tensor?)]])

--- Adds noise, scaled so that the ratio of signal to noise is `snr` dB.
---@param waveform Tensor
---@param noise Tensor
---@param snr Tensor
---@param lengths? Tensor  the number of valid samples of each waveform, (...)
---@return Tensor
function M.add_noise(...)
   local title, a = prefix .. "add_noise", take_noise(...)
   checks.waveform(title, a.waveform)
   local x, noise = a.waveform, a.noise
   if noise:dim() ~= x:dim() or noise:size(-1) ~= x:size(-1) then
      args.refuse(title, "noise", ("a tensor like the waveform, (%s)"):format(
         table.concat(x.shape, ", ")), noise)
   end
   for _, name in ipairs {"snr", "lengths"} do
      if a[name] and a[name]:dim() ~= x:dim() - 1 then
         args.refuse(title, name, ("a tensor of %d dimensions"):format(x:dim() - 1), a[name])
      end
   end
   local signal, disturbance = x, noise
   if a.lengths then
      local mask = torch.arange(x:size(-1), {device = x.device}):lt(a.lengths:unsqueeze(-1))
      signal, disturbance = x * mask, noise * mask
   end
   local function log_energy(values)
      return torch.log10(torch.linalg.vector_norm(values, {ord = 2, dim = -1}):square())
   end
   local ratio = (log_energy(signal) - log_energy(disturbance)) * 10
   local scale = torch.pow(10.0, (ratio - a.snr) / 20)
   return torch.addcmul(x, noise, scale:unsqueeze(-1))
end

local take_loudness = args.signature(prefix .. "loudness(waveform: tensor, sample_rate: integer)")

--- Returns the loudness in LKFS, as ITU-R BS.1770-4 defines it.
---@param waveform Tensor  (..., channels, time), at most 5 channels
---@param sample_rate integer
---@return Tensor  (...)
function M.loudness(...)
   local title, a = prefix .. "loudness", take_loudness(...)
   checks.waveform(title, a.waveform, 2)
   checks.positive(title, "sample_rate", a.sample_rate)
   local x = a.waveform
   local channels = x:size(-2)
   if channels > 5 then args.refuse(title, "waveform", "at most 5 channels", x) end
   local gate = math.floor(0.4 * a.sample_rate + 0.5)
   if x:size(-1) < gate then
      args.refuse(title, "waveform", ("at least 0.4 seconds, %d samples"):format(gate), x)
   end
   local step = math.floor(gate * 0.25 + 0.5)
   x = biquads.treble_biquad(x, a.sample_rate, 4.0, 1500.0, 1 / math.sqrt(2))
   x = biquads.highpass_biquad(x, a.sample_rate, 38.0, 0.5)
   local energy = x:square():unfold(-1, gate, step):mean(-1)
   local weights = checks.like(x, {1.0, 1.0, 1.0, 1.41, 1.41}):narrow(1, 1, channels)
   local loudness = (energy * weights:unsqueeze(2)):sum(-2):log10() * 10 - 0.691
   local function gated(blocks)
      local mask = blocks:unsqueeze(-2)
      local mean = (energy * mask):sum(-1) / mask:sum(-1)
      return (mean * weights):sum(-1):log10() * 10 - 0.691
   end
   local loud = loudness:gt(-70)
   return gated(loud & loudness:gt((gated(loud) - 10):unsqueeze(-1)))
end

local take_encode = args.signature(prefix .. [[mu_law_encoding(x: tensor,
   quantization_channels: integer)]])

--- Encodes samples by the mu-law as integers from 0 to quantization_channels - 1.
---@param x Tensor  from -1 to 1
---@param quantization_channels integer
---@return Tensor  int64
function M.mu_law_encoding(...)
   local title, a = prefix .. "mu_law_encoding", take_encode(...)
   checks.real(title, "x", a.x, 0, "(..., time)")
   checks.at_least(title, "quantization_channels", a.quantization_channels, 2)
   local mu = a.quantization_channels - 1
   local scale = checks.like(a.x, mu):log1p()
   local y = a.x:sign() * torch.log1p(a.x:abs() * mu) / scale
   return ((y + 1) / 2 * mu + 0.5):long()
end

local take_decode = args.signature(prefix .. [[mu_law_decoding(x_mu: tensor,
   quantization_channels: integer)]])

--- Converts integers that mu_law_encoding has returned to samples.
---@param x_mu Tensor  levels, from 0 to quantization_channels - 1
---@param quantization_channels integer
---@return Tensor  from -1 to 1
function M.mu_law_decoding(...)
   local title, a = prefix .. "mu_law_decoding", take_decode(...)
   checks.at_least(title, "quantization_channels", a.quantization_channels, 2)
   local mu = a.quantization_channels - 1
   local level = a.x_mu:is_floating_point() and a.x_mu or a.x_mu:float()
   local x = level / mu * 2 - 1
   return x:sign() * (torch.exp(x:abs() * checks.like(x, mu):log1p()) - 1) / mu
end

local take_frechet = args.signature(prefix .. [[frechet_distance(mu_x: tensor, sigma_x: tensor,
   mu_y: tensor, sigma_y: tensor)]])

--- Returns the Fréchet distance between two normal distributions.
---@param mu_x Tensor  means, (n)
---@param sigma_x Tensor  covariances, (n, n)
---@param mu_y Tensor  means, (n)
---@param sigma_y Tensor  covariances, (n, n)
---@return Tensor
function M.frechet_distance(...)
   local title, a = prefix .. "frechet_distance", take_frechet(...)
   checks.real(title, "mu_x", a.mu_x, 1, "(n)")
   local n = a.mu_x:size(1)
   for name, shape in pairs {mu_x = {n}, mu_y = {n}, sigma_x = {n, n}, sigma_y = {n, n}} do
      local got = {table.unpack(a[name].shape)}
      if #got ~= #shape or got[1] ~= n or got[2] ~= shape[2] then
         args.refuse(title, name, ("a tensor of shape (%s)"):format(table.concat(shape, ", ")),
            a[name])
      end
   end
   local roots = torch.linalg.eigvals(a.sigma_x:matmul(a.sigma_y)):sqrt():view_as_real()
   return (a.mu_x - a.mu_y):square():sum() + a.sigma_x:trace() + a.sigma_y:trace()
      - roots:select(-1, 1):sum() * 2
end

return M
