-- bands.lua - the weights that sum frequencies into bands (mel, linear and cosine), and functions
-- that compute the slopes of features over time and normalise features.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"

local F = torch.nn.functional

local M = {}

local prefix <const> = "audio.functional."

local scales <const> = {htk = true, slaney = true}

-- Slaney's scale is linear up to 1000 Hz, which is 15 mels, and logarithmic above.
local STEP <const>, KNEE_HZ <const>, KNEE_MEL <const> = 200 / 3, 1000.0, 15.0
local log_step <const> = math.log(6.4) / 27

local function to_mel(hz, scale)
   if scale == "htk" then return 2595 * math.log(1 + hz / 700, 10) end
   if hz < KNEE_HZ then return hz / STEP end
   return KNEE_MEL + math.log(hz / KNEE_HZ) / log_step
end

local function to_hz(mels, scale)
   if scale == "htk" then return (torch.pow(10.0, mels / 2595) - 1) * 700 end
   return torch.where(mels:ge(KNEE_MEL), torch.exp((mels - KNEE_MEL) * log_step) * KNEE_HZ,
      mels * STEP)
end

-- Returns triangular weights, (n_freqs, n_points - 2). Triangle i rises from point i to point i + 1
-- and falls to point i + 2.
local function triangles(freqs, points)
   local widths = points:diff()
   local n = points:size(1)
   local slopes = points:unsqueeze(1) - freqs:unsqueeze(2)
   local up = -slopes:narrow(2, 1, n - 2) / widths:narrow(1, 1, n - 2)
   local down = slopes:narrow(2, 3, n - 2) / widths:narrow(1, 2, n - 2)
   return torch.minimum(up, down):clamp(0)
end

local function check_bands(title, a, count)
   checks.at_least(title, "n_freqs", a.n_freqs, 2)
   checks.positive(title, "sample_rate", a.sample_rate)
   checks.at_least(title, count, a[count], 1)
   checks.at_least(title, "f_min", a.f_min, 0)
   if a.f_max < a.f_min or a.f_max ~= a.f_max then
      args.refuse(title, "f_max", ("at least f_min, %s"):format(a.f_min), a.f_max)
   end
end

local take_mel = args.signature(prefix .. [[melscale_fbanks(n_freqs: integer, f_min: number,
   f_max: number, n_mels: integer, sample_rate: integer, norm: string?,
   mel_scale: string = 'htk')]])

