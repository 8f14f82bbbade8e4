-- spectra.lua - spectrograms and their inverses, and features that are computed from spectra.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"

local F = torch.nn.functional

local M = {}

local prefix <const> = "audio.functional."

-- Returns two booleans for the option `normalized`: whether stft divides by the square root of the
-- frame length, and whether the spectrum is divided by the window's norm.
local function norms_of(title, normalized)
   if normalized == true or normalized == "window" then return false, true end
   if normalized == false then return false, false end
   if normalized == "frame_length" then return true, false end
   args.refuse(title, "normalized", 'a boolean, "window" or "frame_length"', normalized)
end

local function check_sizes(title, a)
   checks.at_least(title, "n_fft", a.n_fft, 1)
   checks.at_least(title, "hop_length", a.hop_length, 1)
   checks.at_least(title, "win_length", a.win_length, 1)
   if a.win_length > a.n_fft then
      args.refuse(title, "win_length", ("at most n_fft, %d"):format(a.n_fft), a.win_length)
   end
   if a.window:dim() ~= 1 or a.window:size(1) ~= a.win_length then
      args.refuse(title, "window", ("a tensor of shape (%d)"):format(a.win_length), a.window)
   end
   if a.pad then checks.at_least(title, "pad", a.pad, 0) end
end

-- Returns the complex spectrogram of a batch (N, time).
local function stft(title, x, a, frame_norm)
   local n = x:size(-1)
   if a.center and a.pad_mode == "reflect" and n <= a.n_fft // 2 then
      torch.raise(("%s: n_fft: expected less than twice the waveform's %d samples, since it is "
         .. "padded by reflection, got %d"):format(title, n, a.n_fft))
   elseif not a.center and n < a.n_fft then
      torch.raise(("%s: n_fft: expected at most the waveform's %d samples, got %d"):format(title, n,
         a.n_fft))
   end
   return torch.stft(x, a.n_fft, {hop_length = a.hop_length, win_length = a.win_length,
      window = a.window:to(x.dtype), center = a.center, pad_mode = a.pad_mode,
      normalized = frame_norm, onesided = a.onesided, return_complex = true})
end

local function window_norm_of(window) return window:square():sum():sqrt() end

local take_spectrogram = args.signature(prefix .. [[spectrogram(waveform: tensor, pad: integer,
   window: tensor, n_fft: integer, hop_length: integer, win_length: integer, power: number?,
   normalized: any = false, center: boolean = true, pad_mode: string = 'reflect',
   onesided: boolean = true)]])

--- Returns the spectrogram of waveforms: magnitudes raised to `power`, or complex numbers if
--- `power` is nil.
---
---     local window = torch.hann_window(400)
---     local spectrogram = torch.audio.functional.spectrogram
---     print(spectrogram(torch.zeros(2, 1000), 0, window, 400, 200, 400, 2).shape)
---     --> torch.Size([2, 201, 6])
---@param waveform Tensor
---@param pad integer
---@param window Tensor
---@param n_fft integer
---@param hop_length integer
---@param win_length integer
---@param power? number
---@param normalized? boolean|string
---@param center? boolean
---@param pad_mode? string
---@param onesided? boolean
---@return Tensor  (..., freq, time)
function M.spectrogram(...)
   local title, a = prefix .. "spectrogram", take_spectrogram(...)
   checks.waveform(title, a.waveform)
   check_sizes(title, a)
   if a.power then checks.positive(title, "power", a.power) end
   local frame_norm, window_norm = norms_of(title, a.normalized)
   local x, restore = checks.batch(a.waveform, 1)
   if a.pad > 0 then x = F.pad(x, {a.pad, a.pad}) end
   local spectrum = stft(title, x, a, frame_norm)
   if window_norm then spectrum = spectrum / window_norm_of(a.window) end
   if a.power == 2 then
      -- The square of the magnitude is computed without a square root.
      local parts = spectrum:view_as_real()
      return restore(parts:square():sum(-1))
   end
   if a.power then
      spectrum = spectrum:abs()
      if a.power ~= 1 then spectrum = spectrum:pow(a.power) end
   end
   return restore(spectrum)
end

