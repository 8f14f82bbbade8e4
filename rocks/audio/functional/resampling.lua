-- resampling.lua - changes the sample rate, the speed and the pitch of waveforms. Resampling
-- applies windowed sinc filters. There is one filter for each position that a new sample can have
-- between two old samples.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local spectra = require "tlua.audio.functional.spectra"

local F = torch.nn.functional

local M = {}

local prefix <const> = "audio.functional."

local methods <const> = {sinc_interp_hann = true, sinc_interp_kaiser = true}
local KAISER_BETA <const> = 14.769656459379492

local function gcd(a, b)
   while b ~= 0 do a, b = b, a % b end
   return a
end

-- Checks the options of a resampling filter.
local function check(title, a)
   checks.among(title, "resampling_method", a.resampling_method, methods)
   checks.at_least(title, "lowpass_filter_width", a.lowpass_filter_width, 1)
   if not (a.rolloff > 0 and a.rolloff <= 1) then
      args.refuse(title, "rolloff", "a number above 0, at most 1", a.rolloff)
   end
end

-- Returns filters in float64, (last - first + 1, 1, to - from + 1): a row for each of the new
-- samples `first` to `last`, with a weight for each of the old samples `from` to `to`. Samples
-- count from 0.
local function filters_of(orig, new, a, first, last, from, to, device)
   local options = {dtype = "float64", device = device}
   local base, zeros = math.min(orig, new) * a.rolloff, a.lowpass_filter_width
   local index = torch.arange(from, to + 1, options):view(1, 1, -1) / orig
   local shift = torch.arange(first, last + 1, options):view(-1, 1, 1) / new
   local t = ((index - shift) * base):clamp(-zeros, zeros)
   local window
   if a.resampling_method == "sinc_interp_hann" then
      window = torch.cos(t * (math.pi / zeros / 2)):square()
   else
      local beta = torch.tensor(a.beta or KAISER_BETA, options)
      window = torch.i0(beta * torch.sqrt(1 - (t / zeros):square())) / torch.i0(beta)
   end
   t = t * math.pi
   return torch.where(t:eq(0), 1, t:sin() / t) * window * (base / orig)
end

-- Returns the number of old samples that a filter covers on each side of its center.
local function width_of(orig, new, a)
   return math.ceil(a.lowpass_filter_width * orig / (math.min(orig, new) * a.rolloff))
end

--- Returns the filters (new, 1, taps) that change the rate from orig to new, and the number of old
--- samples that a filter covers on the left. The rates must have no common divisor.
---@param title string
---@param orig integer
---@param new integer
---@param a table  lowpass_filter_width, rolloff, resampling_method and beta
---@param dtype? string  float32 by default
---@return Tensor kernel
---@return integer width
function M.kernel(title, orig, new, a, dtype)
   check(title, a)
   local width = width_of(orig, new, a)
   return filters_of(orig, new, a, 0, new - 1, -width, width + orig - 1):to(dtype or "float32"),
      width
end

-- If orig is large, most weights of a filter are zero. The new samples are then computed in groups
-- of neighbours, and each group uses only the old samples with nonzero weights. This is the largest
-- number of groups.
local MOST_GROUPS <const> = 128

