-- spectra.lua - transforms that compute or change spectrograms.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local define = require "tlua.audio.transforms.define"

local functional = torch.audio.functional

local M = {}

-- Sets win_length and hop_length to their defaults if they are nil, and registers the window as a
-- buffer.
local function prepare_window(self, a, title)
   checks.at_least(title, "n_fft", a.n_fft, 1)
   self.win_length = a.win_length or a.n_fft
   checks.at_least(title, "win_length", self.win_length, 1)
   if self.win_length > a.n_fft then
      args.refuse(title, "win_length", ("at most n_fft, %d"):format(a.n_fft), self.win_length)
   end
   self.hop_length = a.hop_length or self.win_length // 2
   checks.at_least(title, "hop_length", self.hop_length, 1)
   local make = a.window_fn or torch.hann_window
   local window = a.wkwargs and make(self.win_length, a.wkwargs) or make(self.win_length)
   self.window_fn, self.wkwargs = nil, nil
   self:register_buffer("window", window)
end

local frames <const> = [[n_fft: integer = 400, win_length: integer?, hop_length: integer?,
   pad: integer = 0, window_fn: callable?, ]]

--- Computes spectrograms of waveforms, as functional.spectrogram does. `power` is 2 by default;
--- false returns complex spectrograms.
---
---     local spectrogram = torch.audio.transforms.Spectrogram {n_fft = 400}
---     print(spectrogram(torch.zeros(2, 1000)).shape)
---     --> torch.Size([2, 201, 6])
---@class audio.transforms.Spectrogram: nn.Module
---@field window Tensor  (win_length)
---@overload fun(n_fft?: integer, options?: table): nn.Module
M.Spectrogram = define("Spectrogram", frames .. [[power: number|boolean = 2,
   normalized: any = false, wkwargs: table?, center: boolean = true,
   pad_mode: string = 'reflect', onesided: boolean = true]],
   function(self, waveform)
      return functional.spectrogram(waveform, self.pad, self.window, self.n_fft, self.hop_length,
         self.win_length, self.power or nil, self.normalized, self.center, self.pad_mode,
         self.onesided)
   end, prepare_window)

--- Computes waveforms from complex spectrograms. The optional second argument of a call is the
--- waveform's length.
---
---     local T = torch.audio.transforms
---     local x = torch.randn(1000)
---     local y = T.InverseSpectrogram()(T.Spectrogram {power = false}(x), 1000)
---     print((x - y):abs():max():item() < 1e-5)
---     --> true
---@class audio.transforms.InverseSpectrogram: nn.Module
---@field window Tensor  (win_length)
---@overload fun(n_fft?: integer, options?: table): nn.Module
M.InverseSpectrogram = define("InverseSpectrogram", frames .. [[normalized: any = false,
   wkwargs: table?, center: boolean = true, pad_mode: string = 'reflect',
   onesided: boolean = true]],
   function(self, spectrogram, length)
      return functional.inverse_spectrogram(spectrogram, length, self.pad, self.window, self.n_fft,
         self.hop_length, self.win_length, self.normalized, self.center, self.pad_mode,
         self.onesided)
   end, prepare_window)

--- Computes waveforms from spectrograms without phases, as functional.griffinlim does.
---
---     local griffin_lim = torch.audio.transforms.GriffinLim {n_iter = 4}
---     print(griffin_lim(torch.rand(201, 6)).shape)
---     --> torch.Size([1000])
---@class audio.transforms.GriffinLim: nn.Module
---@field window Tensor  (win_length)
---@overload fun(n_fft?: integer, n_iter?: integer, options?: table): nn.Module
M.GriffinLim = define("GriffinLim", [[n_fft: integer = 400, n_iter: integer = 32,
   win_length: integer?, hop_length: integer?, window_fn: callable?, power: number = 2,
   wkwargs: table?, momentum: number = 0.99, length: integer?, rand_init: boolean = true]],
   function(self, specgram)
      return functional.griffinlim(specgram, self.window, self.n_fft, self.hop_length,
         self.win_length, self.power, self.n_iter, self.momentum, self.length, self.rand_init)
   end, function(self, a, title)
      if not (a.momentum >= 0 and a.momentum < 1) then
         args.refuse(title, "momentum", "at least 0 and below 1", a.momentum)
      end
      prepare_window(self, a, title)
   end)

