-- activity.lua - finds the beginning of speech with the method of SoX's vad effect. For each short
-- frame, it subtracts the estimated noise from the spectrum, computes the cepstrum of the result,
-- and compares the cepstrum's power with a trigger level.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"

local F = torch.nn.functional

local M = {}

local title <const> = "audio.functional.vad"

--- The parameters of vad after the first, the waveform, in the notation of args.signature.
M.parameters = [[sample_rate: integer, trigger_level: number = 7, trigger_time: number = 0.25,
   search_time: number = 1, allowed_gap: number = 0.25, pre_trigger_time: number = 0,
   boot_time: number = 0.35, noise_up_time: number = 0.1, noise_down_time: number = 0.01,
   noise_reduction_amount: number = 1.35, measure_freq: number = 20,
   measure_duration: number?, measure_smooth_time: number = 0.4, hp_filter_freq: number = 50,
   lp_filter_freq: number = 6000, hp_lifter_freq: number = 150, lp_lifter_freq: number = 2000]]

local function round(x) return math.floor(x + 0.5) end

-- Computes the sizes of frames and bands, in samples and frequencies, from the arguments.
local function sizes_of(a)
   local s = {rate = a.sample_rate}
   s.frame = round(s.rate * (a.measure_duration or 2 / a.measure_freq))
   s.dft = 16
   while s.dft < s.frame do s.dft = s.dft * 2 end
   s.period = round(s.rate / a.measure_freq)
   s.measures = math.ceil(a.search_time * a.measure_freq)
   s.gap = round(a.allowed_gap * a.measure_freq)
   s.pre_trigger = round(a.pre_trigger_time * s.rate)
   s.samples = s.pre_trigger + s.measures * s.period + s.frame
   s.low = math.max(1, round(a.hp_filter_freq / s.rate * s.dft))
   s.high = math.min(s.dft // 2, round(a.lp_filter_freq / s.rate * s.dft))
   s.cepstrum_low = math.ceil(s.rate * 0.5 / a.lp_lifter_freq)
   s.cepstrum_high = math.min(s.dft // 4, math.floor(s.rate * 0.5 / a.hp_lifter_freq))
   s.boots = math.floor(a.boot_time * a.measure_freq - 0.5)
   if s.frame < 1 or s.period < 1 or s.measures < 1 then
      torch.raise(title .. ": measure_freq: frames have no samples at this sample_rate")
   end
   if s.high <= s.low then
      args.refuse(title, "lp_filter_freq", "more than hp_filter_freq", a.lp_filter_freq)
   end
   if s.cepstrum_high <= s.cepstrum_low then
      args.refuse(title, "lp_lifter_freq", "more than hp_lifter_freq at this sample_rate",
         a.lp_lifter_freq)
   end
   return s
end

local function window(n, device)
   return torch.hann_window(n, {device = device}) * (2 / math.sqrt(n))
end

-- Returns a function that measures one frame of each channel, (channels, frame), and returns a list
-- with the level of each channel.
local function meter(a, s, channels, device)
   local frame_window, cepstrum_window = window(s.frame, device), window(s.high - s.low, device)
   local spectrum = torch.zeros(channels, s.high - s.low, {device = device})
   local noise = torch.zeros(channels, s.high - s.low, {device = device})
   local up = math.exp(-1 / (a.noise_up_time * a.measure_freq))
   local down = math.exp(-1 / (a.noise_down_time * a.measure_freq))
   local smooth = math.exp(-1 / (a.measure_smooth_time * a.measure_freq))
   return function(frames, boot)
      local bins = torch.fft.rfft(F.pad(frames * frame_window, {0, s.dft - s.frame}))
      local weight = boot >= 0 and boot / (1 + boot) or smooth
      local magnitude = bins:narrow(2, s.low + 1, s.high - s.low):abs()
      spectrum = spectrum * weight + magnitude * (1 - weight)
      local power = spectrum:square()
      if boot >= 0 then
         noise = power
      else
         local keep = torch.where(power:gt(noise), up, down)
         noise = noise * keep + power * (1 - keep)
      end
      local clean = (power - noise * a.noise_reduction_amount):clamp(0):sqrt()
      local padded = F.pad(clean * cepstrum_window, {s.low, s.dft // 2 - s.high})
      local n = s.cepstrum_high - s.cepstrum_low
      local cepstrum = torch.fft.rfft(padded):narrow(2, s.cepstrum_low + 1, n)
      local list = cepstrum:abs():square():sum(-1):tolist()
      for c, value in ipairs(list) do
         list[c] = value > 0 and math.max(0, 21 + math.log(value / n)) or 0
      end
      return list
   end
end

-- Returns how many of the measures before the trigger already belong to the sound. `past` is a ring
-- buffer of measures, in which `at` is the index of the newest measure, counted from 0.
local function to_flush(past, at, a, s)
   local n = s.measures
   local trigger, zero = n, n
   for j = 0, n - 1 do
      local value = past[at]
      if value >= a.trigger_level and j <= trigger + s.gap then
         trigger, zero = j, j
      elseif value == 0 and trigger >= zero then
         zero = j
      end
      at = (at + n - 1) % n
   end
   return math.min(n - 1, zero)
end

local take = args.signature(title .. "(waveform: tensor, " .. M.parameters .. ")")

--- Removes the part of a recording before the beginning of speech. All channels are cut at the same
--- sample.
---@param waveform Tensor  (time) or (channels, time)
---@param sample_rate integer
---@param trigger_level? number  the level that begins the sound, 7 by default
---@param trigger_time? number  the seconds over which levels are averaged, 0.25 by default
---@param search_time? number  the seconds before the trigger in which the sound may begin, 1
---@param allowed_gap? number  the longest pause in seconds within the sound, 0.25 by default
---@param pre_trigger_time? number  the seconds that are kept before the sound, 0 by default
---@param boot_time? number  the seconds of the first estimate of noise, 0.35 by default
---@param noise_up_time? number  how fast the noise rises, in seconds, 0.1 by default
---@param noise_down_time? number  how fast the noise falls, in seconds, 0.01 by default
---@param noise_reduction_amount? number  how much of the noise is subtracted, 1.35 by default
---@param measure_freq? number  the number of measures per second, 20 by default
---@param measure_duration? number  the length of a frame in seconds, by default twice the time
--- between measures
---@param measure_smooth_time? number  the seconds over which spectra are averaged, 0.4
---@param hp_filter_freq? number  the lowest frequency in Hz, 50 by default
---@param lp_filter_freq? number  the highest frequency in Hz, 6000 by default
---@param hp_lifter_freq? number  the lowest pitch in Hz, 150 by default
---@param lp_lifter_freq? number  the highest pitch in Hz, 2000 by default
---@return Tensor  the waveform from the beginning of the sound on; its first pre_trigger_time
--- seconds if there is no sound
function M.vad(...)
   local a = take(...)
   checks.waveform(title, a.waveform)
   if a.waveform:dim() > 2 then
      args.refuse(title, "waveform", "a tensor of shape (time) or (channels, time)", a.waveform)
   end
   for _, name in ipairs {"sample_rate", "measure_freq", "search_time", "noise_up_time",
      "noise_down_time", "measure_smooth_time", "trigger_time", "hp_lifter_freq",
      "lp_lifter_freq"} do
      checks.positive(title, name, a[name])
   end
   local s = sizes_of(a)
   local x, restore = checks.batch(a.waveform, 1)
   local channels, length = x:size(1), x:size(2)
   local measure = meter(a, s, channels, x.device)
   local decay = math.exp(-1 / (a.trigger_time * a.measure_freq))
   local means, past, index, boot = {}, {}, 0, 0
   for c = 1, channels do
      means[c], past[c] = 0, {}
      for i = 0, s.measures - 1 do past[c][i] = 0 end
   end
   local signal = x:detach():float()
   local triggered, flush, at = false, 0, 0
   for pos = s.frame, length - 1, s.period do
      at = pos
      local list = measure(signal:narrow(2, pos - s.frame + 1, s.frame), boot)
      for c = 1, channels do
         past[c][index] = list[c]
         means[c] = means[c] * decay + list[c] * (1 - decay)
         triggered = triggered or means[c] >= a.trigger_level
         if triggered then flush = math.max(flush, to_flush(past[c], index, a, s)) end
      end
      index = (index + 1) % s.measures
      if boot >= 0 then boot = boot == s.boots and -1 or boot + 1 end
      if triggered then break end
   end
   if not triggered and length >= s.pre_trigger then
      return restore(x:narrow(2, 1, s.pre_trigger))
   end
   local flushed = triggered and (s.measures - flush) * s.period or 0
   local first = math.min(length, math.max(0, at - s.samples + flushed))
   return restore(x:narrow(2, first + 1, length - first))
end

return M