-- Raises an error unless a spectrogram's number of frequencies fits n_fft.
local function check_bins(title, name, spectrum, n_fft, onesided)
   local bins = onesided and n_fft // 2 + 1 or n_fft
   if spectrum:size(-2) ~= bins then
      args.refuse(title, name, ("%d frequencies, by n_fft"):format(bins), spectrum)
   end
   if spectrum:size(-1) == 0 then args.refuse(title, name, "at least one frame", spectrum) end
end

local take_inverse = args.signature(prefix .. [[inverse_spectrogram(spectrogram: tensor,
   length: integer?, pad: integer, window: tensor, n_fft: integer, hop_length: integer,
   win_length: integer, normalized: any = false, center: boolean = true,
   pad_mode: string = 'reflect', onesided: boolean = true)]])

--- Returns the waveforms of complex spectrograms.
---@param spectrogram Tensor
---@param length? integer
---@param pad integer
---@param window Tensor
---@param n_fft integer
---@param hop_length integer
---@param win_length integer
---@param normalized? boolean|string
---@param center? boolean
---@param pad_mode? string  is ignored
---@param onesided? boolean
---@return Tensor waveform
function M.inverse_spectrogram(...)
   local title, a = prefix .. "inverse_spectrogram", take_inverse(...)
   checks.complex(title, "spectrogram", a.spectrogram, 2, "(..., freq, time)")
   check_sizes(title, a)
   check_bins(title, "spectrogram", a.spectrogram, a.n_fft, a.onesided)
   local frame_norm, window_norm = norms_of(title, a.normalized)
   local spectrum, restore = checks.batch(a.spectrogram, 2)
   if window_norm then spectrum = spectrum * window_norm_of(a.window) end
   local x = torch.istft(spectrum, a.n_fft, {hop_length = a.hop_length, win_length = a.win_length,
      window = a.window, center = a.center, normalized = frame_norm, onesided = a.onesided,
      length = a.length and a.length + 2 * a.pad})
   if a.length and a.pad > 0 then x = x:narrow(-1, a.pad + 1, a.length) end
   return restore(x)
end

local take_griffinlim = args.signature(prefix .. [[griffinlim(specgram: tensor, window: tensor,
   n_fft: integer, hop_length: integer, win_length: integer, power: number, n_iter: integer,
   momentum: number, length: integer?, rand_init: boolean = true)]])

--- Returns waveforms whose spectrograms have the given magnitudes, by the method of Griffin and
--- Lim: each iteration takes the phases from the previous waveform's spectrogram.
---@param specgram Tensor
---@param window Tensor
---@param n_fft integer
---@param hop_length integer
---@param win_length integer
---@param power number
---@param n_iter integer
---@param momentum number
---@param length? integer
---@param rand_init? boolean  whether phases are random at first
---@return Tensor waveform
function M.griffinlim(...)
   local title, a = prefix .. "griffinlim", take_griffinlim(...)
   checks.real(title, "specgram", a.specgram, 2, "(..., freq, time)")
   check_sizes(title, a)
   check_bins(title, "specgram", a.specgram, a.n_fft, true)
   checks.positive(title, "power", a.power)
   checks.at_least(title, "n_iter", a.n_iter, 0)
   if not (a.momentum >= 0 and a.momentum < 1) then
      args.refuse(title, "momentum", "at least 0 and below 1", a.momentum)
   end
   local momentum = a.momentum / (1 + a.momentum)
   local magnitude, restore = checks.batch(a.specgram, 2)
   magnitude = a.power == 1 and magnitude or magnitude:pow(1 / a.power)
   local dtype = checks.complex_of[magnitude.dtype]
   local options = {dtype = dtype, device = magnitude.device}
   local angles = a.rand_init and torch.rand(magnitude.shape, options)
      or torch.ones(magnitude.shape, options)
   local settings = {hop_length = a.hop_length, win_length = a.win_length, window = a.window,
      length = a.length}
   local forward = {hop_length = a.hop_length, win_length = a.win_length, window = a.window,
      return_complex = true}
   local before
   for _ = 1, a.n_iter do
      local rebuilt = torch.stft(torch.istft(magnitude * angles, a.n_fft, settings), a.n_fft,
         forward)
      angles = rebuilt
      if momentum > 0 and before then angles = angles - before * momentum end
      angles = angles / (angles:abs() + 1e-16)
      before = rebuilt
   end
   return restore(torch.istft(magnitude * angles, a.n_fft, settings))
