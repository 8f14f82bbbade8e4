-- Tests torch.audio.functional and torch.audio.transforms. Results and gradients in float64 must equal those of
-- torchaudio, which fixtures/functional.py has recorded.

package.path = "./?.lua;" .. package.path
local torch = require "tlua"
local compare = require "rocks.audio.spec.compare"
local device = require "spec.support.device"

local f, T = torch.audio.functional, torch.audio.transforms
local saved = torch.load "rocks/audio/spec/fixtures/functional.pt"

-- These cases need a larger tolerance because torchaudio computes a part of them in float32: the windows of modules,
-- and PitchShift. GriffinLim's iterations enlarge the difference.
local exact <const> = {GriffinLim = 1e-5, PitchShift = 1e-4}
-- In float32, rounding affects these cases more: the phases of random spectra reach thousands of radians, and some
-- filters have poles near 1.
local rough <const> = {phase_vocoder = 1e-3, phase_vocoder_slow = 1e-3, TimeStretch = 1e-3, bass_biquad = 1e-4,
   GriffinLim = 1e-4, griffinlim = 1e-4, pitch_shift = 1e-3, PitchShift = 1e-4, lowpass_biquad = 1e-4,
   riaa_biquad = 1e-4, deemphasis = 1e-4, Deemphasis = 1e-4}

describe("audio.functional and transforms", function()
   for name, expected in pairs(saved.results) do
      it("return torchaudio's results: " .. name, function()
         local result = compare.calls(compare.inputs(saved, "float64", device.name))[name]()
         assert.is_true(compare.difference(expected, result) <= (exact[name] or 2e-6))
         result = compare.calls(compare.inputs(saved, "float32", device.name))[name]()
         assert.is_true(compare.difference(expected, result) <= (rough[name] or 2e-5))
      end)
   end

   for name in pairs(saved.gradients) do
      it("have torchaudio's gradients: " .. name, function()
         local most = (name == "GriffinLim" or name == "PitchShift") and 1e-3 or 2e-5
         assert.is_true(compare.gradients(saved, name, device.name) <= most)
      end)
   end
end)

describe("derivatives", function()
   local options = {dtype = "float64", device = device.name}

   it("of filters are right to second order", function()
      local x = (torch.rand(2, 70, options) - 0.5):requires_grad_()
      local a = torch.tensor({1.1, -0.6, 0.3}, options):requires_grad_()
      local b = torch.tensor({0.4, 0.2, -0.1}, options):requires_grad_()
      local function run(w, p, q) return f.lfilter(w, p, q, {clamp = false}) end
      assert.is_true(torch.autograd.gradcheck(run, {x, a, b}))
      assert.is_true(torch.autograd.gradgradcheck(run, {x:narrow(2, 1, 40):detach():requires_grad_(), a, b}))
      assert.is_true(torch.autograd.gradcheck(function(w, q) return f.lowpass_biquad(w, 16000, 900, q) end,
         {x, torch.tensor({0.8}, options):requires_grad_()}))
   end)

   it("of other functions are right", function()
      local x = (torch.rand(2, 60, options) - 0.5):requires_grad_()
      for _, fn in ipairs {
         function(w) return f.resample(w, 3, 2) end, function(w) return f.overdrive(w) end,
         function(w) return f.phaser(w, 2000) end, function(w) return f.flanger(w, 2000, 1, 2, 30) end,
         function(w) return f.convolve(w, w:narrow(2, 1, 7)) end,
         function(w) return f.spectrogram(w, 0, torch.hann_window(20, options), 20, 10, 20, 2) end,
      } do assert.is_true(torch.autograd.gradcheck(fn, {x})) end
      local logits = torch.randn(2, 3, 3, 4, options):requires_grad_()
      local function loss(w)
         return f.rnnt_loss(w, torch.tensor({{1, 2}, {3, 1}}, {device = device.name}),
            torch.tensor({3, 2}, {device = device.name}), torch.tensor({2, 1}, {device = device.name}))
      end
      assert.is_true(torch.autograd.gradcheck(loss, {logits}))
      assert.is_true(torch.autograd.gradgradcheck(loss, {logits}))
   end)
end)

