-- kaldi.lua - torch.audio.compliance.kaldi: features as the programs of Kaldi compute them, with
-- the names and numbers of torchaudio.compliance.kaldi. The warping of vocal tract lengths (vtln)
-- is not supported.

local torch = require "tlua"
local args = require "tlua.args"

local bands = require "tlua.audio.functional.bands"

local F = torch.nn.functional

local M = {}

local prefix <const> = "audio.compliance.kaldi."
local epsilon <const> = 2.0 ^ -23 -- the epsilon of float32; smaller powers are replaced by it

local framing <const> = [[waveform: tensor, blackman_coeff: number = 0.42, channel: integer = -1,
   dither: number = 0, energy_floor: number = 1, frame_length: number = 25,
   frame_shift: number = 10, min_duration: number = 0, preemphasis_coefficient: number = 0.97,
   raw_energy: boolean = true, remove_dc_offset: boolean = true,
   round_to_power_of_two: boolean = true, sample_frequency: number = 16000,
   snip_edges: boolean = true, subtract_mean: boolean = false, window_type: string = 'povey']]
local filtering <const> = framing .. [[, high_freq: number = 0, htk_compat: boolean = false,
   low_freq: number = 20, num_mel_bins: integer = 23, use_energy: boolean = false]]

-- Frames ------------------------------------------------------------------------------------------

local windows <const> = {}

function windows.hanning(n, options) return torch.hann_window(n, false, options) end

function windows.hamming(n, options) return torch.hamming_window(n, false, options) end

function windows.povey(n, options) return windows.hanning(n, options) ^ 0.85 end

function windows.rectangular(n, options) return torch.ones(n, options) end

function windows.blackman(n, options, first)
   local angle = torch.arange(n, options) * (2 * math.pi / (n - 1))
   return first - angle:cos() * 0.5 + (angle * 2):cos() * (0.5 - first)
end

-- Checks the arguments. Returns the samples of the selected channel and three numbers of samples:
-- the distance between two frames, the length of a frame, and this length with the zeros that are
-- appended.
local function measure(title, a)
   local waveform = a.waveform
   if waveform:dim() ~= 2 or not waveform:is_floating_point() then
      args.refuse(title, "waveform", "floating numbers of shape (channels, time)", waveform)
   end
   if a.channel ~= -1 and (a.channel < 1 or a.channel > waveform:size(1)) then
      args.refuse(title, "channel", ("-1 or a channel from 1 to %d"):format(waveform:size(1)),
         a.channel)
   end
   if not windows[a.window_type] then
      args.refuse(title, "window_type",
         '"povey", "hanning", "hamming", "blackman" or "rectangular"', a.window_type)
   end
   if a.preemphasis_coefficient < 0 or a.preemphasis_coefficient > 1 then
      args.refuse(title, "preemphasis_coefficient", "0 to 1", a.preemphasis_coefficient)
   end
   if waveform:size(1) == 0 then
      args.refuse(title, "waveform", "at least one channel", waveform)
   end
   local samples = waveform[a.channel == -1 and 1 or a.channel]
   local shift = math.floor(a.sample_frequency * a.frame_shift * 0.001)
   local size = math.floor(a.sample_frequency * a.frame_length * 0.001)
   if not (shift >= 1 and shift < math.huge) then
      args.refuse(title, "frame_shift", "at least one sample", a.frame_shift)
   end
   if not (size >= 2 and size <= samples:size(1)) then
      args.refuse(title, "frame_length",
         ("from 2 to %d samples, the length of waveform"):format(samples:size(1)), size)
   end
   local padded = size
   if a.round_to_power_of_two then
      padded = 1
      while padded < size do padded = padded * 2 end
   end
   if padded % 2 == 1 then
      args.refuse(title, "frame_length", "an even number of samples without round_to_power_of_two",
         size)
   end
   return samples, shift, size, padded
end