end

local take_to_db = args.signature(prefix .. [[amplitude_to_DB(x: tensor, multiplier: number,
   amin: number, db_multiplier: number, top_db: number?)]])

--- Converts magnitudes or powers to dB. With `top_db`, all values are clamped to at least the
--- largest value of their example minus `top_db`.
---@param x Tensor  (freq, time), (channel, freq, time) or (..., batch, channel, freq, time)
---@param multiplier number  10 for powers, 20 for magnitudes
---@param amin number
---@param db_multiplier number
---@param top_db? number
---@return Tensor
function M.amplitude_to_DB(...)
   local title, a = prefix .. "amplitude_to_DB", take_to_db(...)
   checks.real(title, "x", a.x, a.top_db and 2 or 0, "(..., freq, time)")
   local db = a.x:clamp(a.amin):log10() * a.multiplier
   if a.db_multiplier ~= 0 then db = db - a.multiplier * a.db_multiplier end
   if not a.top_db or db:numel() == 0 then return db end
   local shape = {table.unpack(db.shape)}
   local channels = #shape > 2 and shape[#shape - 2] or 1
   local packed = db:reshape(-1, channels, shape[#shape - 1], shape[#shape])
   local floor = packed:amax({2, 3, 4}, {keepdim = true}) - a.top_db
   return torch.maximum(packed, floor):reshape(shape)
end

local take_from_db = args.signature(prefix .. [[DB_to_amplitude(x: tensor, ref: number,
   power: number)]])

--- Converts dB to powers or magnitudes, and multiplies them by `ref`.
---@param x Tensor  in dB
---@param ref number  the factor by which the result is multiplied
---@param power number  1 for powers, 0.5 for magnitudes
---@return Tensor
function M.DB_to_amplitude(...)
   local a = take_from_db(...)
   return torch.pow(torch.pow(10.0, a.x * 0.1), a.power) * a.ref
end

local take_vocoder = args.signature(prefix .. [[phase_vocoder(complex_specgrams: tensor,
   rate: number, phase_advance: tensor)]])

--- Changes the speed of complex spectrograms without changing their pitch.
---@param complex_specgrams Tensor
---@param rate number  the speed; 2 halves the number of frames
---@param phase_advance Tensor
---@return Tensor  (..., freq, frames)
function M.phase_vocoder(...)
   local title, a = prefix .. "phase_vocoder", take_vocoder(...)
   checks.complex(title, "complex_specgrams", a.complex_specgrams, 2, "(..., freq, time)")
   checks.positive(title, "rate", a.rate)
   if a.rate == 1 then return a.complex_specgrams end
   local spectra, restore = checks.batch(a.complex_specgrams, 2)
   local frames = spectra:size(-1)
   local first = spectra:narrow(-1, 1, 1):angle()
   local steps = torch.arange(0, frames, a.rate, {dtype = first.dtype, device = spectra.device})
   local share = steps - steps:floor()
   local function padded(x) return torch.nn.functional.pad(x, {0, 2}) end
   local angles, magnitudes = padded(spectra:angle()), padded(spectra:abs())
   local before, after = steps:long() + 1, (steps + 1):long() + 1
   local phase = angles:index_select(-1, after) - angles:index_select(-1, before) - a.phase_advance
   phase = phase - torch.round(phase / (2 * math.pi)) * (2 * math.pi) + a.phase_advance
   phase = torch.cat({first, phase:narrow(-1, 1, phase:size(-1) - 1)}, -1):cumsum(-1)
   local magnitude = magnitudes:index_select(-1, after) * share
      + magnitudes:index_select(-1, before) * (1 - share)
   return restore(torch.polar(magnitude, phase))
end

local take_centroid = args.signature(prefix .. [[spectral_centroid(waveform: tensor,
   sample_rate: integer, pad: integer, window: tensor, n_fft: integer, hop_length: integer,
   win_length: integer)]])

--- Returns the spectral centroid of each frame in Hz: the mean of the frequencies, weighted by
--- their magnitudes.
---@param waveform Tensor
---@param sample_rate integer
---@param pad integer
---@param window Tensor
---@param n_fft integer
---@param hop_length integer
---@param win_length integer
---@return Tensor  (..., time)
function M.spectral_centroid(...)
   local title, a = prefix .. "spectral_centroid", take_centroid(...)
   checks.positive(title, "sample_rate", a.sample_rate)
   local spectrum = M.spectrogram(a.waveform, a.pad, a.window, a.n_fft, a.hop_length,
      a.win_length, 1)
   local freqs = torch.linspace(0, a.sample_rate // 2, 1 + a.n_fft // 2,
      {device = spectrum.device, dtype = spectrum.dtype})
   local sums = torch.stack({freqs, torch.ones_like(freqs)}):matmul(spectrum)
   return sums:select(-2, 1) / sums:select(-2, 2)
end

-- Pitch -------------------------------------------------------------------------------------------

-- Returns the normalised correlation of each frame with the frame that begins `lag` samples later,
-- for lags from 1 to `lags`, as a tensor (N, frames, lags).
local function correlations(x, frame, lags)
   local n = x:size(-1)
   local frames = math.ceil(n / frame)
   x = F.pad(x, {0, lags + frames * frame - n})
   local s1 = x:narrow(-1, 1, frames * frame):view(-1, frames, frame)
   local norm1 = (torch.linalg.vector_norm(s1, {ord = 2, dim = -1}) + 1e-9):square()
   local list = {}
   for lag = 1, lags do
      local s2 = x:narrow(-1, lag + 1, frames * frame):reshape(-1, frames, frame)
      local norm2 = (torch.linalg.vector_norm(s2, {ord = 2, dim = -1}) + 1e-9):square()
      list[lag] = (s1 * s2):sum(-1) / norm1 / norm2
   end
   return torch.stack(list, -1)
end

local take_pitch = args.signature(prefix .. [[detect_pitch_frequency(waveform: tensor,
   sample_rate: integer, frame_time: number = 0.01, win_length: integer = 30,
   freq_low: integer = 85, freq_high: integer = 3400)]])

--- Returns the pitch of each frame in Hz. The pitch is found by correlation, and a median over
--- several frames smooths it.
---@param waveform Tensor
---@param sample_rate integer
---@param frame_time? number  the length of a frame in seconds, 0.01 by default
---@param win_length? integer  the number of frames for the median, 30 by default
---@param freq_low? integer  the lowest pitch
---@param freq_high? integer  the highest pitch
---@return Tensor  (..., frames)
function M.detect_pitch_frequency(...)
   local title, a = prefix .. "detect_pitch_frequency", take_pitch(...)
   checks.waveform(title, a.waveform)
   checks.positive(title, "sample_rate", a.sample_rate)
   checks.positive(title, "frame_time", a.frame_time)
   checks.at_least(title, "win_length", a.win_length, 1)
   checks.positive(title, "freq_low", a.freq_low)
   checks.positive(title, "freq_high", a.freq_high)
   local x, restore = checks.batch(a.waveform, 1)
   local lags = math.ceil(a.sample_rate / a.freq_low)
   local least = math.ceil(a.sample_rate / a.freq_high)
   if lags // 2 <= least then
      args.refuse(title, "freq_high", "more than twice freq_low", a.freq_high)
   end
   local nccf = correlations(x, math.ceil(a.sample_rate * a.frame_time), lags)
   local best, where = nccf:narrow(-1, least + 1, lags - least):max(-1)
   local half, there = nccf:narrow(-1, least + 1, lags // 2 - least):max(-1)
   -- torchaudio adds 1 to these indices, because they count from 0 in Python. Here they count from
   -- 1 already.
   local lag = torch.where(half:gt(best * 0.99), there, where) + least
   local side = (a.win_length - 1) // 2
   if lag:size(-1) < a.win_length - side then
      args.refuse(title, "waveform", ("at least %d frames of frame_time"):format(
         a.win_length - side), a.waveform)
   end
   if side > 0 then
      lag = torch.cat({lag:narrow(-1, 1, 1):expand(-1, side), lag}, -1)
   end
   local median = lag:unfold(-1, a.win_length, 1):median(-1)
   return restore(a.sample_rate / (median:float() + 1e-9))
end

return M