--- Converts powers (`stype` "power", the default) or magnitudes ("magnitude") to dB.
---
---     local to_db = torch.audio.transforms.AmplitudeToDB()
---     print(to_db(torch.tensor {{1.0, 10, 100}}))
---     --> tensor([[ 0., 10., 20.]])
---@class audio.transforms.AmplitudeToDB: nn.Module
---@overload fun(stype?: string, top_db?: number): nn.Module
M.AmplitudeToDB = define("AmplitudeToDB", "stype: string = 'power', top_db: number?",
   function(self, x)
      local multiplier = self.stype == "power" and 10 or 20
      return functional.amplitude_to_DB(x, multiplier, 1e-10, 0, self.top_db)
   end, function(_, a, title)
      checks.among(title, "stype", a.stype, {power = true, magnitude = true})
      if a.top_db then checks.at_least(title, "top_db", a.top_db, 0) end
   end)

local bands <const> = [[n_mels: integer = 128, sample_rate: integer = 16000, f_min: number = 0,
   f_max: number?, ]]

-- Registers the weights of the mel bands as the buffer `fb`.
local function prepare_bands(self, a, title)
   checks.positive(title, "sample_rate", a.sample_rate)
   checks.at_least(title, "n_mels", a.n_mels, 1)
   self.f_max = a.f_max or a.sample_rate // 2 + 0.0
   if not (a.f_min >= 0 and a.f_min <= self.f_max) then
      args.refuse(title, "f_min", ("a frequency from 0 to f_max, %s"):format(self.f_max), a.f_min)
   end
   self:register_buffer("fb", functional.melscale_fbanks(a.n_stft, a.f_min, self.f_max, a.n_mels,
      a.sample_rate, a.norm, a.mel_scale))
end

--- Sums frequencies into mel bands.
---
---     local mel_scale = torch.audio.transforms.MelScale {n_mels = 40}
---     print(mel_scale(torch.rand(2, 201, 6)).shape)
---     --> torch.Size([2, 40, 6])
---@class audio.transforms.MelScale: nn.Module
---@field fb Tensor  (n_stft, n_mels)
---@overload fun(n_mels?: integer, sample_rate?: integer, options?: table): nn.Module
M.MelScale = define("MelScale", bands .. [[n_stft: integer = 201, norm: string?,
   mel_scale: string = 'htk']],
   function(self, specgram)
      if not torch.is_tensor(specgram) or specgram:dim() < 2
            or specgram:size(-2) ~= self.fb:size(1) then
         args.refuse("audio.transforms.MelScale", "specgram", ("%d frequencies, (..., %d, time)")
            :format(self.fb:size(1), self.fb:size(1)), specgram)
      end
      return self.fb:t():matmul(specgram)
   end, prepare_bands)

--- Estimates spectrograms from mel spectrograms by least squares.
---
---     local inverse = torch.audio.transforms.InverseMelScale(201, 40)
---     print(inverse(torch.rand(40, 6)).shape)
---     --> torch.Size([201, 6])
---@class audio.transforms.InverseMelScale: nn.Module
---@field fb Tensor  (n_stft, n_mels)
---@overload fun(n_stft: integer, n_mels?: integer, options?: table): nn.Module
M.InverseMelScale = define("InverseMelScale", "n_stft: integer, " .. bands .. [[norm: string?,
   mel_scale: string = 'htk', driver: string = 'gels']],
   function(self, melspec)
      if not torch.is_tensor(melspec) or melspec:dim() < 2
            or melspec:size(-2) ~= self.n_mels then
         args.refuse("audio.transforms.InverseMelScale", "melspec",
            ("%d mel bands, (..., %d, time)"):format(self.n_mels, self.n_mels), melspec)
      end
      local x, restore = checks.batch(melspec, 2)
      local matrix = self.fb:t():to(x.dtype):expand(x:size(1), self.n_mels, self.n_stft)
      local solution = torch.linalg.lstsq(matrix, x, {driver = self.driver})
      return restore(torch.relu(torch.is_tensor(solution) and solution or solution.solution))
   end, function(self, a, title)
      checks.among(title, "driver", a.driver, {gels = true, gelsy = true, gelsd = true,
         gelss = true})
      prepare_bands(self, a, title)
   end)

local mel_frames <const> = [[sample_rate: integer = 16000, n_fft: integer = 400,
   win_length: integer?, hop_length: integer?, f_min: number = 0, f_max: number?,
   pad: integer = 0, n_mels: integer = 128, window_fn: callable?, power: number = 2,
   normalized: any = false, wkwargs: table?, center: boolean = true,
   pad_mode: string = 'reflect', onesided: boolean?, norm: string?, mel_scale: string = 'htk']]