describe("audio.functional.lfilter", function()
   -- Filters with a simple loop over samples, whose results the implementation in blocks must equal.
   local function loop(x, a, b)
      local y = {}
      for n = 1, #x do
         local sum = 0
         for k = 1, #b do sum = sum + b[k] * (x[n - k + 1] or 0) end
         for k = 2, #a do sum = sum - a[k] * (y[n - k + 1] or 0) end
         y[n] = sum / a[1]
      end
      return torch.tensor(y, {dtype = "float64"})
   end

   it("equals a loop for all lengths and orders", function()
      for _, order in ipairs {0, 1, 2, 5, 40} do
         for _, n in ipairs {1, 2, 31, 32, 33, 64, 65, 500} do
            local a = torch.randn(order + 1, {dtype = "float64"}) * 0.3 / (order + 1)
            a[1] = 0.9
            local b, x = torch.randn(order + 1, {dtype = "float64"}), torch.randn(n, {dtype = "float64"})
            local y = f.lfilter(x, a, b, {clamp = false})
            local expected = loop(x:tolist(), a:tolist(), b:tolist())
            assert.is_true((y - expected):abs():max():item() <= 1e-9 * expected:abs():max():item())
         end
      end
   end)

   it("leaves samples before a NaN or an infinity as they are, and continues as the loop does", function()
      for _, bad in ipairs {0 / 0, 1 / 0, -1 / 0} do
         for _, a in ipairs {{1.0, -0.5}, {0.9, 0.3, -0.2}, {1.0, 0.0, 0.5}} do
            local b = #a == 2 and {1.0, 0.0} or {0.4, 0.2, 0.1}
            local x = torch.randn(2, 90, {dtype = "float64"})
            local whole = f.lfilter(x, torch.tensor(a), torch.tensor(b), {clamp = false})
            x[{1, 50}] = bad
            local y = f.lfilter(x, torch.tensor(a), torch.tensor(b), {clamp = false})
            assert.is_true(torch.allclose(whole[2], y[2]))
            local expected = loop(x[1]:tolist(), a, b)
            assert.is_true(torch.allclose(expected, y[1], {equal_nan = true, rtol = 1e-6, atol = 1e-6}))
            assert.is_false(y[1]:narrow(1, 1, 49):isnan():any():item())
         end
      end
   end)

   it("stays exact for poles near 1 over many samples", function()
      local x, a, b = torch.zeros(100000), torch.tensor {1, -0.99999}, torch.tensor {1.0, 0}
      x[1] = 1
      local y = f.lfilter(x, a, b)
      assert.is_true(math.abs(y[100000]:item() - a[2]:item() ^ 99999 * -1) < 1e-6)
   end)
end)

describe("waveforms and spectrograms", function()
   it("may have any leading dimensions", function()
      local x = torch.randn(2, 3, 4000, {device = device.name}) * 0.1
      local options = {device = device.name}
      for _, fn in ipairs {
         T.MelSpectrogram():to(device.name or "cpu"), T.MFCC {melkwargs = {n_mels = 40}}:to(device.name or "cpu"),
         function(w) return f.lowpass_biquad(w, 16000, 500) end, function(w) return f.resample(w, 16000, 8000) end,
         function(w) return f.pitch_shift(w, 16000, 2, {window = torch.hann_window(512, options)}) end,
         function(w) return f.phaser(w, 16000) end, function(w) return f.flanger(w, 16000) end,
         function(w) return f.detect_pitch_frequency(w, 16000) end, T.Fade(10, 20), T.Vol(0.5),
      } do
         local whole = fn(x)
         assert.same({2, 3}, {whole:size(1), whole:size(2)})
         local part = fn(x[2])
         assert.is_true((whole[2] - part):abs():max():item() <= 1e-4 * part:abs():max():item())
      end
   end)
end)

