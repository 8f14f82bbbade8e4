-- waves.lua - transforms of waveforms.

local torch = require "tlua"
local args = require "tlua.args"
local activity = require "tlua.audio.functional.activity"
local checks = require "tlua.audio.checks"
local define = require "tlua.audio.transforms.define"
local resampling = require "tlua.audio.functional.resampling"
local wave_functions = require "tlua.audio.functional.waves"

local nn = torch.nn
local functional = torch.audio.functional

local M = {}

-- Returns the greatest common divisor.
local function gcd(a, b)
   while b ~= 0 do a, b = b, a % b end
   return a
end

--- Changes the sample rate, as functional.resample does. The filters are computed once, when the
--- transform is made.
---
---     local resample = torch.audio.transforms.Resample(16000, 8000)
---     print(resample(torch.zeros(2, 1000)).shape)
---     --> torch.Size([2, 500])
---@class audio.transforms.Resample: nn.Module
---@field kernel Tensor  the filters
---@overload fun(orig_freq?: integer, new_freq?: integer, options?: table): nn.Module
M.Resample = define("Resample", [[orig_freq: integer = 16000, new_freq: integer = 16000,
   resampling_method: string = 'sinc_interp_hann', lowpass_filter_width: integer = 6,
   rolloff: number = 0.99, beta: number?, dtype: string?]],
   function(self, waveform)
      checks.waveform("audio.transforms.Resample", waveform)
      if self.orig_freq == self.new_freq then return waveform end
      local kernel, width = self.kernel, self.width
      return resampling.apply(waveform, self.orig_freq // self.gcd, self.new_freq // self.gcd,
         width, function(first, last, from, to)
            return kernel:narrow(1, first + 1, last - first + 1):narrow(3, from + width + 1,
               to - from + 1)
         end)
   end, function(self, a, title)
      checks.positive(title, "orig_freq", a.orig_freq)
      checks.positive(title, "new_freq", a.new_freq)
      self.gcd = gcd(a.orig_freq, a.new_freq)
      if a.orig_freq == a.new_freq then return end
      local kernel, width = resampling.kernel(title, a.orig_freq // self.gcd,
         a.new_freq // self.gcd, a, a.dtype)
      self.width = width
      self:register_buffer("kernel", kernel)
   end)

--- Raises or lowers the pitch, as functional.pitch_shift does.
---
---     local shift = torch.audio.transforms.PitchShift(16000, 4)
---     print(shift(torch.rand(2, 1000)).shape)
---     --> torch.Size([2, 1000])
---@class audio.transforms.PitchShift: nn.Module
---@field window Tensor  (win_length)
---@overload fun(sample_rate: integer, n_steps: integer, options?: table): nn.Module
M.PitchShift = define("PitchShift", [[sample_rate: integer, n_steps: integer,
   bins_per_octave: integer = 12, n_fft: integer = 512, win_length: integer?,
   hop_length: integer?, window_fn: callable?, wkwargs: table?]],
   function(self, waveform)
      checks.waveform("audio.transforms.PitchShift", waveform)
      return functional.pitch_shift(waveform, self.sample_rate, self.n_steps,
         self.bins_per_octave, self.n_fft, self.win_length, self.hop_length,
         self.window:to(waveform.dtype))
   end, function(self, a, title)
      checks.positive(title, "sample_rate", a.sample_rate)
      checks.at_least(title, "n_fft", a.n_fft, 4)
      self.win_length = a.win_length or a.n_fft
      self.hop_length = a.hop_length or self.win_length // 4
      local make = a.window_fn or torch.hann_window
      self:register_buffer("window", a.wkwargs and make(self.win_length, a.wkwargs)
         or make(self.win_length))
      self.window_fn, self.wkwargs = nil, nil
   end)

--- Changes the speed, as functional.speed does. A call returns the waveform and lengths.
---
---     local speed = torch.audio.transforms.Speed(16000, 2.0)
---     print((speed(torch.zeros(2, 1000))).shape)
---     --> torch.Size([2, 500])
---@class audio.transforms.Speed: nn.Module
---@field resampler nn.Module  changes the sample rate
---@overload fun(orig_freq: integer, factor: number): nn.Module
M.Speed = define("Speed", "orig_freq: integer, factor: number",
   function(self, waveform, lengths)
      checks.waveform("audio.transforms.Speed", waveform)
      if lengths ~= nil and not torch.is_tensor(lengths) then
         args.refuse("audio.transforms.Speed", "lengths", "a tensor", lengths)
      end
      return self.resampler(waveform), resampling.speed_lengths(lengths, self.source, self.target)
   end, function(self, a, title)
      self.source, self.target = resampling.speed_rates(title, a.orig_freq, a.factor)
      self.resampler = M.Resample(self.source, self.target)
   end)

--- Changes the speed by one of several factors, which each call chooses at random.
---
---     local perturb = torch.audio.transforms.SpeedPerturbation(16000, {0.5, 2.0})
---     print(#perturb.factors, (perturb(torch.zeros(100))):dim())
---     --> 2	1
---@class audio.transforms.SpeedPerturbation: nn.Module
---@field speeders nn.Module  a Speed for each factor
---@overload fun(orig_freq: integer, factors: number[]): nn.Module
M.SpeedPerturbation = define("SpeedPerturbation", "orig_freq: integer, factors: numbers",
   function(self, waveform, lengths)
      return self.speeders[torch.randint(1, #self.factors + 1, {1}):item()](waveform, lengths)
   end, function(self, a, title)
      if #a.factors == 0 then args.refuse(title, "factors", "at least one factor", a.factors) end
      local list = {}
      for i, factor in ipairs(a.factors) do list[i] = M.Speed(a.orig_freq, factor) end
      self.speeders = nn.ModuleList(list)
   end)

-- For each shape of a fade, a function that returns the gain of a rising fade at the times t, which
-- go from 0 to 1.
local shapes <const> = {
   linear = function(t) return t end,
   exponential = function(t) return torch.pow(2.0, t - 1) * t end,
   logarithmic = function(t) return torch.log10(t + 0.1) + 1 end,
   quarter_sine = function(t) return torch.sin(t * (math.pi / 2)) end,
   half_sine = function(t) return torch.sin(t * math.pi - math.pi / 2) / 2 + 0.5 end,
}

--- Fades waveforms in over the first `fade_in_len` samples and out over the last `fade_out_len`
--- samples. `fade_shape` is "linear" (the default), "exponential", "logarithmic", "quarter_sine" or
--- "half_sine".
---
---     local fade = torch.audio.transforms.Fade {fade_in_len = 3, fade_out_len = 2}
---     print(fade(torch.ones(6)))
---     --> tensor([0.0000, 0.5000, 1.0000, 1.0000, 1.0000, 0.0000])
---@class audio.transforms.Fade: nn.Module
---@overload fun(fade_in_len?: integer, fade_out_len?: integer, fade_shape?: string): nn.Module
M.Fade = define("Fade", [[fade_in_len: integer = 0, fade_out_len: integer = 0,
   fade_shape: string = 'linear']],
   function(self, waveform)
      local title = "audio.transforms.Fade"
      checks.waveform(title, waveform)
      local n = waveform:size(-1)
      local options = {dtype = waveform.dtype, device = waveform.device}
      local function curve(length)
         if length > n then
            args.refuse(title, "waveform", ("at least %d samples"):format(length), waveform)
         end
         local t = torch.linspace(0, 1, length, options)
         return shapes[self.fade_shape](t):clamp(0, 1)
      end
      local rise, fall = curve(self.fade_in_len), curve(self.fade_out_len):flip(1)
      local gain = torch.cat {rise, torch.ones(n - self.fade_in_len, options)}
      return waveform * (gain * torch.cat {torch.ones(n - self.fade_out_len, options), fall})
   end, function(_, a, title)
      checks.at_least(title, "fade_in_len", a.fade_in_len, 0)
      checks.at_least(title, "fade_out_len", a.fade_out_len, 0)
      checks.among(title, "fade_shape", a.fade_shape, shapes)
   end)

local gains <const> = {amplitude = true, power = true, db = true}

--- Multiplies waveforms by a gain and clamps them to -1 to 1. `gain_type` is "amplitude" (the
--- default), "power" or "db".
---
---     print(torch.audio.transforms.Vol(6, "db")(torch.tensor {0.1}))
---     --> tensor([0.1995])
---@class audio.transforms.Vol: nn.Module
---@overload fun(gain: number, gain_type?: string): nn.Module
M.Vol = define("Vol", "gain: number, gain_type: string = 'amplitude'",
   function(self, waveform)
      checks.real("audio.transforms.Vol", "waveform", waveform, 0, "(..., time)")
      if self.gain_type == "db" then
         waveform = functional.gain(waveform, self.gain)
      elseif self.gain_type == "power" then
         waveform = functional.gain(waveform, 10 * math.log(self.gain, 10))
      else
         waveform = waveform * self.gain
      end
      return waveform:clamp(-1, 1)
   end, function(_, a, title)
      checks.among(title, "gain_type", a.gain_type, gains)
      if a.gain_type ~= "db" then checks.at_least(title, "gain", a.gain, 0) end
   end)

--- Measures loudness, as functional.loudness does.
---
---     local loudness = torch.audio.transforms.Loudness(16000)
---     print(loudness(torch.rand(2, 16000)):dim())
---     --> 0
---@class audio.transforms.Loudness: nn.Module
---@overload fun(sample_rate: integer): nn.Module
M.Loudness = define("Loudness", "sample_rate: integer",
   function(self, waveform) return functional.loudness(waveform, self.sample_rate) end)

local vad_names <const> = {}
for name in activity.parameters:gmatch "([%w_]+):" do vad_names[#vad_names + 1] = name end

--- Removes the part of a recording before speech begins, as functional.vad does, with the same
--- options.
---
---     local vad = torch.audio.transforms.Vad(16000)
---     print(vad(torch.zeros(1, 16000)).shape)
---     --> torch.Size([1, 0])
---@class audio.transforms.Vad: nn.Module
---@overload fun(sample_rate: integer, options?: table): nn.Module
M.Vad = define("Vad", activity.parameters, function(self, waveform)
   local options = {}
   for _, name in ipairs(vad_names) do options[name] = self[name] end
   return functional.vad(waveform, options)
end)

--- Encodes samples by mu-law, as functional.mu_law_encoding does.
---
---     print(torch.audio.transforms.MuLawEncoding()(torch.tensor {-1, 0.0, 1}))
---     --> tensor([  0, 128, 255])
---@class audio.transforms.MuLawEncoding: nn.Module
---@overload fun(quantization_channels?: integer): nn.Module
M.MuLawEncoding = define("MuLawEncoding", "quantization_channels: integer = 256",
   function(self, x) return functional.mu_law_encoding(x, self.quantization_channels) end)

--- Decodes mu-law levels, as functional.mu_law_decoding does.
---
---     print(torch.audio.transforms.MuLawDecoding()(torch.tensor {0, 255}))
---     --> tensor([-1.,  1.])
---@class audio.transforms.MuLawDecoding: nn.Module
---@overload fun(quantization_channels?: integer): nn.Module
M.MuLawDecoding = define("MuLawDecoding", "quantization_channels: integer = 256",
   function(self, x_mu) return functional.mu_law_decoding(x_mu, self.quantization_channels) end)

--- Subtracts the previous sample, multiplied by `coeff`, from each sample, as
--- functional.preemphasis does.
---
---     print(torch.audio.transforms.Preemphasis(0.5)(torch.tensor {1.0, 1, 1}))
---     --> tensor([1.0000, 0.5000, 0.5000])
---@class audio.transforms.Preemphasis: nn.Module
---@overload fun(coeff?: number): nn.Module
M.Preemphasis = define("Preemphasis", "coeff: number = 0.97",
   function(self, waveform) return functional.preemphasis(waveform, self.coeff) end)

--- Undoes Preemphasis, as functional.deemphasis does.
---
---     print(torch.audio.transforms.Deemphasis(0.5)(torch.tensor {0.5, 0.0, 0}))
---     --> tensor([0.5000, 0.2500, 0.1250])
---@class audio.transforms.Deemphasis: nn.Module
---@overload fun(coeff?: number): nn.Module
M.Deemphasis = define("Deemphasis", "coeff: number = 0.97",
   function(self, waveform) return functional.deemphasis(waveform, self.coeff) end)

local function check_mode(_, a, title) wave_functions.check_mode(title, a.mode) end

--- Convolves two waveforms, as functional.convolve does.
---
---     local convolve = torch.audio.transforms.Convolve "same"
---     print(convolve(torch.tensor {1.0, 2, 3}, torch.tensor {1.0, 1, 1}))
---     --> tensor([3., 6., 5.])
---@class audio.transforms.Convolve: nn.Module
---@overload fun(mode?: string): nn.Module
M.Convolve = define("Convolve", "mode: string = 'full'",
   function(self, x, y) return functional.convolve(x, y, self.mode) end, check_mode)

--- Convolves two waveforms by Fourier transforms, as functional.fftconvolve does.
---
---     local convolve = torch.audio.transforms.FFTConvolve()
---     print(convolve(torch.ones(3), torch.ones(2)):round())
---     --> tensor([1., 2., 2., 1.])
---@class audio.transforms.FFTConvolve: nn.Module
---@overload fun(mode?: string): nn.Module
M.FFTConvolve = define("FFTConvolve", "mode: string = 'full'",
   function(self, x, y) return functional.fftconvolve(x, y, self.mode) end, check_mode)

--- Adds noise at a given ratio of signal to noise, as functional.add_noise does.
---
---     local add_noise = torch.audio.transforms.AddNoise()
---     local x = torch.ones(1, 4)
---     print(add_noise(x, x * 3, torch.tensor {0.0}))
---     --> tensor([[2., 2., 2., 2.]])
---@class audio.transforms.AddNoise: nn.Module
---@overload fun(): nn.Module
M.AddNoise = define("AddNoise", "", function(_, waveform, noise, snr, lengths)
   return functional.add_noise(waveform, noise, snr, lengths)
end)

--- Computes the loss of a recurrent transducer, as functional.rnnt_loss does.
---
---     local loss = torch.audio.transforms.RNNTLoss {reduction = "sum"}
---     local cost = loss(torch.zeros(1, 2, 2, 3), torch.tensor {{1}},
---        torch.tensor {2}, torch.tensor {1})
---     print(("%.4f"):format(cost:item()))
---     --> 2.6027
---@class audio.transforms.RNNTLoss: nn.Module
---@overload fun(blank?: integer, clamp?: number, options?: table): nn.Module
M.RNNTLoss = define("RNNTLoss", [[blank: integer = -1, clamp: number = -1,
   reduction: string = 'mean', fused_log_softmax: boolean = true]],
   function(self, logits, targets, logit_lengths, target_lengths)
      return functional.rnnt_loss(logits, targets, logit_lengths, target_lengths, self.blank,
         self.clamp, self.reduction, self.fused_log_softmax)
   end)

return M