--- Computes mel spectrograms of waveforms: a Spectrogram followed by a MelScale.
---
---     local mel = torch.audio.transforms.MelSpectrogram {n_mels = 40}
---     print(mel(torch.zeros(2, 1000)).shape)
---     --> torch.Size([2, 40, 6])
---@class audio.transforms.MelSpectrogram: nn.Module
---@field spectrogram nn.Module  makes the spectrogram
---@field mel_scale nn.Module  sums frequencies into bands
---@overload fun(sample_rate?: integer, options?: table): nn.Module
M.MelSpectrogram = define("MelSpectrogram", mel_frames,
   function(self, waveform) return self.mel_scale(self.spectrogram(waveform)) end,
   function(self, a)
      self.spectrogram = M.Spectrogram {n_fft = a.n_fft, win_length = a.win_length,
         hop_length = a.hop_length, pad = a.pad, window_fn = a.window_fn, power = a.power,
         normalized = a.normalized, wkwargs = a.wkwargs, center = a.center, pad_mode = a.pad_mode}
      self.win_length, self.hop_length = self.spectrogram.win_length, self.spectrogram.hop_length
      self.window_fn, self.wkwargs = nil, nil
      self.mel_scale = M.MelScale {n_mels = a.n_mels, sample_rate = a.sample_rate,
         f_min = a.f_min, f_max = a.f_max, n_stft = a.n_fft // 2 + 1, norm = a.norm,
         mel_scale = a.mel_scale}
   end)

-- Returns the cepstral coefficients of the powers of bands, x (..., band, time).
local function cepstrum(self, x, is_log)
   x = is_log and torch.log(x + 1e-6) or self.amplitude_to_DB(x)
   return self.dct_mat:t():matmul(x)
end

local function prepare_cepstrum(self, a, title, count, bins)
   if a.dct_type ~= 2 then args.refuse(title, "dct_type", "2", a.dct_type) end
   self.top_db = 80.0
   self.amplitude_to_DB = M.AmplitudeToDB("power", self.top_db)
   self:register_buffer("dct_mat", functional.create_dct(count, bins,
      a.norm ~= "none" and a.norm or nil))
end

--- Computes mel-frequency cepstral coefficients of waveforms. `melkwargs` are options of
--- MelSpectrogram.
---
---     local mfcc = torch.audio.transforms.MFCC {n_mfcc = 13}
---     print(mfcc(torch.zeros(2, 1000)).shape)
---     --> torch.Size([2, 13, 6])
---@class audio.transforms.MFCC: nn.Module
---@field MelSpectrogram nn.Module  computes the mel spectrogram
---@field dct_mat Tensor  (n_mels, n_mfcc)
---@overload fun(sample_rate?: integer, n_mfcc?: integer, options?: table): nn.Module
M.MFCC = define("MFCC", [[sample_rate: integer = 16000, n_mfcc: integer = 40,
   dct_type: integer = 2, norm: string = 'ortho', log_mels: boolean = false, melkwargs: table?]],
   function(self, waveform)
      return cepstrum(self, self.MelSpectrogram(waveform), self.log_mels)
   end,
   function(self, a, title)
      self.MelSpectrogram = M.MelSpectrogram(a.sample_rate, a.melkwargs or {})
      self.melkwargs = nil
      local n_mels = self.MelSpectrogram.n_mels
      if a.n_mfcc > n_mels then
         args.refuse(title, "n_mfcc", ("at most n_mels, %d"):format(n_mels), a.n_mfcc)
      end
      prepare_cepstrum(self, a, title, a.n_mfcc, n_mels)
   end)