--- Returns the weights of mel bands.
---
---     local fbanks = torch.audio.functional.melscale_fbanks
---     print(fbanks(201, 0, 8000, 40, 16000).shape)
---     --> torch.Size([201, 40])
---@param n_freqs integer
---@param f_min number
---@param f_max number
---@param n_mels integer
---@param sample_rate integer
---@param norm? string  "slaney" divides each band by its width
---@param mel_scale? string
---@return Tensor  (n_freqs, n_mels)
function M.melscale_fbanks(...)
   local title, a = prefix .. "melscale_fbanks", take_mel(...)
   check_bands(title, a, "n_mels")
   checks.among(title, "mel_scale", a.mel_scale, scales)
   if a.norm then checks.among(title, "norm", a.norm, {slaney = true}) end
   local freqs = torch.linspace(0, a.sample_rate // 2, a.n_freqs)
   local points = to_hz(torch.linspace(to_mel(a.f_min, a.mel_scale), to_mel(a.f_max, a.mel_scale),
      a.n_mels + 2), a.mel_scale)
   local bank = triangles(freqs, points)
   if a.norm then
      bank = bank * (2 / (points:narrow(1, 3, a.n_mels) - points:narrow(1, 1, a.n_mels)))
   end
   return bank
end

local take_linear = args.signature(prefix .. [[linear_fbanks(n_freqs: integer, f_min: number,
   f_max: number, n_filter: integer, sample_rate: integer)]])

--- Returns the weights of bands of equal width.
---@param n_freqs integer
---@param f_min number
---@param f_max number
---@param n_filter integer  the number of bands
---@param sample_rate integer
---@return Tensor  (n_freqs, n_filter)
function M.linear_fbanks(...)
   local title, a = prefix .. "linear_fbanks", take_linear(...)
   check_bands(title, a, "n_filter")
   return triangles(torch.linspace(0, a.sample_rate // 2, a.n_freqs),
      torch.linspace(a.f_min, a.f_max, a.n_filter + 2))
end

local take_dct = args.signature(prefix .. [[create_dct(n_mfcc: integer, n_mels: integer,
   norm: string?)]])

--- Returns the matrix of the discrete cosine transform, of type 2.
---@param n_mfcc integer  the number of coefficients
---@param n_mels integer
---@param norm? string  "ortho" or nil
---@return Tensor  (n_mels, n_mfcc)
function M.create_dct(...)
   local title, a = prefix .. "create_dct", take_dct(...)
   checks.at_least(title, "n_mfcc", a.n_mfcc, 1)
   checks.at_least(title, "n_mels", a.n_mels, 1)
   if a.norm then checks.among(title, "norm", a.norm, {ortho = true}) end
   local n = torch.arange(a.n_mels):float() + 0.5
   local k = torch.arange(a.n_mfcc):float():unsqueeze(2)
   local dct = torch.cos(n * (math.pi / a.n_mels) * k)
   if not a.norm then return (dct * 2):t() end
   dct:narrow(1, 1, 1):mul_(1 / math.sqrt(2))
   return dct:mul_(math.sqrt(2 / a.n_mels)):t()
end

local take_deltas = args.signature(prefix .. [[compute_deltas(specgram: tensor,
   win_length: integer = 5, mode: string = 'replicate')]])

--- Returns the slopes of features over time. A slope is that of a line that is fitted to the
--- features in a window by least squares.
---@param specgram Tensor
---@param win_length? integer  5 by default
---@param mode? string  the form of padding: "replicate", "reflect", "constant" or "circular"
---@return Tensor
function M.compute_deltas(...)
   local title, a = prefix .. "compute_deltas", take_deltas(...)
   checks.real(title, "specgram", a.specgram, 1, "(..., freq, time)")
   checks.at_least(title, "win_length", a.win_length, 3)
   local n = (a.win_length - 1) // 2
   local x = a.specgram
   local rows = x:reshape(-1, 1, x:size(-1))
   local padded, length = F.pad(rows, {n, n}, {mode = a.mode}), x:size(-1)
   local slopes
   for k = 1, n do
      local rise = padded:narrow(3, n + k + 1, length) - padded:narrow(3, n - k + 1, length)
      slopes = slopes and slopes + rise * k or rise
   end
   return (slopes / (n * (n + 1) * (2 * n + 1) / 3)):reshape(x.shape)
end

-- Returns two lists with the window of each frame: the first frame of the window, and the frame
-- after its last. Frames count from 0.
local function windows_of(n, window, least, center)
   local first, last = {}, {}
   for t = 0, n - 1 do
      local from = center and t - window // 2 or t - window
      local to = center and from + window or t + 1
      if from < 0 then from, to = 0, to - from end
      if not center and to > t then to = math.max(t + 1, least) end
      if to > n then from, to = math.max(0, from - (to - n)), n end
      first[t + 1], last[t + 1] = from, to
   end
   return first, last
end

local take_cmn = args.signature(prefix .. [[sliding_window_cmn(specgram: tensor,
   cmn_window: integer = 600, min_cmn_window: integer = 100, center: boolean = false,
   norm_vars: boolean = false)]])

--- Subtracts from each frame the mean of the frames in a window that is centred at the frame or
--- ends there.
---@param specgram Tensor  (..., time, freq)
---@param cmn_window? integer  the number of frames in a window, 600 by default
---@param min_cmn_window? integer  the least number of frames in a window without `center`, 100 by
--- default
---@param center? boolean  whether the window is centred at the frame instead of ending there
---@param norm_vars? boolean  whether frames are also divided by the standard deviation
---@return Tensor
function M.sliding_window_cmn(...)
   local title, a = prefix .. "sliding_window_cmn", take_cmn(...)
   checks.real(title, "specgram", a.specgram, 2, "(..., time, freq)")
   checks.at_least(title, "cmn_window", a.cmn_window, 1)
   checks.at_least(title, "min_cmn_window", a.min_cmn_window, 1)
   local n = a.specgram:size(-2)
   if n == 0 then return a.specgram:clone() end
   local x, restore = checks.batch(a.specgram, 2)
   local first, last = windows_of(n, a.cmn_window, a.min_cmn_window, a.center)
   local options = {device = x.device}
   local from, to = torch.tensor(first, options) + 1, torch.tensor(last, options) + 1
   local count = (to - from):to "float64":view(1, -1, 1)
   -- The sum over a window is the difference of two cumulative sums, which need the precision of
   -- float64.
   local function window_sum(values)
      local sums = F.pad(values:double():cumsum(2), {0, 0, 1, 0})
      return sums:index_select(2, to) - sums:index_select(2, from)
   end
   local mean = window_sum(x) / count
   local result = x - mean:to(x.dtype)
   if a.norm_vars then
      local deviation = (window_sum(x:double():square()) / count - mean:square()):pow(-0.5)
      result = torch.where(count:eq(1), 0, result * deviation:to(x.dtype))
   end
   return restore(result)
end

return M