describe("masks", function()
   it("cover bands that are narrower than the limit", function()
      torch.manual_seed(1)
      local x = torch.ones(4, 3, 30, 50, {device = device.name})
      for _ = 1, 5 do
         local y = T.FrequencyMasking(10)(x)
         local rows = y:eq(0):all(-1):sum(-1)
         assert.is_true(rows:max():item() < 10 and rows:min():item() == rows:max():item())
         local each = T.TimeMasking(20, true)(x, 7)
         local columns = each:eq(7):all(-2):sum(-1)
         assert.is_true(columns:max():item() < 20)
      end
      local y = T.SpecAugment(2, 10, 2, 5)(torch.rand(2, 30, 50))
      assert.same({2, 30, 50}, {table.unpack(y.shape)})
      assert.is_true(torch.equal(x, f.mask_along_axis(x, 10, 0, 4, 0)))
   end)
end)

describe("an invalid argument", function()
   local x = torch.randn(2, 1000) * 0.1
   local hann = torch.hann_window(400)
   local cases = {
      ["functional.spectrogram: n_fft: expected less than twice the waveform's 1000 samples, since it is padded by "
         .. "reflection, got 4000"] = function()
         f.spectrogram(x, 0, torch.hann_window(4000), 4000, 200, 4000, 2)
      end,
      ["functional.spectrogram: n_fft: expected at most the waveform's 1000 samples, got 1001"] = function()
         T.Spectrogram {n_fft = 1001, center = false}(x)
      end,
      ["functional.spectrogram: waveform: expected floating-point numbers; from int16: x:float() / 32768, got an int16 "
         .. "tensor of shape (2, 1000)"] = function() T.MelSpectrogram()(x:to "int16") end,
      ["functional.spectrogram: waveform: expected at least one sample, got a float32 "
         .. "tensor of shape (2, 0)"] = function()
         T.Spectrogram()(torch.zeros(2, 0))
      end,
      ["functional.spectrogram: hop_length: expected at least 1, got 0"] = function()
         f.spectrogram(x, 0, hann, 400, 0, 400, 2)
      end,
      ["functional.spectrogram: window: expected a tensor of shape (200), got a float32 "
         .. "tensor of shape (400)"] = function()
         f.spectrogram(x, 0, hann, 400, 100, 200, 2)
      end,
      ["transforms.MelScale: n_mels: expected at least 1, got -4"] = function() T.MelScale(-4) end,
      ["transforms.MelScale: sample_rate: expected a positive number, got 0"] = function() T.MelScale(4, 0) end,
      ["transforms.MelScale: f_min: expected a frequency from 0 to f_max, 8000.0, got 9000"] = function()
         T.MelScale {f_min = 9000}
      end,
      ["transforms.MelScale: specgram: expected 201 frequencies, (..., 201, time), got a float32 tensor of shape "
         .. "(2, 1000)"] = function() T.MelScale()(x) end,
      ["functional.melscale_fbanks: mel_scale: expected \"htk\" or \"slaney\", got \"bark\""] = function()
         f.melscale_fbanks(201, 0, 8000, 40, 16000, nil, "bark")
      end,
      ["transforms.MFCC: n_mfcc: expected at most n_mels, 20, got 30"] = function()
         T.MFCC(16000, 30, {melkwargs = {n_mels = 20}})
      end,
      ["functional.resample: orig_freq: expected a positive number, got -1"] = function() f.resample(x, -1, 2) end,
      ["functional.resample: new_freq: expected an integer, got 5512.5"] = function() f.resample(x, 44100, 5512.5) end,
      ["functional.resample: resampling_method: expected \"sinc_interp_hann\" or "
         .. "\"sinc_interp_kaiser\", got \"cubic\""] =
         function() f.resample(x, 2, 1, {resampling_method = "cubic"}) end,
      ["functional.lfilter: b_coeffs: expected the shape of a_coeffs, (2), got a "
         .. "float32 tensor of shape (3)"] = function()
         f.lfilter(x, torch.ones(2), torch.ones(3))
      end,
      ["functional.lowpass_biquad: cutoff_freq: expected at most half of sample_rate, 8000, got 9000"] = function()
         f.lowpass_biquad(x, 16000, 9000)
      end,
      ["functional.lowpass_biquad: cutoff_freq: expected a positive number, got -5"] = function()
         f.lowpass_biquad(x, 16000, -5)
      end,
      ["functional.riaa_biquad: sample_rate: expected 44100, 48000, 88200 or 96000, got 16000"] = function()
         f.riaa_biquad(x, 16000)
      end,
      ["functional.loudness: waveform: expected at least 0.4 seconds, 6400 samples, got a float32 tensor of shape "
         .. "(2, 1000)"] = function() f.loudness(x, 16000) end,
      ["functional.forced_align: log_probs: expected at least 3 steps for 2 tokens with "
         .. "1 repetitions, got 2"] = function()
         f.forced_align(torch.zeros(1, 2, 3), torch.tensor {{2, 2}})
      end,
      ["functional.rnnt_loss: targets: expected positions from 1 to 4"] = function()
         f.rnnt_loss(torch.zeros(1, 2, 2, 4), torch.tensor {{5}}, torch.tensor {2}, torch.tensor {1})
      end,
      ["functional.mask_along_axis: axis: expected 2 for frequency or 3 for time, got 1"] = function()
         f.mask_along_axis(torch.ones(2, 3, 4), 2, 0, 1)
      end,
      ["functional.psd: specgram: expected a complex tensor of shape (..., channel, "
         .. "freq, time), got a float32"] = function()
         f.psd(x)
      end,
      ["functional.flanger: waveform: expected at most 4 "
         .. "channels"] = function() f.flanger(torch.zeros(5, 10), 8000) end,
      ["functional.contrast: enhancement_amount: expected a number from 0 to 100, got 101"] = function()
         f.contrast(x, 101)
      end,
      ["transforms.TimeStretch: overriding_rate is missing"] = function()
         T.TimeStretch()(torch.zeros(201, 3, {dtype = "complex64"}))
      end,
      ["transforms.Fade: waveform: expected at least 2000 samples"] = function() T.Fade(2000)(x) end,
      ["transforms.Vol: gain: expected at least 0, got -1"] = function() T.Vol(-1) end,
      ["transforms.Vol: waveform: expected a tensor of shape (..., time), got \"a\""] = function() T.Vol(1)("a") end,
      ["transforms.MelScale: specgram: expected 201 frequencies, (..., 201, time), got nil"] = function()
         T.MelScale()()
      end,
      ["transforms.InverseMelScale: melspec: expected 128 mel bands, (..., 128, time), got nil"] = function()
         T.InverseMelScale(201)()
      end,
      ["transforms.SpecAugment: specgram: expected a tensor of shape (..., freq, time), got 3"] = function()
         T.SpecAugment(1, 2, 1, 2)(3)
      end,
      ["transforms.Resample: waveform: expected a tensor of shape (..., time), got nil"] = function()
         T.Resample(2, 1)()
      end,
      ["transforms.PitchShift: waveform: expected a tensor of shape (..., time), got \"a\""] = function()
         T.PitchShift(8000, 2)("a")
      end,
      ["transforms.Speed: lengths: expected a tensor, got \"a\""] = function() T.Speed(8000, 2)(x, "a") end,
      ["transforms.MVDR: specgram: expected a complex tensor of shape (..., channel, freq, time), got nil"] = function()
         T.MVDR()()
      end,
      ["transforms.MVDR: mask_s: expected a tensor of shape (..., freq, time), got nil"] = function()
         T.MVDR()(torch.zeros(2, 3, 4, {dtype = "complex64"}))
      end,
      ["functional.pitch_shift: n_fft: expected less than twice the waveform's 100 samples, got 512"] = function()
         f.pitch_shift(torch.zeros(100), 8000, 2)
      end,
   }
   for message, fn in pairs(cases) do
      it("is refused: " .. message, function()
         local ok, said = pcall(fn)
         assert.is_false(ok)
         assert.matches("^%S*functional_spec%.lua:%d+: .*audio%.", said)
         assert.matches("audio." .. message, said, 1, true)
      end)
   end

   it("that is NaN makes the result NaN, as in torchaudio", function()
      local y = x:clone()
      y[1][500] = 0 / 0
      assert.is_true(T.MelSpectrogram()(y)[1]:isnan():any():item())
      assert.is_false(T.MelSpectrogram()(y)[2]:isnan():any():item())
      assert.is_true(f.lfilter(y, torch.tensor {1.0, -0.5}, torch.tensor {1.0, 0})[1][900]:isnan():item())
   end)
end)