-- Cuts samples into frames (m, size) that begin `shift` samples apart. Without snip_edges, the
-- samples are reflected at both ends.
local function frames_of(samples, shift, size, snip_edges)
   if snip_edges then return samples:unfold(1, size, shift) end
   local count = (samples:size(1) + shift // 2) // shift
   local reversed = samples:flip {1}
   local before = size // 2 - shift // 2
   if before > 0 then
      local left = reversed:narrow(1, reversed:size(1) - before + 1, before)
      samples = torch.cat {left, samples, reversed}
   else
      samples = torch.cat {samples:narrow(1, 1 - before, samples:size(1) + before), reversed}
   end
   return samples:unfold(1, size, shift):narrow(1, 1, count)
end

local function log_energy(frames, floor)
   local energy = frames:square():sum(2):clamp_min(epsilon):log()
   return floor == 0 and energy or energy:clamp_min(math.log(floor))
end

-- Returns windowed frames (m, padded), and the logarithms of their energies (m). Returns nil if the
-- waveform is shorter than min_duration.
local function prepare(title, a)
   local samples, shift, size, padded = measure(title, a)
   if samples:size(1) < a.min_duration * a.sample_frequency then return nil end
   local frames = frames_of(samples, shift, size, a.snip_edges)
   if a.dither ~= 0 then frames = frames + torch.randn_like(frames) * a.dither end
   if a.remove_dc_offset then frames = frames - frames:mean(2, true) end
   local energy = a.raw_energy and log_energy(frames, a.energy_floor)
   if a.preemphasis_coefficient ~= 0 then
      local before = torch.cat({frames:narrow(2, 1, 1), frames:narrow(2, 1, size - 1)}, 2)
      frames = frames - before * a.preemphasis_coefficient
   end
   local options = {dtype = frames.dtype, device = frames.device}
   frames = frames * windows[a.window_type](size, options, a.blackman_coeff)
   if padded > size then frames = F.pad(frames, {0, padded - size}) end
   return frames, energy or log_energy(frames, a.energy_floor)
end

local function centred(features, subtract_mean)
   return subtract_mean and features - features:mean(1, true) or features
end

-- Features ----------------------------------------------------------------------------------------

local take_spectrogram = args.signature(prefix .. "spectrogram(" .. framing .. ")")

--- Returns the logarithms of the power spectra of frames. The first column is the logarithm of the
--- energy instead. Kaldi's programs expect samples in the range of 16-bit integers.
---
---     local kaldi = torch.audio.compliance.kaldi
---     print(kaldi.spectrogram(torch.randn(1, 1600)).shape)
---     --> torch.Size([8, 257])
---@param waveform Tensor  (channels, time)
---@param options? {blackman_coeff: number, channel: integer, dither: number, energy_floor: number,
--- frame_length: number, frame_shift: number, min_duration: number, preemphasis_coefficient:
--- number, raw_energy: boolean, remove_dc_offset: boolean, round_to_power_of_two: boolean,
--- sample_frequency: number, snip_edges: boolean, subtract_mean: boolean, window_type: string}
--- blackman_coeff: the first coefficient of the Blackman window, 0.42 by default; channel: counted
--- from 1, the first by default; dither: the deviation of noise that is added, 0 by default;
--- energy_floor: the least energy, 1 by default; frame_length: in milliseconds, 25 by default;
--- frame_shift: in milliseconds, 10 by default; min_duration: in seconds, 0 by default;
--- preemphasis_coefficient: 0.97 by default; raw_energy: whether the energy is that before
--- preemphasis and window, true by default; remove_dc_offset: whether frames lose their mean, true
--- by default; round_to_power_of_two: whether frames are padded to a power of two, true by default;
--- sample_frequency: in hertz, 16000 by default; snip_edges: whether there are only whole frames,
--- true by default; subtract_mean: whether columns lose their mean, false by default; window_type:
--- "povey" by default, "hanning", "hamming", "blackman" or "rectangular"
---@return Tensor  (frames, frequencies), or (0) if the waveform is shorter than min_duration
function M.spectrogram(...)
   local a = take_spectrogram(...)
   local frames, energy = prepare(prefix .. "spectrogram", a)
   if not frames then return a.waveform:new_zeros(0) end
   local spectrum = torch.fft.rfft(frames):abs():square():clamp_min(epsilon):log()
   local rest = spectrum:narrow(2, 2, spectrum:size(2) - 1)
   return centred(torch.cat({energy:unsqueeze(2), rest}, 2), a.subtract_mean)
end

-- Returns the weights (bands, frequencies) of triangular bands that have equal widths on the mel
-- scale.
local function mel_weights(title, a, padded, like)
   local nyquist = a.sample_frequency / 2
   local low, high = a.low_freq, a.high_freq > 0 and a.high_freq or a.high_freq + nyquist
   if a.num_mel_bins < 4 then args.refuse(title, "num_mel_bins", "at least 4", a.num_mel_bins) end
   if not (low >= 0 and high <= nyquist and low < high) then
      torch.raise(("%s: low_freq, high_freq: expected 0 <= low < high <= %g, got %g and %g")
         :format(title, nyquist, low, high))
   end
   local function to_mel(hz) return 1127 * math.log(1 + hz / 700) end
   local first = to_mel(low)
   local step = (to_mel(high) - first) / (a.num_mel_bins + 1)
   local left = (torch.arange(a.num_mel_bins, {dtype = "float32"}) * step + first):unsqueeze(2)
   local hz = torch.arange(padded // 2, {dtype = "float32"}) * (a.sample_frequency / padded)
   local mel = ((hz / 700 + 1):log() * 1127):unsqueeze(1)
   local rise, fall = (mel - left) / step, (left + 2 * step - mel) / step
   local weights = torch.minimum(rise, fall):clamp_min(0)
   return F.pad(weights, {0, 1}):to(like)
end

local function filter_bank(title, a, use_log, use_power)
   local frames, energy = prepare(title, a)
   if not frames then return nil end
   local spectrum = torch.fft.rfft(frames):abs()
   if use_power then spectrum = spectrum:square() end
   local features = spectrum:mm(mel_weights(title, a, frames:size(2), spectrum):t())
   return use_log and features:clamp_min(epsilon):log() or features, energy:unsqueeze(2)
end

local take_fbank = args.signature(prefix .. "fbank(" .. filtering
   .. ", use_log_fbank: boolean = true, use_power: boolean = true)")

--- Returns the energies of frames in mel bands, by default as logarithms.
---
---     local kaldi = torch.audio.compliance.kaldi
---     print(kaldi.fbank(torch.randn(1, 1600), {num_mel_bins = 80}).shape)
---     --> torch.Size([8, 80])
---@param waveform Tensor  (channels, time)
---@param options? {blackman_coeff: number, channel: integer, dither: number, energy_floor: number,
--- frame_length: number, frame_shift: number, high_freq: number, htk_compat: boolean, low_freq:
--- number, min_duration: number, num_mel_bins: integer, preemphasis_coefficient: number,
--- raw_energy: boolean, remove_dc_offset: boolean, round_to_power_of_two: boolean,
--- sample_frequency: number, snip_edges: boolean, subtract_mean: boolean, use_energy: boolean,
--- use_log_fbank: boolean, use_power: boolean, window_type: string}
--- blackman_coeff: the first coefficient of the Blackman window, 0.42 by default; channel: counted
--- from 1, the first by default; dither: the deviation of noise that is added, 0 by default;
--- energy_floor: the least energy, 1 by default; frame_length: in milliseconds, 25 by default;
--- frame_shift: in milliseconds, 10 by default; min_duration: in seconds, 0 by default;
--- preemphasis_coefficient: 0.97 by default; raw_energy: whether the energy is that before
--- preemphasis and window, true by default; remove_dc_offset: whether frames lose their mean, true
--- by default; round_to_power_of_two: whether frames are padded to a power of two, true by default;
--- sample_frequency: in hertz, 16000 by default; snip_edges: whether there are only whole frames,
--- true by default; subtract_mean: whether columns lose their mean, false by default; window_type:
--- "povey" by default, "hanning", "hamming", "blackman" or "rectangular"; high_freq: the highest
--- frequency, or its distance to half of the sample rate if it is not above 0, the default;
--- htk_compat: whether the energy or the first coefficient comes last, false by default; low_freq:
--- the lowest frequency, 20 by default; num_mel_bins: 23 by default; use_energy: whether a column
--- has the energy, false by default; use_log_fbank: whether the energies are logarithms, true by
--- default; use_power: whether amplitudes are squared, true by default
---@return Tensor  (frames, bands), or (0) if the waveform is shorter than min_duration
function M.fbank(...)
   local a = take_fbank(...)
   local features, energy = filter_bank(prefix .. "fbank", a, a.use_log_fbank, a.use_power)
   if not features then return a.waveform:new_zeros(0) end
   if a.use_energy then
      features = torch.cat(a.htk_compat and {features, energy} or {energy, features}, 2)
   end
   return centred(features, a.subtract_mean)
end

local take_mfcc = args.signature(prefix .. "mfcc(" .. filtering
   .. ", cepstral_lifter: number = 22, num_ceps: integer = 13)")

--- Returns the mel-frequency cepstral coefficients of frames.
---
---     local kaldi = torch.audio.compliance.kaldi
---     print(kaldi.mfcc(torch.randn(1, 1600)).shape)
---     --> torch.Size([8, 13])
---@param waveform Tensor  (channels, time)
---@param options? {blackman_coeff: number, cepstral_lifter: number, channel: integer, dither:
--- number, energy_floor: number, frame_length: number, frame_shift: number, high_freq: number,
--- htk_compat: boolean, low_freq: number, min_duration: number, num_ceps: integer, num_mel_bins:
--- integer, preemphasis_coefficient: number, raw_energy: boolean, remove_dc_offset: boolean,
--- round_to_power_of_two: boolean, sample_frequency: number, snip_edges: boolean, subtract_mean:
--- boolean, use_energy: boolean, window_type: string}
--- blackman_coeff: the first coefficient of the Blackman window, 0.42 by default; channel: counted
--- from 1, the first by default; dither: the deviation of noise that is added, 0 by default;
--- energy_floor: the least energy, 1 by default; frame_length: in milliseconds, 25 by default;
--- frame_shift: in milliseconds, 10 by default; min_duration: in seconds, 0 by default;
--- preemphasis_coefficient: 0.97 by default; raw_energy: whether the energy is that before
--- preemphasis and window, true by default; remove_dc_offset: whether frames lose their mean, true
--- by default; round_to_power_of_two: whether frames are padded to a power of two, true by default;
--- sample_frequency: in hertz, 16000 by default; snip_edges: whether there are only whole frames,
--- true by default; subtract_mean: whether columns lose their mean, false by default; window_type:
--- "povey" by default, "hanning", "hamming", "blackman" or "rectangular"; high_freq: the highest
--- frequency, or its distance to half of the sample rate if it is not above 0, the default;
--- htk_compat: whether the energy or the first coefficient comes last, false by default; low_freq:
--- the lowest frequency, 20 by default; num_mel_bins: 23 by default; use_energy: whether the energy
--- replaces the first coefficient, false by default; cepstral_lifter: scales the coefficients, 22
--- by default, 0 for none; num_ceps: the number of coefficients, 13 by default
---@return Tensor  (frames, num_ceps), or (0) if the waveform is shorter than min_duration
function M.mfcc(...)
   local title, a = prefix .. "mfcc", take_mfcc(...)
   local features, energy = filter_bank(title, a, true, true)
   if not features then return a.waveform:new_zeros(0) end
   local bins, count = a.num_mel_bins, a.num_ceps
   if count < 1 or count > bins then
      args.refuse(title, "num_ceps", ("1 to %d, the number of bands"):format(bins), count)
   end
   local cosines = bands.create_dct(bins, bins, "ortho"):narrow(2, 1, count):clone()
   cosines:narrow(2, 1, 1):fill_(math.sqrt(1 / bins))
   features = features:matmul(cosines:to(features))
   if a.cepstral_lifter ~= 0 then
      local at = torch.arange(count, {dtype = "float32"}) * (math.pi / a.cepstral_lifter)
      features = features * (at:sin() * (0.5 * a.cepstral_lifter) + 1):to(features)
   end
   local first, rest = features:narrow(2, 1, 1), features:narrow(2, 2, count - 1)
   if a.use_energy then first = energy end
   if a.htk_compat then
      first = a.use_energy and first or first * math.sqrt(2)
      features = torch.cat({rest, first}, 2)
   elseif a.use_energy then
      features = torch.cat({first, rest}, 2)
   end
   return centred(features, a.subtract_mean)
end

return M
