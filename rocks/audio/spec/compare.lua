-- compare.lua - compares the functions and transforms of torch.audio with torchaudio's results, which
-- fixtures/functional.py has recorded. Run as a program, this file prints a table of the largest differences of results
-- in float64 and float32, and of gradients, relative to the largest value:
--
--    build/tlua rocks/audio/spec/compare.lua [FILE]

local torch = require "tlua"

local f, T = torch.audio.functional, torch.audio.transforms

local M = {}

--- Returns a table of functions without arguments, with the names of functional.py. Each calls a function or a
--- transform of torch.audio with the inputs.
---@param i table<string, Tensor>  the inputs
---@return table<string, function>
function M.calls(i)
   local x, y, spec, comp = i.x, i.y, i.spec, i.comp
   local real = x.dtype
   local options = {dtype = real, device = x.device}
   local hann, win = torch.hann_window(200, options), torch.hamming_window(160, options)
   local advance = torch.linspace(0, math.pi * 80, 101, options):unsqueeze(2)
   local mel = {n_fft = 200, hop_length = 80, n_mels = 23}
   local function of(module, ...)
      if real == "float64" then module:double() end
      return module:to(x.device)(...)
   end
   local loud = torch.cat({x, x, x, x, x, x, x, x, x}, 2)
   -- torchaudio's tokens count from 0, so 1 is added
   local targets, chain = i.targets + 1, torch.tensor({{2, 3, 3, 5}}, {device = x.device})
   local function masks() return torch.stack {i.mask, i.mask * 0.5, 1 - i.mask} end
   return {
      spectrogram = function() return f.spectrogram(x, 0, hann, 200, 80, 200, 2, false) end,
      spectrogram_magnitude = function()
         return f.spectrogram(x, 5, win, 200, 80, 160, 1, "window", {pad_mode = "constant"})
      end,
      spectrogram_cubed = function()
         return f.spectrogram(x, 0, win, 200, 80, 160, 3, "frame_length", {center = false})
      end,
      spectrogram_complex = function()
         return f.spectrogram(x, 0, hann, 200, 80, 200, nil, true, {onesided = false})
      end,
      inverse_spectrogram = function() return f.inverse_spectrogram(comp, 600, 0, hann, 200, 80, 200, true) end,
      griffinlim = function() return f.griffinlim(spec, hann, 200, 80, 200, 2, 8, 0.9, nil, false) end,
      amplitude_to_DB = function() return f.amplitude_to_DB(spec, 10, 1e-10, 0.3) end,
      amplitude_to_DB_top = function() return f.amplitude_to_DB(spec, 20, 1e-10, 0, 20) end,
      DB_to_amplitude = function() return f.DB_to_amplitude(spec * 10, 0.7, 0.5) end,
      phase_vocoder = function() return f.phase_vocoder(comp, 1.3, advance) end,
      phase_vocoder_slow = function() return f.phase_vocoder(comp, 0.7, advance) end,
      spectral_centroid = function() return f.spectral_centroid(x, 16000, 0, hann, 200, 80, 200) end,
      detect_pitch_frequency = function() return f.detect_pitch_frequency(i.long, 8000) end,
      melscale_fbanks = function() return f.melscale_fbanks(101, 30, 7000, 23, 16000) end,
      melscale_fbanks_slaney = function() return f.melscale_fbanks(101, 30, 7000, 23, 16000, "slaney", "slaney") end,
      linear_fbanks = function() return f.linear_fbanks(101, 30, 7000, 23, 16000) end,
      create_dct = function() return f.create_dct(13, 23, "ortho") end,
      create_dct_plain = function() return f.create_dct(13, 23) end,
      compute_deltas = function() return f.compute_deltas(spec, 7) end,
      sliding_window_cmn = function() return f.sliding_window_cmn(i.features, 10, 5, false, true) end,
      sliding_window_cmn_center = function() return f.sliding_window_cmn(i.features, 10, 5, true, false) end,
      resample = function() return f.resample(x, 16000, 11025) end,
      resample_up = function() return f.resample(x, 8000, 44100, 8, 0.9) end,
      resample_kaiser = function() return f.resample(x, 3, 4, 16, 0.95, "sinc_interp_kaiser") end,
      speed = function() return (f.speed(x, 16000, 1.1, i.lengths)) end,
      speed_lengths = function() return (select(2, f.speed(x, 16000, 1.1, i.lengths))) end,
      pitch_shift = function()
         return f.pitch_shift(x, 16000, 4, {n_fft = 256, window = torch.hann_window(256, options)})
      end,
      lfilter = function() return f.lfilter(x, i.a4, i.b4, {clamp = false}) end,
      lfilter_bank = function() return f.lfilter(x, i.a2, i.b2) end,
      lfilter_each = function() return f.lfilter(x, i.a2, i.b2, {batching = false}) end,
      filtfilt = function() return f.filtfilt(x, i.a4, i.b4) end,
      preemphasis = function() return f.preemphasis(x, 0.9) end,
      deemphasis = function() return f.deemphasis(x, 0.9) end,
      biquad = function() return f.biquad(x, 0.4, 0.2, 0.9, 1.0, 0.2, 0.6) end,
      allpass_biquad = function() return f.allpass_biquad(x, 16000, 1000) end,
      band_biquad = function() return f.band_biquad(x, 16000, 1000, 0.8) end,
      band_biquad_noise = function() return f.band_biquad(x, 16000, 1000, 0.8, true) end,
      bandpass_biquad = function() return f.bandpass_biquad(x, 16000, 1000) end,
      bandpass_biquad_skirt = function() return f.bandpass_biquad(x, 16000, 1000, 2, true) end,
      bandreject_biquad = function() return f.bandreject_biquad(x, 16000, 1000) end,
      bass_biquad = function() return f.bass_biquad(x, 16000, 6) end,
      treble_biquad = function() return f.treble_biquad(x, 16000, -5) end,
      equalizer_biquad = function() return f.equalizer_biquad(x, 16000, 800, 4) end,
      highpass_biquad = function() return f.highpass_biquad(x, 16000, 300) end,
      lowpass_biquad = function() return f.lowpass_biquad(x, 16000, 300) end,
      riaa_biquad = function() return f.riaa_biquad(x, 44100) end,
      deemph_biquad = function() return f.deemph_biquad(x, 48000) end,
      contrast = function() return f.contrast(x, 50) end,
      dcshift = function() return f.dcshift(x, 0.4) end,
      dcshift_up = function() return f.dcshift(x, 0.7, 0.05) end,
      dcshift_down = function() return f.dcshift(x, -0.7, 0.05) end,
      dither = function() return f.dither(x) end,
      dither_shaped = function() return f.dither(x, "TPDF", true) end,
      gain = function() return f.gain(x, -3) end,
      overdrive = function() return f.overdrive(x, 15, 30) end,
      phaser = function() return f.phaser(x, 8000) end,
      phaser_triangle = function() return f.phaser(x, 8000, 0.6, 0.8, 2, 0.5, 2, false) end,
      flanger = function() return f.flanger(x, 8000) end,
      flanger_feedback = function()
         return f.flanger(x, 8000, 1, 3, 40, 60, 3, 50, "triangular", "quadratic")
      end,
      flanger_short = function() return f.flanger(x, 8000, 0, 1, -60) end,
      convolve = function() return f.convolve(x, y) end,
      convolve_valid = function() return f.convolve(y, x, "valid") end,
      convolve_long = function() return f.convolve(x, i.noise, "same") end,
      fftconvolve = function() return f.fftconvolve(x, y, "same") end,
      add_noise = function() return f.add_noise(x, i.noise, i.snr) end,
      add_noise_lengths = function() return f.add_noise(x, i.noise, i.snr, i.lengths) end,
      loudness = function() return f.loudness(loud, 4000) end,
      mu_law_encoding = function() return f.mu_law_encoding(x, 256) end,
      mu_law_decoding = function() return f.mu_law_decoding(x * 100 + 128, 256) end,
      frechet_distance = function()
         return f.frechet_distance(i.weights, torch.eye(3, options) * 2, i.weights * 2,
            torch.diag(i.weights) + 0.1)
      end,
      psd = function() return f.psd(i.mic, i.mask) end,
      psd_plain = function() return f.psd(i.mic) end,
      mvdr_weights_souden = function() return f.mvdr_weights_souden(i.psd_s, i.psd_n, 2) end,
      mvdr_weights_souden_soft = function() return f.mvdr_weights_souden(i.psd_s, i.psd_n, i.weights) end,
      mvdr_weights_rtf = function() return f.mvdr_weights_rtf(f.rtf_power(i.psd_s, i.psd_n, 1), i.psd_n, 3) end,
      rtf_evd = function()
         local rtf = f.rtf_evd(i.psd_s) -- an eigenvector is unique only up to a phase, which this product removes
         return rtf:unsqueeze(-1) * rtf:conj():unsqueeze(-2)
      end,
      rtf_power = function() return f.rtf_power(i.psd_s, i.psd_n, 2, 4) end,
      apply_beamforming = function() return f.apply_beamforming(f.rtf_power(i.psd_s, i.psd_n, 1), i.mic) end,
      rnnt_loss = function() return f.rnnt_loss(i.logits, targets, i.frames, i.chars, {reduction = "none"}) end,
      rnnt_loss_clamped = function() return f.rnnt_loss(i.logits, targets, i.frames, i.chars, 5, 0.1, "sum") end,
      forced_align = function() return (f.forced_align(i.emission, chain)) - 1 end,
      forced_align_scores = function() return (select(2, f.forced_align(i.emission, chain))) end,
      vad = function() return f.vad(i.long:float(), 8000, {trigger_level = 6.0}) end,
      Spectrogram = function() return of(T.Spectrogram(200), x) end,
      InverseSpectrogram = function() return of(T.InverseSpectrogram(200, {hop_length = 80}), comp, 600) end,
      GriffinLim = function() return of(T.GriffinLim(200, 5, {rand_init = false}), spec) end,
      AmplitudeToDB = function() return T.AmplitudeToDB("magnitude", 30)(spec) end,
      MelScale = function() return of(T.MelScale(23, 16000, {n_stft = 101}), spec) end,
      InverseMelScale = function() return of(T.InverseMelScale(101, 23), spec:narrow(2, 1, 23)) end,
      MelSpectrogram = function() return of(T.MelSpectrogram(16000, mel), x) end,
      MelSpectrogram_slaney = function()
         return of(T.MelSpectrogram {n_fft = 200, hop_length = 80, n_mels = 23, norm = "slaney",
            mel_scale = "slaney", power = 1}, x)
      end,
      MFCC = function() return of(T.MFCC(16000, 13, {melkwargs = mel}), x) end,
      MFCC_log = function() return of(T.MFCC(16000, 13, {log_mels = true, melkwargs = mel}), x) end,
      LFCC = function() return of(T.LFCC(16000, 23, {n_lfcc = 13, speckwargs = {n_fft = 200}}), x) end,
      SpectralCentroid = function() return of(T.SpectralCentroid(16000, 200), x) end,
      TimeStretch = function() return of(T.TimeStretch(80, 101, 1.2), comp) end,
      ComputeDeltas = function() return T.ComputeDeltas()(spec) end,
      SlidingWindowCmn = function() return T.SlidingWindowCmn(10, 5)(i.features) end,
      Resample = function() return of(T.Resample(16000, 8000, {dtype = real}), x) end,
      PitchShift = function() return T.PitchShift(16000, -3, {n_fft = 256}):to(x.device)(x:float()) end,
      Speed = function() return (of(T.Speed(16000, 0.9), x)) end,
      Fade = function() return T.Fade(100, 150)(x) end,
      Fade_exponential = function() return T.Fade(100, 150, "exponential")(x) end,
      Fade_logarithmic = function() return T.Fade(100, 150, "logarithmic")(x) end,
      Fade_quarter_sine = function() return T.Fade(100, 150, "quarter_sine")(x) end,
      Fade_half_sine = function() return T.Fade(100, 150, "half_sine")(x) end,
      Vol = function() return T.Vol(2)(x) end,
      Vol_db = function() return T.Vol(3, "db")(x) end,
      Vol_power = function() return T.Vol(3, "power")(x) end,
      Loudness = function() return T.Loudness(4000)(loud) end,
      Vad = function() return T.Vad(8000, {trigger_level = 6})(i.long:float()) end,
      MuLawEncoding = function() return T.MuLawEncoding(64)(x) end,
      MuLawDecoding = function() return T.MuLawDecoding(64)(torch.arange(64)) end,
      Preemphasis = function() return T.Preemphasis()(x) end,
      Deemphasis = function() return T.Deemphasis()(x) end,
      Convolve = function() return T.Convolve "valid"(x, y) end,
      FFTConvolve = function() return T.FFTConvolve()(x, y) end,
      AddNoise = function() return T.AddNoise()(x, i.noise, i.snr) end,
      RNNTLoss = function() return T.RNNTLoss()(i.logits, targets, i.frames, i.chars) end,
      PSD = function() return T.PSD(true)(i.mic, masks()) end,
      MVDR = function() return T.MVDR()(i.mic, i.mask) end,
      MVDR_evd = function() return T.MVDR(2, "stv_evd")(i.mic, i.mask, 1 - i.mask) end,
      MVDR_power = function() return T.MVDR(3, "stv_power", {multi_mask = true})(i.mic, masks()) end,
      RTFMVDR = function() return T.RTFMVDR()(i.mic, f.rtf_power(i.psd_s, i.psd_n, 1), i.psd_n, 2) end,
      SoudenMVDR = function() return T.SoudenMVDR()(i.mic, i.psd_s, i.psd_n, 2) end,
   }