--- Computes cepstral coefficients of bands of equal width. `speckwargs` are options of Spectrogram.
---
---     local lfcc = torch.audio.transforms.LFCC {n_lfcc = 13}
---     print(lfcc(torch.zeros(2, 1000)).shape)
---     --> torch.Size([2, 13, 6])
---@class audio.transforms.LFCC: nn.Module
---@field Spectrogram nn.Module  makes the spectrogram
---@field filter_mat Tensor  (freq, n_filter)
---@field dct_mat Tensor  (n_filter, n_lfcc)
---@overload fun(sample_rate?: integer, n_filter?: integer, options?: table): nn.Module
M.LFCC = define("LFCC", [[sample_rate: integer = 16000, n_filter: integer = 128,
   f_min: number = 0, f_max: number?, n_lfcc: integer = 40, dct_type: integer = 2,
   norm: string = 'ortho', log_lf: boolean = false, speckwargs: table?]],
   function(self, waveform)
      return cepstrum(self, self.filter_mat:t():matmul(self.Spectrogram(waveform)), self.log_lf)
   end, function(self, a, title)
      self.Spectrogram = M.Spectrogram(a.speckwargs or {})
      self.speckwargs = nil
      self.f_max = a.f_max or a.sample_rate // 2 + 0.0
      local n_fft = self.Spectrogram.n_fft
      if a.n_lfcc > n_fft then
         args.refuse(title, "n_lfcc", ("at most n_fft, %d"):format(n_fft), a.n_lfcc)
      end
      self:register_buffer("filter_mat", functional.linear_fbanks(n_fft // 2 + 1, a.f_min,
         self.f_max, a.n_filter, a.sample_rate))
      prepare_cepstrum(self, a, title, a.n_lfcc, a.n_filter)
   end)

--- Computes the mean frequency of each frame, as functional.spectral_centroid does.
---
---     local centroid = torch.audio.transforms.SpectralCentroid(16000)
---     print(centroid(torch.rand(2, 1000)).shape)
---     --> torch.Size([2, 6])
---@class audio.transforms.SpectralCentroid: nn.Module
---@field window Tensor  (win_length)
---@overload fun(sample_rate: integer, n_fft?: integer, options?: table): nn.Module
M.SpectralCentroid = define("SpectralCentroid", "sample_rate: integer, " .. frames
   .. "wkwargs: table?",
   function(self, waveform)
      return functional.spectral_centroid(waveform, self.sample_rate, self.pad, self.window,
         self.n_fft, self.hop_length, self.win_length)
   end, prepare_window)

--- Speeds up complex spectrograms without changing their pitch. The optional second argument of a
--- call is the rate, instead of fixed_rate.
---
---     local stretch = torch.audio.transforms.TimeStretch {fixed_rate = 2.0}
---     print(stretch(torch.randn(201, 10, {dtype = "complex64"})).shape)
---     --> torch.Size([201, 5])
---@class audio.transforms.TimeStretch: nn.Module
---@field phase_advance Tensor  (n_freq, 1)
---@overload fun(hop_length?: integer, n_freq?: integer, fixed_rate?: number): nn.Module
M.TimeStretch = define("TimeStretch", [[hop_length: integer?, n_freq: integer = 201,
   fixed_rate: number?]],
   function(self, complex_specgrams, overriding_rate)
      local rate = overriding_rate or self.fixed_rate
      if not rate then
         torch.raise("audio.transforms.TimeStretch: overriding_rate is missing, since there is no "
            .. "fixed_rate")
      end
      return functional.phase_vocoder(complex_specgrams, rate, self.phase_advance)
   end, function(self, a, title)
      checks.at_least(title, "n_freq", a.n_freq, 2)
      local hop = a.hop_length or a.n_freq - 1
      self:register_buffer("phase_advance", torch.linspace(0, math.pi * hop, a.n_freq):unsqueeze(2))
   end)

--- Computes the slopes of features over time, as functional.compute_deltas does.
---
---     print(torch.audio.transforms.ComputeDeltas()(torch.arange(6):float()))
---     --> tensor([0.5000, 0.8000, 1.0000, 1.0000, 0.8000, 0.5000])
---@class audio.transforms.ComputeDeltas: nn.Module
---@overload fun(win_length?: integer, mode?: string): nn.Module
M.ComputeDeltas = define("ComputeDeltas", "win_length: integer = 5, mode: string = 'replicate'",
   function(self, specgram)
      return functional.compute_deltas(specgram, self.win_length, self.mode)
   end)

--- Subtracts the mean of a window, as functional.sliding_window_cmn does.
---
---     local cmn = torch.audio.transforms.SlidingWindowCmn {cmn_window = 3}
---     print(cmn(torch.rand(10, 4)).shape)
---     --> torch.Size([10, 4])
---@class audio.transforms.SlidingWindowCmn: nn.Module
---@overload fun(cmn_window?: integer, options?: table): nn.Module
M.SlidingWindowCmn = define("SlidingWindowCmn", [[cmn_window: integer = 600,
   min_cmn_window: integer = 100, center: boolean = false, norm_vars: boolean = false]],
   function(self, specgram)
      return functional.sliding_window_cmn(specgram, self.cmn_window, self.min_cmn_window,
         self.center, self.norm_vars)
   end)

return M