describe("distances and spans", function()
   it("count edits of strings and lists", function()
      assert.equal(3, f.edit_distance("kitten", "sitting"))
      assert.equal(4, f.edit_distance({"a", "b", "c"}, {"d", "e", "f", "g"}))
      assert.equal(1, f.edit_distance("über", "uber"))
      assert.equal(2, f.edit_distance("", "ab"))
      assert.equal(0, f.edit_distance(torch.tensor {1, 2}, torch.tensor {1, 2}))
   end)

   it("merge a path into tokens", function()
      local spans = f.merge_tokens(torch.tensor {1, 3, 3, 1, 3, 2}, torch.tensor {0.0, 1, 3, 0, 5, 7})
      assert.same({{token = 3, start = 2, stop = 3, score = 2.0}, {token = 3, start = 5, stop = 5, score = 5.0},
         {token = 2, start = 6, stop = 6, score = 7.0}}, spans)
   end)
end)

describe("torch.audio.compliance.kaldi", function()
   local kaldi = torch.audio.compliance.kaldi
   local t = torch.arange(900, {dtype = "float64"})
   local x = torch.stack {torch.zeros_like(t), (t * 0.1):sin() * 1000 + (t * t * 0.0007):cos() * 300}

   -- The arguments are the expected shape, and the first, second and last number of the last frame, from
   -- torchaudio.compliance.kaldi 2.11.
   it("has torchaudio's numbers", function()
      local function check(shape, numbers, name, options)
         options.channel = 2
         local y = kaldi[name](x, options)
         assert.same(shape, {table.unpack(y.shape)})
         local last = y[-1]
         for i, at in ipairs {1, 2, -1} do
            assert.near(numbers[i], last[at]:item(), 1e-4 * math.abs(numbers[i]) + 1e-3)
         end
      end
      check({4, 257}, {19.2063, 10.2348, -8.6437}, "spectrogram", {})
      check({6, 11}, {19.2071, 18.9213, 14.3797}, "fbank", {num_mel_bins = 10, use_energy = true, snip_edges = false})
      check({4, 24}, {111.6556, 8567.8887, 15.4459}, "fbank", {use_energy = true, htk_compat = true, use_power = false,
         use_log_fbank = false, window_type = "blackman", raw_energy = false})
      check({7, 13}, {-0.0052, -41.7767, 13.5162}, "mfcc", {use_energy = true, subtract_mean = true, frame_shift = 5})
      check({9, 8}, {11.2332, -18.0787, 75.4617}, "mfcc", {htk_compat = true, num_ceps = 8, window_type = "hamming",
         sample_frequency = 8000, high_freq = -400})
   end)

   it("gets errors that name the argument", function()
      for message, options in pairs {
         ["channel: expected -1 or a channel from 1 to 2"] = {channel = 3},
         ["window_type: expected"] = {window_type = "triangle"},
         ["frame_length: expected from 2 to 900 samples"] = {frame_length = 100},
         ["frame_shift: expected at least one sample"] = {frame_shift = 0},
         ["expected 0 <= low < high <= 8000, got 20 and 9000"] = {high_freq = 9000},
         ["num_ceps: expected 1 to 23"] = {num_ceps = 24},
      } do
         assert.raises(message, function() kaldi.mfcc(x, options) end)
      end
      assert.same({0}, {table.unpack(kaldi.fbank(x, {min_duration = 1}).shape)})
   end)
end)