end

local narrow <const> = {float64 = "float32", complex128 = "complex64"}

--- Returns copies of the recorded inputs on a device, in double precision, or in single precision if dtype is
--- "float32".
---@param saved table
---@param dtype string
---@param device? string
---@return table<string, Tensor>
function M.inputs(saved, dtype, device)
   local list = {}
   for name, value in pairs(saved.inputs) do
      value = value:to(device or "cpu"):clone()
      if dtype == "float32" and narrow[value.dtype] then value = value:to(narrow[value.dtype]) end
      list[name] = value
   end
   return list
end

--- Returns the largest difference of two tensors, relative to the largest absolute value of the expected tensor.
---@return number
function M.difference(expected, actual)
   local shapes = {table.concat(expected.shape, ","), table.concat(actual.shape, ",")}
   assert(shapes[1] == shapes[2], ("expected the shape (%s), got (%s)"):format(shapes[1], shapes[2]))
   if expected:numel() == 0 then return 0 end
   local function plain(x) return (x:is_complex() and x:view_as_real() or x):detach():cpu():double() end
   expected, actual = plain(expected), plain(actual)
   return (expected - actual):abs():max():item() / math.max(expected:abs():max():item(), 1e-12)
end

--- Returns the largest difference between the gradients of the call with the given name and the recorded gradients.
--- Returns nil if no gradients were recorded.
---@return number?
function M.gradients(saved, name, device)
   if not saved.gradients[name] then return nil end
   local inputs = M.inputs(saved, "float64", device)
   for key in pairs(saved.gradients[name]) do inputs[key]:requires_grad_() end
   local result = M.calls(inputs)[name]()
   local real = result:is_complex() and result:view_as_real() or result
   local weight = torch.cos(torch.arange(real:numel(), {dtype = "float64", device = real.device})):view(real.shape)
   ;(real * weight):sum():backward()
   local most = 0
   for key, expected in pairs(saved.gradients[name]) do
      most = math.max(most, M.difference(expected, inputs[key].grad))
   end
   return most
end

if not (arg and arg[0] and arg[0]:find "compare%.lua$") then return M end

local saved = torch.load(arg[1] or "rocks/audio/spec/fixtures/functional.pt")
local names = {}
for name in pairs(saved.results) do names[#names + 1] = name end
table.sort(names)
print(("%-28s %9s %9s %9s"):format("", "float64", "float32", "gradient"))
for _, name in ipairs(names) do
   local cells = {}
   for k, dtype in ipairs {"float64", "float32"} do
      local ok, value = pcall(function()
         return M.difference(saved.results[name], M.calls(M.inputs(saved, dtype))[name]())
      end)
      cells[k] = ok and ("%9.1e"):format(value) or tostring(value)
   end
   local ok, value = pcall(M.gradients, saved, name)
   cells[3] = ok and (value and ("%9.1e"):format(value) or "-") or tostring(value)
   print(("%-28s %9s %9s %9s"):format(name, table.unpack(cells)))
end