local function groups_of(orig, new, width)
   return math.max(1, math.min(orig // (2 * width + 2), new, MOST_GROUPS))
end

--- Resamples x with filters. slice(first, last, from, to) returns the filters of the new samples
--- `first` to `last`, with weights for the old samples `from` to `to`. Samples count from 0.
---@param x Tensor  (..., time)
---@param orig integer
---@param new integer
---@param width integer
---@param slice fun(first: integer, last: integer, from: integer, to: integer): Tensor
---@return Tensor
function M.apply(x, orig, new, width, slice)
   local rows, restore = checks.batch(x, 1)
   local n, length = rows:size(1), rows:size(2)
   local padded = F.pad(rows, {width, width + orig}):unsqueeze(2)
   local frames = length // orig + 1
   local groups, list = groups_of(orig, new, width), {}
   for g = 1, groups do
      local first, last = (g - 1) * new // groups, g * new // groups - 1
      local from, to = first * orig // new - width, last * orig // new + width
      if groups == 1 then to = width + orig - 1 end
      local kernel = slice(first, last, from, to):to(x.dtype)
      local part = padded:narrow(3, from + width + 1, (frames - 1) * orig + to - from + 1)
      list[g] = F.conv1d(part, kernel, {stride = orig})
   end
   local y = groups == 1 and list[1] or torch.cat(list, 2)
   local target = (new * length + orig - 1) // orig
   return restore(y:transpose(2, 3):reshape(n, -1):narrow(2, 1, target))
end

local take_resample = args.signature(prefix .. [[resample(waveform: tensor, orig_freq: integer,
   new_freq: integer, lowpass_filter_width: integer = 6, rolloff: number = 0.99,
   resampling_method: string = 'sinc_interp_hann', beta: number?)]])

--- Changes the sample rate of waveforms.
---
---     local x = torch.sin(torch.arange(441) * 0.1)
---     print(torch.audio.functional.resample(x, 44100, 16000).shape)
---     --> torch.Size([160])
---@param waveform Tensor
---@param orig_freq integer
---@param new_freq integer
---@param lowpass_filter_width? integer
---@param rolloff? number
---@param resampling_method? string
---@param beta? number
---@return Tensor
function M.resample(...)
   local title, a = prefix .. "resample", take_resample(...)
   checks.positive(title, "orig_freq", a.orig_freq)
   checks.positive(title, "new_freq", a.new_freq)
   checks.waveform(title, a.waveform)
   if a.orig_freq == a.new_freq then return a.waveform end
   local common = gcd(a.orig_freq, a.new_freq)
   local orig, new = a.orig_freq // common, a.new_freq // common
   check(title, a)
   return M.apply(a.waveform, orig, new, width_of(orig, new, a), function(first, last, from, to)
      return filters_of(orig, new, a, first, last, from, to, a.waveform.device)
   end)
end

--- Returns the sample rates from which and to which a waveform is resampled to change its speed by
--- a factor. The rates are divided by their greatest common divisor.
---@param title string
---@param orig_freq integer
---@param factor number
---@return integer source
---@return integer target
function M.speed_rates(title, orig_freq, factor)
   checks.positive(title, "orig_freq", orig_freq)
   checks.positive(title, "factor", factor)
   local source = math.floor(factor * orig_freq)
   checks.at_least(title, "factor * orig_freq", source, 1)
   local common = gcd(source, orig_freq)
   return source // common, orig_freq // common
end

--- Returns the lengths after a change of speed, or nil if `lengths` is nil.
function M.speed_lengths(lengths, source, target)
   return lengths and torch.ceil(lengths * target / source):to(lengths.dtype)
end

local take_speed = args.signature(prefix .. [[speed(waveform: tensor, orig_freq: integer,
   factor: number, lengths: tensor?)]])

--- Changes the speed of waveforms, and therefore also their pitch.
---@param waveform Tensor
---@param orig_freq integer
---@param factor number  above 1 is faster
---@param lengths? Tensor  (...)
---@return Tensor waveform
---@return Tensor? lengths
function M.speed(...)
   local a = take_speed(...)
   local source, target = M.speed_rates(prefix .. "speed", a.orig_freq, a.factor)
   return M.resample(a.waveform, source, target), M.speed_lengths(a.lengths, source, target)
end

-- Pitch -------------------------------------------------------------------------------------------

--- Stretches waveforms in time without changing their pitch.
---@param title string
---@param x Tensor  (N, time)
---@param a table  n_steps, bins_per_octave, n_fft, win_length, hop_length and window
---@return Tensor
function M.stretch(title, x, a)
   checks.at_least(title, "n_fft", a.n_fft, 4)
   checks.at_least(title, "bins_per_octave", a.bins_per_octave, 1)
   local n = x:size(-1)
   if n <= a.n_fft // 2 then
      args.refuse(title, "n_fft", ("less than twice the waveform's %d samples"):format(n), a.n_fft)
   end
   local hop, size = a.hop_length or a.n_fft // 4, a.win_length or a.n_fft
   local window = a.window or torch.hann_window(size, {device = x.device, dtype = x.dtype})
   local rate = 2.0 ^ (-a.n_steps / a.bins_per_octave)
   local spectrum = spectra.spectrogram(x, 0, window, a.n_fft, hop, size)
   local advance = torch.linspace(0, math.pi * hop, spectrum:size(-2),
      {device = x.device, dtype = x.dtype}):unsqueeze(2)
   -- A half is rounded to the nearest even number, as by Python's `round`.
   local length = n / rate
   local whole = math.floor(length + 0.5)
   if length % 1 == 0.5 and whole % 2 == 1 then whole = whole - 1 end
   return torch.istft(spectra.phase_vocoder(spectrum, rate, advance), a.n_fft,
      {hop_length = hop, win_length = size, window = window, length = whole})
end

--- Returns a waveform with n samples: cuts it off after n samples, or appends zeros.
function M.fit(x, n)
   local have = x:size(-1)
   if have > n then return x:narrow(-1, 1, n) end
   return have < n and F.pad(x, {0, n - have}) or x
end

local take_pitch = args.signature(prefix .. [[pitch_shift(waveform: tensor,
   sample_rate: integer, n_steps: integer, bins_per_octave: integer = 12, n_fft: integer = 512,
   win_length: integer?, hop_length: integer?, window: tensor?)]])

--- Raises or lowers the pitch of waveforms without changing their length.
---@param waveform Tensor
---@param sample_rate integer
---@param n_steps integer
---@param bins_per_octave? integer
---@param n_fft? integer
---@param win_length? integer
---@param hop_length? integer
---@param window? Tensor
---@return Tensor
function M.pitch_shift(...)
   local title, a = prefix .. "pitch_shift", take_pitch(...)
   checks.waveform(title, a.waveform)
   checks.positive(title, "sample_rate", a.sample_rate)
   local x, restore = checks.batch(a.waveform, 1)
   local stretched = M.stretch(title, x, a)
   local rate = 2.0 ^ (-a.n_steps / a.bins_per_octave)
   local shifted = M.resample(stretched, math.floor(a.sample_rate / rate), a.sample_rate)
   return restore(M.fit(shifted, a.waveform:size(-1)))
end

return M
